package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

const (
	version = 1          // of the schema, in SQLite's user_version
	marker  = 0x454d434f // "EMCO", in SQLite's application_id
)

// schema of version 1. Times are milliseconds since 1970; depth is the number of
// slashes in the key. holders is an index: for each document, what it refers to
// and what it claims.
const schema = `
CREATE TABLE docs (
	key     TEXT PRIMARY KEY,
	depth   INTEGER NOT NULL,
	tag     INTEGER NOT NULL,
	state   INTEGER NOT NULL,
	since   INTEGER NOT NULL,
	uid     TEXT NOT NULL,
	rev     INTEGER NOT NULL,
	parent  TEXT NOT NULL,
	refs    TEXT NOT NULL,
	claims  TEXT NOT NULL,
	blobs   TEXT NOT NULL,
	created INTEGER NOT NULL,
	updated INTEGER NOT NULL,
	body    BLOB,
	secret  BLOB
) STRICT;
CREATE INDEX docs_by_depth ON docs (depth, key);
CREATE TABLE holders (
	target TEXT NOT NULL,
	holder TEXT NOT NULL,
	PRIMARY KEY (target, holder)
) STRICT, WITHOUT ROWID;
CREATE INDEX holders_by_holder ON holders (holder);
`

// migrate brings a new file to the present schema, and refuses one that is newer
// or not ours.
func migrate(ctx context.Context, db *sql.DB, path string) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	var app, have, tables int
	row := tx.QueryRowContext(ctx, `SELECT (SELECT application_id FROM pragma_application_id),
		(SELECT user_version FROM pragma_user_version), (SELECT count(*) FROM sqlite_schema)`)
	if err := row.Scan(&app, &have, &tables); err != nil {
		return err
	}
	switch {
	case tables == 0 && have == 0:
		create := fmt.Sprintf("%s PRAGMA application_id = %d; PRAGMA user_version = %d;", schema, marker, version)
		if _, err := tx.ExecContext(ctx, create); err != nil {
			return err
		}
		return tx.Commit()
	case app != marker:
		return errs.E(errs.Invalid, "open", path, errors.New("is a SQLite database of another program"))
	case have > version:
		return errs.E(errs.Invalid, "open", path,
			fmt.Errorf("has schema %d, written by a later version; this one knows up to %d", have, version))
	}
	return nil
}
