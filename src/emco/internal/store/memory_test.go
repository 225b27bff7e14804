package store_test

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"strings"
	gosync "sync"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/storetest"
)

// memoryDriver is a driver that is fast enough to try thousands of interleavings. The
// contract suite vouches for it.
type memoryDriver struct {
	mu   gosync.Mutex
	docs map[store.Key]store.Doc
}

func newMemory() *memoryDriver { return &memoryDriver{docs: map[store.Key]store.Doc{}} }

func TestMemoryKeepsTheContract(t *testing.T) {
	t.Parallel()
	for _, d := range []store.Driver{newMemory(), creatingMemory{newMemory()}} {
		if err := storetest.Check(t.Context(), func() (store.Driver, error) { return d, nil }); err != nil {
			t.Error(err)
		}
	}
}

// creatingMemory is a memoryDriver whose creations can depend on other documents.
type creatingMemory struct{ *memoryDriver }

func (m creatingMemory) Create(ctx context.Context, d store.Doc, others map[store.Key]int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, there := m.docs[d.Key]; !there {
		for k, tag := range others {
			if m.docs[k].Tag != tag {
				return errs.E(errs.Conflict, "create", string(d.Key), errors.New(string(k)+" changed"))
			}
		}
	}
	return m.putLocked(ctx, d, 0)
}

func (m *memoryDriver) Get(ctx context.Context, k store.Key) (store.Doc, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d, ok := m.docs[k]
	if err := ctx.Err(); err != nil {
		return store.Doc{}, errs.E(errs.Unavailable, "get", string(k), err)
	}
	if !ok {
		return store.Doc{}, errs.E(errs.NotFound, "get", string(k), errors.New("not found"))
	}
	return clone(d), nil
}

func (m *memoryDriver) List(ctx context.Context, under store.Key, q store.Query) iter.Seq2[store.Doc, error] {
	return func(yield func(store.Doc, error) bool) {
		for n := 1; ; n++ {
			d, ok := m.next(under, q)
			if err := ctx.Err(); err != nil {
				yield(store.Doc{}, errs.E(errs.Unavailable, "list", string(under), err))
				return
			}
			if !ok || !yield(d, nil) || n == q.Limit {
				return
			}
			q.After = d.Key
		}
	}
}

// next returns the first document that a listing has to yield.
func (m *memoryDriver) next(under store.Key, q store.Query) (store.Doc, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, k := range slices.Sorted(maps.Keys(m.docs)) {
		d := m.docs[k]
		below := string(k)
		ok := true
		if under != "" {
			below, ok = strings.CutPrefix(string(k), string(under)+"/")
		}
		ok = ok && k > q.After && (q.Depth == 0 || strings.Count(below, "/") == q.Depth-1)
		if ok && (q.Refers == "" || slices.Contains(d.Refs, q.Refers) || slices.Contains(d.Claims, q.Refers)) {
			return clone(d), true
		}
	}
	return store.Doc{}, false
}

func (m *memoryDriver) Put(ctx context.Context, d store.Doc, at int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.putLocked(ctx, d, at)
}

func (m *memoryDriver) putLocked(ctx context.Context, d store.Doc, at int64) error {
	old, there := m.docs[d.Key]
	switch {
	case ctx.Err() != nil:
		return errs.E(errs.Unavailable, "put", string(d.Key), ctx.Err())
	case at == 0 && there:
		return errs.E(errs.Exists, "put", string(d.Key), errors.New("exists"))
	case old.Tag != at:
		return errs.E(errs.Conflict, "put", string(d.Key), errors.New("changed"))
	}
	m.docs[d.Key] = clone(d)
	return nil
}

func (m *memoryDriver) Remove(ctx context.Context, k store.Key, at int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	old, there := m.docs[k]
	switch {
	case ctx.Err() != nil:
		return errs.E(errs.Unavailable, "remove", string(k), ctx.Err())
	case there && old.Tag != at:
		return errs.E(errs.Conflict, "remove", string(k), errors.New("changed"))
	}
	delete(m.docs, k)
	return nil
}

// all returns what is stored, in key order and in whatever state.
func (m *memoryDriver) all() []store.Doc {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.SortedFunc(maps.Values(m.docs), func(a, b store.Doc) int { return cmp.Compare(a.Key, b.Key) })
}

func clone(d store.Doc) store.Doc {
	d.Refs, d.Claims, d.Blobs = slices.Clone(d.Refs), slices.Clone(d.Claims), slices.Clone(d.Blobs)
	d.Body, d.Secret = slices.Clone(d.Body), slices.Clone(d.Secret)
	return d
}
