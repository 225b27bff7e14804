package appcontext

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// PairsOf returns the pairs that are left of a deployment on any cluster, in order of
// their keys. Clusters that no kept revision names any more count as well: an
// unreachable one may hold what was taken away from it long ago. It reads the keys of
// all pairs, so it is for rare moments; package mirror answers the same every day.
func (s *Store) PairsOf(ctx context.Context, uid string) ([]Pair, error) {
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

// HasApplied reports whether anything is proved to be on a cluster, of any deployment.
func (s *Store) HasApplied(ctx context.Context, cluster string) (bool, error) {
	for p, err := range records(s.list(ctx, &scan{prefix: s.key("pair", cluster) + "/"}), s.parsePair) {
		if err != nil || p.Applied != "" {
			return err == nil, err
		}
	}
	return false, nil
}

// HasDesired reports whether a deployment wants anything on a cluster.
func (s *Store) HasDesired(ctx context.Context, cluster string) (bool, error) {
	if err := checkParts(cluster); err != nil {
		return false, err
	}
	for p, err := range records(s.list(ctx, &scan{prefix: s.key("pair", cluster) + "/"}), s.parsePair) {
		if err != nil || p.Desired != "" {
			return err == nil, err
		}
	}
	return false, nil
}

// Reported reports whether a cluster has ever said anything of an app that it holds.
func (s *Store) Reported(ctx context.Context, cluster string) (bool, error) {
	if err := checkParts(cluster); err != nil {
		return false, err
	}
	r, err := s.get(ctx, s.key("report", cluster)+"/", clientv3.WithPrefix(), clientv3.WithLimit(1), clientv3.WithKeysOnly())
	return err == nil && len(r.Kvs) > 0, err
}
