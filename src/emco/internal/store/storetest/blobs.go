package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing/iotest"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"golang.org/x/sync/errgroup"
)

// CheckBlobs returns all broken rules of store.Blobs, or nil. open
// opens the same store, empty at first, each time it is called.
func CheckBlobs(ctx context.Context, open func() (store.Blobs, error)) error {
	one, err := open()
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	other, err := open()
	if err != nil {
		return errors.Join(fmt.Errorf("open a second time: %w", err), shut(one))
	}
	var broken []error
	for _, r := range blobRules {
		if err := r.check(ctx, blobStores{one, other}); err != nil {
			broken = append(broken, fmt.Errorf("%s: %w", r.name, err))
		}
	}
	return errors.Join(append(broken, shut(one), shut(other))...)
}

// blobStores holds one store opened twice.
type blobStores struct {
	store.Blobs
	other store.Blobs
}

var blobRules = []struct {
	name  string
	check func(context.Context, blobStores) error
}{
	{"content comes back", content},
	{"an upload is kept, or leaves nothing", received},
	{"what is too large is not kept", tooLarge},
	{"what breaks off is not kept", brokenOff},
	{"only digests name content", hostileDigests},
	{"equal content may be put at once", equalAtOnce},
	{"a sweep takes what is old and not kept", sweep},
	{"content put again is young again", renewal},
}

// put stores text and checks the answer.
func (b blobStores) put(ctx context.Context, text string) error {
	d, n, err := b.Put(ctx, iotest.HalfReader(strings.NewReader(text)), 1<<20)
	if err != nil {
		return err
	}
	if want := manifest.DigestOf([]byte(text)); d != want || n != int64(len(text)) {
		return fmt.Errorf("put = %s, %d, want %s, %d", d, n, want, len(text))
	}
	return nil
}

// has checks whether text is there, for both handles.
func (b blobStores) has(ctx context.Context, text string, want bool) error {
	for _, s := range []store.Blobs{b.Blobs, b.other} {
		r, err := s.Open(ctx, manifest.DigestOf([]byte(text)))
		if !want {
			if err := kind("Open of what is not kept", err, errs.NotFound); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		got, err := io.ReadAll(r)
		if err := errors.Join(err, r.Close()); err != nil {
			return err
		}
		if string(got) != text {
			return fmt.Errorf("content is %d bytes %.20q, want %d bytes %.20q", len(got), got, len(text), text)
		}
	}
	return nil
}

func content(ctx context.Context, b blobStores) error {
	for _, text := range []string{"", "short", string(bytes.Repeat([]byte{0, 0xff, '\n'}, 100_000))} {
		if err := errors.Join(b.has(ctx, text, false), b.put(ctx, text), b.has(ctx, text, true)); err != nil {
			return err
		}
	}
	return nil
}

// received checks that an upload is stored when it is kept, and leaves nothing when not.
func received(ctx context.Context, b blobStores) error {
	for _, keep := range []bool{false, true} {
		text := fmt.Sprint("received and kept: ", keep)
		up, err := b.Receive(ctx, strings.NewReader(text), 100)
		if err != nil {
			return err
		}
		digest, size := up.Content()
		if digest != manifest.DigestOf([]byte(text)) || size != int64(len(text)) {
			return fmt.Errorf("the upload is %s of %d bytes", digest, size)
		}
		if err := errors.Join(b.has(ctx, text, false), opens(up, text)); err != nil {
			return err
		}
		if keep {
			if err := errors.Join(up.Keep(), up.Keep(), opens(up, text)); err != nil {
				return err
			}
		}
		up.Discard()
		up.Discard()
		if err := b.has(ctx, text, keep); err != nil {
			return err
		}
	}
	_, err := b.Receive(ctx, strings.NewReader("four"), 3)
	return kind("Receive beyond the limit", err, errs.TooLarge)
}

// opens checks the content of an upload.
func opens(up store.Upload, want string) error {
	r, err := up.Open()
	if err != nil {
		return err
	}
	got, err := io.ReadAll(r)
	if err == nil && string(got) != want {
		err = fmt.Errorf("the upload is %q, want %q", got, want)
	}
	return errors.Join(err, r.Close())
}

func tooLarge(ctx context.Context, b blobStores) error {
	text := strings.Repeat("too large ", 20_000)
	_, _, err := b.Put(ctx, strings.NewReader(text), int64(len(text))-1)
	return first(
		func() error { return kind("Put beyond the limit", err, errs.TooLarge) },
		func() error { return b.has(ctx, text, false) },
		func() error { return b.has(ctx, text[:len(text)-1], false) },
		func() error {
			_, _, err := b.Put(ctx, strings.NewReader(text), int64(len(text)))
			return err
		},
		func() error { return b.has(ctx, text, true) },
	)
}

func brokenOff(ctx context.Context, b blobStores) error {
	cut := errors.New("cut")
	const begin = "the beginning"
	_, _, err := b.Put(ctx, io.MultiReader(strings.NewReader(begin), iotest.ErrReader(cut)), 1<<20)
	if !errors.Is(err, cut) {
		return fmt.Errorf("put of a broken reader = %v, want its error", err)
	}
	return b.has(ctx, begin, false)
}

func hostileDigests(ctx context.Context, b blobStores) error {
	hex := string(manifest.DigestOf(nil))
	for _, d := range []string{"", "a", "..", "../lock", "/etc/passwd", hex[:63], hex + "0", strings.ToUpper(hex), hex[:61] + "/.."} {
		r, err := b.Open(ctx, manifest.Digest(d))
		if err == nil {
			err = r.Close()
		}
		if err := kind(fmt.Sprintf("Open(%q)", d), err, errs.NotFound); err != nil {
			return err
		}
	}
	return nil
}

func equalAtOnce(ctx context.Context, b blobStores) error {
	const text = "equal content"
	var g errgroup.Group
	for i := range 8 {
		g.Go(func() error { return blobStores{[]store.Blobs{b.Blobs, b.other}[i%2], b.other}.put(ctx, text) })
	}
	return errors.Join(g.Wait(), b.has(ctx, text, true))
}

func sweep(ctx context.Context, b blobStores) error {
	const kept, left = "kept", "left"
	keep := func(d manifest.Digest) bool { return d == manifest.DigestOf([]byte(kept)) }
	return first(
		func() error { return errors.Join(b.put(ctx, kept), b.put(ctx, left)) },
		func() error { return b.Sweep(ctx, time.Now().Add(-time.Hour), keep) },
		func() error { return b.has(ctx, left, true) },
		func() error { return b.Sweep(ctx, time.Now().Add(time.Hour), keep) },
		func() error { return errors.Join(b.has(ctx, left, false), b.has(ctx, kept, true)) },
		func() error { return b.put(ctx, left) },
		func() error { return b.has(ctx, left, true) },
	)
}

func renewal(ctx context.Context, b blobStores) error {
	const once, twice = "put once", "put twice"
	var between time.Time
	return first(
		func() error { return errors.Join(b.put(ctx, once), b.put(ctx, twice)) },
		func() error { return tick(ctx) },
		func() error { between = time.Now(); return tick(ctx) },
		func() error { return b.put(ctx, twice) },
		func() error { return b.Sweep(ctx, between, func(manifest.Digest) bool { return false }) },
		func() error { return errors.Join(b.has(ctx, once, false), b.has(ctx, twice, true)) },
	)
}

// tick lets the clocks of file systems move on, which count in steps of some
// milliseconds.
func tick(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 25*time.Millisecond)
	defer cancel()
	<-ctx.Done()
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return nil
	}
	return ctx.Err()
}
