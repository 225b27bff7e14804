package sqlite

import (
	"context"
	"database/sql"

	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

const (
	kept = 10_000 // number of changes that are kept at least
	trim = 1000   // number of changes after which older ones are removed
)

var (
	_ store.Follower = (*Driver)(nil)
	_ store.Batcher  = (*Driver)(nil)
)

// Changes implements store.Follower. A mark is the number of the last line of the changes.
func (d *Driver) Changes(ctx context.Context, mark int64) (store.Changes, error) {
	out, err := d.since(ctx, mark)
	if err != nil {
		return store.Changes{}, classify("list", "changes", err)
	}
	var first, last sql.NullInt64 // read after the lines: removed ones are found missing
	ends := func(into func(...any) error) error { return into(&first, &last) }
	if err := d.read.row(ctx, "SELECT (SELECT min(seq) FROM changes), (SELECT max(seq) FROM changes)", nil, ends); err != nil {
		return store.Changes{}, classify("list", "changes", err)
	}
	if mark == 0 || mark < first.Int64-1 || mark > last.Int64 {
		return store.Changes{All: true, Mark: last.Int64}, nil
	}
	return out, nil
}

// since reads the lines after a mark.
func (d *Driver) since(ctx context.Context, mark int64) (store.Changes, error) {
	out := store.Changes{Mark: mark}
	if mark == 0 {
		return out, nil
	}
	err := d.read.rows(ctx, "SELECT seq, key FROM changes WHERE seq > ? ORDER BY seq", []any{mark}, func(into func(...any) error) error {
		var k store.Key
		err := into(&out.Mark, &k)
		out.Keys = append(out.Keys, k)
		return err
	})
	return out, err
}
