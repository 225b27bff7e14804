package gate

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// reported is what clusters reported: why the pair "app cluster" is not ready, or "" if it
// is, since noon. Nothing was reported on other pairs.
type reported map[string]string

func (s reported) Ready(p appcontext.Pair) Readiness {
	why, heard := s[p.Key.App+" "+string(p.Key.Cluster)]
	if !heard {
		return Readiness{Unreported: true}
	}
	return Readiness{Ready: why == "", Since: noon, Why: why}
}

func (s reported) NeverReported(cluster v2.ClusterKey) bool { return cluster == "c9" }

// standsAt is a pair of deployment 7 in a phase; nothing is desired of one that is Deleting.
func standsAt(app string, cluster v2.ClusterKey, phase appcontext.Phase, more ...func(*appcontext.Pair)) appcontext.Pair {
	p := appcontext.Pair{Key: appcontext.PairKey{Cluster: cluster, Deployment: "7", App: app}, Desired: "b", Phase: phase, At: noon}
	if phase == appcontext.Deleting {
		p.Desired = ""
	}
	for _, change := range more {
		change(&p)
	}
	return p
}

func blocked(why string) func(*appcontext.Pair) {
	return func(p *appcontext.Pair) { p.Blocked = why }
}

func failed(why string) func(*appcontext.Pair) { return func(p *appcontext.Pair) { p.Error = why } }

func undesired(p *appcontext.Pair) { p.Desired = "" }

// apps returns the apps of a revision by name.
func apps(list ...appcontext.App) map[string]appcontext.App {
	o := map[string]appcontext.App{}
	for _, a := range list {
		o[a.Name] = a
	}
	return o
}

const (
	pending  = appcontext.Pending
	settled  = appcontext.Applied
	deleting = appcontext.Deleting
)

func TestDependencies(t *testing.T) {
	t.Parallel()
	needs := func(d appcontext.Dependency) map[string]appcontext.App {
		d.App = "db"
		return apps(appcontext.App{Name: "web", DependsOn: []appcontext.Dependency{d}}, appcontext.App{Name: "db"})
	}
	deployed, ready := needs(appcontext.Dependency{}), needs(appcontext.Dependency{Ready: true})
	late := needs(appcontext.Dependency{Ready: true, Delay: 30})
	unplaced := apps(deployed["web"], appcontext.App{Name: "db", Failure: &appcontext.Failure{Stage: "rendering", Reason: "no such value"}})
	tests := []struct {
		name  string
		apps  map[string]appcontext.App
		pairs []appcontext.Pair
		ready reported
		now   time.Duration // after noon
		want  string
	}{
		{"applied everywhere", deployed, []appcontext.Pair{standsAt("db", "c1", settled), standsAt("db", "c2", settled)}, nil, 0, ""},
		{"not applied on one of three", deployed, []appcontext.Pair{standsAt("db", "c1", settled), standsAt("db", "c2", pending), standsAt("db", "c3", pending)}, nil, 0, "waits for app db on c2: not applied yet (and 1 more cluster)"},
		{"failed", deployed, []appcontext.Pair{standsAt("db", "c1", appcontext.Failed, failed("refused"))}, nil, 0, "waits for app db on c1: failed: refused"},
		{"blocked itself", deployed, []appcontext.Pair{standsAt("db", "c1", pending, blocked("waits for app disk"))}, nil, 0, "waits for app db on c1: it waits for app disk"},
		{"a removal does not count", deployed, []appcontext.Pair{standsAt("db", "c1", settled), standsAt("db", "c2", deleting)}, nil, 0, ""},
		{"it is enough to be applied", deployed, []appcontext.Pair{standsAt("db", "c1", settled)}, reported{"db c1": "no"}, 0, ""},
		{"ready everywhere", ready, []appcontext.Pair{standsAt("db", "c1", settled), standsAt("db", "c2", settled)}, reported{"db c1": "", "db c2": ""}, 0, ""},
		{"applied and not ready", ready, []appcontext.Pair{standsAt("db", "c1", settled), standsAt("db", "c2", settled)}, reported{"db c1": "", "db c2": "not ready: Deployment db: 0 of 1"}, 0, "waits for app db on c2: not ready: Deployment db: 0 of 1"},
		{"a silent cluster", ready, []appcontext.Pair{standsAt("db", "c1", settled)}, nil, 0, "waits for app db on c1: the cluster has not reported on it yet"},
		{"a cluster that never reported", ready, []appcontext.Pair{standsAt("db", "c9", settled)}, nil, 0, "waits for app db on c9: the cluster has never reported; if it pulls from Git, install the monitor there"},
		{"for a while after that", late, []appcontext.Pair{standsAt("db", "c1", settled)}, reported{"db c1": ""}, 29 * time.Second, "waits until 12:00:30, 30 seconds after app db was ready"},
		{"and no longer", late, []appcontext.Pair{standsAt("db", "c1", settled)}, reported{"db c1": ""}, 30 * time.Second, ""},
		{"could not be rendered, and is on no cluster", unplaced, nil, nil, 0, "waits for app db, which is on no cluster: rendering failed: no such value"},
		{"could not be rendered, and is there as it was", unplaced, []appcontext.Pair{standsAt("db", "c1", settled)}, nil, 0, ""},
		{"is desired nowhere", deployed, nil, nil, 0, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			web := standsAt("web", "c5", pending)
			g := New(Input{Apps: tt.apps, Pairs: append(tt.pairs, web), Reports: tt.ready, Now: noon.Add(tt.now)}).For(web)
			if g.Why != tt.want {
				t.Errorf("got %q, want %q", g.Why, tt.want)
			}
			if opens := noon.Add(30 * time.Second); tt.now > 0 && tt.want != "" && !g.At.Equal(opens) {
				t.Errorf("time opens it at %v, want %v", g.At, opens)
			}
		})
	}
}

func TestWaves(t *testing.T) {
	t.Parallel()
	o := apps(appcontext.App{Name: "web", Rollout: &appcontext.Rollout{Waves: []appcontext.Wave{{Clusters: 1}, {Percent: 30}}, Bake: 60}})
	fleet := func(ready int) (pairs []appcontext.Pair, see reported) {
		see = reported{}
		for i := range 10 {
			p := standsAt("web", v2.ClusterKey(fmt.Sprintf("c%d", i)), pending)
			if i < ready {
				p.Phase = settled
				see["web "+string(p.Key.Cluster)] = ""
			}
			pairs = append(pairs, p)
		}
		return pairs, see
	}
	open := func(ready int, now time.Duration, change func([]appcontext.Pair, reported)) (n int, why string) {
		pairs, see := fleet(ready)
		if change != nil {
			change(pairs, see)
		}
		s := New(Input{Apps: o, Pairs: pairs, Reports: see, Now: noon.Add(now)})
		for _, p := range pairs {
			if g := s.For(p); g.Why == "" {
				n++
			} else if why == "" {
				why = g.Why
			}
		}
		return n, why
	}
	tests := []struct {
		name   string
		ready  int
		now    time.Duration
		change func([]appcontext.Pair, reported)
		open   int
		why    string
	}{
		{"at first the canary alone", 0, time.Hour, nil, 1, "waits for the rollout's wave 1: app web on c0: not applied yet"},
		{"which has to last", 1, time.Second, nil, 1, "waits until 12:01:00, 60 seconds after the rollout's wave 1 was ready"},
		{"then three more", 1, time.Hour, nil, 4, "waits for the rollout's wave 2: app web on c1: not applied yet (and 2 more clusters)"},
		{"until all three are ready", 3, time.Hour, nil, 4, "waits for the rollout's wave 2: app web on c3: not applied yet"},
		{"then the rest", 4, time.Hour, nil, 10, ""},
		{"a canary that fails stops all others", 1, time.Hour, func(p []appcontext.Pair, _ reported) {
			p[0].Phase, p[0].Error = appcontext.Failed, "refused"
		}, 1, "waits for the rollout's wave 1: app web on c0: failed: refused"},
		{"and so does one that is not ready", 1, time.Hour, func(_ []appcontext.Pair, s reported) { s["web c0"] = "not ready: it crashes" }, 1, "waits for the rollout's wave 1: app web on c0: not ready: it crashes"},
		{"clusters that it leaves are in no wave", 1, time.Hour, func(p []appcontext.Pair, _ reported) {
			p[1].Desired, p[2].Desired = "", ""
		}, 6, "waits for the rollout's wave 2: app web on c3: not applied yet (and 2 more clusters)"},
	}
	for _, tt := range tests {
		if n, why := open(tt.ready, tt.now, tt.change); n != tt.open || why != tt.why {
			t.Errorf("%s: %d may start, others: %q; want %d, %q", tt.name, n, why, tt.open, tt.why)
		}
	}
}

func TestRemovalOrder(t *testing.T) {
	t.Parallel()
	chain := apps(
		appcontext.App{Name: "web", DependsOn: []appcontext.Dependency{{App: "api"}}},
		appcontext.App{Name: "api", DependsOn: []appcontext.Dependency{{App: "db"}}}, appcontext.App{Name: "db"})
	leave := apps(appcontext.App{Name: "db", LeaveLast: true})
	stuck := standsAt("api", "c1", appcontext.Failed, undesired)
	tests := []struct {
		name  string
		apps  map[string]appcontext.App
		pairs []appcontext.Pair // the first is the one to go
		ready reported
		want  string
		gone  bool
	}{
		{"no app depends on it", chain, []appcontext.Pair{standsAt("web", "c1", deleting), standsAt("api", "c1", deleting)}, nil, "", false},
		{"another app does, on any cluster", chain, []appcontext.Pair{standsAt("db", "c1", deleting), standsAt("api", "c2", deleting), standsAt("api", "c3", deleting)}, nil, "waits for app api to be gone from c2 (and 1 more cluster)", false},
		{"an app that stays does not count", chain, []appcontext.Pair{standsAt("db", "c1", deleting), standsAt("api", "c2", settled)}, nil, "", false},
		{"an app that cannot be removed does not delay it", chain, []appcontext.Pair{standsAt("db", "c1", deleting), stuck}, nil, "", false},
		{"it stays until it is ready elsewhere", leave, []appcontext.Pair{standsAt("db", "c1", deleting), standsAt("db", "c2", pending)}, nil, "stays until the app is ready on its other clusters; on c2: not applied yet", false},
		{"then it goes", leave, []appcontext.Pair{standsAt("db", "c1", deleting), standsAt("db", "c2", settled)}, reported{"db c2": ""}, "", false},
		{"it goes if it is desired nowhere", leave, []appcontext.Pair{standsAt("db", "c1", deleting)}, nil, "", false},
		{"it goes if nothing is desired", leave, []appcontext.Pair{standsAt("db", "c1", deleting), standsAt("db", "c2", pending)}, nil, "", true},
	}
	for _, tt := range tests {
		if g := New(Input{Apps: tt.apps, Removed: tt.gone, Pairs: tt.pairs, Reports: tt.ready, Now: noon}).For(tt.pairs[0]); g.Why != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, g.Why, tt.want)
		}
	}
}

func TestWavesTakeWhatEarlierOnesLeave(t *testing.T) {
	t.Parallel()
	labelled := map[string]map[v2.ClusterKey]bool{"canary": {"c1": true, "c7": true, "elsewhere": true}, "stage": {"c7": true, "c3": true}}
	tests := []struct {
		waves []appcontext.Wave
		of    int
		want  string
	}{
		{[]appcontext.Wave{{Percent: 1}, {Clusters: 5}, {Percent: 100}}, 10, "c0|c1 c2 c3 c4 c5|c6 c7 c8 c9|"},
		{[]appcontext.Wave{{Percent: 1}, {Clusters: 5}}, 3, "c0|c1 c2|"},
		{[]appcontext.Wave{{Label: "canary"}, {Label: "stage"}, {Clusters: 2}}, 10, "c1 c7|c3|c0 c2|c4 c5 c6 c8 c9"},
		{[]appcontext.Wave{{Clusters: 2}, {Label: "canary"}}, 10, "c0 c1|c7|c2 c3 c4 c5 c6 c8 c9"},
		{[]appcontext.Wave{{Label: "nobody"}, {Clusters: 1}}, 3, "|c0|c1 c2"},
	}
	for _, tt := range tests {
		var pairs []appcontext.Pair
		for i := range tt.of {
			pairs = append(pairs, standsAt("web", v2.ClusterKey(fmt.Sprintf("c%d", i)), pending))
		}
		st := New(Input{Apps: apps(appcontext.App{Name: "web", Rollout: &appcontext.Rollout{Waves: tt.waves}}), Pairs: pairs, Reports: reported{}, Labelled: labelled}).of("web")
		waves := make([]string, len(tt.waves)+1)
		for _, p := range st.wanted {
			w := &waves[st.waveOf[p.Key.Cluster]]
			*w = strings.TrimSpace(*w + " " + string(p.Key.Cluster))
		}
		if got := strings.Join(waves, "|"); got != tt.want {
			t.Errorf("%v of %d clusters: %s, want %s", tt.waves, tt.of, got, tt.want)
		}
	}
}

// However many pairs wait for one, what they wait for is looked at once.
func TestManyThatWaitAreOneLook(t *testing.T) {
	chain := apps(appcontext.App{Name: "web", DependsOn: []appcontext.Dependency{{App: "db"}}}, appcontext.App{Name: "db"})
	allocations := func(n int) float64 {
		var pairs []appcontext.Pair
		for i := range n {
			c := v2.ClusterKey(fmt.Sprintf("c%05d", i))
			pairs = append(pairs, standsAt("web", c, deleting), standsAt("db", c, deleting))
		}
		g := New(Input{Apps: chain, Removed: true, Pairs: pairs, Reports: reported{}})
		want := fmt.Sprintf("waits for app web to be gone from c00000%s", pair.AndMore(n-1))
		return testing.AllocsPerRun(1, func() {
			for _, p := range pairs {
				if got := g.For(p).Why; p.Key.App == "db" && got != want {
					t.Fatalf("%s: %q, want %q", p.Key.Cluster, got, want)
				}
			}
		})
	}
	if few, many := allocations(10), allocations(1000); many > few+5 {
		t.Errorf("10 pairs that wait take %v allocations, 1,000 take %v", few, many)
	}
}

func TestARolloutPausesUntilItsRevisionIsPromoted(t *testing.T) {
	t.Parallel()
	short := 10
	o := apps(appcontext.App{Name: "web", Rollout: &appcontext.Rollout{Bake: 60, Waves: []appcontext.Wave{
		{Label: "canary", Bake: &short, Pause: true}, {Label: "nobody", Pause: true}, {Clusters: 1},
	}}})
	const first, second = "waits until somebody promotes revision 7: the rollout pauses after wave 1", "waits until somebody promotes revision 7: the rollout pauses after wave 2"
	tests := []struct {
		name     string
		ready    []v2.ClusterKey
		now      time.Duration
		promoted appcontext.Promotion
		want     [3]string // of c0, the canary c1, and c2
	}{
		{"the canary alone starts", nil, 0, appcontext.Promotion{}, [3]string{"waits for the rollout's wave 1: app web on c1: not applied yet", "", "waits for the rollout's wave 1: app web on c1: not applied yet"}},
		{"a promotion does not replace readiness", nil, 0, appcontext.Promotion{Wave: 2}, [3]string{"waits for the rollout's wave 1: app web on c1: not applied yet", "", "waits for the rollout's wave 1: app web on c1: not applied yet"}},
		{"nor the time of the wave", []v2.ClusterKey{"c1"}, 9 * time.Second, appcontext.Promotion{Wave: 2}, [3]string{"waits until 12:00:10, 10 seconds after the rollout's wave 1 was ready", "", "waits until 12:00:10, 10 seconds after the rollout's wave 1 was ready"}},
		{"time does not end a pause", []v2.ClusterKey{"c1"}, time.Hour, appcontext.Promotion{}, [3]string{first, "", first}},
		{"a wave without clusters pauses too", []v2.ClusterKey{"c1"}, time.Hour, appcontext.Promotion{Wave: 1}, [3]string{second, "", second}},
		{"the last promotion", []v2.ClusterKey{"c1"}, time.Hour, appcontext.Promotion{Wave: 2}, [3]string{"", "", "waits for the rollout's wave 3: app web on c0: not applied yet"}},
		{"a full one ends all waiting for waves", nil, 0, appcontext.Promotion{Full: true}, [3]string{}},
	}
	for _, tt := range tests {
		pairs, see := []appcontext.Pair{standsAt("web", "c0", pending), standsAt("web", "c1", pending), standsAt("web", "c2", pending)}, reported{}
		for i := range pairs {
			if slices.Contains(tt.ready, pairs[i].Key.Cluster) {
				pairs[i].Phase = settled
				see["web "+string(pairs[i].Key.Cluster)] = ""
			}
		}
		tt.promoted.Rev = 7
		g := New(Input{
			Apps: o, Pairs: pairs, Reports: see, Now: noon.Add(tt.now), Promoted: tt.promoted,
			Labelled: map[string]map[v2.ClusterKey]bool{"canary": {"c1": true}},
		})
		for i, p := range pairs {
			if got := g.For(p).Why; got != tt.want[i] {
				t.Errorf("%s: %s: %q, want %q", tt.name, p.Key.Cluster, got, tt.want[i])
			}
		}
	}
}
