// Package contexttest gives tests an AppContext on a real etcd of their own.
package contexttest

import (
	"testing"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/embedded"
)

// New starts an etcd in a temporary folder and returns the store on it. Both end with
// the test. Nothing is synced to disk: what is written need not survive the machine.
func New(t testing.TB) *appcontext.Store {
	t.Helper()
	server, err := embedded.Start(t.Context(), embedded.Options{Dir: t.TempDir(), NoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	return appcontext.New(server.Client(), "/emco/")
}
