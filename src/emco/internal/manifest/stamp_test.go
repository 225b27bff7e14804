package manifest

import "testing"

func TestStampDistinguishesContents(t *testing.T) {
	t.Parallel()
	stamped := func(text string) Object {
		t.Helper()
		objects, err := Parse("a.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		full, err := Complete(objects, Defaults{Stamp: true})
		if err != nil {
			t.Fatal(err)
		}
		return full[0]
	}
	config := func(value string) string {
		return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, annotations: {a: b}}\ndata: {k: " + value + "}\n"
	}
	one, same, other := stamped(config("x")), stamped(config("x")), stamped(config("y"))
	if one.Stamp() == "" || one.Stamp() != same.Stamp() || one.Stamp() == other.Stamp() {
		t.Errorf("stamps: got %q, %q and %q; want two equal ones and another", one.Stamp(), same.Stamp(), other.Stamp())
	}
	if again := stamped(string(one.Content)); again.Stamp() != one.Stamp() || again.Digest != one.Digest {
		t.Errorf("stamping twice: got %q, want %q", again.Stamp(), one.Stamp())
	}
	if s := stamped("apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {p: hunter2}\n").Stamp(); len(s) != 4 {
		t.Errorf("a Secret's stamp is %q; it must be short", s)
	}
}
