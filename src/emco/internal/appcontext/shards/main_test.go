package shards

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdtest"
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
	etcdtest.SmallLog()
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
	return etcdkv.New(etcd, etcdtest.Prefix(t), etcdkv.Options{})
}

// The checks of package etcdtest.
var (
	must       = etcdtest.Must
	wantKind   = etcdtest.WantKind
	wantFenced = etcdtest.WantFenced
)

// write writes a number below "work/", fenced by own.
func write(ctx context.Context, kv *etcdkv.Client, own etcdkv.Fence, name string, n int) error {
	key := kv.Key("work", name)
	_, _, err := kv.Fenced(own).Commit(ctx, key, nil, []clientv3.Op{clientv3.OpPut(key, strconv.Itoa(n))})
	return err
}

// read returns what write wrote; 0 for nothing.
func read(t etcdtest.T, kv *etcdkv.Client, name string) int {
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
