package etcd

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"sync"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/emco-orchestrator/emco/src/emco/internal/bytelru"
	"github.com/emco-orchestrator/emco/src/emco/internal/readpoint"
)

const (
	cacheBytes = 8 << 20  // of documents and lists that were used last
	maxCached  = 64 << 10 // bytes of a document or list; larger ones are read each time
	maxListed  = 32       // documents of a list that is kept
	overhead   = 256      // bytes of memory that an entry and each of its values take besides key and value
)

// cache keeps what is stored under keys of documents, and short lists. A name of an entry is the key of a document, or
// the prefix of a list, which ends in a slash. The watch of changes keeps it: a document is replaced by its next version, and a list with
// a changed document is dropped. So an entry shows the store as it was at the last change that the watch has brought, or
// later.
type cache struct {
	entries *bytelru.Cache[string, cachedDocuments]

	mu      sync.Mutex
	reading map[string]*pendingRead // reads under way, by name; guarded by mu
}

// cachedDocuments is what is stored under a name. It does not change.
type cachedDocuments struct {
	kvs  []*mvccpb.KeyValue // none for a document that does not exist
	asOf int64              // it includes all writes of documents up to this revision
}

// pendingRead is a read from the store that is to become an entry. A change that the watch brings meanwhile cancels it.
type pendingRead struct{ name string }

func newCache(bytes int) *cache {
	return &cache{entries: bytelru.New[string, cachedDocuments](bytes), reading: map[string]*pendingRead{}}
}

// get returns an entry.
func (c *cache) get(name string) (cachedDocuments, bool) { return c.entries.Get(name) }

// begin announces a read from the store. keep or giveUp must follow.
func (c *cache) begin(name string) *pendingRead {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := &pendingRead{name}
	c.reading[name] = r
	return r
}

// keep makes an entry of what was read, unless it may be outdated already.
func (c *cache) keep(r *pendingRead, v cachedDocuments) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reading[r.name] != r {
		return
	}
	delete(c.reading, r.name)
	c.putLocked(r.name, v)
}

// giveUp ends a read that failed.
func (c *cache) giveUp(r *pendingRead) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reading[r.name] == r {
		delete(c.reading, r.name)
	}
}

func (c *cache) putLocked(name string, v cachedDocuments) {
	size := len(name) + overhead
	for _, kv := range v.kvs {
		size += len(kv.Key) + len(kv.Value) + overhead
	}
	c.entries.Remove(name)
	if size <= maxCached && len(v.kvs) <= maxListed {
		c.entries.Put(name, v, size)
	}
}

// apply applies a change of a document. The watch brings changes in the order of revisions. root is the prefix of all documents.
func (c *cache) apply(root string, kv *mvccpb.KeyValue, deleted bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	name := string(kv.Key)
	delete(c.reading, name)
	old, known := c.entries.Get(name)
	switch {
	case known && old.asOf >= kv.ModRevision: // it was read after this change
	case deleted && known:
		c.putLocked(name, cachedDocuments{asOf: kv.ModRevision})
	case !deleted:
		c.putLocked(name, cachedDocuments{[]*mvccpb.KeyValue{kv}, kv.ModRevision})
	}
	for end := len(name); ; {
		if end = strings.LastIndexByte(name[:end], '/'); end < len(root) {
			return
		}
		list := name[:end+1]
		delete(c.reading, list)
		if old, known := c.entries.Get(list); known && old.asOf < kv.ModRevision {
			c.entries.Remove(list)
		}
	}
}

// clear forgets everything: changes may be missing.
func (c *cache) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.reading)
	c.entries.Clear()
}

// shared returns the document under a key for a read that shares a read point, none if there is none; with a prefix, the first
// documents of a list, up to one more than is kept.
func (d *Driver) shared(ctx context.Context, p *readpoint.Point, name string, options ...clientv3.OpOption) ([]*mvccpb.KeyValue, error) {
	if v, ok, err := d.remembers(ctx, name); ok || err != nil {
		p.Raise(v.asOf) // it may be newer than the read point
		return v.own(), err
	}
	_, turn := p.At()
	seen := d.changes.mark()
	r := d.cache.begin(name)
	defer d.cache.giveUp(r)
	answers, err := d.kv.GetRanges(ctx, []string{d.last(), name}, options...) // at one revision
	if err != nil {
		return nil, err
	}
	v := cachedDocuments{kvs: answers[1], asOf: lastWrite(answers[0])}
	d.changes.compare(seen, v.asOf)
	p.Take(v.asOf, turn)
	d.cache.keep(r, v)
	return v.own(), nil
}

// sharedEach returns what is stored under the keys of documents for a read that shares a read point, nil where nothing is. What is not in the
// cache takes one request.
func (d *Driver) sharedEach(ctx context.Context, p *readpoint.Point, names []string) ([]*mvccpb.KeyValue, error) {
	found := make([]*mvccpb.KeyValue, len(names))
	current, err := d.knowsAny(ctx, names)
	if err != nil {
		return nil, err
	}
	ask, at := []string{d.last()}, []int{0} // the names that must be read, and their places
	for i, name := range names {
		v, ok := d.cache.get(name)
		switch {
		case !ok || !current:
			ask, at = append(ask, name), append(at, i)
			continue
		case len(v.kvs) > 0:
			found[i] = own(v.kvs[0])
		}
		p.Raise(v.asOf) // it may be newer than the read point
	}
	if len(ask) == 1 {
		return found, nil
	}
	_, turn := p.At()
	seen := d.changes.mark()
	reads := make([]*pendingRead, len(ask))
	for i, name := range ask[1:] {
		reads[i+1] = d.cache.begin(name)
		defer d.cache.giveUp(reads[i+1])
	}
	answers, err := d.kv.GetRanges(ctx, ask) // at one revision
	if err != nil {
		return nil, err
	}
	asOf := lastWrite(answers[0])
	if d.changes.compare(seen, asOf) {
		return d.sharedEach(ctx, p, names) // what was found in the cache is of the etcd that is gone
	}
	p.Take(asOf, turn)
	for i := 1; i < len(ask); i++ {
		v := cachedDocuments{kvs: answers[i], asOf: asOf}
		d.cache.keep(reads[i], v)
		if len(v.kvs) > 0 {
			found[at[i]] = own(v.kvs[0])
		}
	}
	return found, nil
}

// remembers returns an entry of the cache, once the cache has reached the read point of ctx; false if there is none.
func (d *Driver) remembers(ctx context.Context, name string) (cachedDocuments, bool, error) {
	if current, err := d.knowsAny(ctx, []string{name}); err != nil || !current {
		return cachedDocuments{}, false, err
	}
	v, known := d.cache.get(name)
	return v, known, nil
}

// knowsAny reports whether the cache has one of some entries, and has reached the read point of ctx.
func (d *Driver) knowsAny(ctx context.Context, names []string) (bool, error) {
	if !slices.ContainsFunc(names, func(name string) bool { _, known := d.cache.get(name); return known }) {
		return false, nil // a read from etcd is a read point too
	}
	at, err := d.point(ctx)
	return err == nil && d.changes.caughtUp(ctx, at), err
}

// own returns copies, which callers may change.
func (v cachedDocuments) own() []*mvccpb.KeyValue {
	out := make([]*mvccpb.KeyValue, len(v.kvs))
	for i, kv := range v.kvs {
		out[i] = own(kv)
	}
	return out
}

func own(kv *mvccpb.KeyValue) *mvccpb.KeyValue {
	return &mvccpb.KeyValue{Key: kv.Key, Value: bytes.Clone(kv.Value), ModRevision: kv.ModRevision}
}
