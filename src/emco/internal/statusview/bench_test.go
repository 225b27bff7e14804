package statusview

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
)

// BenchmarkStatus10000Pairs measures a status that covers 10 apps of 20 objects each on 1,000
// clusters, which each report two Pods in addition: the time from the query to the last byte
// of the answer, and the requests to etcd.
func BenchmarkStatus10000Pairs(b *testing.B) {
	s := newStage(b)
	g := s.large(10, 1000, 20)
	g.status("status=ready") // the mirror has seen all then
	for _, query := range []string{
		"status=deployed&output=summary", "status=ready&output=summary", "status=deployed", "status=ready", "status=ready&output=detail",
	} {
		b.Run(query, func(b *testing.B) {
			size, before := 0, processorTime()
			for b.Loop() {
				a, err := g.ask(query)
				s.must(err)
				text, err := a.JSON()
				s.must(err)
				size = len(text)
			}
			b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N), "ms/answer")
			b.ReportMetric(float64((processorTime()-before).Milliseconds())/float64(b.N), "cpu-ms/answer")
			b.ReportMetric(float64(size)/(1<<20), "MiB/answer")
		})
	}
}

// processorTime is what this process has used so far: on a busy machine it is more precise
// than the clock.
func processorTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// large publishes apps on clusters, all applied and reported.
func (s *viewFixture) large(apps, clusters, objects int) *testGroup {
	s.Helper()
	g, w := s.group("7"), placedApps{}
	var pairs []appcontext.Pair
	var reports []appcontext.Report
	for i := range apps {
		name := fmt.Sprint("app", i)
		var list []manifest.Object
		for k := range objects {
			list = append(list, s.configMap(fmt.Sprint(name, "-", k), "hello"))
		}
		bundle := s.bundle(list...)
		w[name] = map[v2.ClusterKey]appcontext.Digest{}
		for c := range clusters {
			cluster := fmt.Sprintf("edge+c%04d", c)
			w[name][v2.ClusterKey(cluster)] = bundle
			k := g.key(name, v2.ClusterKey(cluster))
			pairs = append(pairs, appcontext.Pair{Key: k, Rev: 1, Desired: bundle, Applied: bundle, Held: []appcontext.Digest{bundle}, Phase: appcontext.Applied, Commit: "c0ffee", At: noon})
			r := appcontext.Report{Key: k, Seq: 1, At: noon, Commit: "c0ffee", Ready: true, Since: noon}
			for _, o := range list {
				r.Resources = append(r.Resources, objectStatus(o, "Current", ""))
			}
			for p := range 2 {
				r.Resources = append(r.Resources, pod(fmt.Sprint(name, "-", cluster, "-", p), "Current"))
			}
			reports = append(reports, r)
		}
	}
	g.publish(w)
	s.must(s.store.PutPairs(s.Context(), appcontext.Fence{}, pairs, nil))
	s.must(s.store.PutReports(s.Context(), appcontext.Fence{}, reports, nil))
	return g
}
