package appcontext

import (
	"context"
	"maps"
	"slices"
)

// Remains returns the pairs that are left of a deployment on any cluster, of any of its
// revisions that are kept. It reads each revision's placements, so it is for the
// moments in which a deployment ends, and not for every day.
func (s *Store) Remains(ctx context.Context, uid string) ([]Pair, error) {
	keys := map[PairKey]bool{}
	for rev, err := range s.Revisions(ctx, uid) {
		if err != nil {
			return nil, err
		}
		for p, err := range s.Placements(ctx, uid, rev.Number) {
			if err != nil {
				return nil, err
			}
			for app := range p.Apps {
				keys[PairKey{Cluster: p.Cluster, UID: uid, App: app}] = true
			}
		}
	}
	return s.PairsAt(ctx, slices.Collect(maps.Keys(keys)))
}
