package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

const (
	insertDoc = `INSERT INTO docs (depth, tag, state, since, uid, rev, parent, refs, claims, blobs, created, updated, body, secret, key)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	updateDoc = `UPDATE docs SET depth = ?, tag = ?, state = ?, since = ?, uid = ?, rev = ?, parent = ?, refs = ?, claims = ?,
		blobs = ?, created = ?, updated = ?, body = ?, secret = ? WHERE key = ? AND tag = ?`
)

// Put implements store.Driver.
func (d *Driver) Put(ctx context.Context, doc store.Doc, at int64) error {
	args, err := columns(doc)
	if err != nil {
		return errs.E(errs.Internal, "put", string(doc.Key), err)
	}
	err = d.transact(ctx, func(tx *sql.Tx) error {
		if at == 0 {
			if _, err := tx.ExecContext(ctx, insertDoc, args...); err != nil {
				return err
			}
			return errors.Join(addHolders(ctx, tx, doc), recordChange(ctx, tx, doc.Key))
		}
		done, err := changed(tx.ExecContext(ctx, updateDoc, append(args, at)...))
		if err == nil && !done {
			err = errs.E(errs.Conflict, "put", string(doc.Key), errChanged)
		}
		if err != nil {
			return err
		}
		return errors.Join(removeHolders(ctx, tx, doc.Key), addHolders(ctx, tx, doc), recordChange(ctx, tx, doc.Key))
	})
	return classify("put", doc.Key, err)
}

var errChanged = errors.New("someone else changed it")

// Remove implements store.Driver.
func (d *Driver) Remove(ctx context.Context, k store.Key, at int64) error {
	err := d.transact(ctx, func(tx *sql.Tx) error {
		done, err := changed(tx.ExecContext(ctx, "DELETE FROM docs WHERE key = ? AND tag = ?", k, at))
		if err != nil {
			return err
		}
		if done {
			return errors.Join(removeHolders(ctx, tx, k), recordChange(ctx, tx, k))
		}
		var there int
		if err := tx.QueryRowContext(ctx, "SELECT count(*) FROM docs WHERE key = ?", k).Scan(&there); err != nil {
			return err
		}
		if there > 0 {
			return errs.E(errs.Conflict, "remove", string(k), errChanged)
		}
		return nil
	})
	return classify("remove", k, err)
}

// transact runs f in a transaction that holds the write lock from its beginning.
func (d *Driver) transact(ctx context.Context, f func(*sql.Tx) error) error {
	tx, err := d.write.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err = f(tx); err == nil {
		err = tx.Commit()
	}
	if errors.Is(err, sql.ErrTxDone) && ctx.Err() != nil { // the end of ctx rolled it back
		err = ctx.Err()
	}
	return err
}

// changed reports whether a statement changed a row.
func changed(r sql.Result, err error) (bool, error) {
	if err != nil {
		return false, err
	}
	n, err := r.RowsAffected()
	return n > 0, err
}

// addHolders indexes the references and claims of doc.
func addHolders(ctx context.Context, tx *sql.Tx, doc store.Doc) error {
	for _, target := range slices.Concat(doc.Refs, doc.Claims) {
		_, err := tx.ExecContext(ctx, "INSERT OR IGNORE INTO holders (target, holder) VALUES (?, ?)", target, doc.Key)
		if err != nil {
			return err
		}
	}
	return nil
}

func removeHolders(ctx context.Context, tx *sql.Tx, k store.Key) error {
	_, err := tx.ExecContext(ctx, "DELETE FROM holders WHERE holder = ?", k)
	return err
}

// recordChange appends to the changes, and removes old ones from time to time.
func recordChange(ctx context.Context, tx *sql.Tx, k store.Key) error {
	done, err := tx.ExecContext(ctx, "INSERT INTO changes (key) VALUES (?)", k)
	if err != nil {
		return err
	}
	seq, err := done.LastInsertId()
	if err != nil || seq%trim != 0 {
		return err
	}
	_, err = tx.ExecContext(ctx, "DELETE FROM changes WHERE seq <= ?", seq-kept)
	return err
}

// columns returns the values in the order of insertDoc and updateDoc.
func columns(d store.Doc) ([]any, error) {
	refs, err1 := json.Marshal(d.Refs)
	claims, err2 := json.Marshal(d.Claims)
	blobs, err3 := json.Marshal(d.Blobs)
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, err
	}
	return []any{
		depth(d.Key), d.Tag, int64(d.State), d.Since.UnixMilli(), d.UID, d.Rev, string(d.Parent),
		string(refs), string(claims), string(blobs), d.Created.UnixMilli(), d.Updated.UnixMilli(),
		d.Body, d.Secret, string(d.Key),
	}, nil
}

func depth(k store.Key) int { return strings.Count(string(k), "/") }
