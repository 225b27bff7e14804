package upkeep_test

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/upkeep"
)

// emptyDriver holds no documents, or cannot be read.
type emptyDriver struct {
	store.Driver
	fault error
}

func (d *emptyDriver) List(context.Context, store.Key, store.Query) iter.Seq2[store.Doc, error] {
	return func(yield func(store.Doc, error) bool) {
		if d.fault != nil {
			yield(store.Doc{}, d.fault)
		}
	}
}

// sweptBlobs records sweeps.
type sweptBlobs struct {
	store.Blobs
	sweeps []time.Time // by olderThan
}

func (b *sweptBlobs) Sweep(_ context.Context, olderThan time.Time, _ func(manifest.Digest) bool) error {
	b.sweeps = append(b.sweeps, olderThan)
	return errors.New("the disk is gone")
}

// The first sweep is a minute after the start. A failed sweep is repeated after an hour. Uploads of the last hour stay: their documents
// may still be written.
func TestUploadsAreSweptEachHour(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		blobs := &sweptBlobs{}
		s := &upkeep.Service{DB: store.New(&emptyDriver{}, blobs, nil), Log: slog.New(slog.DiscardHandler)}
		ctx, cancel := context.WithTimeout(t.Context(), 90*time.Minute)
		defer cancel()
		start := time.Now().Add(time.Minute - time.Hour)
		if err := s.Run(ctx); err != nil {
			t.Errorf("Run = %v, want nil", err)
		}
		if len(blobs.sweeps) != 2 || !blobs.sweeps[0].Equal(start) || !blobs.sweeps[1].Equal(start.Add(time.Hour)) {
			t.Errorf("swept what is older than %v, want %v and an hour later", blobs.sweeps, start)
		}
	})
}

func TestReadyReadsTheStore(t *testing.T) {
	t.Parallel()
	driver := &emptyDriver{}
	s := &upkeep.Service{DB: store.New(driver, &sweptBlobs{}, nil)}
	if err := s.Ready(); err != nil {
		t.Errorf("an empty store: %v", err)
	}
	driver.fault = errors.New("the file is gone")
	if err := s.Ready(); !errors.Is(err, driver.fault) {
		t.Errorf("a store that cannot be read: %v", err)
	}
}
