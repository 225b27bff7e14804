package folder_test

import (
	"testing"

	"github.com/emco-orchestrator/emco/src/emco/internal/sink/folder"
	"github.com/emco-orchestrator/emco/src/git"
)

func TestRoot(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		paths []string
		want  string // "" for an error
	}{
		{"one cluster", []string{"clusters/p+c/kust7.yaml", "clusters/p+c/context/7"}, "clusters/p+c"},
		{"two clusters", []string{"clusters/p+c/kust7.yaml", "clusters/p+d/kust7.yaml"}, ""},
		{"a whole cluster", []string{"clusters/p+c"}, ""},
		{"elsewhere", []string{"apps/p+c/x"}, ""},
		{"nothing", nil, ""},
	} {
		var edits []git.Edit
		for _, p := range c.paths {
			edits = append(edits, git.Edit{Path: p})
		}
		if got, err := folder.Root(edits); got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s: Root = %q, %v, want %q", c.name, got, err, c.want)
		}
	}
}
