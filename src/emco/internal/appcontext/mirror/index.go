package mirror

import (
	"hash/maphash"
	"maps"
	"slices"
	"strings"
	"time"
	"unique"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
)

// index is everything at one revision of etcd. Entries are replaced and never changed,
// so that a snapshot needs to copy no more than pointers to them.
type index struct {
	mark        int64
	heads       map[string]*appcontext.Head
	deployments map[string]map[Place]*Entry
	clusters    map[string]map[onCluster]*Entry // the same entries
	lives       map[string]*Life                // by cluster
	broken      map[recordKey]bool              // records that could not be read
	names       names
}

type onCluster struct{ uid, app string }

type recordKey struct {
	space appcontext.Space
	key   appcontext.PairKey
}

func newIndex() *index {
	return &index{
		heads: map[string]*appcontext.Head{}, deployments: map[string]map[Place]*Entry{},
		clusters: map[string]map[onCluster]*Entry{}, lives: map[string]*Life{},
		broken: map[recordKey]bool{}, names: names{},
	}
}

// apply takes one record in; false if it is a report that says what the one before said.
// A record that is neither written nor gone could not be read.
func (x *index) apply(r appcontext.Record) (news bool) {
	key := recordKey{r.Space, r.Key}
	delete(x.broken, key)
	switch {
	case r.Space == appcontext.HeadSpace && r.Gone:
		delete(x.heads, r.Key.UID)
	case r.Head != nil:
		x.heads[r.Key.UID] = r.Head
	case r.Space == appcontext.AgentSpace:
		x.hear(r)
		return false
	case r.Gone, r.Pair != nil, r.Report != nil:
		return x.place(r)
	default:
		x.broken[key] = true
	}
	return true
}

// place replaces the entry of a pair or report.
func (x *index) place(r appcontext.Record) (news bool) {
	uid, at := x.names.of(r.Key.UID), Place{x.names.of(r.Key.Cluster), x.names.of(r.Key.App)}
	next := Entry{}
	if old := x.deployments[uid][at]; old != nil {
		next = *old
	}
	before := next
	if r.Space == appcontext.PairSpace {
		next.Pair = x.names.pair(r.Pair)
	} else {
		next.Report = nil
		if r.Report != nil {
			next.Report = compact(*r.Report)
		}
	}
	if next.Pair == nil && next.Report == nil {
		drop(x.deployments, uid, at)
		drop(x.clusters, at.Cluster, onCluster{uid, at.App})
		return true
	}
	next.Life = x.life(at.Cluster)
	keep(x.deployments, uid, at, &next)
	keep(x.clusters, at.Cluster, onCluster{uid, at.App}, &next)
	return r.Space == appcontext.PairSpace || !next.Report.repeats(before.Report)
}

// hear notes what an agent last said.
func (x *index) hear(r appcontext.Record) {
	x.life(r.Key.Cluster).set(r.Agent)
	if r.Agent == nil && len(x.clusters[r.Key.Cluster]) == 0 {
		delete(x.lives, r.Key.Cluster)
	}
}

// markAll marks all clusters of which an agent has said something.
func (x *index) markAll(l *listener) {
	for cluster := range x.lives {
		l.mark(cluster)
	}
}

func (x *index) life(cluster string) *Life {
	l := x.lives[cluster]
	if l == nil {
		l = new(Life)
		x.lives[x.names.of(cluster)] = l
	}
	return l
}

// touched are the deployments that have something on a cluster.
func (x *index) touched(cluster string) map[string]bool {
	out := map[string]bool{}
	for at := range x.clusters[cluster] {
		out[at.uid] = true
	}
	return out
}

func keep[K comparable](in map[string]map[K]*Entry, name string, at K, e *Entry) {
	if in[name] == nil {
		in[name] = map[K]*Entry{}
	}
	in[name][at] = e
}

func drop[K comparable](in map[string]map[K]*Entry, name string, at K) {
	if delete(in[name], at); len(in[name]) == 0 {
		delete(in, name)
	}
}

// snapshot copies what there is; false if a part of it could not be read.
func (x *index) snapshot(uid string) (Snapshot, bool) {
	s, deployment := Snapshot{Head: x.heads[uid]}, uid
	if s.Head != nil {
		deployment = s.Head.Deployment()
	}
	for k := range x.broken {
		if k.key.UID == uid || k.key.UID == deployment {
			return s, false
		}
	}
	s.Places = maps.Clone(x.deployments[deployment])
	return s, true
}

// names keeps equal strings once. It forgets what it knows now and then, so that it
// does not grow with what is gone.
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

// pair returns p with its strings kept once; nil for nil.
func (n names) pair(p *appcontext.Pair) *appcontext.Pair {
	if p == nil {
		return nil
	}
	p.Key = appcontext.PairKey{Cluster: n.of(p.Key.Cluster), UID: n.of(p.Key.UID), App: n.of(p.Key.App)}
	p.Desired, p.Applied, p.Commit = n.digest(p.Desired), n.digest(p.Applied), n.of(p.Commit)
	p.Phase, p.Change = appcontext.Phase(n.of(string(p.Phase))), appcontext.Change(n.of(string(p.Change)))
	p.Held = slices.Clone(p.Held)
	for i, d := range p.Held {
		p.Held[i] = n.digest(d)
	}
	return p
}

// Status is what a cluster said of one object. Equal statuses are kept once, however
// many clusters say the same.
type Status = unique.Handle[appcontext.ResourceStatus]

// Report is what a cluster said of one app, in less space.
type Report struct {
	Objects   []Status // those that are in bundles
	Extras    []Status // others, that belong to the app: Pods, say
	Sum       uint64   // equal for equal Objects, and for hardly any others
	Truncated int      // objects that the report says nothing of because there were too many
	At        time.Time
	Seq       uint64
	Commit    string
	Ready     bool
	Since     time.Time
}

// repeats reports whether r says no more than what old said, at another time.
func (r *Report) repeats(old *Report) bool {
	if r == nil || old == nil {
		return r == old
	}
	return slices.Equal(r.Objects, old.Objects) && slices.Equal(r.Extras, old.Extras) &&
		r.Truncated == old.Truncated && r.Commit == old.Commit && r.Ready == old.Ready && r.Since.Equal(old.Since)
}

// Bounds of what is kept of one report, whatever an agent sends.
const (
	maxObjects = 5000
	maxExtras  = 200
	maxReason  = 256
)

var seed = maphash.MakeSeed()

// compact returns a report in the form in which it is kept.
func compact(r appcontext.Report) *Report {
	out := &Report{Truncated: r.Truncated, At: r.At, Seq: r.Seq, Commit: r.Commit, Ready: r.Ready, Since: r.Since}
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
