package statusview

import (
	"fmt"
	"testing"
	"time"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/pairstore"
)

// BenchmarkSummaryOfTables answers summaries of a deployment whose pairs are stored in tables, as rsync stores them.
func BenchmarkSummaryOfTables(b *testing.B) {
	const apps, clusters, shards = 10, 1000, 10
	s := newStage(b)
	g, w := s.group("7"), placedApps{}
	for a := range apps {
		name := fmt.Sprint("app", a)
		bundle := s.bundle(s.configMap(name, "hello"))
		w[name] = map[v2.ClusterKey]appcontext.Digest{}
		for i := range clusters {
			w[name][v2.ClusterKey(fmt.Sprintf("edge+c%04d", i))] = bundle
		}
	}
	g.publish(w)
	for n := range shards {
		shard := fmt.Sprint("s", n)
		writer := s.store.NewWriter(appcontext.Fence{}, pairstore.NewContents(shard))
		var put []appcontext.Pair
		for name, places := range w {
			for i := n; i < clusters; i += shards {
				c := v2.ClusterKey(fmt.Sprintf("edge+c%04d", i))
				put = append(put, appcontext.Pair{
					Key: g.key(name, c), Shard: shard, Rev: 1, Desired: places[c], Applied: places[c], Held: []appcontext.Digest{places[c]},
					Phase: appcontext.Applied, Commit: "c0ffee", At: noon.Add(time.Duration(n) * time.Second),
				})
			}
		}
		s.must(writer.Write(s.Context(), put, nil))
	}
	g.status("status=deployed") // the mirror has seen all then
	b.ReportAllocs()
	before := processorTime()
	for b.Loop() {
		_, err := g.ask("status=deployed&output=summary")
		s.must(err)
	}
	b.ReportMetric(float64((processorTime()-before).Microseconds())/float64(b.N), "cpu-µs/answer")
}
