package rsync

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/embedded"
)

// etcd is the one server of this test program; every test has a prefix of its own.
var etcd *clientv3.Client

func TestMain(m *testing.M) { os.Exit(runTests(m)) }

func runTests(m *testing.M) int {
	dir, err := os.MkdirTemp("", "rsync")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	server, err := embedded.Start(context.Background(), embedded.Options{Dir: dir, NoFsync: true})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer server.Close()
	etcd = server.Client()
	return m.Run()
}

// newContexts returns a store on a prefix of the test's own.
func newContexts(t *testing.T) *appcontext.Store {
	t.Helper()
	return appcontext.New(etcd, "/"+rand.Text()+"/")
}

// own takes the ownership until the test ends.
func own(t *testing.T, s *appcontext.Store, holder string) appcontext.Fence {
	t.Helper()
	o, err := s.Own(t.Context(), shard, holder, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = o.Release(context.Background()) })
	return o.Fence()
}
