package store

import (
	"context"
	"io"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
)

// SetLease sets the age at which an unfinished write counts as left behind; with 0
// every unfinished write that is met does.
func (db *DB) SetLease(d time.Duration) { db.lease = d }

// PutBlob stores content of at most limit bytes, TooLarge beyond.
func (db *DB) PutBlob(ctx context.Context, r io.Reader, limit int64) (manifest.Digest, int64, error) {
	return db.blobs.Put(ctx, r, limit)
}
