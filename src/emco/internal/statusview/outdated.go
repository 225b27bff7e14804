package statusview

import (
	"fmt"
	"slices"
	"strings"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
)

// outdatedPlaces describes the clusters where an update would place the apps of the revision, and
// those where it would remove them; "" if it would change no place. places are the clusters
// that the documents give each app now.
func (s Snapshot) outdatedPlaces(places map[string][]v2.ClusterKey) string {
	var changes []string
	for _, a := range s.apps {
		now, known := places[a.Name]
		same := func(p desiredPlace, c v2.ClusterKey) bool { return p.cluster == c } // both are in order
		if !known || a.Failure != nil || slices.EqualFunc(a.desired, now, same) {
			continue
		}
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
	}
	if len(changes) == 0 {
		return ""
	}
	return "labels, intents or the logical cloud have changed: an update would " + strings.Join(changes, ", ")
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
