package pairs

import (
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
	"pgregory.net/rapid"
)

// model is an index as one list of pairs, and the last report on each.
type model struct {
	pairs   map[appcontext.PairKey]appcontext.Pair
	reports map[appcontext.PairKey]lastReport
}

// check compares an index with the model in all that the index answers.
func (m model) check(r *rapid.T, x *memory) {
	byTarget, unsettled := map[pair.Target][]appcontext.Pair{}, map[v2.DeploymentID]map[v2.ClusterKey]bool{"7": {}, "8": {}}
	for _, p := range slices.SortedFunc(maps.Values(m.pairs), pair.CompareKeys) {
		byTarget[pair.TargetOf(p.Key)] = append(byTarget[pair.TargetOf(p.Key)], p)
		if p.Phase != appcontext.Applied || p.Desired == "" {
			unsettled[p.Key.Deployment][p.Key.Cluster] = true
		}
	}
	if got, want := x.All(), slices.SortedFunc(maps.Keys(byTarget), pair.CompareTargets); !slices.Equal(got, want) {
		r.Fatalf("targets are %v, want %v", got, want)
	}
	on := map[v2.ClusterKey][]pair.Target{}
	for t, want := range byTarget {
		on[t.Cluster] = append(on[t.Cluster], t)
		if got := x.Of(t); !reflect.DeepEqual(got, want) {
			r.Fatalf("%v has %v, want %v", t, got, want)
		}
		due := slices.DeleteFunc(slices.Clone(want), func(p appcontext.Pair) bool { return !pair.Deliverable(p) })
		if got := x.Deliverable(t); len(got) != len(due) || x.HasDeliverable(t) != (len(due) > 0) {
			r.Fatalf("%v has to deliver %v, want %v", t, got, due)
		}
		if got := x.Urgent(t); got != slices.ContainsFunc(want, pair.Urgent) {
			r.Fatalf("%v is urgent: %t, with %v", t, got, want)
		}
	}
	for c, want := range on {
		slices.SortFunc(want, pair.CompareTargets)
		if got := x.On(c); !slices.Equal(got, want) {
			r.Fatalf("on %s are %v, want %v", c, got, want)
		}
	}
	for uid, want := range unsettled {
		if got := x.Unsettled(uid); !maps.Equal(got, want) {
			r.Fatalf("of %s unsettled are %v, want %v", uid, got, want)
		}
	}
	reports := newReportCache(x, nil)
	for k := range m.pairs {
		got, known := reports.last(k)
		if want, there := m.reports[k]; known != there || got != want {
			r.Fatalf("the report on %v is %v (known: %v), want %v (known: %v)", k, got, known, want, there)
		}
	}
}

// Whatever is put, removed and reported: the index answers like a plain list of pairs.
func TestTheIndexAnswersLikeAListOfPairs(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		x, m := newMemory(), model{map[appcontext.PairKey]appcontext.Pair{}, map[appcontext.PairKey]lastReport{}}
		for range rapid.IntRange(1, 60).Draw(r, "steps") {
			k := appcontext.PairKey{
				Cluster:    rapid.SampledFrom([]v2.ClusterKey{"e+a", "e+b", "e+c"}).Draw(r, "cluster"),
				Deployment: rapid.SampledFrom([]v2.DeploymentID{"7", "8"}).Draw(r, "deployment"), App: rapid.SampledFrom([]string{"db", "queue", "web"}).Draw(r, "app"),
			}
			_, known := m.pairs[k]
			shared := newSharedValues()
			switch rapid.IntRange(0, 4).Draw(r, "what") {
			case 0:
				x.remove(k)
				delete(m.pairs, k)
				delete(m.reports, k)
			case 1:
				report := lastReport{ready: rapid.Bool().Draw(r, "ready"), since: time.Unix(rapid.Int64Range(1, 3).Draw(r, "since"), 0)}
				if x.setReport(k, shared.reports.of(report)); known {
					m.reports[k] = report
				}
			default:
				p := appcontext.Pair{
					Key: k, Registration: rapid.SampledFrom([]string{"1", "2"}).Draw(r, "registration"), Rev: rapid.Int64Range(1, 3).Draw(r, "rev"),
					Phase:   rapid.SampledFrom([]appcontext.Phase{appcontext.Pending, appcontext.Applied}).Draw(r, "phase"),
					Desired: rapid.SampledFrom([]appcontext.Digest{"", "d"}).Draw(r, "desired"), Blocked: rapid.SampledFrom([]string{"", "gate"}).Draw(r, "blocked"),
				}
				if old, had := x.put(p, shared.states.Of(p)); had != known || known && !reflect.DeepEqual(old, m.pairs[k]) {
					r.Fatalf("before, %v was %v, want %v", k, old, m.pairs[k])
				}
				m.pairs[k] = p
			}
			m.check(r, x)
		}
		for k := range m.pairs {
			x.remove(k)
		}
		x.index.lastSize = 0
		if empty := newMemory(); !reflect.DeepEqual(x.index, empty.index) {
			r.Fatalf("something is left of what was removed: %+v", x.index)
		}
	})
}

// A fleet on which the same is reported shares one report, and one state.
func TestEqualReportsAndStatesAreOne(t *testing.T) {
	t.Parallel()
	x, shared := newMemory(), newSharedValues()
	since := time.Unix(1, 0)
	for _, c := range []v2.ClusterKey{"e+a", "e+b"} {
		p := appcontext.Pair{Key: appcontext.PairKey{Cluster: c, Deployment: "7", App: "web"}, Registration: string(c), Phase: appcontext.Applied, Desired: "d"}
		x.put(p, shared.states.Of(p))
		x.setReport(p.Key, shared.reports.of(lastReport{ready: true, since: since, digest: 1}))
	}
	a, b := x.index.at(appcontext.PairKey{Cluster: "e+a", Deployment: "7", App: "web"}), x.index.at(appcontext.PairKey{Cluster: "e+b", Deployment: "7", App: "web"})
	if a.state != b.state || a.report != b.report {
		t.Errorf("states %p and %p, reports %p and %p", a.state, b.state, a.report, b.report)
	}
}
