package mirror

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
)

// BenchmarkMirror50000Pairs prints how long it takes to take in 50,000 pairs with a
// report of 20 objects and 2 Pods each, and the memory that they keep.
func BenchmarkMirror50000Pairs(b *testing.B) {
	const pairs = 50000
	s := appcontext.New(etcd, "/"+b.Name())
	var put []appcontext.Pair
	var reports []appcontext.Report
	for i := range pairs {
		k := key(v2.ClusterKey(fmt.Sprintf("edge+c%05d", i/10)), v2.DeploymentID(fmt.Sprint(1e18+i/5000)), fmt.Sprint("app", i%10))
		d := manifest.DigestOf([]byte(k.App))
		put = append(put, appcontext.Pair{Key: k, Rev: 1, Desired: d, Applied: d, Held: []appcontext.Digest{d}, Phase: appcontext.Applied, Commit: string(d[:40]), At: time.Now()})
		reports = append(reports, appcontext.Report{Key: k, Resources: statuses(k), Seq: 1, At: time.Now()})
	}
	if err := s.PutPairs(b.Context(), appcontext.Fence{}, put, nil); err != nil {
		b.Fatal(err)
	}
	if err := s.PutReports(b.Context(), appcontext.Fence{}, reports, nil); err != nil {
		b.Fatal(err)
	}
	put, reports = nil, nil
	for b.Loop() {
		before, m := heap(), New(s, nil)
		x := newIndex()
		for r, err := range m.feed.Records(b.Context()) {
			if err != nil {
				b.Fatal(err)
			}
			if r.UpTo > 0 {
				break
			}
			x.apply(r)
		}
		b.ReportMetric(float64(heap()-before)/(1<<20), "MiB-kept")
		runtime.KeepAlive(x)
	}
}

func statuses(k appcontext.PairKey) (out []appcontext.ResourceStatus) {
	for i := range 20 {
		id := manifest.ID{Group: "apps", Version: "v1", Kind: "Deployment", Namespace: "default", Name: fmt.Sprint(k.App, "-", i)}
		out = append(out, appcontext.ResourceStatus{ID: id, Status: "Current", Content: fmt.Sprintf("%016d", i)})
	}
	for i := range 2 {
		id := manifest.ID{Version: "v1", Kind: "Pod", Namespace: "default", Name: fmt.Sprint(k.App, "-", k.Cluster, "-", i)}
		out = append(out, appcontext.ResourceStatus{ID: id, Status: "Current", Extra: true})
	}
	return out
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
