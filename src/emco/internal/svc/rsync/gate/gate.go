// Package gate decides which pairs may start. An app waits for the apps that it depends on, and a
// cluster for the waves before its own: the package cuts the clusters of an app into waves, by their labels or in order of
// their names, as the Rollout of the revision says. A removal waits until the dependent apps are gone and, for
// an app with LeaveLast that stays elsewhere, until it is ready on its other clusters. The package writes nothing, and decides from stored
// records and the time, so every process comes to the same answers. It asks Input.Reports for readiness on demand, which may read etcd.
package gate

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
)

// Input is all that gates depend on. Everything in it is stored, or follows from what is
// stored.
type Input struct {
	Apps    map[string]appcontext.App // of the revision, by name
	Removed bool                      // the whole deployment is being removed
	Pairs   []appcontext.Pair         // all of the deployment, also those of other shards
	Reports Reports
	Now     time.Time

	Labelled map[string]map[v2.ClusterKey]bool // by label that waves name: the clusters that have it
	Promoted appcontext.Promotion              // of the revision
}

// Reports is what clusters have reported.
type Reports interface {
	Ready(p appcontext.Pair) Readiness        // of a pair that is Applied
	NeverReported(cluster v2.ClusterKey) bool // on any pair
}

// Readiness is whether an applied pair is ready, and since when.
type Readiness struct {
	Ready      bool
	Since      time.Time
	Why        string // why it is not ready
	Unreported bool   // the cluster has reported nothing on the pair
}

// Gate keeps a pair from starting: closed while Why is set, else open. A gate cannot fail a pair.
type Gate struct {
	Why string
	At  time.Time // when it opens without any event; zero if an event must open it
}

// Gates are the gates of one deployment's pairs.
type Gates struct {
	in       Input
	pairs    map[string][]appcontext.Pair // by app, in order of cluster
	progress map[string]*appProgress      // by app, worked out on demand
	leaving  map[string]Gate              // by app: that of the apps that depend on it; worked out on demand
}

// New returns the gates of a deployment.
func New(in Input) *Gates {
	g := &Gates{in: in, pairs: map[string][]appcontext.Pair{}, progress: map[string]*appProgress{}, leaving: map[string]Gate{}}
	for _, p := range slices.SortedFunc(slices.Values(in.Pairs), pair.CompareKeys) {
		g.pairs[p.Key.App] = append(g.pairs[p.Key.App], p)
	}
	return g
}

// For returns the gate of a pair.
func (g *Gates) For(p appcontext.Pair) Gate {
	a := g.in.Apps[p.Key.App]
	if p.Desired == "" {
		if wait := g.dependents(p.Key.App); wait.Why != "" {
			return wait
		}
		return g.leaveLast(a)
	}
	for _, d := range a.DependsOn {
		if wait := g.dependency(d); wait.Why != "" {
			return wait
		}
	}
	return g.wave(a, p.Key.Cluster)
}

// dependency waits for another app on all its clusters, and then for the set time.
func (g *Gates) dependency(d appcontext.Dependency) Gate {
	st, what := g.of(d.App), "applied"
	if len(st.wanted) == 0 {
		if f := g.in.Apps[d.App].Failure; f != nil {
			return Gate{Why: pair.Clip(fmt.Sprintf("waits for app %s, which is on no cluster: %s failed: %s", d.App, f.Stage, f.Reason))}
		}
		return Gate{}
	}
	lags := st.unapplied
	if d.Ready {
		lags, what = st.unready, "ready"
	}
	lag := lags[len(st.wanted)]
	if lag.count > 0 {
		return Gate{Why: "waits for app " + d.App + " " + g.words(st, lag)}
	}
	return g.since(lag.since, d.Delay, "app "+d.App+" was "+what)
}

// since waits some seconds after a time.
func (g *Gates) since(t time.Time, seconds int, what string) Gate {
	at := t.Add(time.Duration(seconds) * time.Second)
	if seconds == 0 || !g.in.Now.Before(at) {
		return Gate{}
	}
	return Gate{Why: fmt.Sprintf("waits until %s, %d seconds after %s", at.UTC().Format(time.TimeOnly), seconds, what), At: at}
}

// wave waits for the waves before that of a cluster, in their order: until each is ready, has been so for its time, and is
// promoted if the rollout pauses after it.
func (g *Gates) wave(a appcontext.App, cluster v2.ClusterKey) Gate {
	if a.Rollout == nil || g.in.Promoted.Full {
		return Gate{}
	}
	st := g.of(a.Name)
	for i := range st.waveOf[cluster] {
		until := st.waves[i]
		what := fmt.Sprintf("the rollout's wave %d", i+1)
		if lag := st.unready[until]; lag.count > 0 {
			return Gate{Why: fmt.Sprintf("waits for %s: app %s %s", what, a.Name, g.words(st, lag))}
		}
		if bakes := g.since(st.unready[until].since, a.Rollout.BakeAfter(i), what+" was ready"); bakes.Why != "" {
			return bakes
		}
		if a.Rollout.Waves[i].Pause && g.in.Promoted.Wave <= i {
			return Gate{Why: fmt.Sprintf(pair.AwaitsPromotion+"revision %d: the rollout pauses after wave %d", g.in.Promoted.Rev, i+1)}
		}
	}
	return Gate{}
}

// cut cuts the clusters of an app, which are in order of their names, into the waves of a rollout. It returns them in order of wave,
// and for each wave the number of clusters up to its end.
func (g *Gates) cut(r appcontext.Rollout, wanted []appcontext.Pair) (ordered []appcontext.Pair, waves []int) {
	rest := wanted
	for _, w := range r.Waves {
		size := w.Clusters
		if w.Percent > 0 {
			size = (len(wanted)*w.Percent + 99) / 100
		}
		takes := func(p appcontext.Pair) bool {
			if w.Label != "" {
				return g.in.Labelled[w.Label][p.Key.Cluster]
			}
			size--
			return size >= 0
		}
		var later []appcontext.Pair
		for _, p := range rest {
			if takes(p) {
				ordered = append(ordered, p)
			} else {
				later = append(later, p)
			}
		}
		rest, waves = later, append(waves, len(ordered))
	}
	return append(ordered, rest...), waves
}

// dependents waits until the apps that depend on an app are removed wherever they must be.
// One that cannot be removed does not delay the others.
func (g *Gates) dependents(app string) Gate {
	if known, ok := g.leaving[app]; ok {
		return known
	}
	var first *appcontext.Pair
	left := 0
	for _, name := range sortedKeys(g.in.Apps) {
		if !slices.ContainsFunc(g.in.Apps[name].DependsOn, func(d appcontext.Dependency) bool { return d.App == app }) {
			continue
		}
		for i := range g.pairs[name] {
			p := &g.pairs[name][i]
			if p.Desired != "" || p.Phase == appcontext.Failed {
				continue
			}
			if left++; left == 1 {
				first = p
			}
		}
	}
	gate := Gate{}
	if left > 0 {
		gate.Why = fmt.Sprintf("waits for app %s to be gone from %s%s", first.Key.App, first.Key.Cluster, pair.AndMore(left-1))
	}
	g.leaving[app] = gate
	return gate
}

// leaveLast keeps an app in its old places until it is ready in all its new ones.
func (g *Gates) leaveLast(a appcontext.App) Gate {
	if !a.LeaveLast || g.in.Removed {
		return Gate{}
	}
	st := g.of(a.Name)
	if lag := st.unready[len(st.wanted)]; lag.count > 0 {
		return Gate{Why: "stays until the app is ready on its other clusters; " + g.words(st, lag)}
	}
	return Gate{}
}

// appProgress is how far an app is. Element n of unapplied and unready describes the first n clusters.
type appProgress struct {
	wanted    []appcontext.Pair // in order of wave, then of cluster
	unapplied []lag
	unready   []lag

	waves  []int                 // by wave: how many clusters it and the waves before have
	waveOf map[v2.ClusterKey]int // index of the wave; that of the clusters in no wave comes after the others
}

// lag counts the pairs, among the first n, that are not applied or not ready, and names the first of them.
type lag struct {
	count      int
	first      int       // index of the first of them
	why        string    // why that one is not applied or not ready
	unreported bool      // because nothing was reported on it
	since      time.Time // when the last of the other pairs became applied or ready
}

func (g *Gates) of(app string) *appProgress {
	if st := g.progress[app]; st != nil {
		return st
	}
	st := &appProgress{unapplied: make([]lag, 1), unready: make([]lag, 1), waveOf: map[v2.ClusterKey]int{}}
	for _, p := range g.pairs[app] {
		if p.Desired != "" {
			st.wanted = append(st.wanted, p)
		}
	}
	if r := g.in.Apps[app].Rollout; r != nil {
		st.wanted, st.waves = g.cut(*r, st.wanted)
	}
	wave := 0
	for i, p := range st.wanted {
		for wave < len(st.waves) && i >= st.waves[wave] {
			wave++
		}
		st.waveOf[p.Key.Cluster] = wave
		applied := Readiness{Why: unsettledWords(p)}
		ready := applied
		if p.Phase == appcontext.Applied {
			applied, ready = Readiness{Ready: true, Since: p.At}, g.in.Reports.Ready(p)
		}
		st.unapplied = append(st.unapplied, st.unapplied[i].and(i, applied))
		st.unready = append(st.unready, st.unready[i].and(i, ready))
	}
	g.progress[app] = st
	return st
}

// and adds one more pair to the lag of those before.
func (l lag) and(i int, r Readiness) lag {
	switch {
	case r.Ready && r.Since.After(l.since):
		l.since = r.Since
	case !r.Ready && l.count == 0:
		l.first, l.why, l.unreported = i, r.Why, r.Unreported
		fallthrough
	case !r.Ready:
		l.count++
	}
	return l
}

// words is, for example, "on edge+c1: not applied yet (and 3 more clusters)".
func (g *Gates) words(st *appProgress, l lag) string {
	cluster, why := st.wanted[l.first].Key.Cluster, l.why
	if l.unreported {
		why = pair.NoReport(g.in.Reports.NeverReported(cluster))
	}
	return "on " + string(cluster) + ": " + why + pair.AndMore(l.count-1)
}

// unsettledWords describes the state of a pair that is not Applied.
func unsettledWords(p appcontext.Pair) string {
	switch {
	case p.Error != "":
		return pair.Clip(strings.ToLower(string(p.Phase)) + ": " + p.Error)
	case p.Blocked != "":
		return pair.Clip("it " + p.Blocked)
	}
	return "not applied yet"
}

// Ordered reports whether pairs of a revision's apps may have to wait for others.
func Ordered(apps []appcontext.App) bool {
	for _, a := range apps {
		if len(a.DependsOn) > 0 || a.LeaveLast || a.Rollout != nil {
			return true
		}
	}
	return false
}

// NeedReadiness returns the apps whose readiness gates ask for.
func NeedReadiness(apps map[string]appcontext.App) map[string]bool {
	out := map[string]bool{}
	for _, a := range apps {
		if a.LeaveLast || a.Rollout != nil {
			out[a.Name] = true
		}
		for _, d := range a.DependsOn {
			if d.Ready {
				out[d.App] = true
			}
		}
	}
	return out
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
