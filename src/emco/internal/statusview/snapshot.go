package statusview

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/mirror"
)

// Snapshot is what is known of a deployment at one moment: what a revision wants, and
// where each app stands on each cluster.
type Snapshot struct {
	Head appcontext.Head
	Rev  appcontext.Revision // the one that is wanted, the last one if nothing is, or the one that was asked for

	past    bool // Rev is not the last one
	apps    []appPlaces
	left    []appcontext.Pair // in order: what is there and Rev does not want; all pairs if nothing is wanted
	bundles map[appcontext.Digest]appcontext.Bundle
}

// appPlaces is one app of the revision with the places that it has there, by cluster.
type appPlaces struct {
	appcontext.App
	places []placeStatus
}

// placeStatus is one app on one cluster.
type placeStatus struct {
	cluster    string
	bundle     appcontext.Digest // that is wanted
	pair       *appcontext.Pair  // nil: rsync does not know of it yet, or it is gone
	report     *mirror.Report    // nil: the cluster has said nothing
	reportedAt time.Time         // when it last said what the report says
	state      string            // in EMCO's words, see Situation.state
	past       []objectState     // instead of it, of each object, if the revision is not the last one

	reading reading      // what report comes to now
	ready   *classStatus // what is shown of that, and what it amounts to
}

// Snapshot reads the situation of a deployment by the id of its head; the zero
// Situation if there is no head.
func (r *Reader) Snapshot(ctx context.Context, uid string) (Snapshot, error) {
	snap, err := r.mirror.Snapshot(ctx, uid)
	if err != nil || snap.Head == nil {
		return Snapshot{}, err
	}
	return r.snapshotAt(ctx, snap, snap.Head.Rev)
}

// snapshotAt is that of revision rev. It costs one read for the revision, and one for
// every few thousand placements.
func (r *Reader) snapshotAt(ctx context.Context, snap mirror.Snapshot, rev int64) (Snapshot, error) {
	s := Snapshot{Head: *snap.Head, past: rev != snap.Head.Rev}
	wants := map[string][]placeStatus{}
	if rev > 0 {
		var err error
		if s.Rev, wants, err = r.desiredPlaces(ctx, snap, rev); err != nil {
			return s, err
		}
	}
	for _, a := range s.Rev.Apps {
		s.apps = append(s.apps, appPlaces{a, wants[a.Name]})
	}
	s.left = remainingPairs(snap.Places)
	if err := r.readBundles(ctx, &s); err != nil {
		return s, err
	}
	for _, a := range s.apps {
		for i := range a.places {
			if p := &a.places[i]; s.past {
				p.past = s.pastStates(*p)
			} else {
				p.state = s.state(*p)
			}
		}
	}
	return s, nil
}

// desiredPlaces reads a revision, and where it wants which app. Places of the snapshot that are
// wanted are taken out of it, unless nothing is wanted any more.
func (r *Reader) desiredPlaces(ctx context.Context, snap mirror.Snapshot, n int64) (appcontext.Revision, map[string][]placeStatus, error) {
	c, err := r.content(ctx, snap.Head.UID, n)
	if err != nil {
		return appcontext.Revision{}, nil, err
	}
	out := make(map[string][]placeStatus, len(c.places))
	for name, places := range c.places {
		list := make([]placeStatus, len(places))
		for i, p := range places {
			at := mirror.Place{Cluster: p.cluster, App: name}
			list[i] = placeStatus{cluster: p.cluster, bundle: p.bundle}
			if e := snap.Places[at]; e != nil {
				list[i].pair, list[i].report, list[i].reportedAt = e.Pair, e.Report, e.Heard()
			}
			if !snap.Head.Gone {
				delete(snap.Places, at)
			}
		}
		out[name] = list
	}
	return c.rev, out, nil
}

// remainingPairs returns the pairs of places, in order of app and cluster.
func remainingPairs(places map[mirror.Place]*mirror.Entry) (out []appcontext.Pair) {
	for _, e := range places {
		if e.Pair != nil {
			out = append(out, *e.Pair)
		}
	}
	slices.SortFunc(out, func(a, b appcontext.Pair) int {
		return cmp.Or(cmp.Compare(a.Key.App, b.Key.App), cmp.Compare(a.Key.Cluster, b.Key.Cluster))
	})
	return out
}

// readBundles reads each bundle once, however many clusters hold it. What an older
// revision is compared with is read as well.
func (r *Reader) readBundles(ctx context.Context, s *Snapshot) error {
	s.bundles = map[appcontext.Digest]appcontext.Bundle{}
	for _, a := range s.apps {
		for _, p := range a.places {
			if err := r.readBundle(ctx, s, p.bundle); err != nil {
				return err
			}
			if !s.past || p.pair == nil {
				continue
			}
			for _, d := range append([]appcontext.Digest{p.pair.Applied}, p.pair.Held...) {
				if err := r.readBundle(ctx, s, d); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (r *Reader) readBundle(ctx context.Context, s *Snapshot, d appcontext.Digest) error {
	if _, known := s.bundles[d]; known || d == "" {
		return nil
	}
	b, err := r.contexts.GetBundle(ctx, d)
	switch {
	case errs.Is(err, errs.NotFound) && s.past:
		err = errs.New(errs.NotFound, "the content of the instance is not kept any more")
	case errs.Is(err, errs.NotFound):
		err = errs.E(errs.Internal, "read", "deployment "+s.Head.UID, err)
	}
	s.bundles[d] = b
	return err
}

// state is the synchroniser's word for a place of the last revision. Applied is what
// there is proof of. What is to be removed is still there until its pair is gone.
func (s Snapshot) state(p placeStatus) string {
	switch {
	case p.pair == nil && s.Head.Gone:
		return "Deleted"
	case p.pair == nil:
		return string(appcontext.Pending)
	case s.Head.Gone:
		return removing(p.pair)
	case p.pair.Phase == appcontext.Applied && p.pair.Applied == p.bundle:
		return string(appcontext.Applied)
	case s.outdated(p), p.pair.Phase == appcontext.Applied, p.pair.Phase == appcontext.Deleting:
		return string(appcontext.Pending)
	}
	return string(p.pair.Phase)
}

// outdated reports whether a pair was last worked on for an older revision: its phase and
// error say nothing of this one.
func (s Snapshot) outdated(p placeStatus) bool {
	return !s.Head.Gone && p.pair != nil && p.pair.Rev < s.Rev.Number && (p.pair.Phase != appcontext.Applied || p.pair.Applied != p.bundle)
}

func removing(p *appcontext.Pair) string {
	switch {
	case p.Phase != appcontext.Deleting:
		return string(p.Phase)
	case p.Applied == "": // it was never proved to be there
		return string(appcontext.Pending)
	}
	return string(appcontext.Applied)
}

// Deployed is EMCO's deployedStatus, empty if nothing was ever wanted. Instantiated means
// that there is proof for every pair; what failed is said to have failed only when
// nothing is left to wait for, or when someone has stopped it.
func (s Snapshot) Deployed() string {
	switch {
	case s.past:
		return s.pastDeployed()
	case s.Head.Stopped && s.Head.Gone && !s.Head.State.Live(): // else a new life was stopped before it had a revision
		return v2.StatusTerminateFailed
	case s.Head.Stopped:
		return v2.StatusInstantiateFailed
	case s.Head.Op != nil:
		return v2.StatusInstantiating
	case s.Head.Failure != "":
		return v2.StatusInstantiateFailed
	case s.Head.Gone:
		return s.terminating()
	case s.Head.Rev == 0:
		return ""
	}
	return s.instantiating()
}

func (s Snapshot) instantiating() string {
	failed := false
	for _, a := range s.apps {
		failed = failed || a.Failure != nil
		for _, p := range a.places {
			switch p.state {
			case string(appcontext.Applied):
			case string(appcontext.Failed):
				failed = true
			default:
				return v2.StatusInstantiating
			}
		}
	}
	for _, p := range s.left {
		if !stuck(p) {
			return v2.StatusInstantiating
		}
		failed = true
	}
	if failed {
		return v2.StatusInstantiateFailed
	}
	return v2.StatusInstantiated
}

func (s Snapshot) terminating() string {
	if len(s.left) == 0 {
		return v2.StatusTerminated
	}
	for _, p := range s.left {
		if !stuck(p) {
			return v2.StatusTerminating
		}
	}
	return v2.StatusTerminateFailed
}

// stuck reports whether the removal of a pair has failed. One that failed while it was
// still wanted has not failed to be removed.
func stuck(p appcontext.Pair) bool { return p.Phase == appcontext.Failed && p.Desired == "" }
