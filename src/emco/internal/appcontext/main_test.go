package appcontext

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/embedded"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdtest"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
)

// etcd is the one server of this test binary; every test has a prefix of its own.
var etcd *clientv3.Client

func TestMain(m *testing.M) {
	if code, asked := etcdtest.Main(os.Args); asked {
		os.Exit(code)
	}
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	before := goleak.IgnoreCurrent()
	dir, err := os.MkdirTemp("", "appcontext")
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
	etcd = server.Client()
	code := m.Run()
	if err := server.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := goleak.Find(before); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// newStore returns a store on a prefix of its own.
func newStore(t testing.TB, opts ...Option) *Store {
	t.Helper()
	return New(etcd, prefixOf(t), opts...)
}

// prefixOf is a prefix that nothing was written below, also when a test is run again.
func prefixOf(t testing.TB) string {
	return "/" + strings.ReplaceAll(t.Name(), "/", "_") + "-" + rand.Text()
}

// failer is a test of package testing or of package rapid.
type failer interface {
	Helper()
	Context() context.Context
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// must fails the test on an error.
func must(t failer, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wantKind fails the test unless err is of kind.
func wantKind(t testing.TB, err error, kind errs.Kind) {
	t.Helper()
	if !errs.Is(err, kind) {
		t.Fatalf("got error %v, want one of kind %q", err, kind)
	}
}

// collect returns what a sequence yields.
func collect[T any](t failer, seq func(yield func(T, error) bool)) []T {
	t.Helper()
	var all []T
	for v, err := range seq {
		must(t, err)
		all = append(all, v)
	}
	return all
}

// placed returns placements that were read, or fails the test.
func placed(t failer) func(all []Placement, err error) []Placement {
	return func(all []Placement, err error) []Placement {
		t.Helper()
		must(t, err)
		return all
	}
}

// wait returns what comes from c, or fails the test.
func wait[T any](t testing.TB, c <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(time.Minute):
		t.Fatalf("%s did not come", what)
		panic("not reached")
	}
}

// keysBelow returns the keys of the store below part, without the prefix.
func keysBelow(t testing.TB, s *Store, part string) []string {
	t.Helper()
	var keys []string
	for kv, err := range s.kv.List(t.Context(), etcdkv.Scan{Prefix: s.kv.Key(part), KeysOnly: true}) {
		must(t, err)
		keys = append(keys, strings.TrimPrefix(string(kv.Key), s.kv.Key()))
	}
	return keys
}

// create makes a deployment and returns its head.
func create(t testing.TB, s *Store, uid HeadID) Head {
	t.Helper()
	h, err := s.Step(t.Context(), Head{}, Head{UID: uid, Subject: "p/ca/v1/" + string(uid)}, []Action{{State: Created}}, nil)
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
