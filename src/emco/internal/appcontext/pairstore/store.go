package pairstore

import (
	"context"
	"errors"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
)

// Store reads the pairs of all shards. It is safe for use by many goroutines.
type Store struct{ kv *etcdkv.Client }

// New returns a store of the pairs below the client's prefix.
func New(kv *etcdkv.Client) *Store { return &Store{kv} }

// NewWriter returns the writer of a shard's pairs, given what etcd holds of them.
func (s *Store) NewWriter(own etcdkv.Fence, stored *Contents) *Writer {
	return NewWriter(s.kv, own, stored)
}

// maxReads is how often a read begins again because etcd has compacted its revision.
const maxReads = 3

// atOneRevision has read read at etcd's newest revision: between two revisions a pair may move from
// its record to a table, so a reader of both could miss it. If etcd compacts the revision
// meanwhile, read is called again with a newer one.
func (s *Store) atOneRevision(ctx context.Context, read func(rev int64) error) error {
	for try := 1; ; try++ {
		now, err := s.kv.Get(ctx, s.kv.Key(tableSpace), clientv3.WithKeysOnly())
		if err != nil {
			return err
		}
		err = read(now.Header.Revision)
		if !errors.Is(err, rpctypes.ErrCompacted) || try == maxReads {
			return err
		}
	}
}
