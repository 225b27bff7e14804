package store

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

// Delete removes a document. NotFound if there is none; Conflict with
// ErrHasChildren or ErrReferenced, naming the first child or holder, if others need
// it. guard, which may be nil, is asked last, while nothing can be put below the
// document or refer to it: if it returns an error, the document stays and the error
// is returned as it is. It is the place to destroy what belongs to the document
// elsewhere. Its context ends if the deletion is lost to another process. After a
// crash it may be asked again, so it has to be idempotent.
func (db *DB) Delete(ctx context.Context, k Key, guard func(context.Context, Doc) error) error {
	var uid string // of the document that we marked
	_, err := db.again(ctx, "delete", k, func() (Doc, error) {
		d, err := db.mark(ctx, k, uid)
		if err != nil {
			return Doc{}, err
		}
		uid = d.UID
		return Doc{}, db.finish(ctx, d, guard)
	})
	if errors.Is(err, errGone) {
		return nil
	}
	return err
}

// errGone tells that the document which we marked was removed by someone else.
var errGone = errors.New("gone")

// mark announces the deletion and returns the document as it is stored then. uid is
// that of the document we marked in an attempt before, if any.
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

// other waits for the deletion that someone else carries out: errLost when it is
// over, Conflict while it goes on.
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

// finish carries out the deletion of a marked document, or takes the mark back.
// When taking it back fails, the mark counts as left behind after a while.
func (db *DB) finish(ctx context.Context, d Doc, guard func(context.Context, Doc) error) error {
	fctx, cancel := detached(ctx)
	err := db.clear(fctx, d)
	cancel()
	if err == nil && guard != nil {
		d, err = db.guarded(ctx, d, guard)
	}
	fctx, cancel = detached(ctx)
	defer cancel()
	if err != nil {
		_ = db.unmark(fctx, d)
		return err
	}
	return db.remove(fctx, d)
}

// clear makes sure that no document is below d or refers to it. Writes under way
// that would do so, but are not confirmed, are taken back: they start over and find
// the mark.
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

// release frees k from the holder h, if h does not hold it for good.
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

// guarded asks the guard while it keeps the mark fresh. It returns the document as
// it is stored then.
func (db *DB) guarded(ctx context.Context, d Doc, guard func(context.Context, Doc) error) (Doc, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	renewed := make(chan Doc, 1)
	go func() { renewed <- db.renew(ctx, d, cancel) }()
	stop := sync.OnceValue(func() Doc {
		cancel(nil)
		return <-renewed
	})
	defer stop() // in case the guard panics
	err := guard(ctx, d)
	return stop(), err
}

// renew writes the mark anew until ctx ends, and ends it when the mark is lost.
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

// load reads a document that a write is about; NotFound if readers see none.
func (db *DB) load(ctx context.Context, op string, k Key) (Doc, error) {
	d, err := db.driver.Get(ctx, k)
	if errs.Is(err, errs.NotFound) || err == nil && d.State == Pending {
		return Doc{}, notFound(op, k)
	}
	return d, err
}
