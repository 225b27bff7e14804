package pair

import (
	"slices"
	"time"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
)

// Desired is what a deployment's head wants of a shard: bundles by cluster and app. If the
// head is deleted, or its deployment terminated, it wants nothing.
type Desired struct {
	Deployment v2.DeploymentID // the id that pairs carry
	Head       appcontext.HeadID
	Trace      string // span of the action that asked for it, see tracing.Parent; "" for none
	Subject    string // key of the document that the deployment belongs to
	Rev        int64
	Rollback   bool
	Handovers  int64     // of the pairs.Store when this was worked out
	At         time.Time // of the change, the same for all its parts, so that equal pairs share a value; zero: when it is written
	Removed    bool
	Again      bool   // a user asked for the removal once more: hooks that failed run again
	Namespace  string // of the logical cloud
	Cloud      appcontext.Cloud
	Apps       []appcontext.App // of the revision; their order also holds for a removal
	Places     map[v2.ClusterKey]map[string]appcontext.Digest
	Elsewhere  map[v2.ClusterKey]map[string]appcontext.Digest // what other shards must hold, if pairs wait for each other
	Promoted   appcontext.Promotion
	Labelled   map[string]map[v2.ClusterKey]bool // by label that waves name: the clusters that have it

	// Scope limits Desired to some of the shard's clusters; what is on others stays as it
	// is. Nil is no limit.
	Scope map[v2.ClusterKey]bool

	Registrations map[v2.ClusterKey]string // ids of the registrations of the clusters in Places
}

// Diff compares what is desired with the pairs that the deployment has, and returns those
// that must change, as they must be written. Pairs that hold what is desired are left
// alone. Failed pairs become due at once: a change is a reason to try again. The result is
// in order.
func Diff(w Desired, have []appcontext.Pair, now time.Time) []appcontext.Pair {
	return DiffUnsettled(w, have, func(appcontext.PairKey) bool { return false }, now)
}

// DiffUnsettled is Diff for a caller that knows which pairs hold what is desired. have needs no such pairs, and
// held must return true for each pair that is left out of have.
func DiffUnsettled(w Desired, have []appcontext.Pair, held func(appcontext.PairKey) bool, now time.Time) []appcontext.Pair {
	differ := w.differences(have, held)
	slices.SortFunc(differ, func(a, b difference) int { return compareKeys(a.key, b.key) })
	out := slices.Grow([]appcontext.Pair(nil), len(differ)) // pairs are large, and there may be many
	for _, d := range differ {
		out = append(out, w.Retarget(d.pair(w), d.bundle, now))
	}
	return out
}

// difference is a pair that must change.
type difference struct {
	key    appcontext.PairKey
	old    *appcontext.Pair  // nil: there is none
	bundle appcontext.Digest // that is desired; "": the pair must go
}

// pair returns the pair as it is now; one that stays relates to the registration of its cluster.
func (d difference) pair(w Desired) appcontext.Pair {
	p := appcontext.Pair{Key: d.key}
	if d.old != nil {
		p = *d.old
	}
	if d.bundle == "" {
		return p
	}
	return w.withRegistration(p)
}

// differences returns the pairs that must change, in no order.
func (w Desired) differences(have []appcontext.Pair, held func(appcontext.PairKey) bool) (out []difference) {
	most := len(have)
	for _, apps := range w.Places {
		most += len(apps)
	}
	out = slices.Grow(out, most)
	known := make(map[appcontext.PairKey]*appcontext.Pair, len(have))
	for i := range have {
		p := &have[i]
		known[p.Key] = p
		if _, wanted := w.Places[p.Key.Cluster][p.Key.App]; !wanted {
			out = append(out, difference{key: p.Key, old: p})
		}
	}
	for cluster, apps := range w.Places {
		for app, bundle := range apps {
			key := appcontext.PairKey{Cluster: cluster, Deployment: w.Deployment, App: app}
			d := difference{key, known[key], bundle}
			if d.old == nil && held(key) {
				continue
			}
			if p := d.pair(w); p.Desired != bundle || p.Phase != appcontext.Applied {
				out = append(out, d)
			}
		}
	}
	return out
}

// Holds reports whether a pair holds what is desired, on the cluster as it is registered now. The pair
// may lack its Key and Registration.
func (w Desired) Holds(k appcontext.PairKey, registration string, p *appcontext.Pair) bool {
	bundle, wanted := w.Places[k.Cluster][k.App]
	now := w.Registrations[k.Cluster]
	return wanted && p.Desired == bundle && p.Phase == appcontext.Applied && (now == "" || registration == "" || registration == now)
}

// Retarget returns a pair on its way to a bundle, due now. A change to the same bundle for
// the same revision continues where it was; a removal that a failed hook halted starts from
// its first step if a user asks for it again. Held keeps all that may be on the cluster.
func (w Desired) Retarget(p appcontext.Pair, bundle appcontext.Digest, now time.Time) appcontext.Pair {
	if p.Change != "" && p.Rev == w.Rev && p.Desired == bundle && !(w.Again && p.Halted) {
		return resumed(p)
	}
	p.Desired, p.Rev, p.At = bundle, w.Rev, now
	p.Change, p.From = changeFor(bundle, p.Applied, w.Rollback), p.Applied
	p.Step, p.Sent, p.Halted = 0, false, false
	if bundle != "" {
		p.Held = addHeld(p.Held, bundle)
	}
	return Reset(p)
}

// changeFor returns the kind of the change to a bundle from the one that is applied.
func changeFor(bundle, applied appcontext.Digest, rollback bool) appcontext.Change {
	switch {
	case bundle == "":
		return appcontext.Remove
	case applied == "":
		return appcontext.Install
	case rollback:
		return appcontext.RollBack
	}
	return appcontext.Upgrade
}

// resumed returns a pair that continues its change. One whose hook failed waits for another
// revision; one that waits for other pairs or for a report goes on waiting.
func resumed(p appcontext.Pair) appcontext.Pair {
	switch {
	case p.Halted:
		return p
	case p.Blocked != "" && p.Blocked != Stopped:
		return p
	}
	return Reset(p)
}
