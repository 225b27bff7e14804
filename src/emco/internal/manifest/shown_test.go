package manifest

import (
	"strings"
	"testing"
)

// stampedOf parses one object and stamps it.
func stampedOf(t *testing.T, text string) Object {
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

func TestComparedHidesTheValuesOfSecretsButNotThatTheyDiffer(t *testing.T) {
	t.Parallel()
	head := "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\n"
	before := stampedOf(t, head+"data: {same: b25l, other: b25l, gone: b25l}\nstringData: {token: hunter1, odd: {a: b}}\n")
	after := stampedOf(t, head+"data: {same: b25l, other: dHdv, new: b25l}\nstringData: {token: hunter2, odd: {a: b}}\n")
	b, a, err := Compared(before, after)
	if err != nil {
		t.Fatal(err)
	}
	rest := `},"kind":"Secret","metadata":{"name":"s"},"stringData":{"odd":"***","token":"*** (`
	if got, want := string(b), `{"apiVersion":"v1","data":{"gone":"***","other":"*** (before)","same":"***"`+rest+`before)"}}`+"\n"; got != want {
		t.Errorf("before: got %s, want %s", got, want)
	}
	if got, want := string(a), `{"apiVersion":"v1","data":{"new":"***","other":"*** (after)","same":"***"`+rest+`after)"}}`+"\n"; got != want {
		t.Errorf("after: got %s, want %s", got, want)
	}
	shown, err := Shown(after)
	if err != nil || strings.Contains(string(shown), "hunter") || strings.Contains(string(shown), "dHdv") || !strings.Contains(string(shown), `"new":"***"`) {
		t.Errorf("Shown gives %s, %v", shown, err)
	}
}

func TestComparedShowsTheStampOnlyIfNothingElseDiffers(t *testing.T) {
	t.Parallel()
	config := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, annotations: {team: a}}\ndata: {k: v}\n"
	stamped := stampedOf(t, config)
	plain, err := Parse("a.yaml", []byte(config))
	if err != nil {
		t.Fatal(err)
	}
	b, a, err := Compared(plain[0], stamped)
	if err != nil || strings.Contains(string(b), StampKey) || !strings.Contains(string(a), StampKey) {
		t.Errorf("the stamp is all that differs: got %s and %s, %v", b, a, err)
	}
	b, a, err = Compared(stamped, stampedOf(t, strings.Replace(config, "k: v", "k: w", 1)))
	if err != nil || strings.Contains(string(b)+string(a), StampKey) || !strings.Contains(string(a), `{"team":"a"}`) {
		t.Errorf("the data differs: got %s and %s, %v", b, a, err)
	}
	if shown, err := Shown(stampedOf(t, strings.Replace(config, ", annotations: {team: a}", "", 1))); err != nil || strings.Contains(string(shown), "annotations") {
		t.Errorf("the stamp was the only annotation: got %s, %v", shown, err)
	}
}
