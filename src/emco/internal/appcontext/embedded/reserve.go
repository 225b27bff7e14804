package embedded

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	"go.uber.org/zap/zapcore"

	"github.com/emco-orchestrator/emco/src/emco/internal/diskspace"
)

const (
	spareDatabase  = 32 << 20    // for pages of the database
	spareSnapshots = 4 << 20     // for snapshots of the log, of a few KiB each
	snapshotShare  = 64 << 10    // of spareSnapshots, for one snapshot
	leaveFree      = 16 << 20    // what the reserve leaves to the rest of the program
	keepPeriod     = time.Second // between two looks at the size of the database
	interrupted    = 10          // attempts to allocate, which signals interrupt
)

// reserve keeps blocks of the disk for what etcd writes while the disk is full: etcd ends the process
// when a write fails. Deletions, leases and compactions are not refused then, and neither are writes
// that came a moment before. The log needs nothing: etcd allocates its current and its next file. The
// database is a sparse file, which needs blocks for its pages; the reserve allocates them, and some
// more beyond its end. A snapshot of the log is a new file; the reserve gives it a part of its ballast.
type reserve struct {
	database string // its file
	ballast  string // a file that only occupies blocks
	none     bool   // keep allocates nothing
	log      *slog.Logger

	mu      sync.Mutex
	covered os.FileInfo // the database when its blocks were allocated; guarded by mu
	failed  string      // the last errors that were logged; guarded by mu
	short   bool        // the disk had too little space at the last look; guarded by mu
}

func newReserve(dir, data string, log *slog.Logger) *reserve {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &reserve{database: filepath.Join(data, "member", "snap", "db"), ballast: filepath.Join(dir, "ballast"), log: log}
}

// run keeps the reserve until ctx ends.
func (r *reserve) run(ctx context.Context) {
	tick := time.NewTicker(keepPeriod)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			r.keep()
		}
	}
}

// keep allocates what is missing, if the disk has room for it. Without the reserve etcd runs too, but a
// full disk can end it.
func (r *reserve) keep() {
	if r.none || runtime.GOOS != "linux" { // elsewhere no call allocates blocks of a range
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var failed []string
	short := false
	for _, err := range []error{r.coverLocked(), r.fillLocked()} {
		switch {
		case errors.Is(err, syscall.ENOSPC):
			short = true
		case err != nil:
			failed = append(failed, err.Error())
		}
	}
	if short && !r.short {
		r.log.Warn("etcd has no whole reserve yet: the disk has too little space for it; a full disk can end this process")
	}
	if text := strings.Join(failed, "; "); text != r.failed {
		if text != "" {
			r.log.Warn("no disk space could be reserved for etcd; a full disk can end this process", "err", text)
		}
		r.failed = text
	}
	r.short = short
}

// coverLocked allocates the blocks of the database if it is larger than before, or another file: etcd
// replaces it when it defragments it.
func (r *reserve) coverLocked() error {
	info, err := os.Stat(r.database)
	if err != nil {
		return err
	}
	if r.covered != nil && os.SameFile(info, r.covered) && info.Size() <= r.covered.Size() {
		return nil
	}
	size := info.Size() + spareDatabase
	if err := allocate(r.database, os.O_RDWR, size, size-allocated(info)); err != nil {
		return err
	}
	r.covered = info
	return nil
}

// fillLocked makes the ballast whole again.
func (r *reserve) fillLocked() error {
	info, err := os.Stat(r.ballast)
	var has int64
	switch {
	case err == nil:
		has = info.Size()
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if has >= spareSnapshots {
		return nil
	}
	if err := allocate(r.ballast, os.O_RDWR|os.O_CREATE, spareSnapshots, spareSnapshots-has); err != nil {
		return err
	}
	return os.Truncate(r.ballast, spareSnapshots)
}

// give frees the blocks of one snapshot if the disk has none.
func (r *reserve) give() {
	r.mu.Lock()
	defer r.mu.Unlock()
	free, err := diskspace.Free(filepath.Dir(r.ballast))
	if err != nil || free >= snapshotShare {
		return
	}
	info, err := os.Stat(r.ballast)
	if err == nil && info.Size() > 0 {
		err = os.Truncate(r.ballast, max(0, info.Size()-snapshotShare))
	}
	if err != nil {
		r.log.Error("a snapshot of etcd's log gets no disk space", "err", err)
	}
}

// allocate gives a file blocks for size bytes; the missing ones have none yet. The size of the file stays. It
// returns ENOSPC if too little would be left on the disk. A file system that cannot do it is no error.
func allocate(path string, flags int, size, missing int64) (err error) {
	free, err := diskspace.Free(filepath.Dir(path))
	if err != nil {
		return err
	}
	if free < missing+leaveFree {
		return syscall.ENOSPC
	}
	f, err := os.OpenFile(path, flags, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	for range interrupted {
		if err = fileutil.Preallocate(f, size, false); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
	return err
}

// allocated returns the bytes of the blocks that a file has.
func allocated(info os.FileInfo) int64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return s.Blocks * 512
	}
	return 0
}

// snapshotWatch is a zapcore.Core that calls a function right before etcd writes a snapshot of its log.
// etcd shows that moment by a line of its log only.
type snapshotWatch struct {
	zapcore.LevelEnabler
	before func()
}

// snapshotLine is etcd's line.
const snapshotLine = "triggering snapshot"

// With returns the same.
func (w snapshotWatch) With([]zapcore.Field) zapcore.Core { return w }

// Check takes the line.
func (w snapshotWatch) Check(e zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if e.Message == snapshotLine {
		return checked.AddCore(e, w)
	}
	return checked
}

// Write calls the function.
func (w snapshotWatch) Write(zapcore.Entry, []zapcore.Field) error {
	w.before()
	return nil
}

// Sync does nothing.
func (w snapshotWatch) Sync() error { return nil }
