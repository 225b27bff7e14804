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

// Snapshot is a deployment at one moment: what a revision desires, and the status of each
// app on each cluster.
type Snapshot struct {
	Head appcontext.Head
	Rev  appcontext.Revision // the desired one; the last one if nothing is desired; an older one if that was requested

	now     time.Time // when it was read
	past    bool      // Rev is an older one
	apps    []appPlaces
	runs    []appcontext.WorkflowRun // the last ones of the workflows
	left    []appcontext.Pair        // pairs that exist and Rev does not desire, in order; all pairs if nothing is desired
	bundles map[appcontext.Digest]appcontext.Bundle
}

// appPlaces is an app of the revision with its places, in order of cluster.
type appPlaces struct {
	appcontext.App
	desired []desiredPlace // all places
	places  []placeStatus  // their statuses; for counting, of those that stand alike only the first
}

// placeStatus is the status of one app on one cluster.
type placeStatus struct {
	*desiredPlace
	n       int              // places that stand like this one, with it
	pair    *appcontext.Pair // nil: rsync has not seen it yet, or has removed it
	reading clusterReading
	state   string       // of an app of the last revision: upstream's status, see Snapshot.state
	ready   *classStatus // set by statusView.readReports
}

// objectState is the state of an object, and the reason if it needs one.
type objectState struct {
	state, reason string
	held          bool // the cluster reports the desired content
	absent        bool // of an Unknown object: the cluster has never reported it, or last reported that it does not exist
}

// Snapshot reads a deployment's snapshot by the id of its head, for counting; zero if it has no head.
func (r *Reader) Snapshot(ctx context.Context, id appcontext.HeadID) (Snapshot, error) {
	snap, err := r.mirror.Snapshot(ctx, id)
	if err != nil || snap.Head == nil {
		return Snapshot{}, err
	}
	return r.snapshotAt(ctx, snap, snap.Head.Rev, true)
}

// snapshotAt returns the snapshot for a revision. It costs one read for the revision, and
// one for every few thousand placements. A snapshot for counting takes places that stand alike together.
func (r *Reader) snapshotAt(ctx context.Context, snap mirror.Snapshot, rev int64, counting bool) (Snapshot, error) {
	s := Snapshot{Head: *snap.Head, past: rev != snap.Head.Rev, runs: snap.Runs, now: r.options.Now()}
	content := &revisionContent{}
	if rev > 0 {
		var err error
		if content, err = r.content(ctx, snap.Head.UID, rev); err != nil {
			return s, err
		}
	}
	s.Rev = content.rev
	places, found := join(content, func(app string, desired []desiredPlace) ([]placeStatus, int) {
		if counting && !s.past {
			return r.countedPlaces(app, desired, revisionKey{s.Head.UID, rev}, snap, s.now)
		}
		return r.placesOf(app, desired, snap, s.now)
	})
	for i, a := range s.Rev.Apps {
		s.apps = append(s.apps, appPlaces{a, content.places[a.Name], places[i]})
	}
	switch {
	case s.Head.Gone:
		s.left = remainingPairs(snap, &revisionContent{})
	case found < snap.Pairs.Len():
		s.left = remainingPairs(snap, content)
	}
	if err := r.readBundles(ctx, &s); err != nil {
		return s, err
	}
	if s.past {
		return s, nil
	}
	for _, a := range s.apps {
		for i := range a.places {
			p := &a.places[i]
			p.state = s.state(*p)
		}
	}
	return s, nil
}

// join returns the places of each app of a revision, and how many of all the snapshot has.
func join(content *revisionContent, of func(app string, desired []desiredPlace) (places []placeStatus, known int)) (out [][]placeStatus, found int) {
	for _, a := range content.rev.Apps {
		places, known := of(a.Name, content.places[a.Name])
		out, found = append(out, places), found+known
	}
	return out, found
}

// placesOf returns the places that a revision desires for an app, and how many of them the snapshot has.
func (r *Reader) placesOf(app string, desired []desiredPlace, snap mirror.Snapshot, now time.Time) (out []placeStatus, known int) {
	entries := snap.Pairs.Of(app)
	out = make([]placeStatus, len(desired))
	for i := range desired {
		p, found := r.placeOf(&desired[i], entries[desired[i].cluster], now)
		if out[i] = p; found {
			known++
		}
	}
	return out, known
}

// placeOf returns the status of a place with its entry; false if it has none.
func (r *Reader) placeOf(desired *desiredPlace, e *mirror.Entry, now time.Time) (placeStatus, bool) {
	if e == nil {
		return placeStatus{desiredPlace: desired, n: 1}, false
	}
	return placeStatus{desiredPlace: desired, n: 1, pair: e.State.Common(), reading: r.readingOf(e.Report, e.Heard(), now)}, true
}

// remainingPairs returns the pairs of a deployment that nothing desires, in order of app and cluster and
// without Registration.
func remainingPairs(snap mirror.Snapshot, desired *revisionContent) (out []appcontext.Pair) {
	if snap.Head == nil {
		return nil
	}
	for at, e := range snap.Pairs.All() {
		if e.State != nil && !desired.has(at) {
			out = append(out, e.State.Pair(appcontext.PairKey{Cluster: at.Cluster, Deployment: snap.Head.Deployment(), App: at.App}, ""))
		}
	}
	slices.SortFunc(out, func(a, b appcontext.Pair) int {
		return cmp.Or(cmp.Compare(a.Key.App, b.Key.App), cmp.Compare(a.Key.Cluster, b.Key.Cluster))
	})
	return out
}

// readBundles reads each bundle once, however many clusters hold it. For an older revision
// it also reads the bundles that clusters hold now.
func (r *Reader) readBundles(ctx context.Context, s *Snapshot) error {
	s.bundles = map[appcontext.Digest]appcontext.Bundle{}
	for _, a := range s.apps {
		for _, p := range a.places {
			digests := []appcontext.Digest{p.bundle}
			if s.past && p.pair != nil {
				digests = append(append(digests, p.pair.Applied), p.pair.Held...)
			}
			for _, d := range digests {
				if _, known := s.bundles[d]; known || d == "" {
					continue
				}
				b, err := r.contexts.GetBundle(ctx, d)
				switch {
				case errs.Is(err, errs.NotFound) && s.past:
					return errs.New(errs.NotFound, "the content of the instance is no longer kept")
				case errs.Is(err, errs.NotFound):
					return errs.E(errs.Internal, "read", "deployment "+string(s.Head.UID), err)
				case err != nil:
					return err
				}
				s.bundles[d] = b
			}
		}
	}
	return nil
}

// state returns rsync's status of a place of the last revision. Applied needs proof. An app that
// is being removed counts as Applied until its pair is gone.
func (s Snapshot) state(p placeStatus) string {
	switch {
	case p.pair == nil && s.Head.Gone:
		return "Deleted"
	case p.pair == nil:
		return string(appcontext.Pending)
	case s.Head.Gone && p.pair.Phase != appcontext.Deleting:
		return string(p.pair.Phase)
	case s.Head.Gone && p.pair.Applied == "": // there is no proof that it ever was on the cluster
		return string(appcontext.Pending)
	case s.Head.Gone:
		return string(appcontext.Applied)
	case p.pair.Phase == appcontext.Applied && p.pair.Applied == p.bundle:
		return string(appcontext.Applied)
	case s.outdated(p), p.pair.Phase == appcontext.Applied, p.pair.Phase == appcontext.Deleting:
		return string(appcontext.Pending)
	}
	return string(p.pair.Phase)
}

// outdated reports whether rsync last worked on a pair for an older revision: the pair's
// phase and error do not apply to this one.
func (s Snapshot) outdated(p placeStatus) bool {
	return !s.Head.Gone && p.pair != nil && p.pair.Rev < s.Rev.Number && (p.pair.Phase != appcontext.Applied || p.pair.Applied != p.bundle)
}

// Deployed returns upstream's deployedStatus, empty if nothing was ever desired. Instantiated
// needs proof for every pair. The status is a failed one only when nothing is left to wait
// for, or a user has stopped the deployment.
func (s Snapshot) Deployed() string {
	switch {
	case s.past:
		return s.pastDeployed()
	case s.Head.Stopped && !s.Head.State.Live():
		return v2.StatusTerminateFailed
	case s.Head.Stopped:
		return v2.StatusInstantiateFailed
	case s.Head.Op != nil && s.Head.Op.Terminates():
		return v2.StatusTerminating
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
		if !removalFailed(p) {
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
		if !removalFailed(p) || p.At.Before(s.Head.Terminated) {
			return v2.StatusTerminating
		}
	}
	return v2.StatusTerminateFailed
}

// removalFailed reports whether the removal of a pair has failed. A pair that failed while
// it was desired has not failed to be removed.
func removalFailed(p appcontext.Pair) bool { return p.Phase == appcontext.Failed && p.Desired == "" }

// A query for an older instance asks how much of it clusters hold now. An object of it is
//
//	Applied   there is proof of exactly this content, because the current revision has it too
//	Deleted   there is proof of other content, or of none
//	Pending, Retrying, Failed   neither: it may exist until its successor is proved
//
// and the deployment is Instantiated if all of it exists, Terminated if no revision is
// desired any longer, and Updated otherwise.

// pastStates returns the state of each object of a place, in the order of objectsOf.
func (s Snapshot) pastStates(p placeStatus) []objectState {
	refs := objectsOf(s.bundles[p.bundle])
	out := make([]objectState, len(refs))
	for i, ref := range refs {
		out[i] = s.pastState(p.pair, ref)
	}
	return out
}

func (s Snapshot) pastState(p *appcontext.Pair, ref appcontext.Ref) objectState {
	if p == nil {
		return objectState{state: "Deleted"}
	}
	same, other := s.holds(p.Applied, ref)
	if same {
		return objectState{state: string(appcontext.Applied)}
	}
	for _, d := range p.Held {
		if maybe, _ := s.holds(d, ref); maybe {
			phase := appcontext.Pending
			if p.Phase == appcontext.Retrying || p.Phase == appcontext.Failed {
				phase = p.Phase
			}
			return objectState{state: string(phase), reason: "it may exist until there is proof of its successor"}
		}
	}
	if other {
		return objectState{state: "Deleted", reason: otherContent}
	}
	return objectState{state: "Deleted"}
}

// holds reports whether a bundle has an object with the same content, or with other content.
func (s Snapshot) holds(d appcontext.Digest, ref appcontext.Ref) (same, other bool) {
	for _, have := range objectsOf(s.bundles[d]) {
		if have.ID.Key() == ref.ID.Key() {
			return have.Digest == ref.Digest, have.Digest != ref.Digest
		}
	}
	return false, false
}

func (s Snapshot) pastDeployed() string {
	for _, a := range s.apps {
		for _, p := range a.places {
			for _, o := range s.pastStates(p) {
				if o.state == string(appcontext.Applied) {
					continue
				}
				if s.Head.Gone && len(s.left) == 0 {
					return v2.StatusTerminated
				}
				return v2.StatusUpdated
			}
		}
	}
	return v2.StatusInstantiated
}

// objectsOf returns the objects that a bundle puts on a cluster permanently: not its hooks.
func objectsOf(b appcontext.Bundle) []appcontext.Ref {
	if len(b.CRDs) == 0 {
		return b.Objects
	}
	return slices.Concat(b.CRDs, b.Objects)
}
