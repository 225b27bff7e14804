package appcontext

import (
	"context"
	"iter"
	"maps"
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

// PutPairs writes and removes pairs, in transactions of at most 128 operations, each of
// which is refused with ErrFenced if own was lost. A zero own means unfenced. A key that
// is both put and removed is put; of two with the same key the last one counts.
// Writing the same again does no harm; after an error some may be written. After
// Unavailable that may also happen later, because a server that was asked may be asleep; but
// not any more once a later write by the same own was answered. Unfenced writes have no such end.
func (s *Store) PutPairs(ctx context.Context, own Fence, put []Pair, remove []PairKey) error {
	return putSpace(ctx, s.Fenced(own), space[Pair]{"pair", func(p Pair) PairKey { return p.Key }}, put, remove)
}

// space is a key space of records by cluster, deployment and app.
type space[T any] struct {
	name string
	key  func(T) PairKey
}

func putSpace[T any](ctx context.Context, s *Store, sp space[T], put []T, remove []PairKey) error {
	ops := make(map[string]clientv3.Op, len(put)+len(remove))
	for _, k := range remove {
		ops[s.pairKey(sp.name, k)] = clientv3.OpDelete(s.pairKey(sp.name, k))
	}
	for _, v := range put {
		k := sp.key(v)
		if err := checkParts(k.Cluster, k.UID, k.App); err != nil {
			return err
		}
		key := s.pairKey(sp.name, k)
		text, err := encode(key, v)
		if err != nil {
			return err
		}
		ops[key] = clientv3.OpPut(key, text)
	}
	return s.writeSorted(ctx, sp.name+"s", ops)
}

// writers is how many transactions of records are under way at the same time: most of
// one is waiting for the disk.
const writers = 4

// writeSorted sends ops, those with keys that are close together in one transaction.
func (s *Store) writeSorted(ctx context.Context, subject string, ops map[string]clientv3.Op) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(writers)
	for txn := range transactions(ops) {
		g.Go(func() error {
			_, _, err := s.commit(ctx, subject, nil, txn)
			return err
		})
	}
	return g.Wait()
}

// transactions cuts ops, in order of their keys, into what one transaction can hold.
func transactions(ops map[string]clientv3.Op) iter.Seq[[]clientv3.Op] {
	return func(yield func([]clientv3.Op) bool) {
		var txn []clientv3.Op
		bytes := 0
		for _, k := range slices.Sorted(maps.Keys(ops)) {
			size := sizeOfOps([]clientv3.Op{ops[k]})
			if len(txn) == maxOps || len(txn) > 0 && bytes+size > maxTxnBytes {
				if !yield(txn) {
					return
				}
				txn, bytes = nil, 0
			}
			txn, bytes = append(txn, ops[k]), bytes+size
		}
		if len(txn) > 0 {
			yield(txn)
		}
	}
}

// Pairs yields all pairs, in order of their keys: by cluster, deployment and app. It
// ends at the first error.
func (s *Store) Pairs(ctx context.Context) iter.Seq2[Pair, error] {
	return records(s.list(ctx, &scan{prefix: s.key("pair") + "/"}), s.parsePair)
}

func (s *Store) parsePair(kv *mvccpb.KeyValue) (Pair, error) {
	key, err := s.parsePairKey(kv.Key)
	if err != nil {
		return Pair{}, err
	}
	p, err := decode[Pair](kv)
	p.Key = key
	return p, err
}

// PairsAt returns the pairs of the given keys, in their order; those that do not exist
// are left out.
func (s *Store) PairsAt(ctx context.Context, keys []PairKey) ([]Pair, error) {
	return readAt(ctx, s, "pair", keys, s.parsePair)
}

// ShardsOf returns on which of the clusters a deployment has pairs, and the shard that
// one of them names.
func (s *Store) ShardsOf(ctx context.Context, uid string, clusters []string) (map[string]string, error) {
	out := map[string]string{}
	for some := range slices.Chunk(clusters, maxOps) {
		names := make([]string, len(some))
		for i, c := range some {
			names[i] = s.key("pair", c, uid) + "/"
		}
		found, err := s.getMany(ctx, names, clientv3.WithPrefix(), clientv3.WithLimit(1))
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

func readAt[T any](ctx context.Context, s *Store, space string, keys []PairKey, parse func(*mvccpb.KeyValue) (T, error)) ([]T, error) {
	var all []T
	for some := range slices.Chunk(keys, maxOps) {
		names := make([]string, len(some))
		for i, k := range some {
			names[i] = s.pairKey(space, k)
		}
		found, err := s.getMany(ctx, names)
		if err != nil {
			return nil, err
		}
		for _, kv := range found {
			if kv == nil {
				continue
			}
			v, err := parse(kv)
			if err != nil {
				return nil, err
			}
			all = append(all, v)
		}
	}
	return all, nil
}

// PutReports writes and removes reports as PutPairs does pairs. A report too large for
// one value is cut: long reasons are shortened first, then resources that are Current
// are left out, then others; Truncated counts what was left out.
func (s *Store) PutReports(ctx context.Context, own Fence, put []Report, remove []PairKey) error {
	cut := make([]Report, len(put))
	for i, r := range put {
		cut[i] = cutReport(r)
	}
	return putSpace(ctx, s.Fenced(own), space[Report]{"report", func(r Report) PairKey { return r.Key }}, cut, remove)
}

// ReportsAt returns the reports of the given keys, in their order; those that do not
// exist are left out.
func (s *Store) ReportsAt(ctx context.Context, keys []PairKey) ([]Report, error) {
	return readAt(ctx, s, "report", keys, s.parseReport)
}

func (s *Store) parseReport(kv *mvccpb.KeyValue) (Report, error) {
	key, err := s.parsePairKey(kv.Key)
	if err != nil {
		return Report{}, err
	}
	r, err := decode[Report](kv)
	r.Key = key
	return r, err
}

// cutReport returns a report that fits into one value. The one given is not changed.
func cutReport(r Report) Report {
	key := strings.Join([]string{r.Key.Cluster, r.Key.UID, r.Key.App}, "/")
	if _, err := encode(key, r); !errs.Is(err, errs.TooLarge) {
		return r
	}
	kept, room := cutReasons(r.Resources), maxValue-256
	current := func(x ResourceStatus) bool { return x.Status == "Current" }
	slices.SortStableFunc(kept, func(a, b ResourceStatus) int { return order(current(a)) - order(current(b)) })
	for i, x := range kept {
		text, err := encode(key, x)
		if room -= len(text) + 1; err != nil || room < 0 {
			r.Truncated += len(kept) - i
			kept = kept[:i]
			break
		}
	}
	r.Resources = kept
	return r
}

func order(last bool) int {
	if last {
		return 1
	}
	return 0
}

// cutReasons returns a copy of list with no reason above 512 bytes.
func cutReasons(list []ResourceStatus) []ResourceStatus {
	const limit = 512
	list = slices.Clone(list)
	for i, x := range list {
		if len(x.Reason) > limit {
			list[i].Reason = strings.ToValidUTF8(x.Reason[:limit], "") + "…"
		}
	}
	return list
}
