package store_test

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/blobdir"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/seal"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/sqlite"
)

// openDriver opens the SQLite file at path until the test ends.
func openDriver(t testing.TB, path string) *sqlite.Driver {
	t.Helper()
	d, err := sqlite.Open(path, sqlite.WithoutFsync())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// openDB returns a DB on SQLite and files in a folder of its own.
func openDB(t testing.TB) *store.DB {
	t.Helper()
	dir := t.TempDir()
	b, err := blobdir.Open(filepath.Join(dir, "blobs"))
	if err != nil {
		t.Fatal(err)
	}
	return store.New(openDriver(t, filepath.Join(dir, "docs.db")), b, seal.New(seal.NewKey()))
}

// create puts documents there, one after the other.
func create(t testing.TB, db *store.DB, writes ...store.Write) []store.Doc {
	t.Helper()
	var docs []store.Doc
	for _, w := range writes {
		d, err := db.Create(t.Context(), w)
		if err != nil {
			t.Fatalf("create %s: %v", w.Key, err)
		}
		docs = append(docs, d)
	}
	return docs
}

const (
	provider = store.Key("cluster-providers/edge")
	cluster  = store.Key("cluster-providers/edge/clusters/c1")
	syncRepo = store.Key("cluster-providers/edge/cluster-sync-objects/repo")
)

func TestWhatOthersNeedStays(t *testing.T) {
	t.Parallel()
	db := openDB(t)
	create(t, db,
		store.Write{Key: provider},
		store.Write{Key: syncRepo, Parent: provider},
		store.Write{Key: cluster, Parent: provider, Refs: []store.Ref{{Key: syncRepo, Must: true}}})

	err := db.Delete(t.Context(), provider, nil)
	wantRelated(t, err, store.ErrHasChildren, syncRepo)
	err = db.Delete(t.Context(), syncRepo, nil)
	wantRelated(t, err, store.ErrReferenced, cluster)

	for _, k := range []store.Key{cluster, syncRepo, provider} {
		if err := db.Delete(t.Context(), k, nil); err != nil {
			t.Errorf("Delete(%s) = %v, want nil", k, err)
		}
		if _, err := db.Get(t.Context(), k); !errs.Is(err, errs.NotFound) {
			t.Errorf("Get(%s) after its deletion = %v, want NotFound", k, err)
		}
	}
}

// wantRelated checks that err is a Conflict for the reason, naming the other document.
func wantRelated(t *testing.T, err, reason error, other store.Key) {
	t.Helper()
	r, ok := errors.AsType[*store.Related](err)
	if !ok || !errs.Is(err, errs.Conflict) || !errors.Is(err, reason) || r.Key != other {
		t.Errorf("got error %v, want a Conflict because %v, naming %s", err, reason, other)
	}
}

func TestADocumentIsCreatedReplacedAndListed(t *testing.T) {
	t.Parallel()
	db := openDB(t)
	docs := create(t, db,
		store.Write{Key: provider, Body: []byte(`{"n":1}`)},
		store.Write{Key: cluster, Parent: provider},
		store.Write{Key: "cluster-providers/edge2"})
	d := docs[0]
	if n, err := strconv.ParseInt(d.UID, 10, 64); err != nil || n <= 0 || d.Rev != 1 || d.UID == docs[1].UID {
		t.Errorf("created with uid %q and revision %d, want a positive number of its own and 1", d.UID, d.Rev)
	}
	next, err := db.Replace(t.Context(), store.Write{Key: provider, Body: []byte(`{"n":2}`)}, 1)
	if err != nil {
		t.Fatal(err)
	}
	got, err := db.Get(t.Context(), provider)
	if err != nil || !reflect.DeepEqual(got, next) {
		t.Errorf("Get = %+v, %v, want what Replace returned, %+v", got, err, next)
	}
	if got.UID != d.UID || got.Rev != 2 || string(got.Body) != `{"n":2}` || !got.Created.Equal(d.Created) {
		t.Errorf("replaced document is %+v, want uid and creation of %+v, revision 2", got, d)
	}
	wantKeys(t, db, "cluster-providers", store.Query{Depth: 1}, provider, "cluster-providers/edge2")
	wantKeys(t, db, "cluster-providers", store.Query{Limit: 1}, provider)
	wantKeys(t, db, provider, store.Query{}, cluster)
}

// wantKeys checks what a listing yields.
func wantKeys(t *testing.T, db *store.DB, under store.Key, q store.Query, want ...store.Key) {
	t.Helper()
	var got []store.Key
	for d, err := range db.List(t.Context(), under, q) {
		if err != nil {
			t.Fatalf("List(%s, %+v): %v", under, q, err)
		}
		got = append(got, d.Key)
	}
	if !slices.Equal(got, want) {
		t.Errorf("List(%s, %+v) = %q, want %q", under, q, got, want)
	}
}

func TestWritesAreRefused(t *testing.T) {
	t.Parallel()
	db := openDB(t)
	docs := create(t, db, store.Write{Key: provider}, store.Write{Key: syncRepo, Parent: provider})
	replace := func(at int64) func(context.Context, store.Write) error {
		return func(ctx context.Context, w store.Write) error {
			_, err := db.Replace(ctx, w, at)
			return err
		}
	}
	post := func(ctx context.Context, w store.Write) error {
		_, err := db.Create(ctx, w)
		return err
	}
	missing := store.Key("cluster-providers/none")
	for _, c := range []struct {
		name   string
		call   func(context.Context, store.Write) error
		write  store.Write
		kind   errs.Kind
		reason error
		text   string
	}{
		{"a key twice", post, store.Write{Key: provider}, errs.Exists, nil, "create cluster-providers/edge: exists already"},
		{
			"a child of nothing", post,
			store.Write{Key: missing + "/clusters/c", Parent: missing},
			errs.Conflict, store.ErrNoParent,
			"create cluster-providers/none/clusters/c: parent cluster-providers/none does not exist",
		},
		{
			"a reference that must exist", post,
			store.Write{Key: cluster, Parent: provider, Refs: refTo(missing, true)},
			errs.Conflict,
			store.ErrNoTarget, "create " + string(cluster) + ": refers to cluster-providers/none, which does not exist",
		},
		{
			"a replacement of nothing", replace(0),
			store.Write{Key: cluster, Parent: provider},
			errs.NotFound, nil,
			"replace " + string(cluster) + ": not found",
		},
		{
			"a replacement of another revision", replace(2),
			store.Write{Key: provider},
			errs.Conflict, nil,
			"replace cluster-providers/edge: is at revision 1, not 2, read it again",
		},
		{
			"a replacement of another creation", replace(1),
			store.Write{Key: provider, UID: docs[1].UID},
			errs.Conflict, nil,
			"replace cluster-providers/edge: was deleted and created again meanwhile, read it again",
		},
		{
			"a replacement with a reference that must exist", replace(0),
			store.Write{Key: provider, Refs: refTo(missing, true)},
			errs.Conflict,
			store.ErrNoTarget, "replace cluster-providers/edge: refers to cluster-providers/none, which does not exist",
		},
		{
			"a move to another parent", replace(0),
			store.Write{Key: syncRepo},
			errs.Invalid, nil,
			"replace " + string(syncRepo) + ": cannot move to another parent",
		},
		{"a parent elsewhere", post, store.Write{Key: "a/b", Parent: "c"}, errs.Invalid, nil, `create a/b: is not below its parent "c"`},
		{"a reference to itself", post, store.Write{Key: "a", Refs: refTo("a", false)}, errs.Invalid, nil, `create a: cannot refer to "a"`},
		{"an empty key", post, store.Write{}, errs.Invalid, nil, `create: the key "" is not a path of names`},
		{"a key that climbs", post, store.Write{Key: "a/../b"}, errs.Invalid, nil, `create: the key "a/../b" is not a path of names`},
		{"a key with an empty name", post, store.Write{Key: "a//b"}, errs.Invalid, nil, `create: the key "a//b" is not a path of names`},
		{"a key with a null", post, store.Write{Key: "a\x00"}, errs.Invalid, nil, `create: the key "a\x00" is not a path of names`},
		{"a body too large", post, store.Write{Key: "a", Body: make([]byte, 8<<20+1)}, errs.TooLarge, nil, "create a: is larger than 8 MiB"},
	} {
		err := c.call(t.Context(), c.write)
		if !errs.Is(err, c.kind) || c.reason != nil && !errors.Is(err, c.reason) || err.Error() != c.text {
			t.Errorf("%s: got %v (%v), want %s (%v)", c.name, err, errs.KindOf(err), c.text, c.kind)
		}
	}
	wantKeys(t, db, "", store.Query{}, provider, syncRepo)
	if d, err := db.Get(t.Context(), provider); err != nil || d.Rev != 1 || len(d.Claims) > 0 {
		t.Errorf("after refused writes the document is %+v, %v", d, err)
	}
}

func TestAReferenceToNothingIsToleratedAndHoldsLater(t *testing.T) {
	t.Parallel()
	db := openDB(t)
	create(t, db, store.Write{Key: "holders/h", Refs: refTo("targets/t", false)}, store.Write{Key: "targets/t"})
	wantRelated(t, db.Delete(t.Context(), "targets/t", nil), store.ErrReferenced, "holders/h")
}

// A witness of requests sees documents, not what the store keeps for itself.
func TestAWitnessSeesNoHiddenDocument(t *testing.T) {
	t.Parallel()
	db := openDB(t)
	var told []store.Key
	ctx := store.WithWitness(t.Context(), func(before, after store.Doc) { told = append(told, before.Key+after.Key) })
	for _, key := range []store.Key{"projects/shop", "system/keys"} {
		if _, err := db.Create(ctx, store.Write{Key: key, Body: []byte("{}")}); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(told, []store.Key{"projects/shop"}) {
		t.Errorf("told of %v", told)
	}
}

func TestDeletingNothingIsNotFound(t *testing.T) {
	t.Parallel()
	if err := openDB(t).Delete(t.Context(), provider, nil); !errs.Is(err, errs.NotFound) {
		t.Errorf("Delete of nothing = %v, want NotFound", err)
	}
}

func TestBlobsStayWhileADocumentNamesThem(t *testing.T) {
	t.Parallel()
	db := openDB(t)
	named, left := putBlob(t, db, "named"), putBlob(t, db, "left")
	create(t, db, store.Write{Key: provider, Blobs: []store.Blob{{Name: "file", Digest: named}}})
	guarded := errors.New("guarded")
	err := db.Delete(t.Context(), provider, func(ctx context.Context, _ store.Doc) error {
		return errors.Join(guarded, db.SweepBlobs(ctx, -time.Hour)) // while the document is about to be deleted
	})
	if !errors.Is(err, guarded) {
		t.Fatal(err)
	}
	if _, err := db.OpenBlob(t.Context(), left); !errs.Is(err, errs.NotFound) {
		t.Errorf("content that no document names is there after a sweep: %v", err)
	}
	r, err := db.OpenBlob(t.Context(), named)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if text, err := io.ReadAll(r); err != nil || string(text) != "named" {
		t.Errorf("content that a document names is %q, %v", text, err)
	}
	fresh := putBlob(t, db, "fresh")
	if err := db.SweepBlobs(t.Context(), time.Hour); err != nil {
		t.Error(err)
	}
	if r, err := db.OpenBlob(t.Context(), fresh); err != nil {
		t.Errorf("content within its grace was swept: %v", err)
	} else {
		_ = r.Close()
	}
}

func putBlob(t *testing.T, db *store.DB, text string) manifest.Digest {
	t.Helper()
	d, _, err := db.PutBlob(t.Context(), strings.NewReader(text), 100)
	if err != nil {
		t.Fatal(err)
	}
	return d
}
