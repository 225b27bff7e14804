// Package tally counts the pairs that the mirror reads, by state: for each cluster, each deployment and the
// whole fleet. Package views answers questions about the fleet from the counts. Follow streams their changes.
package tally

import (
	"slices"
	"sync"
	"time"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/mirror"
)

// Tally counts pairs by state, for each cluster, each deployment and all together. It
// follows each change of a record, so no answer reads all records. A pair takes one byte in it.
type Tally struct {
	stale time.Duration // silence above which the report of an agent does not count
	now   func() time.Time

	mu          sync.RWMutex
	mark        int64                                // guarded by mu, as all below
	whole       bool                                 // all records were counted
	pairs       Counts                               // of all pairs
	clusters    map[v2.ClusterKey]*clusterTally      // those with pairs or an agent
	deployments map[v2.DeploymentID]*deploymentTally // those with pairs
	heads       map[appcontext.HeadID]appcontext.Head
	states      map[appcontext.State]int // number of deployment intent groups
	silent      int                      // number of clusters
	edited      map[v2.ClusterKey]int    // number of pairs whose files others have changed; none is zero
	version     int64                    // changes with each change of a count
	news        *newsRing
}

// clusterTally is the pairs of a cluster.
type clusterTally struct {
	targets map[v2.DeploymentID]*clusterPairs
	counts  Counts
	heard   time.Time // last sign of life of the agent, or last report of a watch
	agent   bool      // an agent reports, so silence means something
	silent  bool
}

// deploymentTally is the pairs of a deployment.
type deploymentTally struct {
	apps    []string // in the order of the cells of its targets
	targets map[v2.ClusterKey]*clusterPairs
	counts  Counts
	edited  int // pairs whose files others have changed
}

// clusterPairs is the pairs of one deployment on one cluster, in the order of the deployment's apps.
type clusterPairs struct {
	cells  []cell
	counts Counts
}

// New returns a tally that knows nothing yet.
func New(stale time.Duration, now func() time.Time) *Tally {
	t := &Tally{stale: stale, now: now, news: newNewsRing()}
	t.clear()
	return t
}

var _ mirror.Observer = (*Tally)(nil)

func (t *Tally) clear() {
	t.pairs, t.whole = Counts{}, false
	t.clusters, t.deployments, t.heads = map[v2.ClusterKey]*clusterTally{}, map[v2.DeploymentID]*deploymentTally{}, map[appcontext.HeadID]appcontext.Head{}
	t.states, t.silent, t.edited = map[appcontext.State]int{}, 0, map[v2.ClusterKey]int{}
	t.news.restart()
}

// Restarted forgets everything: all records follow again.
func (t *Tally) Restarted() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.clear()
}

// HeadChanged takes in a head; nil if it is gone.
func (t *Tally) HeadChanged(id appcontext.HeadID, h *appcontext.Head) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.version++
	if old, there := t.heads[id]; there {
		t.countGroupLocked(old, -1)
	}
	if h == nil {
		delete(t.heads, id)
		return
	}
	t.countGroupLocked(*h, 1)
	t.heads[id] = *h
	t.news.add(newsItem{deployment: h.Deployment()})
}

func (t *Tally) countGroupLocked(h appcontext.Head, n int) {
	if _, group := v2.GroupOf(h.Document); group && h.Owns() {
		t.states[h.State] += n
	}
}

// Totals are numbers of the whole fleet.
type Totals struct {
	Deployments map[string]int // deployment intent groups, by the name of their state
	Pairs       map[string]int // apps on clusters, by the name of their state
	Silent      int            // clusters whose agent has not reported for long
}

// Totals returns the present numbers. It takes as long for a large fleet as for a small one.
func (t *Tally) Totals() Totals {
	t.mu.RLock()
	defer t.mu.RUnlock()
	out := Totals{Deployments: map[string]int{}, Pairs: map[string]int{}, Silent: t.silent}
	for s := appcontext.Created; s <= appcontext.TerminateStopped; s++ {
		out.Deployments[s.String()] = t.states[s]
	}
	for s := Failed; s < Idle; s++ {
		out.Pairs[s.String()] = t.pairs[s]
	}
	return out
}

// PairChanged takes in the records of a pair; nil if they are gone.
func (t *Tally) PairChanged(key appcontext.PairKey, e *mirror.Entry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	cluster, deployment, to := key.Cluster, key.Deployment, cellOf(e)
	if e != nil && e.Report != nil {
		t.heardLocked(cluster, e.Heard(), e.Report.Seq > 0)
	}
	t.setLocked(cluster, deployment, key.App, to)
}

// AgentHeard takes in a sign of life of a cluster's agent.
func (t *Tally) AgentHeard(cluster v2.ClusterKey, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c := t.clusters[cluster]; at.IsZero() && c != nil { // the agent was forgotten with its cluster
		c.agent = false
		t.silenceLocked(cluster, c, false)
		if len(c.targets) == 0 {
			delete(t.clusters, cluster)
		}
		return
	}
	t.heardLocked(cluster, at, true)
}

// Advanced notes that all records up to a revision were counted.
func (t *Tally) Advanced(mark int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mark, t.whole = mark, true
}

// Whole reports whether all records were counted.
func (t *Tally) Whole() bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.whole
}

// Age looks for clusters that have fallen silent. Call it about once a second.
func (t *Tally) Age() {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	for cluster, c := range t.clusters {
		t.silenceLocked(cluster, c, c.agent && now.Sub(c.heard) > t.stale)
	}
}

func (t *Tally) clusterLocked(cluster v2.ClusterKey) *clusterTally {
	c := t.clusters[cluster]
	if c == nil {
		c = &clusterTally{targets: map[v2.DeploymentID]*clusterPairs{}}
		t.clusters[cluster] = c
	}
	return c
}

func (t *Tally) heardLocked(cluster v2.ClusterKey, at time.Time, agent bool) {
	if at.IsZero() {
		return
	}
	c := t.clusterLocked(cluster)
	c.agent = c.agent || agent
	if at.After(c.heard) {
		c.heard = at
	}
	t.silenceLocked(cluster, c, c.agent && t.now().Sub(c.heard) > t.stale)
}

// silenceLocked makes a cluster silent, or not. Its pairs change their states with it.
func (t *Tally) silenceLocked(cluster v2.ClusterKey, c *clusterTally, silent bool) {
	if c.silent == silent {
		return
	}
	for deployment, on := range c.targets {
		for _, old := range on.cells {
			t.countLocked(c, t.deployments[deployment], on, old.at(c.silent), old.at(silent))
		}
		t.news.add(newsItem{deployment: deployment})
	}
	c.silent = silent
	if silent {
		t.silent++
	} else {
		t.silent--
	}
	t.version++
	t.news.add(newsItem{cluster: cluster})
}

// countLocked moves one pair from a state to another.
func (t *Tally) countLocked(c *clusterTally, d *deploymentTally, on *clusterPairs, from, to State) {
	for _, counts := range []*Counts{&t.pairs, &c.counts, &d.counts, &on.counts} {
		if from != None {
			counts[from]--
		}
		if to != None {
			counts[to]++
		}
	}
}

// editLocked adds to the pairs whose files others have changed.
func (t *Tally) editLocked(cluster v2.ClusterKey, deployment v2.DeploymentID, d *deploymentTally, n int) {
	if n == 0 {
		return
	}
	d.edited += n
	if t.edited[cluster] += n; t.edited[cluster] == 0 {
		delete(t.edited, cluster)
	}
	t.version++
	t.news.add(newsItem{deployment: deployment})
}

// setLocked sets the cell of a pair.
func (t *Tally) setLocked(cluster v2.ClusterKey, deployment v2.DeploymentID, app string, to cell) {
	c, d := t.clusterLocked(cluster), t.deployments[deployment]
	if d == nil {
		d = &deploymentTally{targets: map[v2.ClusterKey]*clusterPairs{}}
		t.deployments[deployment] = d
	}
	on := d.targets[cluster]
	if on == nil {
		on = &clusterPairs{}
		d.targets[cluster], c.targets[deployment] = on, on
	}
	i := slices.Index(d.apps, app)
	if i < 0 {
		i, d.apps = len(d.apps), append(d.apps, app)
	}
	for len(on.cells) <= i {
		on.cells = append(on.cells, cell(None))
	}
	from := on.cells[i]
	on.cells[i] = to
	if before, after := from.at(c.silent), to.at(c.silent); before != after {
		t.countLocked(c, d, on, before, after)
		t.version++
		t.news.add(newsItem{cluster: cluster})
		t.news.add(newsItem{deployment: deployment})
	}
	t.editLocked(cluster, deployment, d, to.edits()-from.edits())
	if !slices.ContainsFunc(on.cells, func(c cell) bool { return c != cell(None) }) {
		delete(d.targets, cluster)
		delete(c.targets, deployment)
	}
	if len(d.targets) == 0 {
		delete(t.deployments, deployment)
	}
	if len(c.targets) == 0 && !c.agent {
		delete(t.clusters, cluster)
	}
}
