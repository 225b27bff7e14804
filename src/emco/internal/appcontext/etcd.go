package appcontext

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

// ErrFull says that etcd's quota is used up. It comes wrapped in an Unavailable.
var ErrFull = errors.New("etcd is full: only reads are served until it is compacted and defragmented, or gets a larger quota, and the alarm is disarmed")

// classify gives etcd's errors a kind. What may pass by itself is Unavailable.
func classify(op, subject string, err error) error {
	kind := errs.Internal
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		kind = errs.Unavailable
	case errors.Is(err, rpctypes.ErrNoSpace):
		kind, err = errs.Unavailable, fmt.Errorf("%w (%w)", ErrFull, err)
	case errors.Is(err, rpctypes.ErrRequestTooLarge), errors.Is(err, rpctypes.ErrTooManyOps):
		kind = errs.TooLarge
	default:
		switch codeOf(err) {
		case codes.Unavailable, codes.DeadlineExceeded, codes.ResourceExhausted, codes.Canceled:
			kind = errs.Unavailable
		}
	}
	return errs.E(kind, op, subject, err)
}

func codeOf(err error) codes.Code {
	if e, ok := errors.AsType[rpctypes.EtcdError](err); ok {
		return e.Code()
	}
	return status.Code(err)
}

// corrupt says that what is stored under subject cannot be read.
func corrupt(subject string, err error) error {
	return errs.E(errs.Internal, "read", subject, err)
}

func notFound(subject string) error {
	return errs.E(errs.NotFound, "read", subject, errors.New("not found"))
}

// encode returns v as the value of key, or TooLarge.
func encode[T any](key string, v T) (string, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return "", errs.E(errs.Internal, "encode", key, err)
	}
	if len(text) > maxValue {
		return "", errs.E(errs.TooLarge, "store", key, fmt.Errorf("%d bytes are above the limit of %d", len(text), maxValue))
	}
	return string(text), nil
}

func decode[T any](kv *mvccpb.KeyValue) (T, error) {
	var v T
	if err := json.Unmarshal(kv.Value, &v); err != nil {
		return v, corrupt(string(kv.Key), err)
	}
	return v, nil
}

// bounded is for one request to etcd. A server that was stopped in its tracks, or that is
// cut off, keeps its connections and never answers.
func (s *Store) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, s.patience)
}

func (s *Store) get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	r, err := s.c.Get(ctx, key, opts...)
	if err != nil {
		return nil, classify("read", key, err)
	}
	s.onOp("get", len(key)+sizeOf(r.Kvs))
	return r, nil
}

// one reads one record, or NotFound.
func one[T any](ctx context.Context, s *Store, key string) (T, *mvccpb.KeyValue, error) {
	r, err := s.get(ctx, key)
	if err != nil {
		return *new(T), nil, err
	}
	if len(r.Kvs) == 0 {
		return *new(T), nil, notFound(key)
	}
	v, err := decode[T](r.Kvs[0])
	return v, r.Kvs[0], err
}

func sizeOf(kvs []*mvccpb.KeyValue) int {
	n := 0
	for _, kv := range kvs {
		n += len(kv.Key) + len(kv.Value)
	}
	return n
}

// request is one transaction.
type request struct {
	subject      string // for errors
	cmps         []clientv3.Cmp
	then, orElse []clientv3.Op
}

// commit runs one transaction, fenced if the store is. It returns etcd's revision
// and whether cmps held; ErrFenced if the ownership is gone.
func (s *Store) commit(ctx context.Context, subject string, cmps []clientv3.Cmp, then []clientv3.Op) (int64, bool, error) {
	q := request{subject: subject, cmps: cmps, then: then}
	if s.fence != (Fence{}) {
		return s.fenced(ctx, q)
	}
	r, err := s.send(ctx, q)
	if err != nil {
		return 0, false, err
	}
	return r.Header.Revision, r.Succeeded, nil
}

// send asks etcd once.
func (s *Store) send(ctx context.Context, q request) (*clientv3.TxnResponse, error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	r, err := s.c.Txn(ctx).If(q.cmps...).Then(q.then...).Else(q.orElse...).Commit()
	if err != nil {
		return nil, classify("write", q.subject, err)
	}
	s.onOp("txn", sizeOfOps(q.then))
	return r, nil
}

func sizeOfOps(ops []clientv3.Op) int {
	n := 0
	for _, op := range ops {
		n += len(op.KeyBytes()) + len(op.ValueBytes())
	}
	return n
}

// batch collects writes and sends them in transactions within the limits. Writes
// reach etcd in the order in which they were added; a key may be named only once.
type batch struct {
	s       *Store
	subject string
	ops     []clientv3.Op
	bytes   int
}

func (b *batch) add(ctx context.Context, op clientv3.Op) error {
	size := len(op.KeyBytes()) + len(op.ValueBytes())
	if len(b.ops) == maxOps || (len(b.ops) > 0 && b.bytes+size > maxTxnBytes) {
		if err := b.flush(ctx); err != nil {
			return err
		}
	}
	b.ops, b.bytes = append(b.ops, op), b.bytes+size
	return nil
}

func (b *batch) flush(ctx context.Context) error {
	if len(b.ops) == 0 {
		return nil
	}
	_, _, err := b.s.commit(ctx, b.subject, nil, b.ops)
	b.ops, b.bytes = b.ops[:0], 0
	return err
}

// scan is one list of keys, read page by page at one revision. Should etcd compact
// that revision away while the list is being read, the rest comes from a newer one.
type scan struct {
	prefix   string
	end      string // where the keys end; empty: with the prefix
	keysOnly bool
	rev      int64 // revision of the next page; 0 is the newest
	first    int64 // revision of the first page
}

// list yields what sc finds, in key order; it ends at the first error.
func (s *Store) list(ctx context.Context, sc *scan) iter.Seq2[*mvccpb.KeyValue, error] {
	return func(yield func(*mvccpb.KeyValue, error) bool) {
		from, limit := sc.prefix, int64(32)
		if sc.keysOnly {
			limit = maxPage
		}
		for from != "" {
			r, err := s.page(ctx, sc, from, limit)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, kv := range r.Kvs {
				if !yield(kv, nil) {
					return
				}
			}
			if from = ""; r.More {
				from = string(r.Kvs[len(r.Kvs)-1].Key) + "\x00"
			}
			limit = nextLimit(limit, sizeOf(r.Kvs))
		}
	}
}

// nextLimit adapts the number of keys to what the last page weighed.
func nextLimit(limit int64, bytes int) int64 {
	return max(1, min(maxPage, limit*pageBytes/int64(max(1, bytes))))
}

func (s *Store) page(ctx context.Context, sc *scan, from string, limit int64) (*clientv3.GetResponse, error) {
	end := cmp.Or(sc.end, clientv3.GetPrefixRangeEnd(sc.prefix))
	opts := []clientv3.OpOption{clientv3.WithRange(end), clientv3.WithLimit(limit)}
	if sc.keysOnly {
		opts = append(opts, clientv3.WithKeysOnly())
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	r, err := s.c.Get(ctx, from, append(opts, clientv3.WithRev(sc.rev))...)
	if errors.Is(err, rpctypes.ErrCompacted) {
		sc.rev = 0
		r, err = s.c.Get(ctx, from, opts...)
	}
	if err != nil {
		return nil, classify("list", sc.prefix, err)
	}
	s.onOp("list", sizeOf(r.Kvs))
	if sc.rev == 0 {
		sc.rev = r.Header.Revision
	}
	if sc.first == 0 {
		sc.first = sc.rev
	}
	return r, nil
}
