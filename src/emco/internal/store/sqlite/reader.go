package sqlite

import (
	"context"
	"database/sql"
	"sync"
)

// reader reads the file by prepared statements: SQLite takes longer to compile most queries than to answer them.
type reader struct {
	db *sql.DB

	mu       sync.Mutex
	prepared map[string]*sql.Stmt // by text; there are few; guarded by mu
}

// statement returns the statement of a text.
func (r *reader) statement(ctx context.Context, text string) (*sql.Stmt, error) {
	r.mu.Lock()
	known := r.prepared[text]
	r.mu.Unlock()
	if known != nil {
		return known, nil
	}
	s, err := r.db.PrepareContext(ctx, text)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if other := r.prepared[text]; other != nil { // another request was faster
		return other, s.Close()
	}
	r.prepared[text] = s
	return s, nil
}

// row reads the only row of an answer; sql.ErrNoRows if it is empty.
func (r *reader) row(ctx context.Context, text string, args []any, scan func(into func(...any) error) error) error {
	s, err := r.statement(ctx, text)
	if err != nil {
		return err
	}
	return scan(s.QueryRowContext(ctx, args...).Scan)
}

// rows reads an answer, row by row.
func (r *reader) rows(ctx context.Context, text string, args []any, scan func(into func(...any) error) error) error {
	s, err := r.statement(ctx, text)
	if err != nil {
		return err
	}
	rows, err := s.QueryContext(ctx, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}
