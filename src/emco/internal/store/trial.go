package store

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
)

// Trial returns a DB whose writes are checked as those of db, and kept in memory: no one
// else sees them. It is for one request that asks what it would do.
func (db *DB) Trial() *DB {
	trial := *db
	trial.driver = &trialDriver{Driver: db.driver, put: map[Key]Doc{}, removed: map[Key]bool{}}
	trial.blobs = &trialBlobs{Blobs: db.blobs, held: map[manifest.Digest][]byte{}}
	return &trial
}

// trialDriver keeps writes in memory, above another driver.
type trialDriver struct {
	Driver

	mu      sync.Mutex
	put     map[Key]Doc  // guarded by mu
	removed map[Key]bool // guarded by mu
}

// Get implements Driver.
func (t *trialDriver) Get(ctx context.Context, k Key) (Doc, error) {
	t.mu.Lock()
	d, ok := t.put[k]
	gone := t.removed[k]
	t.mu.Unlock()
	switch {
	case ok:
		return d, nil
	case gone:
		return Doc{}, notFound("get", k)
	}
	return t.Driver.Get(ctx, k)
}

// List implements Driver.
func (t *trialDriver) List(ctx context.Context, under Key, q Query) iter.Seq2[Doc, error] {
	limit := q.Limit
	q.Limit = 0 // documents that were removed do not count
	return func(yield func(Doc, error) bool) {
		left, ours := limit, t.listed(under, q)
		give := func(d Doc, err error) bool {
			left--
			return yield(d, err) && err == nil && left != 0
		}
		for d, err := range t.Driver.List(ctx, under, q) {
			for err == nil && len(ours) > 0 && ours[0].Key < d.Key {
				if !give(ours[0], nil) {
					return
				}
				ours = ours[1:]
			}
			if err == nil && t.knows(d.Key) {
				continue
			}
			if !give(d, err) {
				return
			}
		}
		for _, d := range ours {
			if !give(d, nil) {
				return
			}
		}
	}
}

func (t *trialDriver) knows(k Key) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, ok := t.put[k]
	return ok || t.removed[k]
}

// listed returns the documents in memory that a listing has, in order.
func (t *trialDriver) listed(under Key, q Query) (out []Doc) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for k, d := range t.put {
		name, below := string(k), true
		if under != "" {
			name, below = strings.CutPrefix(string(k), string(under)+"/")
		}
		refers := q.Refers == "" || slices.Contains(d.Refs, q.Refers) || slices.Contains(d.Claims, q.Refers)
		if below && refers && k > q.After && (q.Depth == 0 || strings.Count(name, "/")+1 == q.Depth) {
			out = append(out, d)
		}
	}
	slices.SortFunc(out, func(a, b Doc) int { return strings.Compare(string(a.Key), string(b.Key)) })
	return out
}

// Put implements Driver.
func (t *trialDriver) Put(ctx context.Context, d Doc, at int64) error {
	old, err := t.Get(ctx, d.Key)
	switch {
	case errs.Is(err, errs.NotFound) && at != 0:
		return conflict("put", d.Key, errAbsent)
	case err != nil && !errs.Is(err, errs.NotFound):
		return err
	case err == nil && at == 0:
		return errs.E(errs.Exists, "put", string(d.Key), errThere)
	case err == nil && old.Tag != at:
		return conflict("put", d.Key, errLost)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.put[d.Key] = d
	delete(t.removed, d.Key)
	return nil
}

// Remove implements Driver.
func (t *trialDriver) Remove(ctx context.Context, k Key, at int64) error {
	old, err := t.Get(ctx, k)
	switch {
	case errs.Is(err, errs.NotFound):
		return nil
	case err != nil:
		return err
	case old.Tag != at:
		return conflict("remove", k, errLost)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.put, k)
	t.removed[k] = true
	return nil
}

// trialBlobs keeps uploaded content in memory, above other blobs.
type trialBlobs struct {
	Blobs

	mu   sync.Mutex
	held map[manifest.Digest][]byte // guarded by mu
}

// Put implements Blobs.
func (t *trialBlobs) Put(_ context.Context, r io.Reader, limit int64) (manifest.Digest, int64, error) {
	content, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return "", 0, err
	}
	if int64(len(content)) > limit {
		return "", 0, errs.E(errs.TooLarge, "store", "blob", errors.New("is too large"))
	}
	d := manifest.DigestOf(content)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.held[d] = content
	return d, int64(len(content)), nil
}

// Receive implements Blobs. The content is in memory at once.
func (t *trialBlobs) Receive(ctx context.Context, r io.Reader, limit int64) (Upload, error) {
	digest, size, err := t.Put(ctx, r, limit)
	if err != nil {
		return nil, err
	}
	return trialUpload{t, digest, size}, nil
}

// trialUpload is content that ends with its trial.
type trialUpload struct {
	blobs  *trialBlobs
	digest manifest.Digest
	size   int64
}

// Content implements Upload.
func (u trialUpload) Content() (manifest.Digest, int64) { return u.digest, u.size }

// Open implements Upload.
func (u trialUpload) Open() (io.ReadCloser, error) {
	return u.blobs.Open(context.Background(), u.digest)
}

// Keep implements Upload.
func (u trialUpload) Keep() error { return nil }

// Discard implements Upload.
func (u trialUpload) Discard() {}

// Open implements Blobs.
func (t *trialBlobs) Open(ctx context.Context, d manifest.Digest) (io.ReadCloser, error) {
	t.mu.Lock()
	content, ok := t.held[d]
	t.mu.Unlock()
	if ok {
		return io.NopCloser(bytes.NewReader(content)), nil
	}
	return t.Blobs.Open(ctx, d)
}

// Sweep does nothing: what is held goes with the trial.
func (t *trialBlobs) Sweep(context.Context, time.Time, func(manifest.Digest) bool) error { return nil }
