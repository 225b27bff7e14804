package store_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	gosync "sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/embedded"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
	"github.com/emco-orchestrator/emco/src/emco/internal/readpoint"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/etcd"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/seal"
)

// Children and holders come in earnest while what they need goes. Interleavings are
// tried one by one elsewhere; here SQLite and its locks are part of the play.
func TestRacesOnSQLiteLeaveNoOrphan(t *testing.T) {
	t.Parallel()
	raw := openDriver(t, filepath.Join(t.TempDir(), "docs.db"))
	s := seal.New(seal.NewKey())
	raceFor(t, []*store.DB{store.New(raw, nil, s), store.New(raw, nil, s)}, raw)
}

// The same with two sets of connections to one file, as two processes have them.
func TestRacesOfTwoProcessesLeaveNoOrphan(t *testing.T) {
	t.Parallel()
	a, b, raw := twoDBs(t)
	raceFor(t, []*store.DB{a, b}, raw)
}

// The same on etcd, where transactions overtake each other.
func TestRacesOnEtcdLeaveNoOrphan(t *testing.T) {
	t.Parallel()
	a, b, raw := twoDBsOnEtcd(t)
	raceFor(t, []*store.DB{a, b}, raw)
}

// twoDBsOnEtcd returns a store on an embedded etcd that is open twice.
func twoDBsOnEtcd(t *testing.T) (a, b *store.DB, raw store.Driver) {
	t.Helper()
	server, err := embedded.Start(t.Context(), embedded.Options{Dir: t.TempDir(), NoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	open := func() store.Driver {
		d := etcd.New(etcdkv.New(server.Client(), "/emco", etcdkv.Options{}))
		t.Cleanup(func() { _ = d.Close() })
		return d
	}
	s := seal.New(seal.NewKey())
	raw = open()
	return store.New(raw, nil, s), store.New(open(), nil, s), raw
}

// raceFor runs rounds in some lanes that have nothing to do with each other: as many
// as the disk allows in a second, a few at least.
func raceFor(t *testing.T, dbs []*store.DB, raw store.Driver) {
	const lanes, atLeast = 4, 5
	var wg gosync.WaitGroup
	var rounds atomic.Int64
	for lane := range lanes {
		wg.Go(func() {
			for round, start := 0, time.Now(); round < atLeast || time.Since(start) < time.Second; round++ {
				rounds.Add(1)
				if err := raceOnce(t, dbs, raw, fmt.Sprintf("%d-%d", lane, round)); err != nil {
					t.Errorf("lane %d, round %d: %v", lane, round, err)
				}
			}
		})
	}
	wg.Wait()
	t.Log(rounds.Load(), "rounds")
	if err := sound(content(t, raw)); err != nil {
		t.Error(err)
	}
}

// raceOnce makes a parent, and lets children of it and holders of it come while it
// goes.
func raceOnce(t *testing.T, dbs []*store.DB, raw store.Driver, name string) error {
	p := store.Key("parents/" + name)
	if _, err := dbs[0].Create(t.Context(), store.Write{Key: p}); err != nil {
		return err
	}
	h := store.Key("holders/" + name)
	if _, err := dbs[0].Create(t.Context(), store.Write{Key: h}); err != nil {
		return err
	}
	c := p + "/children/c"
	calls := []func(context.Context, *store.DB) error{
		func(ctx context.Context, db *store.DB) error {
			_, err := db.Create(ctx, store.Write{Key: c, Parent: p})
			return err
		},
		func(ctx context.Context, db *store.DB) error {
			_, err := db.Replace(ctx, store.Write{Key: h, Refs: refTo(p, true)}, 1)
			return err
		},
		func(ctx context.Context, db *store.DB) error { return db.Delete(ctx, p, nil) },
	}
	results := make([]error, len(calls))
	var wg gosync.WaitGroup
	for i, call := range calls {
		wg.Go(func() { results[i] = call(readpoint.With(t.Context()), dbs[i%2]) }) // as requests of the API
	}
	wg.Wait()
	return fair(t, raw, p, results)
}

// fair checks that either the deletion succeeded or at least one of those that need
// the parent did, and that the store agrees.
func fair(t *testing.T, raw store.Driver, p store.Key, results []error) error {
	may := []error{store.ErrNoParent, store.ErrNoTarget, store.ErrHasChildren, store.ErrReferenced}
	for i, err := range results {
		if err != nil && !errors.Is(err, may[i]) && !(i == 2 && errors.Is(err, store.ErrReferenced)) {
			return fmt.Errorf("call %d: unexpected error %w", i, err)
		}
	}
	_, err := raw.Get(t.Context(), p)
	gone := errs.Is(err, errs.NotFound)
	if gone != (results[2] == nil) || gone && (results[0] == nil || results[1] == nil) {
		return fmt.Errorf("parent is gone: %t, results: %v", gone, results)
	}
	return nil
}

func TestNoReplacementIsLost(t *testing.T) {
	t.Parallel()
	a, b, _ := twoDBs(t)
	incrementAtOnce(t, a, b)
}

func TestNoReplacementIsLostOnEtcd(t *testing.T) {
	t.Parallel()
	a, b, _ := twoDBsOnEtcd(t)
	incrementAtOnce(t, a, b)
}

func incrementAtOnce(t *testing.T, a, b *store.DB) {
	t.Helper()
	create(t, a, store.Write{Key: provider, Body: []byte("0")})
	const writers, each = 4, 15
	var wg gosync.WaitGroup
	for i := range writers {
		db := []*store.DB{a, b}[i%2]
		wg.Go(func() {
			for range each {
				if err := increment(t, db); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	d, err := a.Get(t.Context(), provider)
	if want := fmt.Sprint(writers * each); err != nil || string(d.Body) != want || d.Rev != 1+writers*each {
		t.Errorf("after %d increments the document is %s at revision %d, %v", writers*each, d.Body, d.Rev, err)
	}
}

// increment counts up the number in the document until no one interferes.
func increment(t *testing.T, db *store.DB) error {
	for {
		d, err := db.Get(t.Context(), provider)
		if err != nil {
			return err
		}
		var n int
		if _, err := fmt.Sscan(string(d.Body), &n); err != nil {
			return err
		}
		_, err = db.Replace(t.Context(), store.Write{Key: provider, Body: fmt.Append(nil, n+1)}, d.Rev)
		if !errs.Is(err, errs.Conflict) {
			return err
		}
	}
}
