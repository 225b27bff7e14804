package statusview

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/bytelru"
	"github.com/emco-orchestrator/emco/src/emco/internal/placement"
)

// comparedPlaces is what a comparison of a revision with the places by documents has found.
type comparedPlaces struct {
	places *placement.Places
	text   string // see outdatedApps
}

// comparedCache keeps the last comparison of each revision: it looks at every cluster of every app, and clients poll statuses.
type comparedCache = bytelru.Cache[revisionKey, comparedPlaces]

const (
	comparisonsBytes = 64 << 20 // of all comparisons that are kept, with the places that they hold
	comparisonBytes  = 256      // of one, about, besides its text and places
)

func newComparedCache() *comparedCache {
	return bytelru.New[revisionKey, comparedPlaces](comparisonsBytes)
}

// outdated describes what an update would change of the places and the content of a revision; "" if that is nothing or not known, or if an update would
// fail: the next action reports documents that cannot be placed. at is that of the snapshot's mirror.Snapshot. Of errors, it returns
// those of a store that cannot be reached.
func (r *Reader) outdated(ctx context.Context, of Subject, s Snapshot, at int64) (string, error) {
	places, err := of.Places(ctx)
	if err == nil && places != nil {
		var usable bool
		if usable, err = r.instantiated(ctx, appcontext.HeadID(places.Cloud), at); !usable {
			places = nil
		}
	}
	switch {
	case errs.Is(err, errs.Unavailable):
		return "", err
	case err != nil || places == nil:
		return "", nil
	}
	k := revisionKey{s.Head.UID, s.Rev.Number}
	if known, ok := r.compared.Get(k); ok && known.places == places {
		return known.text, nil
	}
	text := s.outdatedApps(places)
	r.compared.Remove(k)
	r.compared.Put(k, comparedPlaces{places, text}, comparisonBytes+len(text)+places.Bytes())
	return text, nil
}

// instantiated reports whether the logical cloud with a head is instantiated, by the index if that has reached a revision, 0 if it is not
// known to have.
func (r *Reader) instantiated(ctx context.Context, cloud appcontext.HeadID, at int64) (bool, error) {
	if at > 0 {
		if head, known := r.mirror.HeadSince(cloud, at); known {
			return head != nil && head.State == appcontext.Instantiated, nil
		}
	}
	head, err := r.contexts.Head(ctx, cloud)
	if errs.Is(err, errs.NotFound) {
		return false, nil
	}
	return err == nil && head.State == appcontext.Instantiated, err
}

// outdatedApps describes the clusters where an update would place the apps of the revision, those where it would remove
// them, and the apps that stay where they are and that it would render again; "" if there are none.
func (s Snapshot) outdatedApps(places *placement.Places) string {
	var moves, renders []string
	for _, a := range s.apps {
		now, known := places.Clusters[a.Name]
		if !known || a.Failure != nil {
			continue
		}
		same := func(p desiredPlace, c v2.ClusterKey) bool { return p.cluster == c } // both are in order
		if !slices.EqualFunc(a.desired, now, same) {
			moves = append(moves, a.moves(now)...)
			continue
		}
		if sources := places.Sources[a.Name]; sources != "" && a.Sources != "" && sources != string(a.Sources) {
			renders = append(renders, a.Name)
		}
	}
	var texts []string
	if len(moves) > 0 {
		texts = append(texts, "labels, intents or the logical cloud have changed: an update would "+strings.Join(moves, ", "))
	}
	if len(renders) > 0 {
		texts = append(texts, "packages, profiles, labels or key-value pairs have changed: an update would render app "+strings.Join(renders, ", app ")+" again")
	}
	return strings.Join(texts, "; ")
}

// moves describes the clusters that an app would get and those that it would leave, if now were its clusters.
func (a appPlaces) moves(now []v2.ClusterKey) (changes []string) {
	has, left := map[v2.ClusterKey]bool{}, []v2.ClusterKey{}
	for _, p := range a.desired {
		has[p.cluster] = true
	}
	var added []v2.ClusterKey
	for _, c := range now {
		if !has[c] {
			added = append(added, c)
		}
		delete(has, c)
	}
	for _, p := range a.desired { // in order
		if has[p.cluster] {
			left = append(left, p.cluster)
		}
	}
	if len(added) > 0 {
		changes = append(changes, "add app "+a.Name+" to "+firstOf(added))
	}
	if len(left) > 0 {
		changes = append(changes, "remove app "+a.Name+" from "+firstOf(left))
	}
	return changes
}

// firstOf names the first cluster and counts the others.
func firstOf(clusters []v2.ClusterKey) string {
	switch n := len(clusters) - 1; n {
	case 0:
		return string(clusters[0])
	case 1:
		return string(clusters[0]) + " and 1 other cluster"
	default:
		return fmt.Sprintf("%s and %d other clusters", clusters[0], n)
	}
}
