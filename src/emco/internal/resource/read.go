package resource

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"path"
	"strconv"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

const (
	maxBody    = 1 << 20          // bytes of a JSON document
	maxParts   = 16               // of a multipart body
	uploadTime = 10 * time.Minute // for a body with a file to arrive
)

// requestContent is the content of a request.
type requestContent[T any] struct {
	doc T
	receivedParts
}

// read reads document and file, and checks neither but for their form. The caller must discard
// what it returns, also with an error. Without the parent of the place it takes in no file.
func (h *handler[T, P]) read(w http.ResponseWriter, r *http.Request, at Place) (up requestContent[T], err error) {
	mode, err := readMode(r)
	if err != nil {
		return up, err
	}
	switch {
	case !isMultipart(r):
		up.text, err = web.Body(w, r, maxBody)
	case h.def.File == nil:
		err = errs.New(errs.Malformed, "the body is multipart/form-data, and this document has no file; send it as application/json")
	default:
		up.receivedParts, err = h.readParts(w, r, at)
	}
	if err != nil {
		return up, err
	}
	if up.doc, err = v2.Decode[T](up.text, mode); err != nil {
		return up, err
	}
	return up, h.settle(r, &up)
}

// readParts reads a multipart body. Without the parent of the place, the file is read but not taken in.
func (h *handler[T, P]) readParts(w http.ResponseWriter, r *http.Request, at Place) (receivedParts, error) {
	f := h.def.File
	in := partReader{db: h.db, limit: f.Limit, many: f.Many, secret: f.Secret}
	missing, err := h.parentMissing(r.Context(), at)
	if err == nil {
		in.skipped = missing
		err = in.read(w, r)
	}
	return in.receivedParts, err
}

// parentMissing reports whether there is no document that one at the place could be in.
func (h *handler[T, P]) parentMissing(ctx context.Context, at Place) (bool, error) {
	if at.Parent == "" {
		return false, nil
	}
	_, err := h.db.Get(ctx, at.Parent)
	if errs.Is(err, errs.NotFound) {
		return true, nil
	}
	return false, err
}

// readMode reads the parameter strict.
func readMode(r *http.Request) (v2.Mode, error) {
	switch text := r.URL.Query().Get("strict"); text {
	case "", "false", "0":
		return v2.Lenient, nil
	case "true", "1":
		return v2.Strict, nil
	default:
		return v2.Lenient, errs.New(errs.Invalid, "Invalid query strict: "+strconv.Quote(text)+" is neither true nor false")
	}
}

func isMultipart(r *http.Request) bool {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return err == nil && kind == "multipart/form-data"
}

// settle demands a file where the document needs one, and forgets it where not.
func (h *handler[T, P]) settle(r *http.Request, up *requestContent[T]) error {
	f := h.def.File
	switch {
	case f == nil:
	case f.Needed != nil && !f.Needed(up.doc) && f.Optional:
	case f.Needed != nil && !f.Needed(up.doc):
		up.discard()
		up.plain, up.blobs, up.upload, up.skipped = nil, nil, nil, false
	case !isMultipart(r):
		return errs.New(errs.Malformed, http.ErrNotMultipart.Error()+textForm)
	case !up.file:
		return errs.New(errs.Malformed, textNoFile+textForm)
	}
	return nil
}

// content opens the uploaded file.
func (h *handler[T, P]) content(up requestContent[T]) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) {
		if h.def.File.Secret {
			return io.NopCloser(bytes.NewReader(up.plain)), nil
		}
		return up.upload.Open()
	}
}

// write makes of an upload what is stored. old is the document that it replaces,
// with its secret, or the zero value.
func (h *handler[T, P]) write(ctx context.Context, at Place, up requestContent[T], old storedDocument[T]) (store.Write, error) {
	w := store.Write{Key: at.Key, Parent: at.Parent, UID: old.UID, Secret: up.plain, Blobs: up.blobs}
	if h.def.Masking != nil {
		if err := h.def.Masking.Unmask(&up.doc, old.full); err != nil {
			return w, err
		}
	}
	if err := h.judge(ctx, at, up); err != nil {
		return w, err
	}
	if h.def.Refs != nil {
		w.Refs = h.def.Refs(at, up.doc)
	}
	if h.def.Needs != nil {
		w.Refs = append(w.Refs, store.Needs(h.def.Needs(at, up.doc)...)...)
	}
	if unique := h.def.uniqueKey(at, up.doc); unique.Name != "" {
		w.Refs = append(w.Refs, store.Ref{Key: uniqueIndexKey(at, unique), Index: true})
	}
	err := h.def.encode(&w, up.doc)
	return w, err
}

// encode puts a document into what is stored of it: its body, and its secret.
func (d *Def[T]) encode(w *store.Write, doc T) (err error) {
	full, err := json.Marshal(doc)
	if err != nil {
		return err
	}
	w.Body = full
	if m := d.Masking; m != nil && !m.InBody {
		w.Secret = full
		w.Body, err = json.Marshal(m.Mask(doc))
	}
	return err
}

// judge applies all rules to a document, the cheap ones first.
func (h *handler[T, P]) judge(ctx context.Context, at Place, up requestContent[T]) error {
	if err := P(&up.doc).Validate(); err != nil {
		return err
	}
	if f := h.def.File; f != nil && f.Check != nil && (up.plain != nil || up.blobs != nil || f.Optional) {
		if err := f.Check(ctx, up.doc, h.content(up)); err != nil {
			return err
		}
	}
	if h.def.Check != nil {
		if err := h.def.Check(ctx, at, up.doc); err != nil {
			return err
		}
	}
	return h.vacant(ctx, at, up.doc)
}

// room refuses a new document if its collection has as many others as it may have.
func (h *handler[T, P]) room(ctx context.Context, at Place) error {
	limit := h.def.AtMost
	if limit == 0 {
		return nil
	}
	others := 0
	for doc, err := range h.db.List(ctx, at.Collection, store.Query{Depth: 1, Limit: limit + 1}) {
		if err != nil {
			return err
		}
		if doc.Key != at.Key {
			others++
		}
	}
	if others >= limit {
		return errs.New(errs.Conflict, fmt.Sprintf("%s has %d documents, and at most %d are allowed; remove some", at.Collection, others, limit))
	}
	return nil
}

// vacant refuses a document whose unique key another one of the collection has.
func (h *handler[T, P]) vacant(ctx context.Context, at Place, doc T) error {
	unique := h.def.uniqueKey(at, doc)
	if unique.Name == "" {
		return nil
	}
	for other, err := range h.db.List(ctx, at.Collection, store.Query{Refers: uniqueIndexKey(at, unique), Limit: 2}) {
		if err != nil {
			return err
		}
		if other.Key != at.Key {
			return errs.New(errs.Conflict, unique.Taken+": "+path.Base(string(other.Key)))
		}
	}
	return nil
}
