package store_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

// notebook is a Notary that records, with each note, the revision of the document that readers see at that moment.
type notebook struct {
	db    *store.DB
	lines []string
	err   error
}

func (n *notebook) Note(ctx context.Context, k store.Key, deletes bool) error {
	seen := "none"
	if doc, err := n.db.Get(ctx, k); err == nil {
		seen = fmt.Sprint(doc.Rev)
	}
	n.lines = append(n.lines, fmt.Sprintf("%s %v %s", k, deletes, seen))
	return n.err
}

func TestANotaryNotesChangesBeforeAndAfterTheyAreSeen(t *testing.T) {
	t.Parallel()
	db := openDB(t)
	n := &notebook{db: db}
	ctx := store.WithNotary(t.Context(), n)
	want := func(what string, err error, kind errs.Kind, lines ...string) {
		t.Helper()
		if (err != nil || kind != 0) && errs.KindOf(err) != kind || !slices.Equal(n.lines, lines) {
			t.Errorf("%s: %v, noted %q, want %q", what, err, n.lines, lines)
		}
		n.lines = nil
	}
	_, err := db.Create(ctx, store.Write{Key: "a/b", Body: []byte("{}")})
	want("a creation", err, 0, "a/b false none", "a/b false 1")
	_, err = db.Create(ctx, store.Write{Key: "a/b", Body: []byte("{}")})
	want("a creation of what exists", err, errs.Exists)
	_, err = db.Create(ctx, store.Write{Key: "a/x/y", Parent: "a/x", Body: []byte("{}")})
	want("a creation without its parent", err, errs.Conflict)
	_, err = db.Replace(ctx, store.Write{Key: "a/b", Body: []byte("[]")}, 1)
	want("a replacement", err, 0, "a/b false 1", "a/b false 2")
	_, err = db.Replace(ctx, store.Write{Key: "a/b", Body: []byte("{}")}, 1)
	want("a replacement of another revision", err, errs.Conflict)
	err = db.Delete(ctx, "a/b", func(context.Context, store.Doc) error { return errs.New(errs.Conflict, "in use") })
	want("a deletion that is refused", err, errs.Conflict)
	_, err = db.Trial().Replace(ctx, store.Write{Key: "a/b", Body: []byte("{}")}, 0)
	want("a trial", err, 0)
	_, err = db.Replace(store.WithoutObservers(ctx), store.Write{Key: "a/b", Body: []byte("{}")}, 0)
	want("a replacement apart", err, 0)
	err = db.Delete(ctx, "a/b", nil)
	want("a deletion", err, 0, "a/b true 3", "a/b true none")
}

func TestWhatANotaryCannotNoteIsNotChanged(t *testing.T) {
	t.Parallel()
	db := openDB(t)
	create(t, db, store.Write{Key: "a/b", Body: []byte("{}")})
	ctx := store.WithNotary(t.Context(), &notebook{db: db, err: errors.New("no")})
	if _, err := db.Create(ctx, store.Write{Key: "a/c", Body: []byte("{}")}); err == nil {
		t.Error("a document was created")
	}
	if _, err := db.Replace(ctx, store.Write{Key: "a/b", Body: []byte("[]")}, 0); err == nil {
		t.Error("a document was replaced")
	}
	if err := db.Delete(ctx, "a/b", nil); err == nil {
		t.Error("a document was deleted")
	}
	var left []string
	for doc, err := range db.List(t.Context(), "", store.Query{}) {
		left = append(left, fmt.Sprint(doc.Key, " ", doc.Rev, " ", string(doc.Body), err))
	}
	if !slices.Equal(left, []string{"a/b 1 {}<nil>"}) {
		t.Errorf("left is %q", left)
	}
	create(t, db, store.Write{Key: "a/c", Body: []byte("{}")}) // nothing of the creation is in the way
}
