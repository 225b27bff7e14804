package gittest_test

import (
	"path/filepath"
	"testing"

	"github.com/emco-orchestrator/emco/src/git/gittest"
)

// A repository begins with what the git program reads, and finds nothing wrong with.
func TestRepositoriesBeginWithACommit(t *testing.T) {
	t.Parallel()
	s, err := gittest.Serve(filepath.Join(t.TempDir(), "git"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	b, err := s.Seed(t.Context(), "fleet", "trunk")
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Fsck(t.Context()); err != nil {
		t.Error(err)
	}
	if text, err := b.Show(t.Context(), "HEAD", "README.md"); err != nil || text != "# fleet\n" {
		t.Errorf("README.md is %q, %v", text, err)
	}
	if log, err := b.Git(t.Context(), "", "log", "--format=%an|%ae|%cn|%ce|%s|%P", "trunk"); err != nil || log != "somebody|somebody@localhost|somebody|somebody@localhost|foreign|" {
		t.Errorf("the history is %q, %v", log, err)
	}
}
