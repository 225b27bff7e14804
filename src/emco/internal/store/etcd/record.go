package etcd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

const (
	version    = 1              // of the format; a document of a later one is not touched
	chunkLease = int64(60 * 60) // seconds after which the chunks of an unfinished write disappear
	maxIndexed = 50             // references that have keys of their own: a transaction has at most 128 operations
)

// head is the first line of a document's value. Times are milliseconds since 1970.
type head struct {
	V       int          `json:"v"`
	Tag     int64        `json:"tag"`
	State   store.State  `json:"state,omitempty"`
	Since   int64        `json:"since"`
	UID     string       `json:"uid"`
	Rev     int64        `json:"rev"`
	Parent  store.Key    `json:"parent,omitempty"`
	Refs    []store.Key  `json:"refs,omitempty"`
	Claims  []store.Key  `json:"claims,omitempty"`
	Blobs   []store.Blob `json:"blobs,omitempty"`
	Created int64        `json:"created"`
	Updated int64        `json:"updated"`
	Body    int          `json:"body"`             // bytes
	Secret  int          `json:"secret,omitempty"` // bytes
	Chunks  int          `json:"chunks,omitempty"` // that hold body and secret; 0: they follow this line
}

// record is a stored document. Body and secret are missing while they are in chunks.
type record struct {
	doc      store.Doc
	head     head
	revision int64
}

// encode returns the value of a document, and what does not fit into it.
func encode(d store.Doc) (value []byte, chunks [][]byte, err error) {
	h := head{
		V: version, Tag: d.Tag, State: d.State, Since: d.Since.UnixMilli(), UID: d.UID, Rev: d.Rev, Parent: d.Parent,
		Refs: d.Refs, Claims: d.Claims, Blobs: d.Blobs, Created: d.Created.UnixMilli(), Updated: d.Updated.UnixMilli(),
		Body: len(d.Body), Secret: len(d.Secret),
	}
	content := slices.Concat(d.Body, d.Secret)
	if len(content) > chunkSize {
		chunks = slices.Collect(slices.Chunk(content, chunkSize))
		content, h.Chunks = nil, len(chunks)
	}
	line, err := json.Marshal(h)
	return slices.Concat(line, []byte{'\n'}, content), chunks, err
}

// decode reads a value that encode made.
func decode(k store.Key, value []byte) (record, error) {
	line, content, _ := bytes.Cut(value, []byte{'\n'})
	var h head
	if err := json.Unmarshal(line, &h); err != nil {
		return record{}, errs.E(errs.Internal, "read", string(k), err)
	}
	if h.V > version {
		return record{}, errs.E(errs.Unavailable, "read", string(k), fmt.Errorf("a later version of this program wrote it (format %d, this one knows %d): update this program", h.V, version))
	}
	r := record{head: h, doc: store.Doc{
		Key: k, UID: h.UID, Rev: h.Rev, Parent: h.Parent, Refs: h.Refs, Claims: h.Claims, Blobs: h.Blobs,
		Created: moment(h.Created), Updated: moment(h.Updated), State: h.State, Tag: h.Tag, Since: moment(h.Since),
	}}
	if h.Chunks > 0 {
		return r, nil
	}
	doc, err := r.with(content)
	r.doc = doc
	return r, err
}

// with returns the document with its content.
func (r record) with(content []byte) (store.Doc, error) {
	if r.head.Body < 0 || r.head.Secret < 0 || len(content) != r.head.Body+r.head.Secret {
		return r.doc, errs.E(errs.Internal, "read", string(r.doc.Key), errors.New("its stored content has another size than its head says"))
	}
	d := r.doc
	if r.head.Body > 0 {
		d.Body = content[:r.head.Body:r.head.Body]
	}
	if r.head.Secret > 0 {
		d.Secret = content[r.head.Body:]
	}
	return d, nil
}

func moment(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

// holds returns the references and claims of a document, each once.
func holds(d store.Doc) []store.Key {
	all := slices.Concat(d.Refs, d.Claims)
	slices.Sort(all)
	return slices.Compact(all)
}

func refersTo(d store.Doc, target store.Key) bool {
	return slices.Contains(d.Refs, target) || slices.Contains(d.Claims, target)
}

// reindex returns what a transaction must change besides the document itself, from the old one to the
// next one; nil for none.
func (d *Driver) reindex(old *record, next *store.Doc) (ops []clientv3.Op) {
	before, after := map[string]bool{}, map[string]bool{}
	if old != nil {
		before = d.index(old.doc)
		if old.head.Chunks > 0 {
			ops = append(ops, clientv3.OpDelete(d.chunks(old.doc.Tag), clientv3.WithPrefix()))
		}
	}
	if next != nil {
		after = d.index(*next)
	}
	for key := range before {
		if !after[key] {
			ops = append(ops, clientv3.OpDelete(key))
		}
	}
	for key := range after {
		if !before[key] {
			ops = append(ops, clientv3.OpPut(key, ""))
		}
	}
	return ops
}

// index returns the keys that find a document by its references.
func (d *Driver) index(doc store.Doc) map[string]bool {
	keys := map[string]bool{}
	targets := holds(doc)
	if len(targets) > maxIndexed {
		keys[d.wideKey(doc.Key)] = true
		return keys
	}
	for _, target := range targets {
		keys[d.holdersOf(target)+string(doc.Key)] = true
	}
	return keys
}

// putChunks writes the chunks of a document with a lease, so that they disappear if the document is
// never written. attach is the part of the document's transaction that makes them permanent; release
// ends the lease, after the outcome is known.
func (d *Driver) putChunks(ctx context.Context, doc store.Doc, chunks [][]byte) (attach []clientv3.Op, release func(context.Context), err error) {
	if len(chunks) == 0 {
		return nil, func(context.Context) {}, nil
	}
	lease, err := d.grant(ctx)
	if err != nil {
		return nil, nil, err
	}
	release = func(ctx context.Context) { d.revoke(ctx, lease) }
	for n, content := range chunks {
		key := fmt.Sprintf("%s%04d", d.chunks(doc.Tag), n)
		put := clientv3.OpPut(key, string(content), clientv3.WithLease(lease))
		if _, _, err := d.kv.Commit(ctx, "put "+string(doc.Key), nil, []clientv3.Op{put}); err != nil {
			release(ctx)
			return nil, nil, err
		}
		attach = append(attach, clientv3.OpPut(key, "", clientv3.WithIgnoreValue()))
	}
	return attach, release, nil
}

func (d *Driver) grant(ctx context.Context) (clientv3.LeaseID, error) {
	ctx, cancel := d.kv.Bounded(ctx)
	defer cancel()
	r, err := d.kv.Etcd().Grant(ctx, chunkLease)
	d.kv.CountRequest("lease", 0)
	if err != nil {
		return 0, etcdkv.Classify("grant", "lease", err)
	}
	return r.ID, nil
}

// revoke ends a lease and removes what still has it. A lease that stays expires.
func (d *Driver) revoke(ctx context.Context, lease clientv3.LeaseID) {
	ctx, cancel := d.kv.Bounded(context.WithoutCancel(ctx))
	defer cancel()
	_, _ = d.kv.Etcd().Revoke(ctx, lease)
	d.kv.CountRequest("lease", 0)
}
