package storetest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/blobdir"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/sqlite"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/storetest"
)

// fakeDriver is a sound driver with some calls replaced by broken ones.
type fakeDriver struct {
	*sqlite.Driver
	get    func(*sqlite.Driver, context.Context, store.Key) (store.Doc, error)
	list   func(*sqlite.Driver, context.Context, store.Key, store.Query) iter.Seq2[store.Doc, error]
	put    func(*sqlite.Driver, context.Context, store.Doc, int64) error
	remove func(*sqlite.Driver, context.Context, store.Key, int64) error
	change func(*sqlite.Driver, context.Context, int64) (store.Changes, error)
}

func (f fakeDriver) Changes(ctx context.Context, mark int64) (store.Changes, error) {
	if f.change != nil {
		return f.change(f.Driver, ctx, mark)
	}
	return f.Driver.Changes(ctx, mark)
}

func (f fakeDriver) Get(ctx context.Context, k store.Key) (store.Doc, error) {
	if f.get != nil {
		return f.get(f.Driver, ctx, k)
	}
	return f.Driver.Get(ctx, k)
}

func (f fakeDriver) List(ctx context.Context, under store.Key, q store.Query) iter.Seq2[store.Doc, error] {
	if f.list != nil {
		return f.list(f.Driver, ctx, under, q)
	}
	return f.Driver.List(ctx, under, q)
}

func (f fakeDriver) Put(ctx context.Context, d store.Doc, at int64) error {
	if f.put != nil {
		return f.put(f.Driver, ctx, d, at)
	}
	return f.Driver.Put(ctx, d, at)
}

func (f fakeDriver) Remove(ctx context.Context, k store.Key, at int64) error {
	if f.remove != nil {
		return f.remove(f.Driver, ctx, k, at)
	}
	return f.Driver.Remove(ctx, k, at)
}

// filtered lists everything that keep lets through, however it was asked.
func filtered(keep func(d store.Doc, under store.Key, q store.Query) bool) func(*sqlite.Driver, context.Context, store.Key, store.Query) iter.Seq2[store.Doc, error] {
	return func(d *sqlite.Driver, ctx context.Context, under store.Key, q store.Query) iter.Seq2[store.Doc, error] {
		return func(yield func(store.Doc, error) bool) {
			for doc, err := range d.List(ctx, "", store.Query{}) {
				if err == nil && !keep(doc, under, q) {
					continue
				}
				if !yield(doc, err) {
					return
				}
			}
		}
	}
}

// changed changes the documents of a listing.
func changed(q0 func(store.Query) store.Query, change func(store.Doc) store.Doc) func(*sqlite.Driver, context.Context, store.Key, store.Query) iter.Seq2[store.Doc, error] {
	return func(d *sqlite.Driver, ctx context.Context, under store.Key, q store.Query) iter.Seq2[store.Doc, error] {
		return func(yield func(store.Doc, error) bool) {
			for doc, err := range d.List(ctx, under, q0(q)) {
				if !yield(change(doc), err) {
					return
				}
			}
		}
	}
}

func same(d store.Doc) store.Doc { return d }

var broken = []struct {
	rule string // that has to be found broken
	fake fakeDriver
}{
	{"changes contain what was written", fakeDriver{change: func(d *sqlite.Driver, ctx context.Context, mark int64) (store.Changes, error) {
		c, err := d.Changes(ctx, mark)
		c.Keys = nil
		return c, err
	}}},
	{"followers know every acknowledged write", fakeDriver{change: func(d *sqlite.Driver, ctx context.Context, mark int64) (store.Changes, error) {
		c, err := d.Changes(ctx, mark)
		c.Mark++ // skips the write after the question
		return c, err
	}}},
	{"a document comes back as it was written", fakeDriver{put: func(d *sqlite.Driver, ctx context.Context, doc store.Doc, at int64) error {
		doc.Secret = nil
		return d.Put(ctx, doc, at)
	}}},
	{"what does not exist is not found", fakeDriver{get: func(d *sqlite.Driver, ctx context.Context, k store.Key) (store.Doc, error) {
		doc, err := d.Get(ctx, k)
		if errs.Is(err, errs.NotFound) {
			return store.Doc{}, nil
		}
		return doc, err
	}}},
	{"a key is taken once", fakeDriver{put: func(d *sqlite.Driver, ctx context.Context, doc store.Doc, at int64) error {
		if old, err := d.Get(ctx, doc.Key); err == nil && at == 0 {
			at = old.Tag
		}
		return d.Put(ctx, doc, at)
	}}},
	{"a replacement needs the tag", fakeDriver{put: func(d *sqlite.Driver, ctx context.Context, doc store.Doc, at int64) error {
		if old, err := d.Get(ctx, doc.Key); err == nil && at != 0 {
			at = old.Tag
		}
		return d.Put(ctx, doc, at)
	}}},
	{"a removal needs the tag", fakeDriver{remove: func(d *sqlite.Driver, ctx context.Context, k store.Key, at int64) error {
		if old, err := d.Get(ctx, k); err == nil {
			at = old.Tag
		}
		return d.Remove(ctx, k, at)
	}}},
	{"of racing writers one wins", fakeDriver{put: func(d *sqlite.Driver, ctx context.Context, doc store.Doc, at int64) error {
		if err := d.Put(ctx, doc, at); !errs.Is(err, errs.Conflict) {
			return err
		}
		return nil
	}}},
	{"a listing is in byte order and respects name boundaries", fakeDriver{list: filtered(func(d store.Doc, under store.Key, _ store.Query) bool {
		return strings.HasPrefix(string(d.Key), string(under))
	})}},
	{"a listing is in byte order and respects name boundaries", fakeDriver{list: func(d *sqlite.Driver, ctx context.Context, under store.Key, q store.Query) iter.Seq2[store.Doc, error] {
		return func(yield func(store.Doc, error) bool) {
			var all []store.Doc
			for doc, err := range d.List(ctx, under, q) {
				if err != nil {
					yield(doc, err)
					return
				}
				all = append(all, doc)
			}
			for _, doc := range slices.Backward(all) {
				if !yield(doc, nil) {
					return
				}
			}
		}
	}}},
	{"a listing can be cut by depth", fakeDriver{list: changed(func(q store.Query) store.Query { q.Depth = 0; return q }, same)}},
	{"a listing can be paged", fakeDriver{list: changed(func(q store.Query) store.Query { q.Limit = 0; return q }, same)}},
	{"a listing can be paged", fakeDriver{list: changed(func(q store.Query) store.Query {
		if q.Limit == 0 {
			q.Limit = 100
		}
		return q
	}, same)}},
	{"holders are found by references and claims", fakeDriver{list: filtered(func(d store.Doc, under store.Key, q store.Query) bool {
		return strings.HasPrefix(string(d.Key), string(under)+"/") && d.Key > q.After && slices.Contains(d.Refs, q.Refers)
	})}},
	{"a refused write leaves nothing", fakeDriver{put: func(d *sqlite.Driver, ctx context.Context, doc store.Doc, at int64) error {
		err := d.Put(ctx, doc, at)
		if old, e := d.Get(ctx, doc.Key); e == nil && errs.Is(err, errs.Conflict) {
			old.Refs = doc.Refs
			return errors.Join(err, d.Put(ctx, old, old.Tag))
		}
		return err
	}}},
	{"large documents fit", fakeDriver{put: func(d *sqlite.Driver, ctx context.Context, doc store.Doc, at int64) error {
		if len(doc.Body) > 1<<20 {
			return errs.New(errs.TooLarge, "larger than a page")
		}
		return d.Put(ctx, doc, at)
	}}},
	{"a call whose context has ended fails", fakeDriver{get: func(d *sqlite.Driver, ctx context.Context, k store.Key) (store.Doc, error) {
		return d.Get(context.WithoutCancel(ctx), k)
	}}},
}

func TestCheckFindsWhatDriversBreak(t *testing.T) {
	t.Parallel()
	for i, b := range broken {
		t.Run(fmt.Sprint(i, " ", b.rule), func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "docs.db")
			err := storetest.CheckRule(t.Context(), func() (store.Driver, error) {
				d, err := sqlite.Open(path)
				f := b.fake
				f.Driver = d
				return f, err
			}, b.rule)
			if err == nil || !strings.Contains("\n"+err.Error(), "\n"+b.rule+": ") {
				t.Errorf("Check = %v, want it to say that %q is broken", err, b.rule)
			}
		})
	}
}

func TestCheckReportsWhatDoesNotOpen(t *testing.T) {
	t.Parallel()
	closed := errors.New("closed today")
	if err := storetest.Check(t.Context(), func() (store.Driver, error) { return nil, closed }); !errors.Is(err, closed) {
		t.Errorf("Check = %v, want the opener's error", err)
	}
	if err := storetest.CheckBlobs(t.Context(), func() (store.Blobs, error) { return nil, closed }); !errors.Is(err, closed) {
		t.Errorf("CheckBlobs = %v, want the opener's error", err)
	}
}

// fakeBlobs is a sound store for content with some calls replaced by broken ones.
type fakeBlobs struct {
	*blobdir.Dir
	receive func(*blobdir.Dir, context.Context, io.Reader, int64) (store.Upload, error)
	put     func(*blobdir.Dir, context.Context, io.Reader, int64) (manifest.Digest, int64, error)
	open    func(*blobdir.Dir, context.Context, manifest.Digest) (io.ReadCloser, error)
	sweep   func(*blobdir.Dir, context.Context, time.Time, func(manifest.Digest) bool) error
}

func (f fakeBlobs) Put(ctx context.Context, r io.Reader, limit int64) (manifest.Digest, int64, error) {
	if f.put != nil {
		return f.put(f.Dir, ctx, r, limit)
	}
	return f.Dir.Put(ctx, r, limit)
}

func (f fakeBlobs) Receive(ctx context.Context, r io.Reader, limit int64) (store.Upload, error) {
	if f.receive != nil {
		return f.receive(f.Dir, ctx, r, limit)
	}
	return f.Dir.Receive(ctx, r, limit)
}

func (f fakeBlobs) Open(ctx context.Context, d manifest.Digest) (io.ReadCloser, error) {
	if f.open != nil {
		return f.open(f.Dir, ctx, d)
	}
	return f.Dir.Open(ctx, d)
}

func (f fakeBlobs) Sweep(ctx context.Context, olderThan time.Time, keep func(manifest.Digest) bool) error {
	if f.sweep != nil {
		return f.sweep(f.Dir, ctx, olderThan, keep)
	}
	return f.Dir.Sweep(ctx, olderThan, keep)
}

var brokenBlobs = []struct {
	rule string
	fake fakeBlobs
}{
	{"content comes back", fakeBlobs{put: func(d *blobdir.Dir, ctx context.Context, r io.Reader, limit int64) (manifest.Digest, int64, error) {
		return d.Put(ctx, io.LimitReader(r, 1000), limit)
	}}},
	{"what is too large is not kept", fakeBlobs{put: func(d *blobdir.Dir, ctx context.Context, r io.Reader, limit int64) (manifest.Digest, int64, error) {
		return d.Put(ctx, io.LimitReader(r, limit), limit)
	}}},
	{"what breaks off is not kept", fakeBlobs{put: func(d *blobdir.Dir, ctx context.Context, r io.Reader, limit int64) (manifest.Digest, int64, error) {
		text, err := io.ReadAll(r)
		digest, n, e := d.Put(ctx, strings.NewReader(string(text)), limit)
		return digest, n, errors.Join(err, e)
	}}},
	{"an upload is kept, or leaves nothing", fakeBlobs{receive: func(d *blobdir.Dir, ctx context.Context, r io.Reader, limit int64) (store.Upload, error) {
		up, err := d.Receive(ctx, r, limit)
		if err == nil {
			err = up.Keep()
		}
		return up, err
	}}},
	{"only digests name content", fakeBlobs{open: func(d *blobdir.Dir, ctx context.Context, digest manifest.Digest) (io.ReadCloser, error) {
		return d.Open(ctx, manifest.Digest(strings.ToLower(string(digest))))
	}}},
	{"a sweep takes what is old and not kept", fakeBlobs{sweep: func(d *blobdir.Dir, ctx context.Context, _ time.Time, keep func(manifest.Digest) bool) error {
		return d.Sweep(ctx, time.Now().Add(24*time.Hour), keep)
	}}},
	{"a sweep takes what is old and not kept", fakeBlobs{sweep: func(d *blobdir.Dir, ctx context.Context, olderThan time.Time, _ func(manifest.Digest) bool) error {
		return d.Sweep(ctx, olderThan, func(manifest.Digest) bool { return false })
	}}},
	{"content put again is young again", fakeBlobs{put: func(d *blobdir.Dir, ctx context.Context, r io.Reader, limit int64) (manifest.Digest, int64, error) {
		text, err := io.ReadAll(io.LimitReader(r, limit+1))
		if f, e := d.Open(ctx, manifest.DigestOf(text)); e == nil && err == nil {
			return manifest.DigestOf(text), int64(len(text)), f.Close()
		}
		return d.Put(ctx, strings.NewReader(string(text)), limit)
	}}},
}

func TestCheckBlobsFindsWhatStoresBreak(t *testing.T) {
	t.Parallel()
	for i, b := range brokenBlobs {
		t.Run(fmt.Sprint(i, " ", b.rule), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			err := storetest.CheckBlobs(t.Context(), func() (store.Blobs, error) {
				d, err := blobdir.Open(dir)
				f := b.fake
				f.Dir = d
				return f, err
			})
			if err == nil || !strings.Contains("\n"+err.Error(), "\n"+b.rule+": ") {
				t.Errorf("CheckBlobs = %v, want it to say that %q is broken", err, b.rule)
			}
		})
	}
}
