package trail

import (
	"context"
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
	log := &Trail{o: Options{KV: kv}, closed: true}
	etcdtest.Must(t, log.Export(t.Context(), func(line []byte) error { text = append(text, string(line)); return nil }))
	r, err := audit.Verify(strings.NewReader(strings.Join(text, "\n")))
	if err != nil || r.Lines != 4 {
		t.Errorf("%d lines, %v", r.Lines, err)
	}
}
