package auditlog_test

import (
	"strings"
	"sync/atomic"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdtest"
)

// A busy process compresses each segment when its lines are written, and reads little more than these lines. What waits for the
// next look at all streams is never more than a segment, so that look does not make requests wait.
func TestABusyProcessCompressesAsItGoes(t *testing.T) {
	b := newBed(t)
	var lists, read atomic.Int64
	o := b.options("a")
	o.KV = etcdkv.New(b.kv.Etcd(), b.kv.Key(), etcdkv.Options{OnRequest: func(kind string, bytes int) {
		if kind == "list" {
			lists.Add(1)
			read.Add(int64(bytes))
		}
	}})
	log, _ := b.start(o)
	compressed := b.kv.Etcd().Watch(b.Context(), b.kv.Key("audit", "index")+"/", clientv3.WithPrefix())
	lists.Store(0)
	const segments, segmentBytes = 6, 512 << 10
	long := "/v2/" + strings.Repeat("x", 4<<10)
	waiting := func() (bytes int) {
		for kv, err := range b.kv.List(b.Context(), etcdkv.Scan{Prefix: b.kv.Key("audit", "line") + "/"}) {
			b.must(err)
			bytes += len(kv.Value)
		}
		return bytes
	}
	for range segments {
		for written := 0; written <= segmentBytes; written += 2 * len(long) {
			b.serve(log, long)
		}
		etcdtest.Receive(b, compressed, "an entry in the index of segments")
		if n := waiting(); n > segmentBytes {
			t.Errorf("%d bytes of lines wait after a segment was compressed, which has %d", n, segmentBytes)
		}
	}
	if lists.Load() > 4*segments || read.Load() > 2*segments*segmentBytes {
		t.Errorf("%d lists with %d bytes for %d segments of %d", lists.Load(), read.Load(), segments, segmentBytes)
	}
	b.verify(log)
}
