package nearest_test

import (
	"testing"

	"github.com/emco-orchestrator/emco/src/api/nearest"
)

func TestTo(t *testing.T) {
	t.Parallel()
	names := []string{"projects", "controllers", "metadata", "spec"}
	for word, want := range map[string]string{
		"project": "projects", "Metadata": "metadata", "contrlers": "controllers", "sepc": "spec", "spe": "spec", "zebra": "", "": "",
	} {
		if got, ok := nearest.To(word, names); got != want || ok != (want != "") {
			t.Errorf("To(%q) = %q, %v; want %q", word, got, ok, want)
		}
	}
}
