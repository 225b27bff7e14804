package appcontext

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
)

// PairStore stores pairs: what rsync knows of each app on each cluster.
type PairStore struct{ kv *etcdkv.Client }

// The key spaces of records by cluster, deployment and app.
const (
	pairSpace   = "pair"
	reportSpace = "report"
)

func pairKey(kv *etcdkv.Client, space string, k PairKey) string {
	return kv.Key(space, string(k.Cluster), k.UID, k.App)
}

func parsePairKey(kv *etcdkv.Client, key []byte) (PairKey, error) {
	p := kv.Split(key)
	if len(p) != 4 {
		return PairKey{}, etcdkv.Corrupt(string(key), fmt.Errorf("the key has %d parts, not 4", len(p)))
	}
	return PairKey{Cluster: v2.ClusterKey(p[1]), UID: p[2], App: p[3]}, nil
}

// putRecords writes and removes records of a key space, fenced by own.
func putRecords[T any](ctx context.Context, kv *etcdkv.Client, own Fence, space string, put []T, key func(T) PairKey, remove []PairKey) error {
	ops := make(map[string]clientv3.Op, len(put)+len(remove))
	for _, k := range remove {
		ops[pairKey(kv, space, k)] = clientv3.OpDelete(pairKey(kv, space, k))
	}
	for _, v := range put {
		k := key(v)
		if err := etcdkv.CheckParts(string(k.Cluster), k.UID, k.App); err != nil {
			return err
		}
		name := pairKey(kv, space, k)
		text, err := etcdkv.Encode(name, v)
		if err != nil {
			return err
		}
		ops[name] = clientv3.OpPut(name, text)
	}
	return kv.Fenced(own).WriteSorted(ctx, space+"s", ops)
}

// readRecords reads the records of keys, in their order, without those that do not exist.
func readRecords[T any](ctx context.Context, kv *etcdkv.Client, space string, keys []PairKey, parse func(*mvccpb.KeyValue) (T, error)) ([]T, error) {
	var all []T
	for some := range slices.Chunk(keys, etcdkv.MaxOps) {
		names := make([]string, len(some))
		for i, k := range some {
			names[i] = pairKey(kv, space, k)
		}
		found, err := kv.GetMany(ctx, names)
		if err != nil {
			return nil, err
		}
		for _, record := range found {
			if record == nil {
				continue
			}
			v, err := parse(record)
			if err != nil {
				return nil, err
			}
			all = append(all, v)
		}
	}
	return all, nil
}

// PutPairs writes and removes pairs, in transactions of at most 128 operations, each of
// which is refused with ErrFenced if own is lost. The zero Fence fences nothing. A key that
// is both put and removed is put; the last of two with the same key counts.
//
// Writing the same again does no harm; after an error some may be written. After
// Unavailable that may also happen later, but no longer once a later write by the same own
// was answered. Unfenced writes have no such end.
func (s *PairStore) PutPairs(ctx context.Context, own Fence, put []Pair, remove []PairKey) error {
	return putRecords(ctx, s.kv, own, pairSpace, put, func(p Pair) PairKey { return p.Key }, remove)
}

// Pairs yields all pairs, in order of their keys: by cluster, deployment and app. It ends
// at the first error.
func (s *PairStore) Pairs(ctx context.Context) iter.Seq2[Pair, error] {
	return etcdkv.Records(s.kv.List(ctx, etcdkv.Scan{Prefix: s.kv.Key(pairSpace) + "/"}), s.parsePair)
}

func (s *PairStore) parsePair(kv *mvccpb.KeyValue) (Pair, error) {
	key, err := parsePairKey(s.kv, kv.Key)
	if err != nil {
		return Pair{}, err
	}
	p, err := etcdkv.Decode[Pair](kv)
	p.Key = key
	return p, err
}

// PairsAt returns the pairs of the given keys, in their order, without those that do not
// exist.
func (s *PairStore) PairsAt(ctx context.Context, keys []PairKey) ([]Pair, error) {
	return readRecords(ctx, s.kv, pairSpace, keys, s.parsePair)
}

// PairsOn returns the pairs of a cluster, in order of deployment and app.
func (s *PairStore) PairsOn(ctx context.Context, cluster v2.ClusterKey) ([]Pair, error) {
	var all []Pair
	for p, err := range s.onCluster(ctx, string(cluster)) {
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

func (s *PairStore) onCluster(ctx context.Context, cluster string) iter.Seq2[Pair, error] {
	if err := etcdkv.CheckParts(cluster); err != nil {
		return etcdkv.Failed[Pair](err)
	}
	return etcdkv.Records(s.kv.List(ctx, etcdkv.Scan{Prefix: s.kv.Key(pairSpace, cluster) + "/"}), s.parsePair)
}

// PairsOf returns the pairs of a deployment on all clusters, in order of their keys. They
// include clusters that no kept revision names: an unreachable cluster may still hold what
// an earlier revision removed. It reads the keys of all pairs, so call it rarely; package
// mirror answers the same from memory.
func (s *PairStore) PairsOf(ctx context.Context, uid string) ([]Pair, error) {
	var keys []PairKey
	for kv, err := range s.kv.List(ctx, etcdkv.Scan{Prefix: s.kv.Key(pairSpace) + "/", KeysOnly: true}) {
		if err != nil {
			return nil, err
		}
		key, err := parsePairKey(s.kv, kv.Key)
		if err != nil {
			return nil, err
		}
		if key.UID == uid {
			keys = append(keys, key)
		}
	}
	return s.PairsAt(ctx, keys)
}

// ShardsOf returns the clusters on which a deployment has pairs, each with the shard that
// one of the pairs names.
func (s *PairStore) ShardsOf(ctx context.Context, uid string, clusters []v2.ClusterKey) (map[v2.ClusterKey]string, error) {
	out := map[v2.ClusterKey]string{}
	for some := range slices.Chunk(clusters, etcdkv.MaxOps) {
		names := make([]string, len(some))
		for i, c := range some {
			names[i] = s.kv.Key(pairSpace, string(c), uid) + "/"
		}
		found, err := s.kv.GetMany(ctx, names, clientv3.WithPrefix(), clientv3.WithLimit(1))
		if err != nil {
			return nil, err
		}
		for _, kv := range found {
			if kv == nil {
				continue
			}
			p, err := s.parsePair(kv)
			if err != nil {
				return nil, err
			}
			out[p.Key.Cluster] = p.Shard
		}
	}
	return out, nil
}

// HasApplied reports whether a cluster is proved to hold anything, of any deployment.
func (s *PairStore) HasApplied(ctx context.Context, cluster v2.ClusterKey) (bool, error) {
	return s.anyOn(ctx, cluster, func(p Pair) bool { return p.Applied != "" })
}

// HasDesired reports whether any deployment wants anything on a cluster.
func (s *PairStore) HasDesired(ctx context.Context, cluster v2.ClusterKey) (bool, error) {
	return s.anyOn(ctx, cluster, func(p Pair) bool { return p.Desired != "" })
}

func (s *PairStore) anyOn(ctx context.Context, cluster v2.ClusterKey, is func(Pair) bool) (bool, error) {
	for p, err := range s.onCluster(ctx, string(cluster)) {
		if err != nil || is(p) {
			return err == nil, err
		}
	}
	return false, nil
}
