package mirror

import (
	"cmp"
	"hash/maphash"
	"maps"
	"slices"
	"strings"
	"time"
	"unique"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/pairstore"
)

// index is all records at one revision of etcd. Entries are replaced and never changed, and so are maps
// that a snapshot has, so a snapshot copies nothing. Mirror.mu guards it once it is visible.
type index struct {
	mark        int64
	heads       map[appcontext.HeadID]*appcontext.Head
	runs        map[appcontext.HeadID]map[appcontext.RunName]*appcontext.WorkflowRun
	heirs       map[v2.DeploymentID]appcontext.HeadID // the heads of deployments that a migration passed to them
	deployments map[v2.DeploymentID]Entries
	lent        map[v2.DeploymentID]bool        // a snapshot has the deployment's entries: the next change copies those of its app
	clusters    map[v2.ClusterKey][]ClusterPair // the same entries, in order of deployment and app
	lives       map[v2.ClusterKey]*LastSign     // by cluster
	tables      *pairstore.Tables
	shared      map[pairstore.TableID]map[pairstore.ReportSet]*Report // of reports that are stored together
	moved       []appcontext.PairKey                                  // the pairs whose state or report the last table changed
	broken      map[recordKey]bool                                    // records that could not be read
	names       names
}

type recordKey struct {
	space appcontext.Space
	head  appcontext.HeadID
	run   appcontext.RunName
	key   appcontext.PairKey
	shard string // of a table or a roster
}

func recordKeyOf(r appcontext.Record) recordKey {
	return recordKey{r.Space, r.HeadID, r.RunName, r.Key, r.Shard}
}

func newIndex() *index {
	return &index{
		heads: map[appcontext.HeadID]*appcontext.Head{}, runs: map[appcontext.HeadID]map[appcontext.RunName]*appcontext.WorkflowRun{}, heirs: map[v2.DeploymentID]appcontext.HeadID{}, deployments: map[v2.DeploymentID]Entries{},
		tables: pairstore.NewTables(), shared: map[pairstore.TableID]map[pairstore.ReportSet]*Report{},
		lent: map[v2.DeploymentID]bool{}, clusters: map[v2.ClusterKey][]ClusterPair{}, lives: map[v2.ClusterKey]*LastSign{},
		broken: map[recordKey]bool{}, names: names{},
	}
}

// apply applies one record; false if it is a report that repeats the one before. A record
// with neither content nor Gone could not be read.
func (x *index) apply(r appcontext.Record) (news bool) {
	key := recordKeyOf(r)
	delete(x.broken, key)
	switch {
	case r.Roster != nil:
		x.tables.SetRoster(*r.Roster)
	case r.Table != nil, r.Space == appcontext.TableSpace && r.Gone:
		x.setTable(r)
	case r.Reports != nil, r.Space == appcontext.ReportTableSpace && r.Gone:
		x.setReports(r)
	case r.Run != nil, r.Space == appcontext.HookSpace && r.Gone:
		x.setRun(r)
	case r.Space == appcontext.HeadSpace && r.Gone:
		x.setHead(r.HeadID, nil)
	case r.Head != nil:
		x.setHead(r.HeadID, r.Head)
	case r.Space == appcontext.AgentSpace:
		x.setAgent(r)
		return false
	case r.Gone, r.Pair != nil, r.Report != nil:
		return x.setPair(r)
	default:
		x.broken[key] = true
	}
	return true
}

// setHead replaces a head; nil if it is gone.
func (x *index) setHead(id appcontext.HeadID, h *appcontext.Head) {
	if old := x.heads[id]; old != nil && x.heirs[old.Inherited] == id {
		delete(x.heirs, old.Inherited)
	}
	if h == nil {
		delete(x.heads, id)
		return
	}
	x.heads[id] = h
	if h.Inherited != "" && h.Owns() {
		x.heirs[h.Inherited] = id
	}
}

// setRun replaces the last run of a workflow.
func (x *index) setRun(r appcontext.Record) {
	if r.Run == nil {
		if delete(x.runs[r.HeadID], r.RunName); len(x.runs[r.HeadID]) == 0 {
			delete(x.runs, r.HeadID)
		}
		return
	}
	if x.runs[r.HeadID] == nil {
		x.runs[r.HeadID] = map[appcontext.RunName]*appcontext.WorkflowRun{}
	}
	x.runs[r.HeadID][r.RunName] = r.Run
}

// setTable replaces the states of pairs that stand alike.
func (x *index) setTable(r appcontext.Record) {
	id := pairstore.TableID{Deployment: r.Key.Deployment, App: r.Key.App, Shard: r.Shard}
	x.moved = x.moved[:0]
	for m, err := range x.tables.Replace(id, r.Table) {
		if err != nil {
			x.broken[recordKeyOf(r)] = true
			continue
		}
		next := x.entry(m.Key)
		if m.To == nil && next.State != m.From {
			continue // the pair now has a record of its own
		}
		next.State = m.To
		x.setEntry(m.Key, next)
		x.moved = append(x.moved, m.Key)
	}
}

// setReports replaces the reports on pairs that are stored together.
func (x *index) setReports(r appcontext.Record) {
	id := pairstore.TableID{Deployment: r.Key.Deployment, App: r.Key.App, Shard: r.Shard}
	x.moved = x.moved[:0]
	for m, err := range x.tables.ReplaceReports(id, r.Reports) {
		next := x.entry(m.Key)
		if m.To == nil && (next.Report == nil || !next.Report.shared) {
			continue // the report now has a record of its own
		}
		next.Report = nil
		if m.To != nil && err == nil {
			next.Report, err = x.sharedReport(id, *m.To)
		}
		if err != nil {
			x.broken[recordKeyOf(r)] = true
			continue
		}
		x.setEntry(m.Key, next)
		x.moved = append(x.moved, m.Key)
	}
	sets := x.tables.ReportSets(id)
	maps.DeleteFunc(x.shared[id], func(s pairstore.ReportSet, _ *Report) bool { return !sets[s] })
	if len(x.shared[id]) == 0 {
		delete(x.shared, id)
	}
}

// sharedReport returns the one report of a set.
func (x *index) sharedReport(id pairstore.TableID, s pairstore.ReportSet) (*Report, error) {
	if r := x.shared[id][s]; r != nil {
		return r, nil
	}
	r, err := s.Report()
	if err != nil {
		return nil, err
	}
	out := compact(r)
	out.shared = true
	if x.shared[id] == nil {
		x.shared[id] = map[pairstore.ReportSet]*Report{}
	}
	x.shared[id][s] = out
	return out, nil
}

// setPair replaces the entry of a pair or report.
func (x *index) setPair(r appcontext.Record) (news bool) {
	next := x.entry(r.Key)
	before := next
	switch {
	case r.Space == appcontext.PairSpace && r.Pair != nil:
		next.State = pairstore.StateOf(*x.names.pair(r.Pair))
	case r.Space == appcontext.PairSpace:
		next.State = x.tables.Get(r.Key) // it now stands like others, or it is gone
	case r.Report != nil:
		next.Report = compact(*r.Report)
	case next.Report != nil && next.Report.shared: // the record has given way to a table
	default:
		next.Report = nil
	}
	x.setEntry(r.Key, next)
	return r.Space == appcontext.PairSpace || !next.Report.repeats(before.Report)
}

// entry returns a copy of the entry of a pair.
func (x *index) entry(k appcontext.PairKey) Entry {
	if e := x.deployments[k.Deployment].At(Pair{k.Cluster, k.App}); e != nil {
		return *e
	}
	return Entry{}
}

// setEntry replaces the entry of a pair; an empty one is dropped.
func (x *index) setEntry(k appcontext.PairKey, next Entry) {
	deployment, at := v2.DeploymentID(x.names.of(string(k.Deployment))), Pair{v2.ClusterKey(x.names.of(string(k.Cluster))), x.names.of(k.App)}
	list := x.clusters[at.Cluster]
	i, known := slices.BinarySearchFunc(list, k, func(p ClusterPair, k appcontext.PairKey) int {
		return cmp.Or(cmp.Compare(p.UID, k.Deployment), cmp.Compare(p.App, k.App))
	})
	if next.State == nil && next.Report == nil {
		if known {
			x.drop(deployment, at, i)
		}
		return
	}
	next.LastSign = x.life(at.Cluster)
	x.own(deployment).put(at, &next)
	if known {
		list[i].Entry = &next
	} else {
		x.clusters[at.Cluster] = slices.Insert(list, i, ClusterPair{deployment, at.App, &next})
	}
}

// own returns the entries of a deployment, to be changed.
func (x *index) own(deployment v2.DeploymentID) Entries {
	switch {
	case x.deployments[deployment] == nil:
		x.deployments[deployment] = Entries{}
	case x.lent[deployment]:
		x.deployments[deployment] = maps.Clone(x.deployments[deployment])
	}
	delete(x.lent, deployment)
	return x.deployments[deployment]
}

// drop removes an entry, which is the i-th of its cluster.
func (x *index) drop(deployment v2.DeploymentID, at Pair, i int) {
	if x.own(deployment).remove(at); len(x.deployments[deployment]) == 0 {
		delete(x.deployments, deployment)
	}
	list := slices.Delete(x.clusters[at.Cluster], i, i+1)
	if x.clusters[at.Cluster] = list; len(list) == 0 {
		delete(x.clusters, at.Cluster)
	}
}

// setAgent replaces the sign of life of a cluster.
func (x *index) setAgent(r appcontext.Record) {
	x.life(r.Key.Cluster).set(r.Agent)
	if r.Agent == nil && len(x.clusters[r.Key.Cluster]) == 0 {
		delete(x.lives, r.Key.Cluster)
	}
}

// markAll marks all clusters whose agents have reported.
func (x *index) markAll(l *agentListener) {
	for cluster := range x.lives {
		l.mark(cluster)
	}
}

func (x *index) life(cluster v2.ClusterKey) *LastSign {
	l := x.lives[cluster]
	if l == nil {
		l = new(LastSign)
		x.lives[v2.ClusterKey(x.names.of(string(cluster)))] = l
	}
	return l
}

// touched returns the deployments that have an entry on a cluster.
func (x *index) touched(cluster v2.ClusterKey) map[v2.DeploymentID]bool {
	out := map[v2.DeploymentID]bool{}
	for _, p := range x.clusters[cluster] {
		out[p.UID] = true
	}
	return out
}

// snapshot returns the entries of a head's deployment; false if a record of it could not be read.
func (x *index) snapshot(id appcontext.HeadID) (Snapshot, bool) {
	s, deployment := Snapshot{Head: x.heads[id], At: x.mark}, id.Deployment()
	if s.Head != nil {
		deployment = s.Head.Deployment()
	}
	for k := range x.broken {
		if k.head == id || k.key.Deployment == deployment {
			return s, false
		}
	}
	if s.Pairs = x.deployments[deployment]; s.Pairs != nil && !x.lent[deployment] {
		x.lent[deployment] = true
		s.Pairs.lend()
	}
	for _, name := range slices.Sorted(maps.Keys(x.runs[id])) {
		s.Runs = append(s.Runs, *x.runs[id][name])
	}
	return s, true
}

// names interns strings. It is cleared when it is full, so that it does not grow with what
// was removed.
type names map[string]string

const maxNames = 1 << 16

func (n names) of(s string) string {
	if known, ok := n[s]; ok {
		return known
	}
	if len(n) >= maxNames {
		clear(n)
	}
	s = strings.Clone(s) // it may be a part of a large text
	n[s] = s
	return s
}

func (n names) digest(d appcontext.Digest) appcontext.Digest {
	return appcontext.Digest(n.of(string(d)))
}

// pair returns p with its strings kept once.
func (n names) pair(p *appcontext.Pair) *appcontext.Pair {
	p.Key = appcontext.PairKey{Cluster: v2.ClusterKey(n.of(string(p.Key.Cluster))), Deployment: v2.DeploymentID(n.of(string(p.Key.Deployment))), App: n.of(p.Key.App)}
	p.Desired, p.Applied, p.Commit = n.digest(p.Desired), n.digest(p.Applied), n.of(p.Commit)
	p.Phase, p.Change = appcontext.Phase(n.of(string(p.Phase))), appcontext.Change(n.of(string(p.Change)))
	p.Held = slices.Clone(p.Held)
	for i, d := range p.Held {
		p.Held[i] = n.digest(d)
	}
	return p
}

// Status is what a cluster reported on one object. Equal statuses are stored once, however
// many clusters report them.
type Status = unique.Handle[appcontext.ResourceStatus]

// Report is what a cluster reported on one app, in less space.
type Report struct {
	Objects   []Status // those that are in bundles
	Extras    []Status // other objects of the app, such as Pods
	Sum       uint64   // equal for equal Objects, and for hardly any others
	Truncated int      // objects that the report leaves out because there were too many
	At        time.Time
	Seq       uint64
	Commit    string
	Proof     appcontext.Proof
	Ready     bool
	Since     time.Time

	shared bool // it comes from a table: clusters that report the same have one
}

// repeats reports whether r differs from old by its time alone.
func (r *Report) repeats(old *Report) bool {
	if r == nil || old == nil {
		return r == old
	}
	return slices.Equal(r.Objects, old.Objects) && slices.Equal(r.Extras, old.Extras) &&
		r.Truncated == old.Truncated && r.Commit == old.Commit && r.Proof == old.Proof && r.Ready == old.Ready && r.Since.Equal(old.Since)
}

// Bounds of one report in memory.
const (
	maxObjects = 5000
	maxExtras  = 200
	maxReason  = 256
)

var seed = maphash.MakeSeed()

// compact returns a report in the form that is kept in memory.
func compact(r appcontext.Report) *Report {
	out := &Report{Truncated: r.Truncated, At: r.At, Seq: r.Seq, Commit: r.Commit, Proof: r.Proof, Ready: r.Ready, Since: r.Since}
	var h maphash.Hash
	h.SetSeed(seed)
	for _, s := range r.Resources {
		s.Reason = short(s.Reason)
		to, limit := &out.Objects, maxObjects
		if s.Extra {
			to, limit = &out.Extras, maxExtras
		}
		if len(*to) == limit {
			out.Truncated++
			continue
		}
		handle := unique.Make(s)
		*to = append(*to, handle)
		if !s.Extra {
			maphash.WriteComparable(&h, handle)
		}
	}
	out.Sum, out.Objects, out.Extras = h.Sum64(), slices.Clip(out.Objects), slices.Clip(out.Extras)
	return out
}

func short(reason string) string {
	if len(reason) <= maxReason {
		return reason
	}
	return strings.ToValidUTF8(reason[:maxReason], "") + "…"
}
