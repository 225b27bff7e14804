package shards

import (
	"slices"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// A process counts once, however many groups it is in, and while its lease lives. The level, and keys on no lease, are no processes.
func TestRunningNamesEachLivingProcessOnce(t *testing.T) {
	t.Parallel()
	kv := newKV(t)
	put := func(key string, opts ...clientv3.OpOption) {
		t.Helper()
		_, err := kv.Etcd().Put(t.Context(), kv.Key(key), "", opts...)
		must(t, err)
	}
	wants := func(want ...string) {
		t.Helper()
		got, err := Running(t.Context(), kv)
		must(t, err)
		if !slices.Equal(got, want) {
			t.Errorf("%q run, want %q", got, want)
		}
	}
	wants()
	second, err := grantLease(t.Context(), kv, "member", time.Minute)
	must(t, err)
	first, err := grantLease(t.Context(), kv, "member", time.Minute)
	must(t, err)
	put("member/level")
	put("member/rsync/ghost")
	put("member/rsync/second", clientv3.WithLease(second.id))
	put("member/process/second", clientv3.WithLease(second.id))
	put("member/process/first", clientv3.WithLease(first.id))
	wants("first", "second")
	must(t, second.end(t.Context()))
	wants("first")
}
