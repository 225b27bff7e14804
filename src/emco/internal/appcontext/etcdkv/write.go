package etcdkv

import (
	"context"
	"iter"
	"maps"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"

	"github.com/emco-orchestrator/emco/src/emco/internal/readpoint"
)

// transaction is what one request to etcd asks for.
type transaction struct {
	subject      string // for errors
	cmps         []clientv3.Cmp
	then, orElse []clientv3.Op
}

// Commit runs one transaction, fenced if the client is. It returns etcd's revision and
// whether cmps held; ErrFenced if the ownership is lost.
func (c *Client) Commit(ctx context.Context, subject string, cmps []clientv3.Cmp, then []clientv3.Op) (int64, bool, error) {
	t := transaction{subject: subject, cmps: cmps, then: then}
	if !c.fence.IsZero() {
		return c.commitFenced(ctx, t)
	}
	r, err := c.send(ctx, t)
	if err != nil {
		return 0, false, err
	}
	return r.Header.Revision, r.Succeeded, nil
}

// Txn runs one transaction without a fence and returns all that etcd answers.
func (c *Client) Txn(ctx context.Context, subject string, cmps []clientv3.Cmp, then ...clientv3.Op) (*clientv3.TxnResponse, error) {
	return c.send(ctx, transaction{subject: subject, cmps: cmps, then: then})
}

// send drops the read point, even after an error, so that later reads see what others wrote before
// the transaction.
func (c *Client) send(ctx context.Context, t transaction) (*clientv3.TxnResponse, error) {
	defer readpoint.Drop(ctx)
	ctx, cancel := c.Bounded(ctx)
	defer cancel()
	r, err := c.etcd.Txn(ctx).If(t.cmps...).Then(t.then...).Else(t.orElse...).Commit()
	if err != nil {
		return nil, Classify("write", t.subject, err)
	}
	c.o.OnRequest("txn", sizeOfOps(t.then))
	return r, nil
}

func sizeOfOps(ops []clientv3.Op) int {
	n := 0
	for _, op := range ops {
		n += len(op.KeyBytes()) + len(op.ValueBytes())
	}
	return n
}

// Batch collects writes and sends them in transactions within the limits. Writes reach
// etcd in the order of their addition; a key may be named only once.
type Batch struct {
	c       *Client
	subject string
	ops     []clientv3.Op
	bytes   int
}

// NewBatch returns an empty batch. The subject is for errors.
func (c *Client) NewBatch(subject string) *Batch { return &Batch{c: c, subject: subject} }

// Add adds a write, and sends those before it when the transaction is full.
func (b *Batch) Add(ctx context.Context, op clientv3.Op) error {
	size := len(op.KeyBytes()) + len(op.ValueBytes())
	if len(b.ops) == MaxOps || (len(b.ops) > 0 && b.bytes+size > MaxTxnBytes) {
		if err := b.Flush(ctx); err != nil {
			return err
		}
	}
	b.ops, b.bytes = append(b.ops, op), b.bytes+size
	return nil
}

// Flush sends what was added.
func (b *Batch) Flush(ctx context.Context) error {
	if len(b.ops) == 0 {
		return nil
	}
	_, _, err := b.c.Commit(ctx, b.subject, nil, b.ops)
	b.ops, b.bytes = b.ops[:0], 0
	return err
}

// Writers is how many transactions WriteSorted has under way at the same time: most of the
// time of one is waiting for the disk.
const Writers = 4

// WriteSorted sends ops, which are given by key, in no order. Keys that are close together
// share a transaction.
func (c *Client) WriteSorted(ctx context.Context, subject string, ops map[string]clientv3.Op) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(Writers)
	for ops := range transactions(ops) {
		g.Go(func() error {
			_, _, err := c.Commit(ctx, subject, nil, ops)
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
			if len(txn) == MaxOps || len(txn) > 0 && bytes+size > MaxTxnBytes {
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
