package plain_test

import (
	"testing"

	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/gittest"
	"github.com/emco-orchestrator/emco/src/git/plain"
)

func TestMove(t *testing.T) {
	t.Parallel()
	srv, err := gittest.Serve(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = srv.Close() })
	bare, err := srv.Seed(t.Context(), "fleet", "main")
	if err != nil {
		t.Fatal(err)
	}
	if err := gittest.CheckReset(t.Context(), plain.New(plain.Options{}), git.Repo{URL: srv.URL("fleet")}, bare); err != nil {
		t.Error(err)
	}
}
