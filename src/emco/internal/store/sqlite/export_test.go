package sqlite

import (
	"context"
	"strings"

	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

// Durability returns the journal mode and the level of synchronisation of the writer.
func (d *Driver) Durability(ctx context.Context) (mode string, sync int, err error) {
	row := d.write.db.QueryRowContext(ctx, "SELECT * FROM pragma_journal_mode, pragma_synchronous")
	err = row.Scan(&mode, &sync)
	return mode, sync, err
}

// Checkpoint writes the whole log back; busy if a reader or writer is in the way.
func (d *Driver) Checkpoint(ctx context.Context) (busy bool, err error) {
	var pages, done int
	err = d.write.db.QueryRowContext(ctx, "PRAGMA wal_checkpoint(truncate)").Scan(&busy, &pages, &done)
	return busy, err
}

// Plan returns SQLite's query plan of a listing.
func (d *Driver) Plan(ctx context.Context, under store.Key, q store.Query) (string, error) {
	query, args := statement(under, q, page)
	rows, err := d.read.db.QueryContext(ctx, "EXPLAIN QUERY PLAN "+query, args...)
	if err != nil {
		return "", err
	}
	defer rows.Close()
	var steps []string
	for rows.Next() {
		var id, parent, unused int
		var step string
		if err := rows.Scan(&id, &parent, &unused, &step); err != nil {
			return "", err
		}
		steps = append(steps, step)
	}
	return strings.Join(steps, "; "), rows.Err()
}
