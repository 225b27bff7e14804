package store

import (
	"context"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/pause"
	"github.com/emco-orchestrator/emco/src/emco/internal/readpoint"
)

// records reads and writes single documents with their states and tags. DB makes its guarantees of these steps: a write
// fails with errLost if another writer has changed the document since it was read.
type records struct {
	driver Driver
	lease  time.Duration // the age at which an unfinished write counts as abandoned
	clock  func() time.Time
}

// now returns the time as all drivers can keep it.
func (r records) now() time.Time { return r.clock().UTC().Truncate(time.Millisecond) }

// stale reports whether the unfinished write of d was abandoned by a crash.
func (r records) stale(d Doc) bool {
	age := r.now().Sub(d.Since)
	return age >= r.lease || age <= -r.lease
}

// load reads the document of a write; NotFound if readers do not see it.
func (r records) load(ctx context.Context, op string, k Key) (Doc, error) {
	d, err := r.driver.Get(ctx, k)
	if errs.Is(err, errs.NotFound) || err == nil && d.State == Pending {
		return Doc{}, notFound(op, k)
	}
	return d, err
}

// put writes d with a new tag over the document with tag at, 0 for none, and returns what is
// stored afterwards. After an error that leaves the outcome open, it reads: tags do not
// repeat. errLost stands for Conflict.
func (r records) put(ctx context.Context, d Doc, at int64) (Doc, error) {
	d.Tag, d.Since = random63(), r.now()
	return r.written(ctx, d, r.driver.Put(ctx, d, at))
}

// written returns what is stored after a write of d that ended with err.
func (r records) written(ctx context.Context, d Doc, err error) (Doc, error) {
	if err == nil {
		return d, nil
	}
	if got, e := r.driver.Get(ctx, d.Key); e == nil && got.Tag == d.Tag {
		return d, nil
	}
	if errs.Is(err, errs.Conflict) {
		return Doc{}, errLost
	}
	return Doc{}, err
}

// create writes d with a new tag if its key is free, and others still have their tags. Errors are those of put, and Exists.
func (r records) create(ctx context.Context, c Creator, d Doc, others map[Key]int64) (Doc, error) {
	d.Tag, d.Since = random63(), r.now()
	return r.written(ctx, d, c.Create(ctx, d, others))
}

// remove deletes d if it is still as given; errLost otherwise.
func (r records) remove(ctx context.Context, d Doc) error {
	err := r.driver.Remove(ctx, d.Key, d.Tag)
	if err == nil {
		return nil
	}
	if errs.Is(err, errs.Conflict) {
		return errLost
	}
	if _, e := r.driver.Get(ctx, d.Key); errs.Is(e, errs.NotFound) {
		return nil
	}
	return err
}

// unmark removes the mark of a deletion; errLost if another writer was faster.
func (r records) unmark(ctx context.Context, d Doc) (Doc, error) {
	d.State = Live
	return r.put(ctx, d, d.Tag)
}

// standing returns a document that others refer to; Pending, without a tag, if it does not
// exist. It undoes an abandoned deletion.
func (r records) standing(ctx context.Context, k Key) (Doc, error) {
	d, err := r.driver.Get(ctx, k)
	switch {
	case errs.Is(err, errs.NotFound):
		return Doc{Key: k, State: Pending}, nil
	case err == nil && d.State == Deleting && r.stale(d):
		return r.unmark(ctx, d)
	}
	return d, err
}

// outwait waits until d is written or removed, or until it is stale.
func (r records) outwait(ctx context.Context, d Doc) error {
	for wait := time.Millisecond; !r.stale(d); wait = min(2*wait, 50*time.Millisecond) {
		if err := pause.For(ctx, wait); err != nil {
			return errs.E(errs.Unavailable, "wait for", string(d.Key), err)
		}
		readpoint.Drop(ctx) // what others have written meanwhile counts
		now, err := r.driver.Get(ctx, d.Key)
		if errs.Is(err, errs.NotFound) || err == nil && now.Tag != d.Tag {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}
