// Package sqlite stores documents in one SQLite file, the default for a single host. Several processes may open the same file.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/durable"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	sqlite3 "modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"
)

const readers = 4 // connections for reading; SQLite has one writer at a time anyway

// Driver is a store.Driver on a SQLite file.
type Driver struct {
	write *writer
	read  *reader
}

var _ store.Driver = (*Driver)(nil)

// Option changes how Open opens a file.
type Option func(*openOptions)

type openOptions struct{ synchronous string }

// WithoutFsync makes commits not wait for the disk. It is for tests: what was committed last may be lost when the
// machine stops, but not when the process does.
func WithoutFsync() Option { return func(o *openOptions) { o.synchronous = "synchronous(off)" } }

// Open opens the database file at path, and creates it and its folder if they do not exist.
// Files are readable by their owner only. A file of a later version is refused. A commit is on the disk when it
// returns. Close the driver after use.
func Open(path string, options ...Option) (*Driver, error) {
	o := openOptions{synchronous: "synchronous(full)"}
	for _, set := range options {
		set(&o)
	}
	if err := createFile(path); err != nil {
		return nil, errs.E(errs.Unavailable, "open", path, err)
	}
	d := &Driver{write: &writer{}, read: &reader{prepared: map[string]*sql.Stmt{}}}
	var err error
	if d.write.db, err = connect(path, 1, "immediate", o.synchronous); err == nil {
		d.read.db, err = connect(path, readers, "deferred", o.synchronous, "query_only(1)")
	}
	if err == nil {
		err = migrate(context.Background(), d.write.db, path)
	}
	if err == nil {
		err = d.write.prepare(context.Background())
	}
	if err == nil {
		err = check(context.Background(), d.read.db)
	}
	if err != nil {
		return nil, errors.Join(classify("open", store.Key(path), wayBack(err)), d.Close())
	}
	return d, nil
}

// check reads all pages of the file, so that a damaged one is found at the start.
func check(ctx context.Context, db *sql.DB) error {
	var result string
	err := db.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&result)
	if err == nil && result != "ok" {
		err = &damageError{errors.New(result)}
	}
	return err
}

// damageError means that the file is damaged, and names the remedy.
type damageError struct{ reason error }

// Error returns the text.
func (e *damageError) Error() string {
	return fmt.Sprintf("the file is damaged: %v; restore the data folder from a backup", e.reason)
}

// Unwrap returns SQLite's error.
func (e *damageError) Unwrap() error { return e.reason }

// wayBack adds what helps to the errors of a damaged file.
func wayBack(err error) error {
	if se, ok := errors.AsType[*sqlite3.Error](err); ok {
		switch se.Code() & 0xff {
		case lib.SQLITE_CORRUPT, lib.SQLITE_NOTADB:
			return &damageError{err}
		}
	}
	return err
}

// Close closes the file; current calls fail.
func (d *Driver) Close() error {
	var all []error
	for _, db := range []*sql.DB{d.read.db, d.write.db} {
		if db != nil {
			all = append(all, db.Close())
		}
	}
	return errors.Join(all...)
}

// createFile creates the file, or closes an existing one to other users: SQLite gives its log
// and index the same mode. The names survive a loss of power.
func createFile(path string) error {
	dir := filepath.Dir(path)
	if err := durable.MakeDir(dir); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(f.Chmod(0o600), f.Sync(), f.Close(), durable.SyncDir(dir))
}

// connect opens at most n connections.
func connect(path string, n int, lock string, pragmas ...string) (*sql.DB, error) {
	full, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	pragmas = append(pragmas, "busy_timeout(10000)", "journal_mode(wal)")
	q := url.Values{"_pragma": pragmas, "_txlock": {lock}}
	u := url.URL{Scheme: "file", Path: full, RawQuery: q.Encode()}
	db, err := sql.Open("sqlite", u.String())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(n)
	db.SetMaxIdleConns(n)
	return db, nil
}

// classify maps an error of SQLite or of the context to a kind.
func classify(op string, k store.Key, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*errs.Error](err); ok {
		return err
	}
	kind := errs.Internal
	if se, ok := errors.AsType[*sqlite3.Error](err); ok {
		kind = kindOf(se.Code())
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, sql.ErrConnDone) {
		kind = errs.Unavailable
	}
	return errs.E(kind, op, string(k), err)
}

// kindOf maps an extended result code; its low byte is the primary one.
func kindOf(code int) errs.Kind {
	if code == lib.SQLITE_CONSTRAINT_PRIMARYKEY || code == lib.SQLITE_CONSTRAINT_UNIQUE {
		return errs.Exists
	}
	switch code & 0xff {
	case lib.SQLITE_BUSY, lib.SQLITE_LOCKED, lib.SQLITE_IOERR, lib.SQLITE_FULL, lib.SQLITE_CANTOPEN,
		lib.SQLITE_READONLY, lib.SQLITE_NOMEM, lib.SQLITE_INTERRUPT, lib.SQLITE_PERM:
		return errs.Unavailable
	}
	return errs.Internal
}
