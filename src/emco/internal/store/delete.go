package store

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

// Delete removes a document. NotFound if it does not exist; Conflict with ErrHasChildren or
// ErrReferenced, naming the first child or holder, if others need it. guard, which may be
// nil, runs last, while no new document can be below this one or refer to it: if it returns
// an error, the document stays and Delete returns the error. It is the place to remove what
// belongs to the document elsewhere. Its context ends if another process takes the deletion
// over. It may run again after a crash, so it must be idempotent.
func (db *DB) Delete(ctx context.Context, k Key, guard func(context.Context, Doc) error) error {
	var uid string // of the document that we marked
	removed, err := again(ctx, "delete", k, func() (Doc, error) {
		d, err := db.mark(ctx, k, uid)
		if err != nil {
			return Doc{}, err
		}
		uid = d.UID
		return d, db.finish(ctx, d, guard)
	})
	if errors.Is(err, errGone) {
		return nil
	}
	if err == nil {
		db.tell(ctx, removed, Doc{})
		err = db.note(ctx, k, true)
	}
	return err
}

// errGone means that another process has removed the document that we marked.
var errGone = errors.New("gone")

// mark announces the deletion and returns the document as it is stored afterwards. uid is
// that of the document that an earlier attempt marked, if any.
func (db *DB) mark(ctx context.Context, k Key, uid string) (Doc, error) {
	d, err := db.load(ctx, "delete", k)
	if uid != "" && (errs.Is(err, errs.NotFound) || err == nil && d.UID != uid) {
		return Doc{}, errGone
	}
	if err != nil {
		return Doc{}, err
	}
	if d.State == Deleting && !db.stale(d) {
		return Doc{}, db.other(ctx, d)
	}
	d.State = Deleting
	return db.put(ctx, d, d.Tag)
}

// other waits for the deletion by another process: errLost when it has ended, Conflict
// while it continues.
func (db *DB) other(ctx context.Context, d Doc) error {
	if err := db.outwait(ctx, d); err != nil {
		return err
	}
	now, err := db.driver.Get(ctx, d.Key)
	if err == nil && now.State == Deleting && now.Tag != d.Tag {
		return conflict("delete", d.Key, errGoing)
	}
	return errLost
}

// finish deletes a marked document, or removes the mark. A mark that cannot be removed
// counts as abandoned after the lease.
func (db *DB) finish(ctx context.Context, d Doc, guard func(context.Context, Doc) error) error {
	fctx, cancel := detached(ctx)
	err := db.clear(fctx, d)
	cancel()
	if err == nil && guard != nil {
		d, err = db.guarded(ctx, d, guard)
	}
	fctx, cancel = detached(ctx)
	defer cancel()
	if err == nil {
		err = db.note(fctx, d.Key, true)
	}
	if err != nil {
		_, _ = db.unmark(fctx, d)
		return err
	}
	return db.remove(fctx, d)
}

// clear checks that no document is below d or refers to it. It undoes unconfirmed writes
// that would do so: they start over and find the mark.
func (db *DB) clear(ctx context.Context, d Doc) error {
	for c, err := range db.driver.List(ctx, d.Key, Query{}) {
		switch {
		case err != nil:
			return err
		case c.State != Pending:
			return related("delete", d.Key, ErrHasChildren, c.Key, "has children, such as %s")
		}
		if err := db.remove(ctx, c); err != nil {
			return err
		}
	}
	for h, err := range db.driver.List(ctx, "", Query{Refers: d.Key}) {
		if err == nil {
			err = db.release(ctx, d.Key, h)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// release removes the claims of holder h on k; ErrReferenced if h refers to k.
func (db *DB) release(ctx context.Context, k Key, h Doc) error {
	switch {
	case h.State == Pending:
		return db.remove(ctx, h)
	case slices.Contains(h.Refs, k):
		return related("delete", k, ErrReferenced, h.Key, "in use by %s")
	case !slices.Contains(h.Claims, k):
		return nil
	}
	h.Claims = nil
	_, err := db.put(ctx, h, h.Tag)
	return err
}

// guarded runs the guard while it renews the mark. It returns the document as it is stored
// afterwards.
func (db *DB) guarded(ctx context.Context, d Doc, guard func(context.Context, Doc) error) (Doc, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	renewed := make(chan Doc, 1)
	go func() { renewed <- db.renew(ctx, d, cancel) }()
	stop := sync.OnceValue(func() Doc {
		cancel(nil)
		return <-renewed
	})
	defer stop() // also if the guard panics
	err := guard(ctx, d)
	return stop(), err
}

// renew rewrites the mark until ctx ends, and ends ctx when the mark is lost.
func (db *DB) renew(ctx context.Context, d Doc, lost context.CancelCauseFunc) Doc {
	tick := time.NewTicker(max(db.lease/4, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return d
		case <-tick.C:
		}
		fctx, cancel := detached(ctx)
		next, err := db.put(fctx, d, d.Tag)
		cancel()
		if errors.Is(err, errLost) {
			lost(errs.E(errs.Conflict, "delete", string(d.Key), errBusy))
			return d
		}
		if err == nil {
			d = next
		}
	}
}
