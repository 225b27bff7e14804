package pair

import (
	"slices"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
)

// desired is what a deployment's head asks for: bundles by cluster and app. A head
// that is gone wishes for nothing.
type Desired struct {
	Deployment string // the deployment's id, as pairs have it
	Head       string // uid of the head
	Subject    string // key of the document that the deployment belongs to
	Rev        int64
	Rollback   bool
	Claim      bool  // also what is nobody's
	Handovers  int64 // how often pairs had changed hands when it was worked out
	Removed    bool
	Namespace  string // of the logical cloud
	Cloud      appcontext.Cloud
	Apps       []appcontext.App // of the revision, also of one that is not wished for any more: their order holds
	Places     map[string]map[string]appcontext.Digest
	Elsewhere  map[string]map[string]appcontext.Digest // places that are other shards', if there is an order

	// only are the clusters that the wish speaks of, if it speaks of some of this shard's
	// only: what is on others stays as it is.
	Scope map[string]bool

	Registrations map[string]string // id of the registration of each cluster of places, where there is one
}

// diff compares a wish with the pairs that the deployment has and returns those
// that are not there yet, as they shall be written. Pairs that hold what is wished for
// are left alone; those that failed are made due at once, since a new wish is a reason
// to try again. The order of the result is stable.
func Diff(w Desired, have []appcontext.Pair, now time.Time) []appcontext.Pair {
	var out []appcontext.Pair
	known := make(map[appcontext.PairKey]appcontext.Pair, len(have))
	for _, p := range have {
		known[p.Key] = p
		if _, wished := w.Places[p.Key.Cluster][p.Key.App]; !wished {
			out = append(out, w.Retarget(p, "", now))
		}
	}
	for cluster, apps := range w.Places {
		for app, bundle := range apps {
			key := appcontext.PairKey{Cluster: cluster, UID: w.Deployment, App: app}
			p := known[key]
			p.Key = key
			p = w.identify(p)
			if p.Desired != bundle || p.Phase != appcontext.Applied {
				out = append(out, w.Retarget(p, bundle, now))
			}
		}
	}
	slices.SortFunc(out, CompareKeys)
	return out
}

// retarget returns the pair on its way to a bundle, due now. A way to the same bundle for
// the same revision goes on where it was. Held keeps all that may be on the cluster
// already.
func (w Desired) Retarget(p appcontext.Pair, bundle appcontext.Digest, now time.Time) appcontext.Pair {
	if p.Change != "" && p.Rev == w.Rev && p.Desired == bundle {
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

// changeFor says what the way to a bundle is to an app of which another one runs.
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

// resumed makes a pair go on with its way. One whose hook failed waits for another
// revision, one that waits for its turn or for a report goes on waiting.
func resumed(p appcontext.Pair) appcontext.Pair {
	switch {
	case p.Halted:
		return p
	case p.Blocked != "" && p.Blocked != Stopped:
		return p
	}
	return Reset(p)
}
