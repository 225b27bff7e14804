package shards

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdtest"
)

// What a copy without leases, or a removed member, leaves is named with what to do. Processes that live, the level and owners
// outside of groups are no findings.
func TestKeysOfProcessesThatHaveGoneAreNamed(t *testing.T) {
	t.Parallel()
	kv := newKV(t)
	working := make(chan struct{})
	r := NewRunner(kv, Group{Kind: "work", Shards: 1}, Member{Holder: "alive", TTL: time.Minute}, func(ctx context.Context, _ int, _ *Ownership) error {
		close(working)
		<-ctx.Done()
		return nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- r.Run(ctx) }()
	etcdtest.Receive(t, working, "the work")
	own(t, kv, "alive", time.Minute) // the shard "all", of no group
	find := func() (keys []string, reasons string) {
		t.Helper()
		found, err := FindStale(t.Context(), kv)
		must(t, err)
		for _, s := range found {
			keys, reasons = append(keys, strings.TrimPrefix(s.Key, kv.Key(""))), reasons+s.Reason+"\n"
		}
		return keys, reasons
	}
	put := func(key, value string) {
		t.Helper()
		_, err := kv.Etcd().Put(t.Context(), kv.Key(key), value)
		must(t, err)
	}
	put("member/level", `{"level":1}`)
	if keys, reasons := find(); len(keys) != 0 {
		t.Errorf("%q are found while all processes live: %s", keys, reasons)
	}

	put("member/other/ghost", "")
	put("own/other-03", "ghost")
	waiting, err := grantLease(t.Context(), kv, "member", time.Minute)
	must(t, err)
	_, err = kv.Etcd().Put(t.Context(), kv.Key("member/third/next"), "", clientv3.WithLease(waiting.id))
	must(t, err)
	left, err := Own(t.Context(), kv, "third-00", "left", time.Minute)
	must(t, err)
	keys, reasons := find()
	if want := []string{"member/other/ghost", "own/other-03", "own/third-00"}; !slices.Equal(keys, want) {
		t.Errorf("found %q, want %q", keys, want)
	}
	for _, text := range []string{"Stop the process ghost if it runs, and delete the key: etcdctl del " + kv.Key("own/other-03"), "etcdctl del " + kv.Key("member/other/ghost"), "restart left"} {
		if !strings.Contains(reasons, text) {
			t.Errorf("%q is missing in\n%s", text, reasons)
		}
	}
	must(t, left.Release(t.Context()))
	must(t, waiting.end(t.Context()))
	cancel()
	must(t, etcdtest.Receive(t, ended, "the end"))
}
