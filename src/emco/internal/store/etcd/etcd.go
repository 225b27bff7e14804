// Package etcd stores documents and packages in etcd, next to the AppContext. Any number of processes
// on any number of machines may share them.
//
//	doc/d/<depth>/<key>       document; depth is the number of slashes in the key, two digits
//	doc/c/<tag>/<n>           content of a large document, in chunks
//	doc/r/<target>\0<holder>  one reference or claim
//	doc/w/<key>               the document has too many references for keys of their own
//	doc/last                  written by each transaction; its revision is that of the last write
//	content/b/<digest>        package: where its chunks are, its size, when it was put
//	content/c/<upload>/<n>    chunk of a package; an upload is named by its time and a random text
//
// The value of a document is a line of JSON and then its body and its secret as they are.
package etcd

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
	"github.com/emco-orchestrator/emco/src/emco/internal/readpoint"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

const (
	chunkSize = 512 << 10 // bytes of a value; etcd refuses requests above 1.5 MiB
	maxDepth  = 32        // slashes in a key
	maxTries  = 16        // of a transaction that another writer overtakes
)

// Driver is a store.Driver on etcd. It does not own the client. Reads that share a read point come from a cache, if the cache has
// reached that point.
type Driver struct {
	kv      *etcdkv.Client
	cache   *cache
	changes *changeLog
	newest  *newestRevision
}

var (
	_ store.Driver   = (*Driver)(nil)
	_ store.Batcher  = (*Driver)(nil)
	_ store.Creator  = (*Driver)(nil)
	_ store.Follower = (*Driver)(nil)
)

// New returns a driver for the documents below the client's prefix, and begins to follow their
// changes. Close the driver before the client.
func New(kv *etcdkv.Client) *Driver { return newDriver(kv, cacheBytes) }

func newDriver(kv *etcdkv.Client, bytes int) *Driver {
	c := newCache(bytes)
	changes := follow(kv, kv.Key("doc", "d")+"/", kv.Key("doc", "last"), c)
	return &Driver{kv: kv, cache: c, changes: changes, newest: newNewestRevision(changes)}
}

// Close ends the following of changes.
func (d *Driver) Close() error {
	d.changes.close()
	return nil
}

func depth(k store.Key) int { return strings.Count(string(k), "/") }

// docs returns the prefix of the documents at one depth.
func (d *Driver) docs(depth int) string {
	return d.kv.Key("doc", "d", fmt.Sprintf("%02d", depth)) + "/"
}

func (d *Driver) docKey(k store.Key) string { return d.docs(depth(k)) + string(k) }

func (d *Driver) wideKey(k store.Key) string { return d.kv.Key("doc", "w", string(k)) }

// holdersOf returns the prefix of those who refer to target.
func (d *Driver) holdersOf(target store.Key) string {
	return d.kv.Key("doc", "r", string(target)) + "\x00"
}

func (d *Driver) chunks(tag int64) string { return d.kv.Key("doc", "c", etcdkv.Number(tag)) + "/" }

func (d *Driver) last() string { return d.changes.last }

// Get implements store.Driver.
func (d *Driver) Get(ctx context.Context, k store.Key) (store.Doc, error) {
	for range maxTries {
		stored, err := d.read(ctx, "get", k)
		if err != nil {
			return store.Doc{}, err
		}
		ctx = readpoint.Without(ctx) // if its chunks are gone, it has changed
		if stored == nil {
			return store.Doc{}, errs.E(errs.NotFound, "get", string(k), errors.New("not found"))
		}
		doc, whole, err := d.complete(ctx, *stored)
		if err != nil || whole {
			return doc, err
		}
	}
	return store.Doc{}, errs.E(errs.Unavailable, "get", string(k), errBusy)
}

var (
	errChanged = errors.New("someone else changed it")
	errBusy    = errors.New("it changes faster than it can be read; try again")
)

// read returns what is stored under a key, without its chunks; nil if nothing is.
func (d *Driver) read(ctx context.Context, op string, k store.Key) (*record, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, errs.E(errs.Unavailable, op, string(k), err)
	}
	if depth(k) > maxDepth {
		return nil, nil // Put refuses it
	}
	kvs, err := d.stored(ctx, d.docKey(k))
	if err != nil || len(kvs) == 0 {
		return nil, err
	}
	return d.parse(kvs[0])
}

// stored returns what is stored under the key of a document, none if nothing is.
func (d *Driver) stored(ctx context.Context, key string) ([]*mvccpb.KeyValue, error) {
	if p := readpoint.Of(ctx); p != nil {
		return d.shared(ctx, p, key)
	}
	r, err := d.kv.Get(ctx, key)
	if err != nil {
		return nil, err
	}
	return r.Kvs, nil
}

// parse decodes a document. Its key is what follows the prefix of its depth.
func (d *Driver) parse(kv *mvccpb.KeyValue) (*record, error) {
	_, key, _ := strings.Cut(strings.TrimPrefix(string(kv.Key), d.kv.Key("doc", "d")+"/"), "/")
	r, err := decode(store.Key(key), kv.Value)
	r.revision = kv.ModRevision
	return &r, err
}

// complete reads the chunks of a document; false if they are gone, because it was replaced or removed.
func (d *Driver) complete(ctx context.Context, r record) (store.Doc, bool, error) {
	if r.head.Chunks == 0 {
		return r.doc, true, nil
	}
	content, n := make([]byte, 0, r.head.Body+r.head.Secret), 0
	for kv, err := range d.kv.List(ctx, etcdkv.Scan{Prefix: d.chunks(r.doc.Tag)}) {
		if err != nil {
			return store.Doc{}, false, err
		}
		content, n = append(content, kv.Value...), n+1
	}
	if n != r.head.Chunks {
		return store.Doc{}, false, nil
	}
	doc, err := r.with(content)
	return doc, err == nil, err
}

// Create implements store.Creator.
func (d *Driver) Create(ctx context.Context, doc store.Doc, others map[store.Key]int64) error {
	conditions, err := d.unchanged(ctx, others)
	if err != nil {
		return err
	}
	return d.put(ctx, doc, 0, conditions)
}

// unchanged returns the conditions that documents have these tags, 0 if there is none.
func (d *Driver) unchanged(ctx context.Context, tags map[store.Key]int64) (conditions []clientv3.Cmp, err error) {
	for k, tag := range tags {
		revision := int64(0)
		if tag != 0 {
			r := d.remembered(k, tag)
			if r == nil {
				r, err = d.read(readpoint.Without(ctx), "create", k)
			}
			if err != nil {
				return nil, err
			}
			if r == nil || r.doc.Tag != tag {
				readpoint.Drop(ctx)
				return nil, errs.E(errs.Conflict, "create", string(k), errChanged)
			}
			revision = r.revision
		}
		conditions = append(conditions, clientv3.Compare(clientv3.ModRevision(d.docKey(k)), "=", revision))
	}
	return conditions, nil
}

// Put implements store.Driver.
func (d *Driver) Put(ctx context.Context, doc store.Doc, at int64) error {
	return d.put(ctx, doc, at, nil)
}

// put writes a document over the one with the tag at, 0 for none, if the conditions about others hold.
func (d *Driver) put(ctx context.Context, doc store.Doc, at int64, others []clientv3.Cmp) error {
	if depth(doc.Key) > maxDepth {
		return errs.E(errs.Invalid, "put", string(doc.Key), fmt.Errorf("its key has more than %d slashes", maxDepth))
	}
	value, chunks, err := encode(doc)
	if err != nil {
		return errs.E(errs.Internal, "put", string(doc.Key), err)
	}
	var old *record
	if at != 0 { // for 0, the transaction checks that there is no document
		if old = d.remembered(doc.Key, at); old == nil {
			old, err = d.replaced(ctx, doc.Key, at)
		}
		if err != nil {
			return err
		}
	}
	attach, release, err := d.putChunks(ctx, doc, chunks)
	if err != nil {
		return err
	}
	for range maxTries {
		ops := append([]clientv3.Op{clientv3.OpPut(d.docKey(doc.Key), string(value))}, attach...)
		ops = append(ops, d.reindex(old, &doc)...)
		done, err := d.commit(ctx, "put", doc.Key, old, others, ops)
		if err != nil {
			return err // the write may still be made: the lease removes the chunks if not
		}
		if done {
			release(ctx)
			return nil
		}
		if old, err = d.replaced(ctx, doc.Key, at); err != nil {
			release(ctx)
			return err
		}
		if len(others) > 0 {
			break // it was one of them
		}
	}
	release(ctx)
	return errs.E(errs.Conflict, "put", string(doc.Key), errChanged)
}

// replaced returns the document that a Put at a tag replaces; nil for none. Exists and Conflict if it
// is not as expected.
func (d *Driver) replaced(ctx context.Context, k store.Key, at int64) (*record, error) {
	old, err := d.read(readpoint.Without(ctx), "put", k)
	switch {
	case err != nil:
		return nil, err
	case at == 0 && old != nil:
		return nil, errs.E(errs.Exists, "put", string(k), errors.New("exists already"))
	case at != 0 && (old == nil || old.doc.Tag != at):
		return nil, errs.E(errs.Conflict, "put", string(k), errChanged)
	}
	return old, nil
}

// remembered returns the document at a tag, if the cache has it; nil otherwise. It may have changed: the transaction that
// replaces it checks that.
func (d *Driver) remembered(k store.Key, at int64) *record {
	known, ok := d.cache.get(d.docKey(k))
	if !ok || len(known.kvs) == 0 {
		return nil
	}
	r, err := d.parse(own(known.kvs[0]))
	if err != nil || r.doc.Tag != at {
		return nil
	}
	return r
}

// Remove implements store.Driver.
func (d *Driver) Remove(ctx context.Context, k store.Key, at int64) error {
	old := d.remembered(k, at)
	for range maxTries {
		var err error
		if old == nil {
			old, err = d.read(readpoint.Without(ctx), "remove", k)
		}
		if err != nil || old == nil {
			return err
		}
		if old.doc.Tag != at {
			break
		}
		ops := append([]clientv3.Op{clientv3.OpDelete(d.docKey(k))}, d.reindex(old, nil)...)
		if done, err := d.commit(ctx, "remove", k, old, nil, ops); done || err != nil {
			return err
		}
		old = nil
	}
	return errs.E(errs.Conflict, "remove", string(k), errChanged)
}

// commit runs one transaction if the document is still the old one, nil for none, and the conditions about others hold.
func (d *Driver) commit(ctx context.Context, op string, k store.Key, old *record, others []clientv3.Cmp, ops []clientv3.Op) (bool, error) {
	unchanged := clientv3.Compare(clientv3.CreateRevision(d.docKey(k)), "=", 0)
	if old != nil {
		unchanged = clientv3.Compare(clientv3.ModRevision(d.docKey(k)), "=", old.revision)
	}
	p, turn, seen := readpoint.Of(ctx), 0, d.changes.mark()
	if p != nil {
		_, turn = p.At()
	}
	revision, done, err := d.kv.Commit(readpoint.Without(ctx), op+" "+string(k), append([]clientv3.Cmp{unchanged}, others...), append(ops, clientv3.OpPut(d.last(), "")))
	switch {
	case err != nil || !done:
		readpoint.Drop(ctx) // a retry reads the write that was faster
	case p != nil:
		d.changes.compare(seen, revision)
		p.Take(revision, turn)
	}
	return done, err
}
