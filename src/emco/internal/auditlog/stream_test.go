package auditlog

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/emco-orchestrator/emco/src/api/audit"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdtest"
)

// Etcd is the server of all tests; each has its own prefix.
var Etcd *clientv3.Client

func TestMain(m *testing.M) {
	os.Exit(etcdtest.RunShared(m, func(c *clientv3.Client) { Etcd = c }))
}

// A transaction whose answer was lost is not made twice, whether it was made or not.
func TestAnUnansweredWriteIsMadeOnce(t *testing.T) {
	t.Parallel()
	kv := etcdkv.New(Etcd, etcdtest.Prefix(t), etcdkv.Options{})
	s, err := openStream(t.Context(), Options{KV: kv, Holder: "a", TTL: 2 * time.Second, Log: slog.New(slog.DiscardHandler)})
	etcdtest.Must(t, err)
	defer func() { etcdtest.Must(t, s.own.Release(context.WithoutCancel(t.Context()))) }()
	group := func(path string) []*pendingLine {
		return []*pendingLine{{line: audit.Line{Phase: audit.Intent, Path: path}}, {line: audit.Line{Phase: audit.Outcome, Path: path}}}
	}
	first, before := group("one"), *s
	etcdtest.Must(t, s.write(t.Context(), first, ""))
	s.head, s.rev = before.head, before.rev // the answer was lost
	etcdtest.Must(t, s.write(t.Context(), first, ""))
	cut, cancel := context.WithCancel(t.Context())
	cancel()
	second := group("two")
	if s.write(cut, second, "") == nil {
		t.Fatal("a write without etcd succeeded")
	}
	etcdtest.Must(t, s.write(t.Context(), second, ""))

	var text []string
	log := &Log{o: Options{KV: kv}, closed: true}
	etcdtest.Must(t, log.Export(t.Context(), func(line []byte) error { text = append(text, string(line)); return nil }))
	r, err := audit.Verify(strings.NewReader(strings.Join(text, "\n")))
	if err != nil || r.Lines != 4 {
		t.Errorf("%d lines, %v", r.Lines, err)
	}
}

// unreadable is an etcd that does not answer reads.
type unreadable struct {
	clientv3.KV
	down bool
}

var errDown = errors.New("etcd does not answer")

func (u *unreadable) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	if u.down {
		return nil, errDown
	}
	return u.KV.Get(ctx, key, opts...)
}

// A process that cannot read whether its lines were written does not leave its stream: it would write them a second time in another one.
func TestAStreamIsNotLeftWhileItIsUnknown(t *testing.T) {
	t.Parallel()
	client := clientv3.NewCtxClient(t.Context())
	reads := &unreadable{KV: Etcd.KV}
	client.KV, client.Lease, client.Watcher = reads, Etcd.Lease, Etcd.Watcher
	kv := etcdkv.New(client, etcdtest.Prefix(t), etcdkv.Options{})
	s, err := openStream(t.Context(), Options{KV: kv, Holder: "a", TTL: 2 * time.Second, Log: slog.New(slog.DiscardHandler)})
	etcdtest.Must(t, err)
	defer func() { etcdtest.Must(t, s.own.Release(context.WithoutCancel(t.Context()))) }()
	group, before := []*pendingLine{{line: audit.Line{Phase: audit.Intent, Path: "one"}}}, *s
	etcdtest.Must(t, s.write(t.Context(), group, ""))
	s.head, s.rev = before.head, before.rev // the answer was lost
	reads.down = true
	if err := s.write(t.Context(), group, ""); err == nil || errors.Is(err, errMoved) {
		t.Errorf("got %v", err)
	}
	reads.down = false
	etcdtest.Must(t, s.write(t.Context(), group, ""))
}

// A process that has lost its stream does not compress it: that is up to its new owner.
func TestALostStreamIsNotCompressed(t *testing.T) {
	t.Parallel()
	o := spooled(t)
	o.Strict, o.Spool = true, ""
	o.Now = func() time.Time { return time.Now().Add(25 * time.Hour) }
	log, err := New(o)
	etcdtest.Must(t, err)
	w := &writer{Log: log}
	etcdtest.Must(t, w.open(t.Context()))
	if _, err := Etcd.Delete(t.Context(), o.KV.Key("own", "audit-00")); err != nil {
		t.Fatal(err)
	}
	other, err := claimStream(t.Context(), Options{KV: o.KV, Holder: "other", TTL: 2 * time.Second, Log: o.Log}, "00")
	etcdtest.Must(t, err)
	defer func() { etcdtest.Must(t, other.own.Release(context.WithoutCancel(t.Context()))) }()
	old := audit.Line{Phase: audit.Intent, Time: time.Now()}
	etcdtest.Must(t, other.write(t.Context(), []*pendingLine{{line: old}}, ""))
	etcdtest.Must(t, w.writeOnce(t.Context(), []*pendingLine{{line: audit.Line{Phase: audit.Intent, Path: "lost"}}}, ""))
	defer w.leave(context.WithoutCancel(t.Context()))
	if w.stream.name != "01" {
		t.Errorf("it goes on with stream %s", w.stream.name)
	}
	log.o.Now = func() time.Time { return time.Now().Add(50 * time.Hour) }
	etcdtest.Must(t, log.Tidy(t.Context()))
	if keys := etcdtest.KeysBelow(t, o.KV, "audit/segment/00/"); len(keys) > 0 {
		t.Errorf("compressed are %v", keys)
	}
}
