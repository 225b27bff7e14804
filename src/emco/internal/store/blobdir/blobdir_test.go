package blobdir_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/blobdir"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/storetest"
)

func TestDirKeepsTheContract(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	err := storetest.CheckBlobs(t.Context(), func() (store.Blobs, error) { return blobdir.Open(dir) })
	if err != nil {
		t.Error(err)
	}
}

func open(t *testing.T, dir string) *blobdir.Dir {
	t.Helper()
	d, err := blobdir.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func put(t *testing.T, d *blobdir.Dir, text string) manifest.Digest {
	t.Helper()
	digest, _, err := d.Put(t.Context(), strings.NewReader(text), 1<<10)
	if err != nil {
		t.Fatal(err)
	}
	return digest
}

// files lists the files of a folder, relative to it, and checks their modes.
func files(t *testing.T, dir string) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || name == dir {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		want := fs.FileMode(0o600)
		if e.IsDir() {
			want = 0o700
		} else if rel, err := filepath.Rel(dir, name); err == nil && rel != "lock" {
			names = append(names, rel)
		}
		if info.Mode().Perm() != want {
			t.Errorf("%s has mode %v, want %v", name, info.Mode(), want)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestContentIsShardedAndNothingElseIsLeft(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "new", "blobs")
	d := open(t, dir)
	digest := string(put(t, d, "text"))
	put(t, d, "text")
	if _, _, err := d.Put(t.Context(), strings.NewReader("too long"), 3); err == nil {
		t.Error("Put beyond the limit succeeded")
	}
	got, want := files(t, dir), filepath.Join(digest[:2], digest)
	if len(got) != 1 || got[0] != want {
		t.Errorf("files are %q, want just %s", got, want)
	}
}

func TestOpenRemovesUploadsThatACrashCutOff(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open(t, dir)
	cut := filepath.Join(dir, "tmp", "cut-off")
	if err := os.WriteFile(cut, []byte("the beginning"), 0o600); err != nil {
		t.Fatal(err)
	}
	d := open(t, dir)
	if _, err := os.Stat(cut); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the upload that was cut off is still there: %v", err)
	}
	put(t, d, "text")
}

// Another process that starts or sweeps leaves the uploads of living ones alone.
func TestAnUploadUnderWayIsLeftAlone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := open(t, dir)
	r, w := io.Pipe()
	type result struct {
		digest manifest.Digest
		err    error
	}
	done := make(chan result, 1)
	go func() {
		digest, _, err := d.Put(context.Background(), r, 1<<10)
		done <- result{digest, err}
	}()
	if _, err := io.WriteString(w, "half and "); err != nil {
		t.Fatal(err)
	}
	other := open(t, dir)
	if err := other.Sweep(t.Context(), time.Now().Add(time.Hour), func(manifest.Digest) bool { return false }); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, "half"); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if got := <-done; got.err != nil || got.digest != manifest.DigestOf([]byte("half and half")) {
		t.Errorf("Put = %s, %v", got.digest, got.err)
	}
}

// Uploads race with sweeps: what was put after the sweep's limit is there.
func TestASweepNeverTakesWhatWasJustPutAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a, b := open(t, dir), open(t, dir)
	old := time.Now().Add(-2 * time.Hour)
	for round := range 30 {
		digest := put(t, a, "text")
		name := filepath.Join(dir, string(digest[:2]), string(digest))
		if err := os.Chtimes(name, old, old); err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		wg.Go(func() { put(t, a, "text") })
		wg.Go(func() {
			if err := b.Sweep(t.Context(), old.Add(time.Hour), func(manifest.Digest) bool { return false }); err != nil {
				t.Error(err)
			}
		})
		wg.Wait()
		r, err := a.Open(t.Context(), digest)
		if err != nil {
			t.Fatalf("round %d: content that was put again is gone: %v", round, err)
		}
		_ = r.Close()
	}
}

func TestAnUploadEndsWithItsContext(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := open(t, dir)
	ctx, cancel := context.WithCancel(t.Context())
	endless := readerFunc(func(p []byte) (int, error) { cancel(); return len(p), nil })
	if _, _, err := d.Put(ctx, endless, 1<<40); !errors.Is(err, context.Canceled) {
		t.Errorf("Put = %v, want that its context was cancelled", err)
	}
	if got := files(t, dir); len(got) > 0 {
		t.Errorf("files are %q, want none", got)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
