package shards

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
)

// etcd is a client of the one server of this test binary, and endpoint its address; every
// test has a prefix of its own.
var (
	etcd     *clientv3.Client
	endpoint string
)

func TestMain(m *testing.M) { os.Exit(runTests(m)) }

func runTests(m *testing.M) int {
	before := goleak.IgnoreCurrent()
	dir, err := os.MkdirTemp("", "shards")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	c := embed.NewConfig()
	c.Dir, c.UnsafeNoFsync = dir, true
	c.TickMs, c.ElectionMs = 20, 200
	c.ListenPeerUrls = nil
	c.ListenClientUrls = []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	server, err := embed.StartEtcd(c)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	<-server.Server.ReadyNotify()
	endpoint = server.Clients[0].Addr().String()
	etcd, err = clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, Logger: zap.NewNop()})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	err = etcd.Close()
	server.Close()
	if err = errors.Join(err, goleak.Find(before)); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// dial returns a client of its own.
func dial(t *testing.T) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, Logger: zap.NewNop()})
	must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// newKV returns a client on a prefix of its own.
func newKV(t testing.TB) *etcdkv.Client {
	return etcdkv.New(etcd, "/"+strings.ReplaceAll(t.Name(), "/", "_")+"-"+rand.Text(), etcdkv.Options{})
}

// failer is a test of package testing or of package rapid.
type failer interface {
	Helper()
	Context() context.Context
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

func must(t failer, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantKind(t testing.TB, err error, kind errs.Kind) {
	t.Helper()
	if !errs.Is(err, kind) {
		t.Fatalf("got error %v, want one of kind %q", err, kind)
	}
}

func wantFenced(t testing.TB, err error) {
	t.Helper()
	wantKind(t, err, errs.Conflict)
	if !errors.Is(err, etcdkv.ErrFenced) {
		t.Fatalf("got %v, want it fenced", err)
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

// keysBelow returns the keys below part, without the prefix.
func keysBelow(t testing.TB, kv *etcdkv.Client, part string) []string {
	t.Helper()
	var keys []string
	for pair, err := range kv.List(t.Context(), etcdkv.Scan{Prefix: kv.Key(part), KeysOnly: true}) {
		must(t, err)
		keys = append(keys, strings.TrimPrefix(string(pair.Key), kv.Key()))
	}
	return keys
}

// write writes a number below "work/", fenced by own.
func write(ctx context.Context, kv *etcdkv.Client, own etcdkv.Fence, name string, n int) error {
	key := kv.Key("work", name)
	_, _, err := kv.Fenced(own).Commit(ctx, key, nil, []clientv3.Op{clientv3.OpPut(key, strconv.Itoa(n))})
	return err
}

// read returns what write wrote; 0 for nothing.
func read(t failer, kv *etcdkv.Client, name string) int {
	t.Helper()
	r, err := kv.Get(t.Context(), kv.Key("work", name))
	must(t, err)
	if len(r.Kvs) == 0 {
		return 0
	}
	n, err := strconv.Atoi(string(r.Kvs[0].Value))
	must(t, err)
	return n
}
