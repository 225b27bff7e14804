package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"testing"
)

// A write whose caller leaves fails with the reason of the caller, not with one of the database.
func TestAWriteThatIsCutOffSaysSo(t *testing.T) {
	t.Parallel()
	d, err := Open(filepath.Join(t.TempDir(), "documents.db"), WithoutFsync())
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	ctx, leave := context.WithCancel(t.Context())
	err = d.write.transact(ctx, func(t transaction) error {
		leave()
		for {
			if _, err := t.tx.ExecContext(context.WithoutCancel(ctx), "SELECT 1"); err != nil {
				return err
			}
		}
	})
	if !errors.Is(err, context.Canceled) || errors.Is(err, sql.ErrTxDone) {
		t.Errorf("a write whose caller leaves: %v", err)
	}
}
