package manifest

import "testing"

func TestKept(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]bool{"keep": true, " Keep ": true, "delete": false, "": false} {
		if got := Kept(map[string]string{"helm.sh/resource-policy": value}); got != want {
			t.Errorf("Kept with %q = %v, want %v", value, got, want)
		}
	}
	if Kept(nil) {
		t.Error("an object without annotations is kept")
	}
}
