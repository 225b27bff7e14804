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

// The statements of writes.
const (
	removeDoc     = "DELETE FROM docs WHERE key = ? AND tag = ?"
	countDoc      = "SELECT count(*) FROM docs WHERE key = ?"
	insertHolder  = "INSERT OR IGNORE INTO holders (target, holder) VALUES (?, ?)"
	removeHolders = "DELETE FROM holders WHERE holder = ?"
	insertChange  = "INSERT INTO changes (key) VALUES (?)"
	removeChanges = "DELETE FROM changes WHERE seq <= ?"
)

// writer writes the file by prepared statements: SQLite takes about as long to compile those of a write as to carry them out.
type writer struct {
	db       *sql.DB // one connection
	prepared map[string]*sql.Stmt
}

// prepare compiles the statements of writes. It must come after the migration.
func (w *writer) prepare(ctx context.Context) error {
	w.prepared = map[string]*sql.Stmt{}
	for _, text := range []string{insertDoc, updateDoc, removeDoc, countDoc, insertHolder, removeHolders, insertChange, removeChanges} {
		s, err := w.db.PrepareContext(ctx, text)
		if err != nil {
			return err
		}
		w.prepared[text] = s
	}
	return nil
}

// transaction holds the write lock from its beginning.
type transaction struct {
	*writer
	tx *sql.Tx
}

// statement returns a statement of writes in the transaction.
func (t transaction) statement(ctx context.Context, text string) *sql.Stmt {
	return t.tx.StmtContext(ctx, t.prepared[text])
}

// Put implements store.Driver.
func (d *Driver) Put(ctx context.Context, doc store.Doc, at int64) error {
	args, err := columns(doc)
	if err != nil {
		return errs.E(errs.Internal, "put", string(doc.Key), err)
	}
	err = d.write.transact(ctx, func(t transaction) error {
		if at == 0 {
			if _, err := t.statement(ctx, insertDoc).ExecContext(ctx, args...); err != nil {
				return err
			}
			return errors.Join(t.addHolders(ctx, doc), t.recordChange(ctx, doc.Key))
		}
		done, err := changed(t.statement(ctx, updateDoc).ExecContext(ctx, append(args, at)...))
		if err == nil && !done {
			err = errs.E(errs.Conflict, "put", string(doc.Key), errChanged)
		}
		if err != nil {
			return err
		}
		return errors.Join(t.removeHolders(ctx, doc.Key), t.addHolders(ctx, doc), t.recordChange(ctx, doc.Key))
	})
	return classify("put", doc.Key, err)
}

var errChanged = errors.New("someone else changed it")

// Remove implements store.Driver.
func (d *Driver) Remove(ctx context.Context, k store.Key, at int64) error {
	err := d.write.transact(ctx, func(t transaction) error {
		done, err := changed(t.statement(ctx, removeDoc).ExecContext(ctx, k, at))
		if err != nil {
			return err
		}
		if done {
			return errors.Join(t.removeHolders(ctx, k), t.recordChange(ctx, k))
		}
		var there int
		if err := t.statement(ctx, countDoc).QueryRowContext(ctx, k).Scan(&there); err != nil {
			return err
		}
		if there > 0 {
			return errs.E(errs.Conflict, "remove", string(k), errChanged)
		}
		return nil
	})
	return classify("remove", k, err)
}

// transact runs f in a transaction.
func (w *writer) transact(ctx context.Context, f func(transaction) error) error {
	tx, err := w.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err = f(transaction{w, tx}); err == nil {
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
func (t transaction) addHolders(ctx context.Context, doc store.Doc) error {
	for _, target := range slices.Concat(doc.Refs, doc.Claims) {
		if _, err := t.statement(ctx, insertHolder).ExecContext(ctx, target, doc.Key); err != nil {
			return err
		}
	}
	return nil
}

func (t transaction) removeHolders(ctx context.Context, k store.Key) error {
	_, err := t.statement(ctx, removeHolders).ExecContext(ctx, k)
	return err
}

// recordChange appends to the changes, and removes old ones from time to time.
func (t transaction) recordChange(ctx context.Context, k store.Key) error {
	done, err := t.statement(ctx, insertChange).ExecContext(ctx, k)
	if err != nil {
		return err
	}
	seq, err := done.LastInsertId()
	if err != nil || seq%trim != 0 {
		return err
	}
	_, err = t.statement(ctx, removeChanges).ExecContext(ctx, seq-kept)
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
