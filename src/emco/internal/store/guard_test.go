package store_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/seal"
)

// twoDBs returns two DBs on one SQLite file, as two processes have them, and a
// driver to look at what is stored.
func twoDBs(t *testing.T) (a, b *store.DB, raw store.Driver) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "docs.db")
	s := seal.New(seal.NewKey())
	d := openDriver(t, path)
	return store.New(d, nil, s), store.New(openDriver(t, path), nil, s), d
}

func TestTheGuardIsAskedLastAndMayRefuse(t *testing.T) {
	t.Parallel()
	a, _, _ := twoDBs(t)
	create(t, a, store.Write{Key: parent}, store.Write{Key: child, Parent: parent})
	asked := 0
	refusal := errs.New(errs.Conflict, "still instantiated")
	guard := func(_ context.Context, d store.Doc) error {
		if asked++; d.Key != parent {
			t.Errorf("guard asked about %s", d.Key)
		}
		return refusal
	}
	wantRelated(t, a.Delete(t.Context(), parent, guard), store.ErrHasChildren, child)
	if asked > 0 {
		t.Error("the guard was asked although the document has children")
	}
	if err := a.Delete(t.Context(), child, nil); err != nil {
		t.Fatal(err)
	}
	if err := a.Delete(t.Context(), parent, guard); err != refusal || asked != 1 {
		t.Errorf("Delete = %v after %d questions, want the guard's error after 1", err, asked)
	}
	if d, err := a.Get(t.Context(), parent); err != nil || d.State != store.Live || d.Rev != 1 {
		t.Errorf("after the refusal the document is %+v, %v, want it as it was", d, err)
	}
	create(t, a, store.Write{Key: child, Parent: parent})
}

// While a guard works, however long, the mark of the deletion is renewed, and no process may
// put anything below the document or refer to it.
func TestNothingNewComesWhileTheGuardWorks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const lease = 5 * time.Second
		raw, sealer := newMemory(), seal.New(seal.NewKey())
		a, b := store.New(raw, nil, sealer), store.New(raw, nil, sealer)
		a.SetLease(lease)
		b.SetLease(lease)
		create(t, a, store.Write{Key: parent}, store.Write{Key: holder})
		err := a.Delete(t.Context(), parent, func(ctx context.Context, _ store.Doc) error {
			for range 3 {
				time.Sleep(lease)
				_, err := b.Create(ctx, store.Write{Key: child, Parent: parent})
				wantRelated(t, err, store.ErrNoParent, parent)
				_, err = b.Replace(ctx, store.Write{Key: holder, Refs: refTo(parent, false)}, 0)
				wantRelated(t, err, store.ErrNoTarget, parent)
				if _, err = b.Replace(ctx, store.Write{Key: parent}, 0); !errs.Is(err, errs.Conflict) {
					t.Errorf("Replace meanwhile = %v, want Conflict", err)
				}
				if err = b.Delete(ctx, parent, nil); !errs.Is(err, errs.Conflict) {
					t.Errorf("another Delete meanwhile = %v, want Conflict", err)
				}
				if err := b.Settle(ctx); err != nil {
					t.Error(err)
				}
			}
			return ctx.Err()
		})
		if err != nil {
			t.Fatalf("Delete with a slow guard = %v, want nil", err)
		}
		if _, err := raw.Get(t.Context(), parent); !errs.Is(err, errs.NotFound) {
			t.Errorf("Get after the deletion = %v, want NotFound", err)
		}
	})
}

func TestADeletionThatAnotherFinishedHasSucceeded(t *testing.T) {
	t.Parallel()
	for _, again := range []bool{false, true} {
		a, b, raw := twoDBs(t)
		b.SetLease(0) // takes the other's deletion for one left behind
		create(t, a, store.Write{Key: parent})
		err := a.Delete(t.Context(), parent, func(ctx context.Context, _ store.Doc) error {
			if err := b.Delete(ctx, parent, nil); err != nil || !again {
				return err
			}
			_, err := b.Create(ctx, store.Write{Key: parent, Body: []byte("again")})
			return err
		})
		if err != nil {
			t.Errorf("Delete = %v, want nil", err)
		}
		if d, err := raw.Get(t.Context(), parent); again && (err != nil || string(d.Body) != "again") || !again && err == nil {
			t.Errorf("created again: %t, but there is %+v, %v", again, d, err)
		}
	}
}

func TestAGuardThatPanicsLeavesNoGoroutine(t *testing.T) {
	t.Parallel()
	a, _, raw := twoDBs(t)
	a.SetLease(20 * time.Millisecond)
	create(t, a, store.Write{Key: parent})
	func() {
		defer func() {
			if r := recover(); r != "guard" {
				t.Errorf("recovered %v, want the guard's panic", r)
			}
		}()
		_ = a.Delete(t.Context(), parent, func(context.Context, store.Doc) error { panic("guard") })
	}()
	before, err := raw.Get(t.Context(), parent)
	if err != nil || before.State != store.Deleting {
		t.Fatalf("after the panic there is %+v, %v, want the mark", before, err)
	}
	if err := a.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	create(t, a, store.Write{Key: child, Parent: parent})
}

func TestAWriteWhoseAnswerGotLostIsKnownByItsTag(t *testing.T) {
	t.Parallel()
	mem := newMemory()
	db := store.New(answerlessDriver{mem}, nil, seal.New(seal.NewKey()))
	create(t, db, store.Write{Key: parent}, store.Write{Key: child, Parent: parent, Refs: refTo(parent, true)})
	if d, err := db.Replace(t.Context(), store.Write{Key: child, Parent: parent}, 0); err != nil || d.Rev != 2 {
		t.Errorf("Replace = %+v, %v, want revision 2", d, err)
	}
	if err := errors.Join(db.Delete(t.Context(), child, nil), db.Delete(t.Context(), parent, nil)); err != nil {
		t.Error(err)
	}
	if left := mem.all(); len(left) > 0 {
		t.Errorf("left over: %+v", left)
	}
}

// answerlessDriver is a driver that writes, but whose answers get lost on the way.
type answerlessDriver struct{ *memoryDriver }

var errDeaf = errs.New(errs.Unavailable, "connection lost")

func (d answerlessDriver) Put(ctx context.Context, doc store.Doc, at int64) error {
	return errors.Join(errDeaf, d.memoryDriver.Put(ctx, doc, at))
}

func (d answerlessDriver) Remove(ctx context.Context, k store.Key, at int64) error {
	return errors.Join(errDeaf, d.memoryDriver.Remove(ctx, k, at))
}
