package blobstore

import (
	"os"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdtest"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/seal"
)

// etcd is the one server of this test binary; every test has a prefix of its own.
var etcd *clientv3.Client

func TestMain(m *testing.M) {
	os.Exit(etcdtest.RunShared(m, func(c *clientv3.Client) { etcd = c }))
}

// sealer is that of all stores.
var sealer = seal.New(seal.NewKey())

// storeAt returns a store below a prefix, which counts its requests to etcd.
func storeAt(prefix string, onRequest func(kind string, bytes int)) *Store {
	return New(etcdkv.New(etcd, prefix, etcdkv.Options{OnRequest: onRequest}), NewCache(64<<20), sealer)
}

func newStore(t testing.TB) *Store {
	t.Helper()
	return storeAt(etcdtest.Prefix(t), nil)
}

// uncached returns a store on the same keys that has read nothing yet.
func uncached(s *Store) *Store { return New(s.kv, NewCache(64<<20), sealer) }
