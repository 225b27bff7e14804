package store_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/seal"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/sqlite"
)

// crashingDriver is a driver whose process dies at its n-th write: before it is done, or
// after it is done but before the caller gets the answer. Nothing works from then on.
type crashingDriver struct {
	store.Driver
	left  int // writes until death
	after bool
	dead  bool
}

var errDead = errs.New(errs.Unavailable, "the process is dead")

func (d *crashingDriver) write(do func() error) error {
	if d.dead {
		return errDead
	}
	if d.left--; d.left >= 0 {
		return do()
	}
	d.dead = true
	if d.after {
		return errors.Join(errDead, do())
	}
	return errDead
}

func (d *crashingDriver) Put(ctx context.Context, doc store.Doc, at int64) error {
	return d.write(func() error { return d.Driver.Put(ctx, doc, at) })
}

func (d *crashingDriver) Remove(ctx context.Context, k store.Key, at int64) error {
	return d.write(func() error { return d.Driver.Remove(ctx, k, at) })
}

func (d *crashingDriver) Get(ctx context.Context, k store.Key) (store.Doc, error) {
	if d.dead {
		return store.Doc{}, errDead
	}
	return d.Driver.Get(ctx, k)
}

func (d *crashingDriver) List(ctx context.Context, under store.Key, q store.Query) iter.Seq2[store.Doc, error] {
	if d.dead {
		return func(yield func(store.Doc, error) bool) { yield(store.Doc{}, errDead) }
	}
	return d.Driver.List(ctx, under, q)
}

// doomed are the writes that crashes cut off, each with what must be so if it was
// acknowledged.
var doomed = []struct {
	name string
	call func(context.Context, *store.DB) error
	done func(docs map[store.Key]store.Doc) bool
}{
	{"create", func(ctx context.Context, db *store.DB) error {
		_, err := db.Create(ctx, store.Write{Key: child, Parent: parent, Refs: refTo(target, true)})
		return err
	}, func(docs map[store.Key]store.Doc) bool { return docs[child].Rev == 1 }},
	{"replace", func(ctx context.Context, db *store.DB) error {
		_, err := db.Replace(ctx, store.Write{Key: holder, Refs: refTo(target, true)}, 1)
		return err
	}, func(docs map[store.Key]store.Doc) bool { return docs[holder].Rev == 2 }},
	{"replace that is refused", func(ctx context.Context, db *store.DB) error {
		refs := append(refTo(target, true), refTo("targets/none", true)...)
		_, err := db.Replace(ctx, store.Write{Key: holder, Refs: refs}, 1)
		if errors.Is(err, store.ErrNoTarget) {
			return nil
		}
		return err
	}, func(docs map[store.Key]store.Doc) bool { return docs[holder].Rev == 1 && len(docs[holder].Refs) == 0 }},
	{
		"delete", func(ctx context.Context, db *store.DB) error { return db.Delete(ctx, parent, nil) },
		func(docs map[store.Key]store.Doc) bool { return docs[parent].Rev == 0 },
	},
	{"delete that is refused", func(ctx context.Context, db *store.DB) error {
		refusal := errors.New("refused")
		err := db.Delete(ctx, parent, func(context.Context, store.Doc) error { return refusal })
		if errors.Is(err, refusal) {
			return nil
		}
		return err
	}, func(docs map[store.Key]store.Doc) bool { return docs[parent].Rev == 1 }},
}

func TestACrashAtAnyWriteLeavesNoLie(t *testing.T) {
	t.Parallel()
	for _, d := range doomed {
		for _, settle := range []bool{true, false} {
			for _, after := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s, settled %t, done %t", d.name, settle, after), func(t *testing.T) {
					t.Parallel()
					n := 0
					for crashed := true; crashed; n++ {
						crashed = crashAt(t, n, after, settle, d.call, d.done)
					}
					if n < 3 { // one write at least, and the death that does not come
						t.Errorf("died at %d writes only", n-1)
					}
				})
			}
		}
	}
}

// crashAt lets the process die at the n-th write of call, opens the store again and
// checks it. It reports whether the process died.
func crashAt(t *testing.T, n int, after, settle bool, call func(context.Context, *store.DB) error, done func(map[store.Key]store.Doc) bool) bool {
	t.Helper()
	path, s := filepath.Join(t.TempDir(), "docs.db"), seal.New(seal.NewKey())
	before, err := sqlite.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	create(t, store.New(before, nil, s), store.Write{Key: parent}, store.Write{Key: target}, store.Write{Key: holder})
	mortal := &crashingDriver{Driver: before, left: n, after: after}
	acknowledged := call(t.Context(), store.New(mortal, nil, s)) == nil
	if err := before.Close(); err != nil {
		t.Fatal(err)
	}

	raw := openDriver(t, path)
	db := store.New(raw, nil, s)
	if db.SetLease(0); settle {
		db.SetLease(20 * time.Millisecond)
		if err := db.Settle(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := sound(content(t, raw)); err != nil {
			t.Errorf("death at write %d: %v", n, err)
		}
	}
	if acknowledged && !done(content(t, raw)) {
		t.Errorf("death at write %d: acknowledged, but not done: %+v", n, content(t, raw))
	}
	stillWorks(t, db, raw)
	return mortal.dead
}

// content returns what is stored.
func content(t *testing.T, raw store.Driver) map[store.Key]store.Doc {
	t.Helper()
	docs := map[store.Key]store.Doc{}
	for d, err := range raw.List(t.Context(), "", store.Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		docs[d.Key] = d
	}
	return docs
}

// stillWorks checks that nothing which a crash left stands in anyone's way.
func stillWorks(t *testing.T, db *store.DB, raw store.Driver) {
	t.Helper()
	for _, w := range []store.Write{{Key: parent}, {Key: child, Parent: parent, Refs: refTo(target, true)}} {
		if _, err := db.Create(t.Context(), w); err != nil && !errs.Is(err, errs.Exists) {
			t.Errorf("create after a crash: %v", err)
		}
	}
	if _, err := db.Replace(t.Context(), store.Write{Key: holder}, 0); err != nil {
		t.Errorf("replace after a crash: %v", err)
	}
	for _, k := range []store.Key{child, target, parent, holder} {
		if err := db.Delete(t.Context(), k, nil); err != nil {
			t.Errorf("delete after a crash: %v", err)
		}
	}
	if left := content(t, raw); len(left) > 0 {
		t.Errorf("left over after everything was deleted: %+v", left)
	}
}
