package rsync

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
)

// scene is a deployment as the gates before its pairs' ways see it. It is made for one
// look, from what is stored: every process comes to the same answers.
type scene struct {
	apps  map[string]appcontext.App
	gone  bool                         // nothing is wished for
	pairs map[string][]appcontext.Pair // by app, in order of cluster
	sight
	now  time.Time
	memo map[string]*standing
}

// sight is what clusters have said.
type sight interface {
	ready(p appcontext.Pair) readiness // of a pair that is settled
	never(cluster string) bool         // it has not said anything of any pair
}

// readiness is whether a settled pair is ready, and since when.
type readiness struct {
	ready  bool
	since  time.Time
	why    string // it is not
	silent bool   // because the cluster has said nothing of the pair
}

// gate is what keeps a pair from beginning its way. It is open if why is empty.
type gate struct {
	why string
	at  time.Time // when it opens by itself; zero if something has to happen
}

// newScene sorts a deployment's pairs.
func newScene(o order, pairs []appcontext.Pair, see sight, now time.Time) *scene {
	s := &scene{apps: o.apps, gone: o.wish.gone, pairs: map[string][]appcontext.Pair{}, sight: see, now: now, memo: map[string]*standing{}}
	for _, p := range slices.SortedFunc(slices.Values(pairs), byKey) {
		s.pairs[p.Key.App] = append(s.pairs[p.Key.App], p)
	}
	return s
}

// gate returns what keeps a pair from beginning.
func (s *scene) gate(p appcontext.Pair) gate {
	a := s.apps[p.Key.App]
	if p.Desired == "" {
		if g := s.dependents(p.Key.App); g.why != "" {
			return g
		}
		return s.leaveLast(a)
	}
	for _, d := range a.DependsOn {
		if g := s.dependency(d); g.why != "" {
			return g
		}
	}
	return s.wave(a, p.Key.Cluster)
}

// dependency waits for another app: on all clusters that hold it, and then for a while.
func (s *scene) dependency(d appcontext.Dependency) gate {
	st, what := s.standing(d.App), "applied"
	if len(st.wanted) == 0 {
		if f := s.apps[d.App].Failure; f != nil {
			return gate{why: clipped(fmt.Sprintf("waits for app %s, which is nowhere: %s failed: %s", d.App, f.Stage, f.Reason))}
		}
		return gate{}
	}
	lags := st.unapplied
	if d.Ready {
		lags, what = st.unready, "ready"
	}
	lag := lags[len(st.wanted)]
	if lag.count > 0 {
		return gate{why: "waits for app " + d.App + " " + s.words(st, lag)}
	}
	return s.since(lag.since, d.Wait, "app "+d.App+" was "+what)
}

// since waits some seconds after something has come true.
func (s *scene) since(t time.Time, seconds int, what string) gate {
	at := t.Add(time.Duration(seconds) * time.Second)
	if seconds == 0 || !s.now.Before(at) {
		return gate{}
	}
	return gate{why: fmt.Sprintf("waits until %s, %d seconds after %s", at.UTC().Format(time.TimeOnly), seconds, what), at: at}
}

// wave waits for the waves before the one that a cluster is in.
func (s *scene) wave(a appcontext.App, cluster string) gate {
	if a.Rollout == nil {
		return gate{}
	}
	st := s.standing(a.Name)
	at, _ := slices.BinarySearchFunc(st.wanted, cluster, func(p appcontext.Pair, c string) int { return strings.Compare(p.Key.Cluster, c) })
	first, wave := begins(*a.Rollout, len(st.wanted), at)
	if first == 0 {
		return gate{}
	}
	if lag := st.unready[first]; lag.count > 0 {
		_, before := begins(*a.Rollout, len(st.wanted), lag.first)
		return gate{why: fmt.Sprintf("waits for the rollout's wave %d: app %s %s", before+1, a.Name, s.words(st, lag))}
	}
	return s.since(st.unready[first].since, a.Rollout.Bake, fmt.Sprintf("the rollout's wave %d was ready", wave))
}

// begins returns how many of n clusters come in waves before the one with index at, and
// how many waves that are.
func begins(r appcontext.Rollout, n, at int) (first, waves int) {
	for _, w := range r.Waves {
		size := w.Clusters
		if size == 0 {
			size = (n*w.Percent + 99) / 100
		}
		if at < first+size {
			break
		}
		first, waves = first+size, waves+1
	}
	return min(first, n), waves
}

// dependents waits until the apps that depend on one are gone, wherever they are to go.
// One that cannot be removed does not hold up the others.
func (s *scene) dependents(app string) gate {
	var left []appcontext.Pair
	for _, name := range sortedKeys(s.apps) {
		if !slices.ContainsFunc(s.apps[name].DependsOn, func(d appcontext.Dependency) bool { return d.App == app }) {
			continue
		}
		for _, p := range s.pairs[name] {
			if p.Desired == "" && p.Phase != appcontext.Failed {
				left = append(left, p)
			}
		}
	}
	if len(left) == 0 {
		return gate{}
	}
	return gate{why: fmt.Sprintf("waits for app %s to be gone from %s%s", left[0].Key.App, left[0].Key.Cluster, others(len(left)-1))}
}

// leaveLast keeps an app where it was until it is ready where it is to be.
func (s *scene) leaveLast(a appcontext.App) gate {
	if !a.LeaveLast || s.gone {
		return gate{}
	}
	st := s.standing(a.Name)
	if lag := st.unready[len(st.wanted)]; lag.count > 0 {
		return gate{why: "stays until the app is ready in its other places; " + s.words(st, lag)}
	}
	return gate{}
}

// standing is how far an app is. The slices say it of the first n clusters, for each n.
type standing struct {
	wanted    []appcontext.Pair // in order of cluster
	unapplied []lag
	unready   []lag
}

// lag is what some pairs of an app lack: none of them anything if count is 0.
type lag struct {
	count  int
	first  int       // index of the first pair that lacks something
	why    string    // it does
	silent bool      // because its cluster has said nothing of it
	since  time.Time // when the last one of the others came to it
}

func (s *scene) standing(app string) *standing {
	if st := s.memo[app]; st != nil {
		return st
	}
	st := &standing{unapplied: make([]lag, 1), unready: make([]lag, 1)}
	for _, p := range s.pairs[app] {
		if p.Desired == "" {
			continue
		}
		applied := readiness{why: unsettledWords(p)}
		ready := applied
		if p.Phase == appcontext.Applied {
			applied, ready = readiness{ready: true, since: p.At}, s.ready(p)
		}
		i := len(st.wanted)
		st.wanted = append(st.wanted, p)
		st.unapplied = append(st.unapplied, st.unapplied[i].and(i, applied))
		st.unready = append(st.unready, st.unready[i].and(i, ready))
	}
	s.memo[app] = st
	return st
}

// and returns the lag of the pairs so far and one more.
func (l lag) and(i int, r readiness) lag {
	switch {
	case r.ready && r.since.After(l.since):
		l.since = r.since
	case !r.ready && l.count == 0:
		l.first, l.why, l.silent = i, r.why, r.silent
		fallthrough
	case !r.ready:
		l.count++
	}
	return l
}

// words is such as "on edge+c1: not applied yet (and 3 more clusters)".
func (s *scene) words(st *standing, l lag) string {
	cluster, why := st.wanted[l.first].Key.Cluster, l.why
	if l.silent {
		why = silence(s.never(cluster))
	}
	return "on " + cluster + ": " + why + others(l.count-1)
}

// silence is why nothing is known of what a cluster holds.
func silence(never bool) string {
	if never {
		return "the cluster has never reported; if it pulls from Git, install the monitor there"
	}
	return "the cluster has not reported on it yet"
}

// others counts what is not named.
func others(n int) string {
	switch n {
	case 0:
		return ""
	case 1:
		return " (and 1 more cluster)"
	}
	return fmt.Sprintf(" (and %d more clusters)", n)
}

// unsettledWords says where a pair stands that does not hold yet what it shall.
func unsettledWords(p appcontext.Pair) string {
	switch {
	case p.Error != "":
		return clipped(strings.ToLower(string(p.Phase)) + ": " + p.Error)
	case p.Blocked != "":
		return clipped("it " + p.Blocked)
	}
	return "not applied yet"
}
