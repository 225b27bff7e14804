package etcdkv

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Get reads one key, or the range of the options.
func (c *Client) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	ctx, cancel := c.Bounded(ctx)
	defer cancel()
	r, err := c.etcd.Get(ctx, key, opts...)
	if err != nil {
		return nil, Classify("read", key, err)
	}
	c.o.OnRequest("get", len(key)+Size(r.Kvs))
	return r, nil
}

// Read reads and decodes one record, or returns NotFound.
func Read[T any](ctx context.Context, c *Client, key string) (T, *mvccpb.KeyValue, error) {
	r, err := c.Get(ctx, key)
	if err != nil {
		return *new(T), nil, err
	}
	if len(r.Kvs) == 0 {
		return *new(T), nil, NotFound(key)
	}
	v, err := Decode[T](r.Kvs[0])
	return v, r.Kvs[0], err
}

// GetMany reads up to MaxOps keys at one revision, the first key-value pair for each if the
// options make a key a prefix; absent ones are nil.
func (c *Client) GetMany(ctx context.Context, keys []string, opts ...clientv3.OpOption) ([]*mvccpb.KeyValue, error) {
	found := make([]*mvccpb.KeyValue, len(keys))
	answers, err := c.GetRanges(ctx, keys, opts...)
	for i, kvs := range answers {
		if len(kvs) > 0 {
			found[i] = kvs[0]
		}
	}
	return found, err
}

// GetEach reads keys in requests of MaxOps, and calls each with the index of every key and what GetMany finds
// there. It ends at the first error. Only with a revision in opts it reads all keys at the same one.
func (c *Client) GetEach(ctx context.Context, keys []string, each func(i int, kv *mvccpb.KeyValue) error, opts ...clientv3.OpOption) error {
	first := 0
	for some := range slices.Chunk(keys, MaxOps) {
		found, err := c.GetMany(ctx, some, opts...)
		if err != nil {
			return err
		}
		for i, kv := range found {
			if err := each(first+i, kv); err != nil {
				return err
			}
		}
		first += len(some)
	}
	return nil
}

// GetRanges reads what up to MaxOps keys and the options name, at one revision.
func (c *Client) GetRanges(ctx context.Context, keys []string, opts ...clientv3.OpOption) ([][]*mvccpb.KeyValue, error) {
	ops := make([]clientv3.Op, len(keys))
	for i, k := range keys {
		ops[i] = clientv3.OpGet(k, opts...)
	}
	ctx, cancel := c.Bounded(ctx)
	defer cancel()
	r, err := c.etcd.Txn(ctx).Then(ops...).Commit()
	if err != nil {
		return nil, Classify("read", keys[0], err)
	}
	found, bytes := make([][]*mvccpb.KeyValue, len(keys)), sizeOfOps(ops)
	for i, answer := range r.Responses {
		found[i] = answer.GetResponseRange().Kvs
		bytes += Size(found[i])
	}
	c.o.OnRequest("get", bytes)
	return found, nil
}

// Size is the number of bytes in keys and values.
func Size(kvs []*mvccpb.KeyValue) int {
	n := 0
	for _, kv := range kvs {
		n += len(kv.Key) + len(kv.Value)
	}
	return n
}

// Scan is the range of keys that List reads.
type Scan struct {
	Prefix   string
	After    string // only keys after this one; empty for all
	Before   string // only keys before this one; empty for all
	KeysOnly bool
	First    int   // keys that callers take who read few: pages are no larger until then; 0 is the default
	Revision int64 // of etcd that is read; 0 is the newest
}

// List yields the key-value pairs below a prefix, in key order; it ends at the first
// error. It reads page by page at one revision. If etcd compacts that revision meanwhile,
// the rest comes from a newer one; a scan that names its revision ends with Unavailable.
func (c *Client) List(ctx context.Context, s Scan) iter.Seq2[*mvccpb.KeyValue, error] {
	p := &pager{from: s.Prefix, end: clientv3.GetPrefixRangeEnd(s.Prefix), keysOnly: s.KeysOnly, start: int64(s.First), rev: s.Revision, pinned: s.Revision > 0}
	if s.After != "" {
		p.from = max(s.Prefix, s.After+"\x00")
	}
	if s.Before != "" {
		p.end = min(p.end, s.Before)
	}
	return c.list(ctx, p)
}

// pager is the state of one list.
type pager struct {
	from, end string // range of keys; end is exclusive
	keysOnly  bool
	start     int64 // keys that are probably taken; 0: all
	rev       int64 // revision of the next page; 0 is the newest
	first     int64 // revision of the first page
	pinned    bool  // no other revision will do
}

func (c *Client) list(ctx context.Context, p *pager) iter.Seq2[*mvccpb.KeyValue, error] {
	return func(yield func(*mvccpb.KeyValue, error) bool) {
		from, limit := p.from, int64(firstPage)
		if p.keysOnly {
			limit = maxPage
		}
		wanted := p.start
		for from != "" && from < p.end {
			if wanted > 0 {
				limit = min(limit, wanted)
			}
			r, err := c.page(ctx, p, from, limit)
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
			wanted -= int64(len(r.Kvs))
			limit = nextLimit(limit, Size(r.Kvs))
		}
	}
}

// nextLimit adapts the number of keys to the size of the last page.
func nextLimit(limit int64, bytes int) int64 {
	return max(1, min(maxPage, limit*pageBytes/int64(max(1, bytes))))
}

func (c *Client) page(ctx context.Context, p *pager, from string, limit int64) (*clientv3.GetResponse, error) {
	opts := []clientv3.OpOption{clientv3.WithRange(p.end), clientv3.WithLimit(limit)}
	if p.keysOnly {
		opts = append(opts, clientv3.WithKeysOnly())
	}
	ctx, cancel := c.Bounded(ctx)
	defer cancel()
	r, err := c.etcd.Get(ctx, from, append(opts, clientv3.WithRev(p.rev))...)
	if errors.Is(err, rpctypes.ErrCompacted) && !p.pinned {
		p.rev = 0
		r, err = c.etcd.Get(ctx, from, opts...)
	}
	if err != nil {
		return nil, Classify("list", p.from, err)
	}
	c.o.OnRequest("list", Size(r.Kvs))
	p.rev = cmp.Or(p.rev, r.Header.Revision)
	p.first = cmp.Or(p.first, p.rev)
	return r, nil
}
