package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

const (
	version = 2          // of the schema, in SQLite's user_version
	marker  = 0x454d434f // "EMCO", in SQLite's application_id
)

// schema is that of version 1; later versions add to it. Times are milliseconds since 1970;
// depth is the number of slashes in the key. holders is an index of the references and claims
// of each document.
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

// additions is what each version after the first one adds. changes lists the keys of
// documents in the order of their writes; the oldest lines are removed.
var additions = []string{
	`CREATE TABLE changes (seq INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL) STRICT;`,
}

// migrate brings a file to the current schema, and refuses a newer one and a foreign one.
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
		return bring(ctx, tx, schema+strings.Join(additions, "\n"))
	case app != marker:
		return errs.E(errs.Invalid, "open", path, errors.New("is a SQLite database of another program"))
	case have > version:
		return errs.E(errs.Invalid, "open", path,
			fmt.Errorf("has schema %d, written by a later version; this one knows up to %d", have, version))
	case have < version:
		return bring(ctx, tx, strings.Join(additions[have-1:], "\n"))
	}
	return nil
}

// bring runs statements and marks the file as one of the current version.
func bring(ctx context.Context, tx *sql.Tx, statements string) error {
	mark := fmt.Sprintf("%s PRAGMA application_id = %d; PRAGMA user_version = %d;", statements, marker, version)
	if _, err := tx.ExecContext(ctx, mark); err != nil {
		return err
	}
	return tx.Commit()
}
