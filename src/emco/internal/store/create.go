package store

import (
	"context"
	"errors"
	"strconv"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

// Create stores a new document. Exists if the key is used; Conflict with ErrNoParent or
// ErrNoTarget if its parent or a reference is missing or being deleted. It becomes visible
// as a whole or not at all.
func (db *DB) Create(ctx context.Context, w Write) (Doc, error) {
	if err := w.check("create"); err != nil {
		return Doc{}, err
	}
	d, err := again(ctx, "create", w.Key, func() (Doc, error) { return db.create(ctx, w) })
	if err == nil {
		db.tell(ctx, Doc{}, d)
		err = db.note(ctx, d.Key, false)
	}
	return d, err
}

// create tries a creation once.
func (db *DB) create(ctx context.Context, w Write) (Doc, error) {
	others, err := db.confirm(ctx, w)
	if err != nil {
		return Doc{}, err // before anything is written, so that no other writer is disturbed
	}
	d := Doc{Key: w.Key, Parent: w.Parent, UID: strconv.FormatInt(random63(), 10), Rev: 1, State: Pending}
	d = db.fill(d, w)
	d.Created = d.Updated

	fctx, cancel := detached(ctx)
	defer cancel()
	if c, ok := db.driver.(Creator); ok && len(others) <= MaxOthers {
		d, err = db.createLive(fctx, c, d, others)
	} else if d, err = db.put(fctx, d, 0); err == nil {
		return db.flip(fctx, d, w)
	}
	if errs.Is(err, errs.Exists) {
		return Doc{}, db.occupied(ctx, w.Key)
	}
	return d, err
}

// createLive makes a document live at once, unless its parent or a reference has changed since they were confirmed.
func (db *DB) createLive(ctx context.Context, c Creator, d Doc, others map[Key]int64) (Doc, error) {
	if err := db.note(ctx, d.Key, false); err != nil {
		return Doc{}, err
	}
	d.State = Live
	return db.records.create(ctx, c, d, others)
}

// flip makes a pending document live if its parent and references exist, now that their
// deletions can see it; otherwise it removes it. If that fails, the next writer that finds
// the document removes it.
func (db *DB) flip(ctx context.Context, d Doc, w Write) (Doc, error) {
	_, err := db.confirm(ctx, w)
	if err == nil {
		err = db.note(ctx, d.Key, false)
	}
	if err != nil {
		_ = db.remove(ctx, d)
		return Doc{}, err
	}
	live := d
	live.State = Live
	live, err = db.put(ctx, live, d.Tag)
	if err != nil && !errors.Is(err, errLost) {
		_ = db.remove(ctx, d)
	}
	return live, err
}

// occupied returns why a creation found the key in use: Exists, or errLost once the key is
// free.
func (db *DB) occupied(ctx context.Context, k Key) error {
	d, err := db.driver.Get(ctx, k)
	if errs.Is(err, errs.NotFound) {
		return errLost
	}
	if err != nil {
		return err
	}
	if d.State != Pending {
		return errs.E(errs.Exists, "create", string(k), errThere)
	}
	if !db.stale(d) {
		if err := db.outwait(ctx, d); err != nil {
			return err
		}
		return errLost
	}
	if err := db.remove(ctx, d); err != nil {
		return err
	}
	return errLost
}

// confirm checks that the parent and the references of a new document exist and are not
// being deleted. It returns their tags, 0 for those that do not exist.
func (db *DB) confirm(ctx context.Context, w Write) (tags map[Key]int64, err error) {
	var parent Doc
	if w.Parent != "" {
		parent, err = db.standing(ctx, w.Parent)
		switch {
		case err != nil:
			return nil, err
		case parent.State == Pending:
			return nil, related("create", w.Key, ErrNoParent, w.Parent, "parent %s does not exist")
		case parent.State == Deleting:
			return nil, related("create", w.Key, ErrNoParent, w.Parent, "parent %s is being deleted")
		}
	}
	tags, err = db.confirmRefs(ctx, "create", w, nil)
	if w.Parent != "" && err == nil {
		tags[w.Parent] = parent.Tag
	}
	return tags, err
}

// confirmRefs checks the references of w, and returns the tags of their targets. The document had those in held before: a deletion
// of their target cannot succeed.
func (db *DB) confirmRefs(ctx context.Context, op string, w Write, held map[Key]bool) (map[Key]int64, error) {
	tags := map[Key]int64{}
	for _, r := range w.Refs {
		if r.Index || held[r.Key] && !r.Must {
			continue
		}
		target, err := db.standing(ctx, r.Key)
		switch {
		case err != nil:
			return nil, err
		case target.State == Pending && r.Must:
			return nil, related(op, w.Key, ErrNoTarget, r.Key, "refers to %s, which does not exist")
		case target.State == Deleting && !held[r.Key]:
			return nil, related(op, w.Key, ErrNoTarget, r.Key, "refers to %s, which is being deleted")
		}
		tags[r.Key] = target.Tag
	}
	return tags, nil
}
