package orchestrator

import (
	"context"
	"slices"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
)

// situation is what is known of a deployment at one moment: what is wanted, and
// where each pair stands.
type situation struct {
	head  appcontext.Head
	rev   appcontext.Revision // the revision that is wanted, or the last one if nothing is
	wants []appcontext.Placement
	pairs map[appcontext.PairKey]appcontext.Pair
	leave []appcontext.Pair // of a later revision: what an earlier one has left and this one does not want
}

// situation reads it, with one read for the revision, one a chunk of placements, and
// one for every 128 pairs.
func (g *Groups) situation(ctx context.Context, head appcontext.Head) (situation, error) {
	s := situation{head: head}
	if head.Rev == 0 {
		return s, nil
	}
	rev, err := g.contexts.Revision(ctx, head.UID, head.Rev)
	if err != nil {
		return s, err
	}
	s.rev = rev
	for p, err := range g.contexts.Placements(ctx, head.UID, head.Rev) {
		if err != nil {
			return s, err
		}
		s.wants = append(s.wants, p)
	}
	s.pairs, err = g.pairsAt(ctx, keysOf(head.UID, s.wants))
	s.outdate()
	if err == nil && head.Rev > 1 && !head.Gone {
		s.leave, err = g.leaving(ctx, s)
	}
	return s, err
}

// leaving returns the pairs that an update has taken away and that are still there.
func (g *Groups) leaving(ctx context.Context, s situation) ([]appcontext.Pair, error) {
	left, err := g.contexts.Remains(ctx, s.head.UID)
	return slices.DeleteFunc(left, func(p appcontext.Pair) bool {
		_, wanted := s.pairs[p.Key]
		return wanted
	}), err
}

// outdate makes pairs pending that were last worked on for an older revision, unless
// they hold what this one wants: their phases and errors say nothing of it.
func (s situation) outdate() {
	if s.head.Gone {
		return
	}
	for _, place := range s.wants {
		for app, bundle := range place.Apps {
			key := appcontext.PairKey{Cluster: place.Cluster, UID: s.head.UID, App: app}
			p, known := s.pairs[key]
			if known && p.Rev < s.head.Rev && (p.Phase != appcontext.Applied || p.Applied != bundle) {
				p.Phase, p.Error = appcontext.Pending, ""
				s.pairs[key] = p
			}
		}
	}
}

func (g *Groups) pairsAt(ctx context.Context, keys []appcontext.PairKey) (map[appcontext.PairKey]appcontext.Pair, error) {
	pairs, err := g.contexts.PairsAt(ctx, keys)
	return byKey(pairs), err
}

func byKey(pairs []appcontext.Pair) map[appcontext.PairKey]appcontext.Pair {
	out := make(map[appcontext.PairKey]appcontext.Pair, len(pairs))
	for _, p := range pairs {
		out[p.Key] = p
	}
	return out
}

func keysOf(uid string, places []appcontext.Placement) []appcontext.PairKey {
	var out []appcontext.PairKey
	for _, p := range places {
		for app := range p.Apps {
			out = append(out, appcontext.PairKey{Cluster: p.Cluster, UID: uid, App: app})
		}
	}
	return out
}

// deployed is EMCO's deployedStatus. Instantiated means that there is proof for every
// pair; it is InstantiateFailed only when nothing is left to wait for.
func (s situation) deployed() string {
	switch {
	case s.head.Op != nil:
		return v2.StatusInstantiating
	case s.head.Failure != "":
		return v2.StatusInstantiateFailed
	case s.head.Gone:
		return s.terminating()
	case s.head.Rev == 0:
		return ""
	}
	return s.instantiating()
}

func (s situation) instantiating() string {
	failed := slices.ContainsFunc(s.rev.Apps, func(a appcontext.App) bool { return a.Failure != nil })
	for _, k := range keysOf(s.head.UID, s.wants) {
		switch s.pairs[k].Phase {
		case appcontext.Applied:
		case appcontext.Failed:
			failed = true
		default:
			return v2.StatusInstantiating
		}
	}
	for _, p := range s.leave {
		if p.Phase != appcontext.Failed || p.Desired != "" {
			return v2.StatusInstantiating
		}
		failed = true
	}
	if failed {
		return v2.StatusInstantiateFailed
	}
	return v2.StatusInstantiated
}

// terminating needs all pairs that are left in s.pairs. One that failed while it was
// still wanted has not failed to be removed.
func (s situation) terminating() string {
	if len(s.pairs) == 0 {
		return v2.StatusTerminated
	}
	for _, p := range s.pairs {
		if p.Phase != appcontext.Failed || p.Desired != "" {
			return v2.StatusTerminating
		}
	}
	return v2.StatusTerminateFailed
}
