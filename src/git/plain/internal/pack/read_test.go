package pack

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

// What is written is read again, objects that are deltas too; a damaged or cut pack is refused, and
// so is one above the limits.
func TestWhatIsWrittenIsRead(t *testing.T) {
	t.Parallel()
	var objs []Object
	for c := range 600 { // more than a run
		o := NewObject(plumbing.BlobObject, manifest(c, "web"))
		o.Path = "c/web/settings.yaml"
		objs = append(objs, o)
	}
	objs = append(objs, NewObject(plumbing.CommitObject, []byte("tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\n")))
	var buf bytes.Buffer
	if err := Write(&buf, objs); err != nil {
		t.Fatal(err)
	}
	read := func(text []byte, maxObject, maxBytes int64) (map[plumbing.Hash]string, error) {
		found := map[plumbing.Hash]string{}
		r := &Reader{WantBlobs: true, MaxObject: maxObject, MaxBytes: maxBytes, Keep: func(o Object) { found[o.ID] = o.Kind.String() + string(o.Content) }}
		_, err := r.Read(bytes.NewReader(text))
		return found, err
	}
	found, err := read(buf.Bytes(), 1<<20, 1<<30)
	if err != nil || len(found) != len(objs) {
		t.Fatalf("read %d of %d objects, %v", len(found), len(objs), err)
	}
	for _, o := range objs {
		if found[o.ID] != o.Kind.String()+string(o.Content) {
			t.Fatalf("object %s is %q, want %q", o.ID, found[o.ID], o.Content)
		}
	}
	damaged := bytes.Clone(buf.Bytes())
	damaged[len(damaged)-1] ^= 1
	if _, err := read(damaged, 1<<20, 1<<30); !errs.Is(err, errs.Unavailable) {
		t.Errorf("a wrong checksum: %v, want Unavailable", err)
	}
	if _, err := read(buf.Bytes()[:buf.Len()/2], 1<<20, 1<<30); err == nil {
		t.Errorf("half of a pack: %v, want an error", err)
	}
	if _, err := read(buf.Bytes(), 100, 1<<30); !errs.Is(err, errs.TooLarge) {
		t.Errorf("an object above the limit: %v, want TooLarge", err)
	}
	if _, err := read(buf.Bytes(), 1<<20, 1000); !errs.Is(err, errs.TooLarge) {
		t.Errorf("a pack above the limit: %v, want TooLarge", err)
	}
}

// full takes some bytes and then fails.
type full struct{ room int }

var errFull = errors.New("no room")

// Write fails once the room is used up.
func (f *full) Write(p []byte) (int, error) {
	if f.room -= len(p); f.room < 0 {
		return 0, errFull
	}
	return len(p), nil
}

// A writer that fails ends the pack with its error, wherever that happens; no goroutine stays.
func TestAFailingWriterEndsThePack(t *testing.T) {
	t.Parallel()
	var objs []Object
	for c := range 30 * runObjects {
		objs = append(objs, NewObject(plumbing.BlobObject, noise(c, 0, 0)))
	}
	var whole counter
	if err := Write(&whole, objs); err != nil {
		t.Fatal(err)
	}
	for part := range 8 {
		if err := Write(&full{room: int(whole) * part / 8}, objs); !errors.Is(err, errFull) {
			t.Errorf("room for %d eighths: %v, want the writer's error", part, err)
		}
	}
	if err := Write(&full{room: int(whole)}, objs); err != nil {
		t.Errorf("room for all: %v", err)
	}
}

// Any bytes that a server sends as a pack are refused or read; nothing crashes.
func FuzzRead(f *testing.F) {
	f.Add([]byte("PACK\x00\x00\x00\x02\x00\x00\x00\x01\x95\x0ax\x9c"))
	f.Fuzz(func(t *testing.T, data []byte) {
		p := &Reader{Keep: func(Object) {}, WantBlobs: true, MaxObject: 1 << 16, MaxBytes: 1 << 18}
		if n, err := p.Read(strings.NewReader(string(data))); err == nil && n > 0 && len(data) < 32 {
			t.Errorf("%d open deltas in a pack of %d bytes", n, len(data))
		}
	})
}
