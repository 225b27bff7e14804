// Package contexttest gives tests an AppContext on a real etcd.
package contexttest

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/embedded"
)

// New returns an empty store, in a prefix of its own. Tests that run at the same time share
// one etcd, which ends with the last of them. Nothing is synced to disk: writes need not
// survive the machine.
func New(t testing.TB, opts ...appcontext.Option) *appcontext.Store {
	t.Helper()
	server, err := shared.acquire()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := shared.release(); err != nil {
			t.Error(err)
		}
	})
	return appcontext.New(server.Client(), "/"+rand.Text(), opts...)
}

// Own takes a shard until the test ends.
func Own(t testing.TB, s *appcontext.Store, shard, holder string) appcontext.Fence {
	t.Helper()
	own, err := s.Own(t.Context(), shard, holder, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = own.Release(context.Background()) })
	return own.Fence()
}

// shared is the etcd of the test binary.
var shared sharedServer

// sharedServer is a server that runs while it has users.
type sharedServer struct {
	mu     sync.Mutex
	users  int              // guarded by mu
	server *embedded.Server // nil without users; guarded by mu
	dir    string           // of its data; guarded by mu
}

func (s *sharedServer) acquire() (*embedded.Server, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.server == nil {
		dir, err := os.MkdirTemp("", "contexttest")
		if err != nil {
			return nil, err
		}
		server, err := embedded.Start(context.Background(), embedded.Options{Dir: dir, NoFsync: true})
		if err != nil {
			return nil, errors.Join(err, os.RemoveAll(dir))
		}
		s.server, s.dir = server, dir
	}
	s.users++
	return s.server, nil
}

func (s *sharedServer) release() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users--; s.users > 0 {
		return nil
	}
	err := errors.Join(s.server.Close(), os.RemoveAll(s.dir))
	s.server = nil
	return err
}
