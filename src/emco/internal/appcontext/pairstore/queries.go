package pairstore

import (
	"context"
	"iter"
	"slices"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
)

// Pairs yields all pairs, as they are at one revision of etcd: first those of tables, then those of
// records, in order of their keys. It ends at the first error.
func (s *Store) Pairs(ctx context.Context) iter.Seq2[Pair, error] {
	return func(yield func(Pair, error) bool) {
		var shards map[string]*Contents
		err := s.atOneRevision(ctx, func(rev int64) (err error) {
			shards, err = s.contents(ctx, rev, s.kv.Key(tableSpace)+"/")
			return err
		})
		if err != nil {
			yield(Pair{}, err)
			return
		}
		var records []Pair
		for _, c := range shards {
			for p, err := range c.tablePairs() {
				if !yield(p, err) || err != nil {
					return
				}
			}
			records = append(records, c.Records...)
		}
		slices.SortFunc(records, ComparePairs)
		for _, p := range records {
			if !yield(p, nil) {
				return
			}
		}
	}
}

// PairsAt returns the pairs of the given keys, in their order, without those that do not exist.
func (s *Store) PairsAt(ctx context.Context, keys []Key) (out []Pair, err error) {
	err = s.atOneRevision(ctx, func(rev int64) error {
		out, err = s.pairsAt(ctx, keys, rev)
		return err
	})
	return out, err
}

func (s *Store) pairsAt(ctx context.Context, keys []Key, rev int64) ([]Pair, error) {
	at, apps := map[Key]int{}, map[string]bool{}
	for i, k := range keys {
		at[k], apps[s.kv.Key(tableSpace, string(k.Deployment), k.App)+"/"] = i, true
	}
	found := make([]*Pair, len(keys))
	shards, err := s.tablesBelow(ctx, rev, apps)
	if err != nil {
		return nil, err
	}
	for _, c := range shards {
		for p, err := range c.tablePairs() {
			if err != nil {
				return nil, err
			}
			if i, ok := at[p.Key]; ok {
				found[i] = &p
			}
		}
	}
	if err := pairRecords.readInto(ctx, s.kv, keys, absent(found), found, clientv3.WithRev(rev)); err != nil {
		return nil, err
	}
	return present(found), nil
}

// PairsOn returns the pairs of a cluster, in order of deployment and app. It reads the tables of
// all deployments, so call it rarely; package mirror answers the same from memory.
func (s *Store) PairsOn(ctx context.Context, cluster v2.ClusterKey) (all []Pair, err error) {
	if err := etcdkv.CheckParts(string(cluster)); err != nil {
		return nil, err
	}
	err = s.atOneRevision(ctx, func(rev int64) error {
		all = nil
		shards, err := s.readTables(ctx, rev, s.kv.Key(tableSpace)+"/")
		if err != nil {
			return err
		}
		for _, c := range shards {
			all = append(all, c.on(cluster)...)
		}
		for p, err := range s.records(ctx, s.kv.Key(recordSpace, string(cluster))+"/", rev) {
			if err != nil {
				return err
			}
			all = append(all, p)
		}
		return nil
	})
	slices.SortFunc(all, ComparePairs)
	return all, err
}

// PairsOf returns the pairs of a deployment on all clusters, in order of their keys. They include
// clusters that no kept revision names: an unreachable cluster may still hold what an earlier
// revision removed. It reads the keys of all records, so call it rarely; package mirror answers the
// same from memory.
func (s *Store) PairsOf(ctx context.Context, deployment v2.DeploymentID) (all []Pair, err error) {
	err = s.atOneRevision(ctx, func(rev int64) error {
		all, err = s.pairsOf(ctx, deployment, rev)
		return err
	})
	slices.SortFunc(all, ComparePairs)
	return all, err
}

func (s *Store) pairsOf(ctx context.Context, deployment v2.DeploymentID, rev int64) (all []Pair, err error) {
	shards, err := s.readTables(ctx, rev, s.kv.Key(tableSpace, string(deployment))+"/")
	if err != nil {
		return nil, err
	}
	for _, c := range shards {
		for p, err := range c.tablePairs() {
			if err != nil {
				return nil, err
			}
			all = append(all, p)
		}
	}
	var keys []Key
	for key, err := range s.keys(ctx, recordSpace, rev) {
		if err != nil {
			return nil, err
		}
		if key.Deployment == deployment {
			keys = append(keys, key)
		}
	}
	found := make([]*Pair, len(keys))
	err = pairRecords.readInto(ctx, s.kv, keys, absent(found), found, clientv3.WithRev(rev))
	return append(all, present(found)...), err
}

// ShardsOf returns the clusters on which a deployment has pairs, each with the shard that one of
// the pairs names.
func (s *Store) ShardsOf(ctx context.Context, deployment v2.DeploymentID, clusters []v2.ClusterKey) (out map[v2.ClusterKey]string, err error) {
	if len(clusters) == 0 {
		return nil, nil
	}
	err = s.atOneRevision(ctx, func(rev int64) error {
		out, err = s.shardsOf(ctx, deployment, clusters, rev)
		return err
	})
	return out, err
}

func (s *Store) shardsOf(ctx context.Context, deployment v2.DeploymentID, clusters []v2.ClusterKey, rev int64) (map[v2.ClusterKey]string, error) {
	shards, err := s.readTables(ctx, rev, s.kv.Key(tableSpace, string(deployment))+"/")
	if err != nil {
		return nil, err
	}
	out := map[v2.ClusterKey]string{}
	var others []v2.ClusterKey
	for _, cluster := range clusters {
		for shard, c := range shards {
			if c.has(cluster) {
				out[cluster] = shard
			}
		}
		if _, found := out[cluster]; !found {
			others = append(others, cluster)
		}
	}
	if others, err = s.mayHaveRecords(ctx, deployment, others, rev); err != nil {
		return nil, err
	}
	names := make([]string, len(others))
	for i, c := range others {
		names[i] = s.kv.Key(recordSpace, string(c), string(deployment)) + "/"
	}
	err = s.kv.GetEach(ctx, names, func(_ int, record *mvccpb.KeyValue) error {
		if record == nil {
			return nil
		}
		p, err := s.parseRecord(record)
		if err == nil {
			out[p.Key.Cluster] = p.Shard
		}
		return err
	}, clientv3.WithPrefix(), clientv3.WithLimit(1), clientv3.WithRev(rev))
	return out, err
}

// mayHaveRecords leaves out clusters that have no record of a deployment, in one look at the keys of all records where
// that costs less than to ask for each cluster: few pairs have records of their own.
func (s *Store) mayHaveRecords(ctx context.Context, deployment v2.DeploymentID, clusters []v2.ClusterKey, rev int64) ([]v2.ClusterKey, error) {
	if len(clusters) <= etcdkv.MaxOps {
		return clusters, nil // one request finds them
	}
	seen, have := 0, map[v2.ClusterKey]bool{}
	for record, err := range s.kv.List(ctx, etcdkv.Scan{Prefix: s.kv.Key(recordSpace) + "/", KeysOnly: true, First: len(clusters) + 1, Revision: rev}) {
		if err != nil {
			return nil, err
		}
		if seen++; seen > len(clusters) {
			return clusters, nil
		}
		key, err := ParseKey(s.kv, record.Key)
		if err != nil {
			return nil, err
		}
		if key.Deployment == deployment {
			have[key.Cluster] = true
		}
	}
	return slices.DeleteFunc(clusters, func(c v2.ClusterKey) bool { return !have[c] }), nil
}

// HasApplied reports whether a cluster is proved to hold anything, of any deployment.
func (s *Store) HasApplied(ctx context.Context, cluster v2.ClusterKey) (bool, error) {
	return s.anyOn(ctx, cluster, func(p Pair) bool { return p.Applied != "" })
}

// HasDesired reports whether any deployment wants anything on a cluster.
func (s *Store) HasDesired(ctx context.Context, cluster v2.ClusterKey) (bool, error) {
	return s.anyOn(ctx, cluster, func(p Pair) bool { return p.Desired != "" })
}

func (s *Store) anyOn(ctx context.Context, cluster v2.ClusterKey, is func(Pair) bool) (bool, error) {
	pairs, err := s.PairsOn(ctx, cluster)
	return err == nil && slices.ContainsFunc(pairs, is), err
}
