package agents

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
)

// Refusals counts the documents of a cluster that were refused, in all processes.
type Refusals struct {
	Count  uint64    `json:"count"`
	Result string    `json:"result"` // why the last one was refused, in a word
	Why    string    `json:"why"`
	Commit string    `json:"commit,omitempty"` // that held it; empty if it arrived by HTTPS
	At     time.Time `json:"at"`
}

// Add returns r and other together, with the reason of the later one.
func (r Refusals) Add(other Refusals) Refusals {
	count := r.Count + other.Count
	if other.At.After(r.At) {
		r = other
	}
	r.Count = count
	return r
}

func refusalsKey(kv *etcdkv.Client, cluster v2.ClusterKey) string {
	return kv.Key("denied", string(cluster))
}

// RefusalsOf returns the refusals of a cluster; Count is 0 if there are none.
func (s *Store) RefusalsOf(ctx context.Context, cluster v2.ClusterKey) (Refusals, error) {
	if err := etcdkv.CheckParts(string(cluster)); err != nil {
		return Refusals{}, err
	}
	r, err := s.kv.Get(ctx, refusalsKey(s.kv, cluster))
	if err != nil || len(r.Kvs) == 0 {
		return Refusals{}, err
	}
	return etcdkv.Decode[Refusals](r.Kvs[0])
}

// refusalTries is how often AddRefusals reads records again that another process changes at the same time.
const refusalTries = 5

// AddRefusals adds to the refusals of clusters. After an error, those that were not added are left in more.
func (s *Store) AddRefusals(ctx context.Context, more map[v2.ClusterKey]Refusals) error {
	for some := range slices.Chunk(slices.Sorted(maps.Keys(more)), etcdkv.MaxOps) {
		if err := s.addRefusals(ctx, some, more); err != nil {
			return err
		}
		for _, cluster := range some {
			delete(more, cluster)
		}
	}
	return nil
}

func (s *Store) addRefusals(ctx context.Context, clusters []v2.ClusterKey, more map[v2.ClusterKey]Refusals) error {
	keys := make([]string, len(clusters))
	for i, c := range clusters {
		if err := etcdkv.CheckParts(string(c)); err != nil {
			return err
		}
		keys[i] = refusalsKey(s.kv, c)
	}
	for range refusalTries {
		cmps, puts := make([]clientv3.Cmp, len(keys)), make([]clientv3.Op, len(keys))
		err := s.kv.GetEach(ctx, keys, func(i int, kv *mvccpb.KeyValue) error {
			next, mod := more[clusters[i]], int64(0)
			if kv != nil {
				mod = kv.ModRevision
				last, damaged := etcdkv.Decode[Refusals](kv)
				if damaged != nil {
					s.kv.Log().Error("refused reports are not readable; their count begins again", "cluster", clusters[i], "err", damaged)
					last = Refusals{}
				}
				next = next.Add(last)
			}
			text, err := etcdkv.Encode(keys[i], next)
			cmps[i], puts[i] = clientv3.Compare(clientv3.ModRevision(keys[i]), "=", mod), clientv3.OpPut(keys[i], text)
			return err
		})
		if err != nil {
			return err
		}
		if _, ok, err := s.kv.Commit(ctx, "refused reports", cmps, puts); err != nil || ok {
			return err
		}
	}
	return errs.E(errs.Unavailable, "store", "refused reports", fmt.Errorf("%d clusters: other processes change them all the time", len(clusters)))
}
