package appcontext

import (
	"os"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdtest"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
)

// etcd is the one server of this test binary; every test has a prefix of its own.
var etcd *clientv3.Client

func TestMain(m *testing.M) {
	if code, asked := etcdtest.Main(os.Args); asked {
		os.Exit(code)
	}
	os.Exit(etcdtest.RunShared(m, func(c *clientv3.Client) { etcd = c }))
}

// newStore returns a store on a prefix of its own.
func newStore(t testing.TB, opts ...Option) *Store {
	t.Helper()
	return New(etcd, etcdtest.Prefix(t), opts...)
}

// The checks of package etcdtest.
var (
	must       = etcdtest.Must
	wantKind   = etcdtest.WantKind
	wantFenced = etcdtest.WantFenced
)

// collect returns what a sequence yields.
func collect[T any](t etcdtest.T, seq func(yield func(T, error) bool)) []T {
	t.Helper()
	var all []T
	for v, err := range seq {
		must(t, err)
		all = append(all, v)
	}
	return all
}

// placed returns placements that were read, or fails the test.
func placed(t etcdtest.T) func(all []Placement, err error) []Placement {
	return func(all []Placement, err error) []Placement {
		t.Helper()
		must(t, err)
		return all
	}
}

// keysBelow returns the keys of the store below part, without the prefix.
func keysBelow(t testing.TB, s *Store, part string) []string {
	t.Helper()
	return etcdtest.KeysBelow(t, s.kv, part)
}

// uncached returns a store on the same keys that has read nothing yet.
func uncached(s *Store) *Store { return New(s.kv.Etcd(), s.kv.Key()) }

// create makes a deployment and returns its head.
func create(t testing.TB, s *Store, uid HeadID) Head {
	t.Helper()
	h, err := s.ChangeHead(t.Context(), Head{}, Head{UID: uid, Document: "p/ca/v1/" + string(uid)}, []HistoryEntry{{State: Created}}, nil)
	must(t, err)
	return h
}

// content returns blobs by digest.
func content(texts ...string) map[Digest][]byte {
	m := map[Digest][]byte{}
	for _, text := range texts {
		m[manifest.DigestOf([]byte(text))] = []byte(text)
	}
	return m
}
