package pairstore

import (
	"context"
	"iter"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
)

// ParseRecord reads a pair's own record.
func ParseRecord(kv *etcdkv.Client, record *mvccpb.KeyValue) (Pair, error) {
	key, err := ParseKey(kv, record.Key)
	if err != nil {
		return Pair{}, err
	}
	p, err := etcdkv.Decode[Pair](record)
	p.Key = key
	return p, err
}

// recordKind is how records by key are named and read: those of pairs, or of reports.
type recordKind[T any] struct {
	key   func(*etcdkv.Client, Key) string
	parse func(*etcdkv.Client, *mvccpb.KeyValue) (T, error)
}

// pairRecords are the records of pairs.
var pairRecords = recordKind[Pair]{RecordKey, ParseRecord}

// readInto reads the records of some of the keys, given by their index, into found.
func (r recordKind[T]) readInto(ctx context.Context, kv *etcdkv.Client, keys []Key, some []int, found []*T, opts ...clientv3.OpOption) error {
	names := make([]string, len(some))
	for j, i := range some {
		names[j] = r.key(kv, keys[i])
	}
	return kv.GetEach(ctx, names, func(j int, record *mvccpb.KeyValue) error {
		if record == nil {
			return nil
		}
		one, err := r.parse(kv, record)
		found[some[j]] = &one
		return err
	}, opts...)
}

// absent returns the indexes of those that are nil.
func absent[T any](found []*T) (at []int) {
	for i, r := range found {
		if r == nil {
			at = append(at, i)
		}
	}
	return at
}

// present returns those that are not nil.
func present[T any](found []*T) (out []T) {
	for _, r := range found {
		if r != nil {
			out = append(out, *r)
		}
	}
	return out
}

func (s *Store) parseRecord(record *mvccpb.KeyValue) (Pair, error) { return ParseRecord(s.kv, record) }

// keys yields the keys of the records of a space at a revision, in their order.
func (s *Store) keys(ctx context.Context, space string, rev int64) iter.Seq2[Key, error] {
	list := s.kv.List(ctx, etcdkv.Scan{Prefix: s.kv.Key(space) + "/", KeysOnly: true, Revision: rev})
	return etcdkv.Records(list, func(kv *mvccpb.KeyValue) (Key, error) { return ParseKey(s.kv, kv.Key) })
}

// records yields the records below a prefix at a revision, in order of their keys.
func (s *Store) records(ctx context.Context, prefix string, rev int64) iter.Seq2[Pair, error] {
	return etcdkv.Records(s.kv.List(ctx, etcdkv.Scan{Prefix: prefix, Revision: rev}), s.parseRecord)
}

// PutPairs, which is for tests, writes a record for each pair and removes others, in transactions of at most 128
// operations; each is refused with ErrFenced if own is lost. The zero Fence fences
// nothing. A Writer of the pairs' shard must not run. A key that is both put and removed is put.
//
// Writing the same again does no harm; after an error some may be written.
func (s *Store) PutPairs(ctx context.Context, own etcdkv.Fence, put []Pair, remove []Key) error {
	ops := make(map[string]clientv3.Op, len(put)+len(remove))
	for _, k := range remove {
		ops[RecordKey(s.kv, k)] = clientv3.OpDelete(RecordKey(s.kv, k))
	}
	for _, p := range put {
		if err := etcdkv.CheckParts(string(p.Key.Cluster), string(p.Key.Deployment), p.Key.App); err != nil {
			return err
		}
		name := RecordKey(s.kv, p.Key)
		text, err := etcdkv.Encode(name, p)
		if err != nil {
			return err
		}
		ops[name] = clientv3.OpPut(name, text)
	}
	return s.kv.Fenced(own).WriteSorted(ctx, "pairs", ops)
}
