package embedded

import (
	"context"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// gatedKV refuses writes before they reach etcd while refuse returns an error. Deletions pass: they
// make room.
type gatedKV struct {
	clientv3.KV
	refuse func() error
}

// Put writes a key.
func (g gatedKV) Put(ctx context.Context, key, value string, opts ...clientv3.OpOption) (*clientv3.PutResponse, error) {
	if err := g.refuse(); err != nil {
		return nil, err
	}
	return g.KV.Put(ctx, key, value, opts...)
}

// Do runs one operation.
func (g gatedKV) Do(ctx context.Context, op clientv3.Op) (clientv3.OpResponse, error) {
	if puts(op) {
		if err := g.refuse(); err != nil {
			return clientv3.OpResponse{}, err
		}
	}
	return g.KV.Do(ctx, op)
}

// Txn begins a transaction.
func (g gatedKV) Txn(ctx context.Context) clientv3.Txn {
	return &gatedTxn{g.KV.Txn(ctx), g.refuse, false}
}

type gatedTxn struct {
	clientv3.Txn
	refuse func() error
	puts   bool
}

// If adds comparisons.
func (t *gatedTxn) If(cmps ...clientv3.Cmp) clientv3.Txn {
	t.Txn = t.Txn.If(cmps...)
	return t
}

// Then adds operations for when the comparisons hold.
func (t *gatedTxn) Then(ops ...clientv3.Op) clientv3.Txn {
	t.Txn, t.puts = t.Txn.Then(ops...), t.puts || slices.ContainsFunc(ops, puts)
	return t
}

// Else adds operations for when they do not.
func (t *gatedTxn) Else(ops ...clientv3.Op) clientv3.Txn {
	t.Txn, t.puts = t.Txn.Else(ops...), t.puts || slices.ContainsFunc(ops, puts)
	return t
}

// Commit runs the transaction.
func (t *gatedTxn) Commit() (*clientv3.TxnResponse, error) {
	if t.puts {
		if err := t.refuse(); err != nil {
			return nil, err
		}
	}
	return t.Txn.Commit()
}

// puts reports whether an operation may write a key.
func puts(op clientv3.Op) bool { return op.IsPut() || op.IsTxn() }
