package appcontext

import (
	"context"
)

// Remains returns the pairs that are left of a deployment on any cluster, in order of
// their keys. Clusters that no kept revision names any more count as well: an
// unreachable one may hold what was taken away from it long ago. It reads the keys of
// all pairs, so it is for the moments in which a deployment ends, and not for every day.
func (s *Store) Remains(ctx context.Context, uid string) ([]Pair, error) {
	var keys []PairKey
	for kv, err := range s.list(ctx, &scan{prefix: s.key("pair") + "/", keysOnly: true}) {
		if err != nil {
			return nil, err
		}
		key, err := s.parsePairKey(kv.Key)
		if err != nil {
			return nil, err
		}
		if key.UID == uid {
			keys = append(keys, key)
		}
	}
	return s.PairsAt(ctx, keys)
}

// Delivered reports whether anything is proved to be on a cluster, of any deployment.
func (s *Store) Delivered(ctx context.Context, cluster string) (bool, error) {
	for p, err := range records(s.list(ctx, &scan{prefix: s.key("pair", cluster) + "/"}), s.parsePair) {
		if err != nil || p.Applied != "" {
			return err == nil, err
		}
	}
	return false, nil
}
