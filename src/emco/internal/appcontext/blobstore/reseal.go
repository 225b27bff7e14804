package blobstore

import (
	"context"
	"errors"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/seal"
)

// SealCount counts stored contents.
type SealCount struct {
	Keys  map[string]int // contents by the id of the key that sealed them
	Plain int            // contents that wait to be sealed
	Large int            // contents that Reseal leaves as they are: they do not fit into one transaction
	Done  int            // contents that Reseal sealed with the key in use
	Left  int            // contents that Reseal did not seal with the key in use: they were written at the same time
}

// CountSealed counts contents by their keys. It opens all of them if open is set; the error names the first one
// that does not open.
func (s *Store) CountSealed(ctx context.Context, open bool) (SealCount, error) {
	n := SealCount{Keys: map[string]int{}}
	for c, err := range s.stored(ctx) {
		if err != nil {
			return n, err
		}
		if c.header.sealed {
			n.Keys[seal.KeyID(c.body)]++
		} else {
			n.Plain++
		}
		if open {
			if _, err := s.readBlob(ctx, c.digest); err != nil {
				return n, err
			}
		}
	}
	return n, nil
}

// Reseal seals all contents with the key in use that are not. It may be interrupted, and repeated; processes may
// read and write meanwhile. Contents above the size of a transaction stay as they are: a reader must never find
// chunks of two sealings.
func (s *Store) Reseal(ctx context.Context) (SealCount, error) {
	n := SealCount{Keys: map[string]int{}}
	p, release := s.packer()
	defer release()
	for c, err := range s.stored(ctx) {
		if err != nil {
			return n, err
		}
		if c.header.sealed && s.sealer.Current(c.body) {
			continue
		}
		content, err := s.readBlob(ctx, c.digest)
		if err != nil {
			return n, err
		}
		packed, err := p.pack(c.digest, content)
		if err != nil {
			return n, err
		}
		if len(packed) > etcdkv.MaxTxnBytes-txnSlack || c.header.chunks > etcdkv.MaxOps/2 {
			n.Large++
			continue
		}
		done, err := s.replace(ctx, c, packed)
		if err != nil {
			return n, err
		}
		if done {
			n.Done++
		} else {
			n.Left++
		}
	}
	return n, nil
}

// txnSlack is for the keys of a transaction.
const txnSlack = 16 << 10

// storedBlob is the description of content in chunk 0.
type storedBlob struct {
	digest   Digest
	revision int64 // of chunk 0
	header   blobHeader
	body     []byte // of chunk 0
}

// stored yields the first chunks of all contents; it ends at the first error.
func (s *Store) stored(ctx context.Context) func(func(storedBlob, error) bool) {
	return func(yield func(storedBlob, error) bool) {
		for kv, err := range s.kv.List(ctx, etcdkv.Scan{Prefix: s.kv.Key("blob") + "/", KeysOnly: true}) {
			if err != nil {
				yield(storedBlob{}, err)
				return
			}
			d := Digest(s.kv.Split(kv.Key)[1])
			if string(kv.Key) != blobKey(s.kv, d, 0) {
				continue
			}
			r, err := s.kv.Get(ctx, string(kv.Key))
			if err == nil && len(r.Kvs) == 0 {
				continue // removed meanwhile
			}
			c := storedBlob{digest: d}
			if err == nil {
				c.revision = r.Kvs[0].ModRevision
				if c.header, c.body, err = unpackHeader(r.Kvs[0].Value); err == nil && c.header.sealed && !seal.Sealed(c.body) {
					err = errors.New("the sealed content is cut off")
				}
				if err != nil {
					err = etcdkv.Corrupt("blob "+string(d), err)
				}
			}
			if !yield(c, err) || err != nil {
				return
			}
		}
	}
}

// replace writes all chunks of content in one transaction, unless it was written meanwhile.
func (s *Store) replace(ctx context.Context, c storedBlob, packed []byte) (bool, error) {
	var ops []clientv3.Op
	i := 0
	for ; i*etcdkv.MaxValue < len(packed); i++ {
		chunk := packed[i*etcdkv.MaxValue : min((i+1)*etcdkv.MaxValue, len(packed))]
		ops = append(ops, clientv3.OpPut(blobKey(s.kv, c.digest, i), string(chunk)))
	}
	for ; i < c.header.chunks; i++ {
		ops = append(ops, clientv3.OpDelete(blobKey(s.kv, c.digest, i)))
	}
	same := clientv3.Compare(clientv3.ModRevision(blobKey(s.kv, c.digest, 0)), "=", c.revision)
	_, ok, err := s.kv.Commit(ctx, "blob "+string(c.digest), []clientv3.Cmp{same}, ops)
	return ok, err
}
