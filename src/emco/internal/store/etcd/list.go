package etcd

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
	"github.com/emco-orchestrator/emco/src/emco/internal/readpoint"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

// lookups is how many documents one request reads by their keys.
const lookups = 100

// List implements store.Driver. It reads each depth at one revision, page by page. Lists that are not kept in the cache may show later writes
// than the read point, so the next read takes another one.
func (d *Driver) List(ctx context.Context, under store.Key, q store.Query) iter.Seq2[store.Doc, error] {
	return func(yield func(store.Doc, error) bool) {
		if err := context.Cause(ctx); err != nil {
			yield(store.Doc{}, errs.E(errs.Unavailable, "list", string(under), err))
			return
		}
		n := 0
		for doc, err := range d.matching(ctx, under, q) {
			if !yield(doc, err) || err != nil {
				return
			}
			if n++; n == q.Limit {
				return
			}
		}
	}
}

func (d *Driver) matching(ctx context.Context, under store.Key, q store.Query) iter.Seq2[store.Doc, error] {
	switch p := readpoint.Of(ctx); {
	case q.Refers != "":
		return d.holders(ctx, under, q)
	case q.Depth == 0:
		return uncached(ctx, d.atAllDepths(ctx, under, q))
	case p == nil || q.After != "":
		return uncached(ctx, d.atDepth(ctx, depthOf(under, q.Depth), under, q))
	default:
		return d.collection(ctx, p, under, q)
	}
}

// uncached drops the read point after a list: the list may show later writes.
func uncached(ctx context.Context, docs iter.Seq2[store.Doc, error]) iter.Seq2[store.Doc, error] {
	return func(yield func(store.Doc, error) bool) {
		defer readpoint.Drop(ctx)
		docs(yield)
	}
}

// collection is atDepth for a list that may be in the cache.
func (d *Driver) collection(ctx context.Context, p *readpoint.Point, under store.Key, q store.Query) iter.Seq2[store.Doc, error] {
	return func(yield func(store.Doc, error) bool) {
		at := depthOf(under, q.Depth)
		kvs, err := d.shared(ctx, p, d.docs(at)+below(under), clientv3.WithPrefix(), clientv3.WithLimit(maxListed+1))
		if err != nil {
			yield(store.Doc{}, err)
			return
		}
		for doc, err := range d.load(ctx, each(kvs)) {
			if !yield(doc, err) || err != nil {
				return
			}
			q.After = doc.Key
		}
		if len(kvs) > maxListed {
			uncached(ctx, d.atDepth(ctx, at, under, q))(yield)
		}
	}
}

func each(kvs []*mvccpb.KeyValue) iter.Seq2[*mvccpb.KeyValue, error] {
	return func(yield func(*mvccpb.KeyValue, error) bool) {
		for _, kv := range kvs {
			if !yield(kv, nil) {
				return
			}
		}
	}
}

// depthOf returns the number of slashes in a key that is n names below under.
func depthOf(under store.Key, n int) int {
	if under == "" {
		return n - 1
	}
	return depth(under) + n
}

// below returns what keys below under begin with.
func below(under store.Key) string {
	if under == "" {
		return ""
	}
	return string(under) + "/"
}

// after returns the key after which a scan of prefix starts; empty for its beginning.
func after(prefix string, k store.Key) string {
	if k == "" {
		return ""
	}
	return prefix + string(k)
}

// atDepth lists documents of one depth below under.
func (d *Driver) atDepth(ctx context.Context, depth int, under store.Key, q store.Query) iter.Seq2[store.Doc, error] {
	docs := d.docs(depth)
	scan := etcdkv.Scan{Prefix: docs + below(under), After: after(docs, q.After), First: q.Limit}
	return d.load(ctx, d.kv.List(ctx, scan))
}

// load decodes documents. One whose chunks are gone is read once more: it may have been replaced.
func (d *Driver) load(ctx context.Context, kvs iter.Seq2[*mvccpb.KeyValue, error]) iter.Seq2[store.Doc, error] {
	return func(yield func(store.Doc, error) bool) {
		for kv, err := range kvs {
			var doc store.Doc
			if err == nil {
				doc, err = d.decodeOrGet(ctx, kv)
			}
			if errs.Is(err, errs.NotFound) {
				continue
			}
			if !yield(doc, err) || err != nil {
				return
			}
		}
	}
}

func (d *Driver) decodeOrGet(ctx context.Context, kv *mvccpb.KeyValue) (store.Doc, error) {
	r, err := d.parse(kv)
	if err != nil {
		return store.Doc{}, err
	}
	doc, whole, err := d.complete(ctx, *r)
	if err == nil && !whole {
		return d.Get(readpoint.Without(ctx), r.doc.Key)
	}
	return doc, err
}

// atAllDepths merges the lists of all depths that hold documents below under.
func (d *Driver) atAllDepths(ctx context.Context, under store.Key, q store.Query) iter.Seq2[store.Doc, error] {
	from := depthOf(under, 1)
	var prefixes []string
	for n := from; n <= maxDepth; n++ {
		prefixes = append(prefixes, d.docs(n)+below(under))
	}
	if len(prefixes) == 0 {
		return func(func(store.Doc, error) bool) {}
	}
	found, err := d.kv.GetMany(ctx, prefixes, clientv3.WithPrefix(), clientv3.WithKeysOnly(), clientv3.WithLimit(1))
	if err != nil {
		return etcdkv.Failed[store.Doc](err)
	}
	var depths []iter.Seq2[store.Doc, error]
	for i, kv := range found {
		if kv != nil {
			depths = append(depths, d.atDepth(ctx, from+i, under, q))
		}
	}
	return merge(depths, func(d store.Doc) string { return string(d.Key) })
}

// fewHolders is how many holders a request lists at once. Most documents have fewer.
const fewHolders = 10

// holders lists the documents below under that refer to a key.
func (d *Driver) holders(ctx context.Context, under store.Key, q store.Query) iter.Seq2[store.Doc, error] {
	if q.After != "" {
		return uncached(ctx, d.manyHolders(ctx, under, q))
	}
	return func(yield func(store.Doc, error) bool) {
		keys, all, err := d.firstHolders(ctx, under, q)
		switch {
		case err != nil:
			yield(store.Doc{}, err)
		case all:
			d.referring(ctx, keys, q)(yield)
		default:
			uncached(ctx, d.manyHolders(ctx, under, q))(yield)
		}
	}
}

// firstHolders returns the keys of documents below under that may refer to a key, and whether these are all. It takes one request,
// which is a read point too.
func (d *Driver) firstHolders(ctx context.Context, under store.Key, q store.Query) (keys []store.Key, all bool, err error) {
	prefixes := []string{d.holdersOf(q.Refers), d.wideKey("")}
	p, turn, seen := readpoint.Of(ctx), 0, d.changes.mark()
	if p != nil {
		_, turn = p.At()
	}
	answers, err := d.kv.GetRanges(ctx, []string{d.last(), prefixes[0] + below(under), prefixes[1] + below(under)}, clientv3.WithPrefix(), clientv3.WithKeysOnly(), clientv3.WithLimit(fewHolders+1))
	if err != nil {
		return nil, false, err
	}
	if p != nil {
		d.changes.compare(seen, lastWrite(answers[0]))
		p.Take(lastWrite(answers[0]), turn)
	}
	for i, prefix := range prefixes {
		if len(answers[i+1]) > fewHolders {
			return nil, false, nil
		}
		for _, kv := range answers[i+1] {
			k := store.Key(strings.TrimPrefix(string(kv.Key), prefix))
			if q.Depth == 0 || depth(k) == depthOf(under, q.Depth) {
				keys = append(keys, k)
			}
		}
	}
	slices.Sort(keys)
	return keys, true, nil
}

// referring yields those of some documents that refer to a key.
func (d *Driver) referring(ctx context.Context, keys []store.Key, q store.Query) iter.Seq2[store.Doc, error] {
	return func(yield func(store.Doc, error) bool) {
		for doc, err := range d.GetEach(ctx, keys) {
			if err == nil && !refersTo(doc, q.Refers) {
				continue
			}
			if !yield(doc, err) || err != nil {
				return
			}
		}
	}
}

// manyHolders is holders for any number of them.
func (d *Driver) manyHolders(ctx context.Context, under store.Key, q store.Query) iter.Seq2[store.Doc, error] {
	keys := func(prefix string) iter.Seq2[store.Key, error] {
		scan := etcdkv.Scan{Prefix: prefix + below(under), After: after(prefix, q.After), KeysOnly: true}
		return etcdkv.Records(d.kv.List(ctx, scan), func(kv *mvccpb.KeyValue) (store.Key, error) {
			return store.Key(strings.TrimPrefix(string(kv.Key), prefix)), nil
		})
	}
	some := merge([]iter.Seq2[store.Key, error]{keys(d.holdersOf(q.Refers)), keys(d.wideKey(""))}, func(k store.Key) string { return string(k) })
	return func(yield func(store.Doc, error) bool) {
		for batch, err := range batches(some, func(k store.Key) bool { return q.Depth == 0 || depth(k) == depthOf(under, q.Depth) }) {
			if err != nil {
				yield(store.Doc{}, err)
				return
			}
			for doc, err := range d.referring(readpoint.Without(ctx), batch, q) {
				if !yield(doc, err) || err != nil {
					return
				}
			}
		}
	}
}

// GetEach implements store.Batcher.
func (d *Driver) GetEach(ctx context.Context, keys []store.Key) iter.Seq2[store.Doc, error] {
	return d.load(ctx, func(yield func(*mvccpb.KeyValue, error) bool) {
		for some := range slices.Chunk(keys, lookups) {
			kvs, err := d.storedEach(ctx, some)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, kv := range kvs {
				if kv != nil && !yield(kv, nil) {
					return
				}
			}
		}
	})
}

// storedEach returns what is stored under the keys of documents, nil where nothing is.
func (d *Driver) storedEach(ctx context.Context, keys []store.Key) ([]*mvccpb.KeyValue, error) {
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = d.docKey(k)
	}
	if p := readpoint.Of(ctx); p != nil {
		return d.sharedEach(ctx, p, names)
	}
	return d.kv.GetMany(ctx, names)
}

// batches yields the keys that pass, a few at a time; it ends at the first error.
func batches(keys iter.Seq2[store.Key, error], pass func(store.Key) bool) iter.Seq2[[]store.Key, error] {
	return func(yield func([]store.Key, error) bool) {
		var batch []store.Key
		for k, err := range keys {
			if err != nil {
				yield(nil, err)
				return
			}
			if !pass(k) {
				continue
			}
			if batch = append(batch, k); len(batch) == lookups {
				if !yield(batch, nil) {
					return
				}
				batch = nil
			}
		}
		if len(batch) > 0 {
			yield(batch, nil)
		}
	}
}

// merge yields what several sequences yield, in the order of keys that each of them has.
// It ends at the first error.
func merge[T any](all []iter.Seq2[T, error], key func(T) string) iter.Seq2[T, error] {
	type source struct {
		next func() (T, error, bool)
		v    T
	}
	return func(yield func(T, error) bool) {
		var sources []*source
		for _, seq := range all {
			next, stop := iter.Pull2(seq)
			defer stop()
			sources = append(sources, &source{next: next})
		}
		step := func(s *source) (ok bool, err error) {
			s.v, err, ok = s.next()
			return ok, err
		}
		var open []*source
		for _, s := range sources {
			ok, err := step(s)
			if err != nil {
				yield(*new(T), err)
				return
			}
			if ok {
				open = append(open, s)
			}
		}
		for len(open) > 0 {
			first := slices.MinFunc(open, func(a, b *source) int { return cmp.Compare(key(a.v), key(b.v)) })
			if !yield(first.v, nil) {
				return
			}
			ok, err := step(first)
			if err != nil {
				yield(*new(T), err)
				return
			}
			if !ok {
				open = slices.DeleteFunc(open, func(s *source) bool { return s == first })
			}
		}
	}
}
