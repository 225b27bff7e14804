package rsync

import (
	"slices"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
)

// wish is what a deployment's head asks for: bundles by cluster and app. A head
// that is gone wishes for nothing.
type wish struct {
	uid     string
	subject string // key of the document that the deployment belongs to
	rev     int64
	places  map[string]map[string]appcontext.Digest
}

// intend compares a wish with the pairs that the deployment has and returns those
// that must change, ready to be written. Pairs that hold what is wished for are left
// alone; those that failed are made due at once, since a new wish is a reason to
// try again. The order of the result is stable.
func intend(w wish, have []appcontext.Pair, now time.Time) []appcontext.Pair {
	var out []appcontext.Pair
	known := make(map[appcontext.PairKey]appcontext.Pair, len(have))
	for _, p := range have {
		known[p.Key] = p
		if _, wished := w.places[p.Key.Cluster][p.Key.App]; !wished {
			out = append(out, want(p, "", w.rev, now))
		}
	}
	for cluster, apps := range w.places {
		for app, bundle := range apps {
			key := appcontext.PairKey{Cluster: cluster, UID: w.uid, App: app}
			p := known[key]
			p.Key = key
			if p.Desired != bundle || p.Phase != appcontext.Applied {
				out = append(out, want(p, bundle, w.rev, now))
			}
		}
	}
	slices.SortFunc(out, byKey)
	return out
}

// want returns the pair with a new desired bundle, due now. Held keeps all that may
// be on the cluster already.
func want(p appcontext.Pair, bundle appcontext.Digest, rev int64, now time.Time) appcontext.Pair {
	p.Desired, p.Rev, p.At = bundle, rev, now
	p.Attempt, p.Error, p.NextRetry = 0, "", time.Time{}
	p.Phase = appcontext.Deleting
	if bundle != "" {
		p.Phase = appcontext.Pending
		p.Held = held(p.Held, bundle)
	}
	return p
}

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
	commit   string
	findings []string
	err      error
}

// settle writes proof into a pair. It returns false if the pair is to be
// forgotten, because nothing of it is left. When the wish changed meanwhile the pair
// stays due, and keeps note of what may be on the cluster.
func settle(p appcontext.Pair, o outcome, now time.Time) (appcontext.Pair, bool) {
	p.At = now
	p.Attempt, p.Error, p.NextRetry = 0, "", time.Time{}
	p.Applied, p.Commit, p.Findings = o.bundle, o.commit, o.findings
	if p.Desired != o.bundle {
		return p, true
	}
	if o.bundle == "" {
		return p, false
	}
	p.Held, p.Phase = []appcontext.Digest{o.bundle}, appcontext.Applied
	return p, true
}

func byKey(a, b appcontext.Pair) int {
	return slices.Compare([]string{a.Key.Cluster, a.Key.UID, a.Key.App}, []string{b.Key.Cluster, b.Key.UID, b.Key.App})
}
