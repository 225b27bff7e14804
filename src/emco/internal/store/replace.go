package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// Replace replaces the document of w's key. at is the revision that w was made from:
// Conflict if the document has another one; 0 replaces any. NotFound if the document does
// not exist; Conflict with ErrNoTarget as for Create.
func (db *DB) Replace(ctx context.Context, w Write, at int64) (Doc, error) {
	if err := w.check("replace"); err != nil {
		return Doc{}, err
	}
	var before Doc
	d, err := again(ctx, "replace", w.Key, func() (d Doc, err error) {
		before, d, err = db.replace(ctx, w, at)
		return d, err
	})
	if err == nil {
		db.tell(ctx, before, d)
		err = db.note(ctx, d.Key, false)
	}
	return d, err
}

// replace tries a replacement once. It returns the document before and after.
func (db *DB) replace(ctx context.Context, w Write, at int64) (old, next Doc, err error) {
	if old, err = db.replaceable(ctx, w, at); err != nil {
		return Doc{}, Doc{}, err
	}
	fctx, cancel := detached(ctx)
	defer cancel()
	next = db.fill(old, w)
	next.Rev++
	if old, err = db.claim(fctx, old, next.Refs); err != nil {
		return Doc{}, Doc{}, err
	}
	_, err = db.confirmRefs(fctx, "replace", w, setOf(old.Refs))
	if err == nil {
		err = db.note(fctx, w.Key, false)
	}
	if err != nil {
		db.disclaim(fctx, old)
		return Doc{}, Doc{}, err
	}
	next, err = db.put(fctx, next, old.Tag)
	return old, next, err
}

// replaceable returns the stored document if w may replace it.
func (db *DB) replaceable(ctx context.Context, w Write, at int64) (Doc, error) {
	d, err := db.load(ctx, "replace", w.Key)
	switch {
	case err != nil:
		return Doc{}, err
	case w.UID != "" && w.UID != d.UID:
		return Doc{}, conflict("replace", w.Key, errors.New("was deleted and created again meanwhile, read it again"))
	case at != 0 && at != d.Rev:
		return Doc{}, conflict("replace", w.Key, fmt.Errorf("is at revision %d, not %d, read it again", d.Rev, at))
	case w.Parent != d.Parent:
		return Doc{}, invalid("replace", w.Key, "cannot move to another parent")
	case d.State == Deleting && db.stale(d):
		if _, err := db.unmark(ctx, d); err != nil {
			return Doc{}, err
		}
		return Doc{}, errLost // it has a new tag
	case d.State == Deleting:
		return Doc{}, conflict("replace", w.Key, errGoing)
	}
	return d, nil
}

// claim announces the references that a replacement adds, so that deletions of the targets
// see them before they are confirmed. Readers do not see claims. Claims of other
// replacements stay, so that one of several at the same time succeeds.
func (db *DB) claim(ctx context.Context, d Doc, refs []Key) (Doc, error) {
	known := setOf(slices.Concat(d.Refs, d.Claims))
	added := slices.DeleteFunc(slices.Clone(refs), func(k Key) bool { return known[k] })
	if len(added) == 0 {
		return d, nil
	}
	d.Claims = slices.Sorted(slices.Values(append(added, d.Claims...)))
	return db.put(ctx, d, d.Tag)
}

// disclaim removes all claims; other replacements that rely on them see a new tag and start
// over. Claims that stay after a failure do no harm: the deletion of a target clears them.
func (db *DB) disclaim(ctx context.Context, d Doc) {
	if d.Claims == nil {
		return
	}
	d.Claims = nil
	_, _ = db.put(ctx, d, d.Tag)
}

func setOf(keys []Key) map[Key]bool {
	set := make(map[Key]bool, len(keys))
	for _, k := range keys {
		set[k] = true
	}
	return set
}
