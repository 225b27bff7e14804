package agents

import (
	"context"
	"errors"
	"log/slog"
	"reflect"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/api/status"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
)

// Capacity is what the nodes of a cluster have free, by its agent. It is a value of its own, because an Agent is
// written with each sign of life.
type Capacity struct {
	At       time.Time       `json:"at"` // when the first report with this content was received; the agent may have repeated it since
	Capacity status.Capacity `json:"capacity"`
}

func capacityKey(kv *etcdkv.Client, cluster v2.ClusterKey) string {
	return kv.Key("capacity", string(cluster))
}

// maxTries bounds how often SetCapacity begins again because another process was faster.
const maxTries = 5

// SetCapacity stores the capacity of the cluster's nodes from a report received at the given time; zero if the report has
// none. It writes only what differs. Several processes may call it with the same report. Conflict if others
// change the value all the time.
func (s *Store) SetCapacity(ctx context.Context, cluster v2.ClusterKey, at time.Time, c status.Capacity) error {
	if err := etcdkv.CheckParts(string(cluster)); err != nil {
		return err
	}
	for range maxTries {
		if done, err := s.trySetCapacity(ctx, capacityKey(s.kv, cluster), Capacity{at, c}); done || err != nil {
			return err
		}
	}
	return errs.E(errs.Conflict, "store", "free resources of "+string(cluster), errors.New("other processes change them all the time"))
}

// trySetCapacity returns false if another process has changed the value since it was read.
func (s *Store) trySetCapacity(ctx context.Context, key string, c Capacity) (done bool, err error) {
	r, err := s.kv.Get(ctx, key)
	if err != nil {
		return false, err
	}
	have, mod := Capacity{}, int64(0)
	if len(r.Kvs) > 0 {
		mod = r.Kvs[0].ModRevision
		have, err = etcdkv.Decode[Capacity](r.Kvs[0])
	}
	if err == nil && reflect.DeepEqual(have.Capacity, c.Capacity) { // a value that cannot be read is replaced
		return true, nil
	}
	op := clientv3.OpDelete(key)
	if !reflect.ValueOf(c.Capacity).IsZero() {
		text, err := etcdkv.Encode(key, c)
		if err != nil {
			return false, err
		}
		op = clientv3.OpPut(key, text)
	}
	_, done, err = s.kv.Commit(ctx, key, []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(key), "=", mod)}, []clientv3.Op{op})
	return done, err
}

// Capacities returns what agents report on the nodes of clusters, in their order; the zero Capacity for those that report nothing. A
// value that cannot be read is a Problem of its cluster; SetCapacity replaces it.
func (s *Store) Capacities(ctx context.Context, clusters []v2.ClusterKey) ([]Capacity, error) {
	keys := make([]string, len(clusters))
	for i, c := range clusters {
		keys[i] = capacityKey(s.kv, c)
	}
	out := make([]Capacity, len(clusters))
	err := s.kv.GetEach(ctx, keys, func(i int, kv *mvccpb.KeyValue) error {
		var damage error
		if kv != nil {
			out[i], damage = etcdkv.Decode[Capacity](kv)
		}
		if damage == nil {
			s.damaged.forget(clusters[i])
			return nil
		}
		s.damaged.log(clusters[i], kv.ModRevision, damage)
		out[i] = Capacity{Capacity: status.Capacity{Problem: "what is stored of its last report is damaged; the next report replaces it"}}
		return nil
	})
	return out, err
}

// maxDamaged bounds the damaged values that a damageLog remembers. Beyond that, some are logged again.
const maxDamaged = 1000

// damageLog logs values of clusters that cannot be read, each once. It is safe for use by many goroutines.
type damageLog struct {
	to *slog.Logger

	mu     sync.Mutex
	logged map[v2.ClusterKey]int64 // etcd revision of the value that was logged; guarded by mu
}

func newDamageLog(to *slog.Logger) *damageLog {
	return &damageLog{to: to, logged: map[v2.ClusterKey]int64{}}
}

// log logs the damage of a cluster's value, which was written at a revision.
func (d *damageLog) log(cluster v2.ClusterKey, revision int64, damage error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.logged[cluster] == revision {
		return
	}
	if len(d.logged) >= maxDamaged {
		clear(d.logged)
	}
	d.logged[cluster] = revision
	d.to.Error("what a cluster has free is not readable", "cluster", cluster, "err", damage)
}

// forget notes that the value of a cluster is readable, or gone.
func (d *damageLog) forget(cluster v2.ClusterKey) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.logged, cluster)
}
