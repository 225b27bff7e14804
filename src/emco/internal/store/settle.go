package store

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/pause"
)

// Settle repairs what crashes left behind; call it before a process starts to serve. It
// removes unconfirmed creations and undoes unfinished deletions, which no client was
// answered. Writes of live processes stay, which may mean to wait some seconds. The error is
// Unavailable if the key of a secret is missing, and names document and key.
func (db *DB) Settle(ctx context.Context) error {
	left, err := db.unfinished(ctx)
	if err != nil {
		return err
	}
	for _, d := range left {
		if wait := d.Since.Add(db.lease).Sub(db.clock()); wait > 0 && !db.stale(d) {
			if err := pause.For(ctx, wait+time.Millisecond); err != nil {
				return errs.E(errs.Unavailable, "settle", string(d.Key), err)
			}
		}
		if err := db.settle(ctx, d); err != nil && !errors.Is(err, errLost) {
			return err
		}
	}
	return nil
}

// unfinished lists the documents with an unfinished write, oldest first, and checks the
// keys of all secrets.
func (db *DB) unfinished(ctx context.Context) ([]Doc, error) {
	var left []Doc
	for d, err := range db.driver.List(ctx, "", Query{}) {
		if err != nil {
			return nil, err
		}
		if d.Secret != nil {
			if err := db.sealer.Check(ctx, d.Secret); err != nil {
				return nil, errs.E(errs.KindOf(err), "unseal", string(d.Key), err)
			}
		}
		if d.State != Live || len(d.Claims) > 0 {
			left = append(left, d)
		}
	}
	slices.SortStableFunc(left, func(a, b Doc) int { return a.Since.Compare(b.Since) })
	return left, nil
}

// settle undoes the unfinished write of d; errLost if another process continues it.
func (db *DB) settle(ctx context.Context, d Doc) error {
	if d.State == Pending {
		return db.remove(ctx, d)
	}
	d.State, d.Claims = Live, nil
	_, err := db.put(ctx, d, d.Tag)
	return err
}
