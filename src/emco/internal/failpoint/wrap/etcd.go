package wrap

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/failpoint"
)

// KV returns the client with points around its reads and writes. Keys below prefix decide
// the kind of a write.
func KV(s *failpoint.Set, prefix string, kv clientv3.KV) clientv3.KV {
	return keyStore{kv, s, strings.TrimSuffix(prefix, "/") + "/"}
}

type keyStore struct {
	clientv3.KV
	set    *failpoint.Set
	prefix string
}

// Get reads.
func (k keyStore) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	if err := k.at(ctx, EtcdRead); err != nil {
		return nil, err
	}
	return k.KV.Get(ctx, key, opts...)
}

// Delete removes keys.
func (k keyStore) Delete(ctx context.Context, key string, opts ...clientv3.OpOption) (r *clientv3.DeleteResponse, err error) {
	err = k.around(ctx, []clientv3.Op{clientv3.OpDelete(key, opts...)}, func(ctx context.Context) error {
		r, err = k.KV.Delete(ctx, key, opts...)
		return err
	})
	return r, err
}

// Txn begins a transaction.
func (k keyStore) Txn(ctx context.Context) clientv3.Txn {
	return &txn{keys: k, ctx: ctx}
}

// at fails as an unreachable server does.
func (k keyStore) at(ctx context.Context, point string) error {
	_, err := k.send(ctx, point)
	return err
}

// send is at for a request, and returns its context.
func (k keyStore) send(ctx context.Context, point string) (context.Context, error) {
	ctx, err := k.set.Send(ctx, point)
	if err != nil {
		err = status.Error(codes.Unavailable, err.Error())
	}
	return ctx, err
}

func (k keyStore) around(ctx context.Context, ops []clientv3.Op, do func(context.Context) error) error {
	w, changes := k.about(ops)
	if !changes {
		if err := k.at(ctx, EtcdRead); err != nil {
			return err
		}
		return do(ctx)
	}
	sending, err := k.send(ctx, w.before())
	if err != nil {
		return err
	}
	if err := do(sending); err != nil {
		return err
	}
	return k.at(ctx, w.after())
}

// about returns the kind of a transaction; false if it only reads.
func (k keyStore) about(ops []clientv3.Op) (writeKind, bool) {
	first := len(writes)
	for _, op := range ops {
		if !op.IsGet() {
			first = min(first, slices.Index(writes, k.of(op)))
		}
	}
	if first == len(writes) {
		return "", false
	}
	return writes[first], true
}

// of returns the kind of one write, by its key and, for pairs, by the phase.
func (k keyStore) of(op clientv3.Op) writeKind {
	part := strings.Split(strings.TrimPrefix(string(op.KeyBytes()), k.prefix), "/")
	switch part[0] {
	case "blob":
		return writeBlob
	case "head":
		if op.IsDelete() {
			return writeRemove
		}
		return writeStep
	case "dep":
		return ofDeployment(part)
	case "pair":
		return ofPair(op)
	case "pairtable":
		return ofTable(op)
	case "pairroster":
		return writeIntend
	case "report", "reporttable":
		return writeReport
	case "move":
		return writeMove
	case "own", "member":
		return writeOwn
	case "clusterhistory", "clusterlist":
		return writeHistory
	case "event":
		return writeEvent
	}
	return writeStep
}

// ofDeployment returns the kind of a write below dep/<uid>/.
func ofDeployment(part []string) writeKind {
	switch {
	case len(part) > 2 && part[2] == "rev":
		return writePublish
	case len(part) > 2 && part[2] == "place":
		return writePlace
	case len(part) > 2 && part[2] == "commit":
		return writeCommit
	}
	return writeStep
}

// ofPair distinguishes pairs before their delivery from those after it.
func ofPair(op clientv3.Op) writeKind {
	var p appcontext.Pair
	if op.IsDelete() || json.Unmarshal(op.ValueBytes(), &p) != nil || !fresh(p) {
		return writeSettle
	}
	return writeIntend
}

// ofTable distinguishes tables with pairs that wait for their delivery from the others.
func ofTable(op clientv3.Op) writeKind {
	var groups []appcontext.Pair
	if op.IsDelete() || json.Unmarshal(op.ValueBytes(), &groups) != nil || !slices.ContainsFunc(groups, fresh) {
		return writeSettle
	}
	return writeIntend
}

// fresh reports whether nothing has been delivered for a pair yet.
func fresh(p appcontext.Pair) bool {
	return p.Attempt == 0 && (p.Phase == appcontext.Pending || p.Phase == appcontext.Deleting)
}

// txn is a transaction that is sent when its point is passed.
type txn struct {
	keys         keyStore
	ctx          context.Context
	cmps         []clientv3.Cmp
	then, orElse []clientv3.Op
}

// If adds conditions.
func (t *txn) If(cs ...clientv3.Cmp) clientv3.Txn {
	t.cmps = append(t.cmps, cs...)
	return t
}

// Then adds the operations if they hold.
func (t *txn) Then(ops ...clientv3.Op) clientv3.Txn {
	t.then = append(t.then, ops...)
	return t
}

// Else adds the operations if they do not hold; they only read.
func (t *txn) Else(ops ...clientv3.Op) clientv3.Txn {
	t.orElse = append(t.orElse, ops...)
	return t
}

// Commit sends the transaction.
func (t *txn) Commit() (r *clientv3.TxnResponse, err error) {
	err = t.keys.around(t.ctx, t.then, func(ctx context.Context) error {
		r, err = t.keys.KV.Txn(ctx).If(t.cmps...).Then(t.then...).Else(t.orElse...).Commit()
		return err
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}
