// Package diskspace keeps a reserve of free disk space: writes end before the disk is full, because
// an embedded etcd that cannot write ends the process.
package diskspace

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"syscall"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

const (
	freshFor = 50 * time.Millisecond // how long a measured value counts
	period   = 5 * time.Second       // between two lines about a changed state, at least

	// startNeeds is the least space for opening the stores: they write a little at once.
	startNeeds = 16 << 20
	// firstStart is what the stores allocate at their first start: two files of etcd's log, and its
	// reserve for a full disk.
	firstStart = 200 << 20
)

// ErrLow means that the reserve is reached. It comes wrapped in an Unavailable.
var ErrLow = errors.New("the disk is nearly full")

// Reserve watches the free space of a folder's file system. It is safe for concurrent use.
type Reserve struct {
	dir     string
	bytes   int64 // 0: nothing is kept free
	onProbe func(free int64)
	log     *slog.Logger

	mu      sync.Mutex
	checked time.Time // when free was measured; guarded by mu
	free    int64     // guarded by mu
	err     error     // of the measurement; guarded by mu
}

// Options configure a Reserve.
type Options struct {
	Dir     string           // must exist
	Bytes   int64            // the reserve; 0 is none
	OnProbe func(free int64) // gets the free bytes, periodically
	Log     *slog.Logger
}

// New returns a reserve.
func New(o Options) *Reserve {
	return &Reserve{dir: o.Dir, bytes: o.Bytes, onProbe: o.OnProbe, log: o.Log}
}

// Free returns the bytes of a folder's file system that this user may still take.
func Free(dir string) (int64, error) {
	var fs syscall.Statfs_t
	err := syscall.Statfs(dir, &fs)
	return int64(fs.Bavail) * int64(fs.Bsize), err //nolint:gosec // below 2^63
}

// available returns the free bytes of the file system for this user.
func (r *Reserve) available() (int64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := time.Now(); now.Sub(r.checked).Abs() >= freshFor {
		r.checked = now
		r.free, r.err = Free(r.dir)
	}
	return r.free, r.err
}

// Check returns Unavailable with ErrLow if less than the reserve is free: nothing may be written
// then. A file system that does not answer refuses nothing.
func (r *Reserve) Check() error {
	free, err := r.available()
	if r.bytes == 0 || err != nil || free >= r.bytes {
		return nil
	}
	return errs.E(errs.Unavailable, "write", r.dir, fmt.Errorf("%w: %s are free, and writes need more than %s (diskReserve); reads go on; free some space, then writes go on too",
		ErrLow, mebibytes(free), mebibytes(r.bytes)))
}

// CheckStart returns an error if the stores cannot be opened, or at the first start created, in the
// free space.
func (r *Reserve) CheckStart(first bool) error {
	needed := int64(startNeeds)
	if first {
		needed = firstStart + r.bytes
	}
	free, err := r.available()
	if err != nil || free >= needed {
		return nil
	}
	return fmt.Errorf("%w: %s are free in %s, and a start needs %s; free some space, then start again", ErrLow, mebibytes(free), r.dir, mebibytes(needed))
}

func mebibytes(n int64) string { return fmt.Sprintf("%d MiB", n>>20) }

// Name is "disk".
func (r *Reserve) Name() string { return "disk" }

// Ready returns an error before writes are refused: when less than twice the reserve is free.
func (r *Reserve) Ready() error {
	if err := r.Check(); err != nil {
		return err
	}
	free, err := r.available()
	if r.bytes == 0 || err != nil || free >= 2*r.bytes {
		return nil
	}
	return fmt.Errorf("%s has %s free; below %s (diskReserve) nothing is written any longer", r.dir, mebibytes(free), mebibytes(r.bytes))
}

// Run logs when the disk becomes low, and when it is not low any longer, until ctx ends.
func (r *Reserve) Run(ctx context.Context) error {
	tick := time.NewTicker(period)
	defer tick.Stop()
	for low := false; ; {
		if free, err := r.available(); err == nil {
			r.onProbe(free)
		}
		switch err := r.Ready(); {
		case err != nil && !low:
			r.log.Error("the disk is nearly full", "err", err)
		case err == nil && low:
			r.log.Info("the disk has enough space again")
		}
		low = r.Ready() != nil
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// Refusal is how a request that stores something is answered: 507 while the disk is low, nil otherwise.
func (r *Reserve) Refusal() error {
	if err := r.Check(); err != nil {
		return web.WithStatus(http.StatusInsufficientStorage, err)
	}
	return nil
}
