package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

// page is how many documents one query of a listing fetches. Nothing is open between
// queries, so a slow consumer keeps neither a lock nor old pages of the file.
const page = 64

const fields = "key, tag, state, since, uid, rev, parent, refs, claims, blobs, created, updated, body, secret"

// Get implements store.Driver.
func (d *Driver) Get(ctx context.Context, k store.Key) (store.Doc, error) {
	var r row
	var doc store.Doc
	err := d.read.row(ctx, "SELECT "+fields+" FROM docs WHERE key = ?", []any{string(k)}, func(into func(...any) error) (err error) {
		doc, err = r.scan(into)
		return err
	})
	if errors.Is(err, sql.ErrNoRows) {
		return store.Doc{}, errs.E(errs.NotFound, "get", string(k), errors.New("not found"))
	}
	return doc, classify("get", k, err)
}

// together is how many documents one statement reads by their keys.
const together = 100

// byKeys is the statement that reads them.
var byKeys = "SELECT " + fields + " FROM docs WHERE key IN (?" + strings.Repeat(",?", together-1) + ")"

// GetEach implements store.Batcher.
func (d *Driver) GetEach(ctx context.Context, keys []store.Key) iter.Seq2[store.Doc, error] {
	return func(yield func(store.Doc, error) bool) {
		for some := range slices.Chunk(keys, together) {
			found, err := d.several(ctx, some)
			if err != nil {
				yield(store.Doc{}, classify("get", some[0], err))
				return
			}
			for _, k := range some {
				if doc, ok := found[k]; ok && !yield(doc, nil) {
					return
				}
			}
		}
	}
}

// several reads at most together documents.
func (d *Driver) several(ctx context.Context, keys []store.Key) (map[store.Key]store.Doc, error) {
	args := make([]any, together)
	for i := range args {
		args[i] = string(keys[min(i, len(keys)-1)])
	}
	found := make(map[store.Key]store.Doc, len(keys))
	var r row // for all rows
	err := d.read.rows(ctx, byKeys, args, func(into func(...any) error) error {
		doc, err := r.scan(into)
		found[doc.Key] = doc
		return err
	})
	return found, err
}

// List implements store.Driver.
func (d *Driver) List(ctx context.Context, under store.Key, q store.Query) iter.Seq2[store.Doc, error] {
	return store.Pages(q, page, func(q store.Query, n int) ([]store.Doc, error) {
		docs, err := d.page(ctx, under, q, n)
		return docs, classify("list", under, err)
	})
}

// page fetches the next n documents of a listing.
func (d *Driver) page(ctx context.Context, under store.Key, q store.Query, n int) ([]store.Doc, error) {
	query, args := statement(under, q, n)
	docs := make([]store.Doc, 0, n)
	var r row // for all rows
	err := d.read.rows(ctx, query, args, func(into func(...any) error) error {
		doc, err := r.scan(into)
		docs = append(docs, doc)
		return err
	})
	return docs, err
}

// statement returns the query for one page. Each of its forms walks one index from the key
// after which it starts, and sorts nothing. SQLite plans by a bare parameter of LIMIT: it would prepare the statement
// again for each answer.
func statement(under store.Key, q store.Query, n int) (string, []any) {
	from, col := " FROM docs WHERE 1", "key"
	var args []any
	switch {
	case q.Refers != "":
		from, col = " FROM holders CROSS JOIN docs ON docs.key = holder WHERE target = ?", "holder"
		args = append(args, string(q.Refers))
	case q.Depth > 0:
		from = " FROM docs INDEXED BY docs_by_depth WHERE 1"
	}
	if q.Depth > 0 {
		from += " AND depth = ?"
		args = append(args, slashes(under)+q.Depth)
	}
	after := string(q.After)
	if under != "" { // "0" is the character after "/"
		from += " AND " + col + " < ?"
		args = append(args, string(under)+"0")
		after = max(after, string(under)+"/")
	}
	if after != "" {
		from += " AND " + col + " > ?"
		args = append(args, after)
	}
	return "SELECT " + fields + from + " ORDER BY " + col + " LIMIT ? + 0", append(args, n)
}

// slashes returns the depth where Query.Depth begins to count below under.
func slashes(under store.Key) int {
	if under == "" {
		return -1
	}
	return depth(under)
}

// row is where rows of fields are read into, one after the other.
type row struct {
	doc                            store.Doc
	state, since, created, updated int64
	refs, claims, blobs            []byte
	columns                        []any // pointers to the others, in the order of fields
}

// scan reads one row.
func (r *row) scan(into func(...any) error) (store.Doc, error) {
	d := &r.doc
	if *d = (store.Doc{}); r.columns == nil {
		r.columns = []any{
			&d.Key, &d.Tag, &r.state, &r.since, &d.UID, &d.Rev, &d.Parent, &r.refs, &r.claims, &r.blobs,
			&r.created, &r.updated, &d.Body, &d.Secret,
		}
	}
	if err := into(r.columns...); err != nil {
		return store.Doc{}, err
	}
	d.State = store.State(r.state)
	d.Since, d.Created, d.Updated = moment(r.since), moment(r.created), moment(r.updated)
	err := errors.Join(decodeList(r.refs, &d.Refs), decodeList(r.claims, &d.Claims), decodeList(r.blobs, &d.Blobs))
	return *d, err
}

// decodeList reads a list as JSON. Most lists are empty, and thousands of documents are listed at a time.
func decodeList[T any](text []byte, out *[]T) error {
	if string(text) == "null" {
		return nil
	}
	return json.Unmarshal(text, out)
}

func moment(ms int64) time.Time { return time.UnixMilli(ms).UTC() }
