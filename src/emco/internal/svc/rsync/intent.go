package rsync

import (
	"slices"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
)

// stopped is why a pair does not go on after its deployment was stopped.
const stopped = "stopped"

// wish is what a deployment's head asks for: bundles by cluster and app. A head
// that is gone wishes for nothing.
type wish struct {
	uid       string // the deployment's id, as pairs have it
	head      string // uid of the head
	subject   string // key of the document that the deployment belongs to
	rev       int64
	rollback  bool
	claim     bool  // also what is nobody's
	hands     int64 // how often pairs had changed hands when it was worked out
	gone      bool
	namespace string // of the logical cloud
	cloud     appcontext.Cloud
	apps      []appcontext.App // of the revision, also of one that is not wished for any more: their order holds
	places    map[string]map[string]appcontext.Digest
	abroad    map[string]map[string]appcontext.Digest // places that are other shards', if there is an order

	// only are the clusters that the wish speaks of, if it speaks of some of this shard's
	// only: what is on others stays as it is.
	only map[string]bool

	registered map[string]string // id of the registration of each cluster of places, where there is one
}

// intend compares a wish with the pairs that the deployment has and returns those
// that are not there yet, as they shall be written. Pairs that hold what is wished for
// are left alone; those that failed are made due at once, since a new wish is a reason
// to try again. The order of the result is stable.
func intend(w wish, have []appcontext.Pair, now time.Time) []appcontext.Pair {
	var out []appcontext.Pair
	known := make(map[appcontext.PairKey]appcontext.Pair, len(have))
	for _, p := range have {
		known[p.Key] = p
		if _, wished := w.places[p.Key.Cluster][p.Key.App]; !wished {
			out = append(out, w.want(p, "", now))
		}
	}
	for cluster, apps := range w.places {
		for app, bundle := range apps {
			key := appcontext.PairKey{Cluster: cluster, UID: w.uid, App: app}
			p := known[key]
			p.Key = key
			p = w.recognise(p)
			if p.Desired != bundle || p.Phase != appcontext.Applied {
				out = append(out, w.want(p, bundle, now))
			}
		}
	}
	slices.SortFunc(out, byKey)
	return out
}

// want returns the pair on its way to a bundle, due now. A way to the same bundle for
// the same revision goes on where it was. Held keeps all that may be on the cluster
// already.
func (w wish) want(p appcontext.Pair, bundle appcontext.Digest, now time.Time) appcontext.Pair {
	if p.Change != "" && p.Rev == w.rev && p.Desired == bundle {
		return resume(p)
	}
	p.Desired, p.Rev, p.At = bundle, w.rev, now
	p.Change, p.From = changeTo(bundle, p.Applied, w.rollback), p.Applied
	p.Step, p.Sent, p.Halted = 0, false, false
	if bundle != "" {
		p.Held = held(p.Held, bundle)
	}
	return renew(p)
}

// changeTo says what the way to a bundle is to an app of which another one runs.
func changeTo(bundle, applied appcontext.Digest, rollback bool) appcontext.Change {
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

// resume makes a pair go on with its way. One whose hook failed waits for another
// revision, one that waits for its turn or for a report goes on waiting.
func resume(p appcontext.Pair) appcontext.Pair {
	switch {
	case p.Halted:
		return p
	case p.Blocked != "" && p.Blocked != stopped:
		return p
	}
	return renew(p)
}

// renew makes a pair due, as if it had never failed.
func renew(p appcontext.Pair) appcontext.Pair {
	p.Attempt, p.Error, p.Reason, p.NextRetry, p.Blocked = 0, "", "", time.Time{}, ""
	p.Phase = underway(p)
	return p
}

// underway is the phase of a pair whose way goes on.
func underway(p appcontext.Pair) appcontext.Phase {
	if p.Desired == "" {
		return appcontext.Deleting
	}
	return appcontext.Pending
}

// open reports whether sinks have to do something for a pair.
func open(p appcontext.Pair) bool {
	return p.Phase != appcontext.Applied && !p.Sent && p.Blocked == ""
}

// begun reports whether a sink may have done anything on a pair's way.
func begun(p appcontext.Pair) bool { return p.Step > 0 || p.Sent }

// held adds a bundle to those that may be on the cluster.
func held(have []appcontext.Digest, bundle appcontext.Digest) []appcontext.Digest {
	if slices.Contains(have, bundle) {
		return have
	}
	return append(slices.Clone(have), bundle)
}

// outcome is what a sink says of one pair: the bundle that was worked on (empty for
// a removal), and either proof or an error.
type outcome struct {
	key      appcontext.PairKey
	bundle   appcontext.Digest
	rev      int64 // for which the bundle was wished
	step     int   // of the way to it
	mid      bool  // it was not the last step
	main     bool  // of a way with several steps: it was the one that brings or removes the app itself
	commit   string
	apps     []string // of the target: all that have files after this, for the cluster's platform
	findings []string
	err      error
}

// settle writes proof into a pair. It returns false if the pair is to be
// forgotten, because nothing of it is left. When the wish changed meanwhile the pair
// stays due, and keeps note of what may be on the cluster.
func settle(p appcontext.Pair, o outcome, now time.Time) (appcontext.Pair, bool) {
	p.At = now
	if !o.mid || o.main {
		p.Applied = o.bundle
	}
	p.Commit, p.Edit = o.commit, overwritten(p.Edit, o.commit)
	switch {
	case p.Desired != o.bundle || o.mid && (p.Change == "" || p.Rev != o.rev || p.Step != o.step):
		p.Findings = o.findings
		return overtaken(p), true
	case o.mid:
		return sent(p, o), true
	case o.bundle == "":
		return p, false
	}
	p = renew(p)
	p.Findings = findings(p, o)
	p.Held, p.Phase = []appcontext.Digest{o.bundle}, appcontext.Applied
	p.Change, p.From, p.Step, p.Sent, p.Halted = "", "", 0, false, false
	return p, true
}

// overtaken renews a pair of which something else was delivered than it is to hold by
// now: a way that has not begun begins from there.
func overtaken(p appcontext.Pair) appcontext.Pair {
	blocked := p.Blocked
	if p.Change != "" && !begun(p) {
		p.Change, p.From = changeTo(p.Desired, p.Applied, p.Change == appcontext.RollBack), p.Applied
	}
	if !p.Halted {
		p = renew(p)
	}
	p.Blocked = blocked
	return p
}

// sent notes that a step was delivered and that what the next one needs is awaited.
func sent(p appcontext.Pair, o outcome) appcontext.Pair {
	p.Findings = findings(p, o)
	if !p.Halted {
		p = renew(p)
	}
	p.Sent, p.NextRetry, p.Attempt = true, time.Time{}, 0
	return p
}

// findings are those of the steps so far.
func findings(p appcontext.Pair, o outcome) []string {
	if o.step == 0 {
		return o.findings
	}
	out := slices.Clone(p.Findings)
	for _, f := range o.findings {
		if !slices.Contains(out, f) {
			out = append(out, f)
		}
	}
	return out
}

func byKey(a, b appcontext.Pair) int {
	return slices.Compare([]string{a.Key.Cluster, a.Key.UID, a.Key.App}, []string{b.Key.Cluster, b.Key.UID, b.Key.App})
}
