package resource

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"strconv"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/seal"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

const (
	maxBody    = 1 << 20          // bytes of a JSON document
	maxParts   = 16               // of a multipart body
	uploadTime = 10 * time.Minute // for a body with a file to arrive
)

// requestContent is the content of a request.
type requestContent[T any] struct {
	doc   T
	text  []byte // the document as it was sent
	file  bool
	plain seal.Secret // a secret file, or several that are packed
	files []NamedFile // several files, until they are packed
	blobs []store.Blob

	upload  store.Upload // what blobs name, until it is kept; nil without a file
	skipped bool         // the file was not taken in, because the parent is missing
}

// discard removes a file that was not kept.
func (up *requestContent[T]) discard() {
	if up.upload != nil {
		up.upload.Discard()
	}
}

// keep stores the file.
func (up *requestContent[T]) keep() error {
	if up.upload == nil {
		return nil
	}
	return up.upload.Keep()
}

// read reads document and file, and checks neither but for their form. The caller must discard
// what it returns, also with an error. Without the parent of the place it takes in no file.
func (h *handler[T, P]) read(w http.ResponseWriter, r *http.Request, at Place) (up requestContent[T], err error) {
	mode, err := readMode(r)
	if err != nil {
		return up, err
	}
	if h.def.File != nil && isMultipart(r) {
		up, err = h.multipart(w, r, at)
	} else {
		up.text, err = web.Body(w, r, maxBody)
	}
	if err != nil {
		return up, err
	}
	if up.doc, err = v2.Decode[T](up.text, mode); err != nil {
		return up, err
	}
	return up, h.settle(r, &up)
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
		return errs.New(errs.Malformed, http.ErrNotMultipart.Error())
	case !up.file:
		return errs.New(errs.Malformed, textNoFile)
	}
	return nil
}

// multipart reads the parts "metadata" and "file", in any order; others are
// skipped. A large file goes to the blob store while it arrives.
func (h *handler[T, P]) multipart(w http.ResponseWriter, r *http.Request, at Place) (up requestContent[T], err error) {
	web.Extend(w, uploadTime)
	r.Body = http.MaxBytesReader(w, r.Body, h.def.File.Limit+2*maxBody)
	if up.skipped, err = h.parentMissing(r.Context(), at); err != nil {
		return up, err
	}
	parts, err := r.MultipartReader()
	if err != nil {
		return up, errs.New(errs.Malformed, err.Error())
	}
	most := maxParts + h.def.File.Many
	for range most {
		part, err := parts.NextPart()
		if errors.Is(err, io.EOF) {
			return up, up.complete(h.def.File.Many > 0)
		}
		if err != nil {
			return up, web.ReadError(err)
		}
		if err := h.part(r.Context(), part, &up); err != nil {
			return up, err
		}
	}
	return up, errs.New(errs.Invalid, "the body has more than "+strconv.Itoa(most)+" parts")
}

// complete packs the files, if there are several, and demands the document.
func (up *requestContent[T]) complete(many bool) (err error) {
	if up.text == nil {
		return errs.New(errs.Invalid, `the body has no part "metadata"`)
	}
	if many && up.file {
		up.plain, err = PackFiles(up.files)
	}
	return err
}

func (h *handler[T, P]) part(ctx context.Context, part *multipart.Part, up *requestContent[T]) (err error) {
	name := part.FormName()
	if h.def.File.Many > 0 && (name == "file" || name == "files") {
		return h.another(part, up)
	}
	switch {
	case name == "metadata" && up.text != nil:
		return errs.New(errs.Malformed, `part "metadata" is given twice`)
	case name == "file" && up.file:
		return errs.New(errs.Invalid, `part "file" is given twice`)
	}
	switch name {
	case "metadata":
		up.text, err = bounded(part, maxBody)
	case "file":
		up.file = true
		err = h.store(ctx, part, up)
	}
	return err
}

// another keeps one of several files.
func (h *handler[T, P]) another(part *multipart.Part, up *requestContent[T]) error {
	if len(up.files) == h.def.File.Many {
		return errs.New(errs.Invalid, "the body has more than "+strconv.Itoa(h.def.File.Many)+" files")
	}
	left := h.def.File.Limit
	for _, f := range up.files {
		if f.Name == part.FileName() {
			return errs.New(errs.Invalid, "file "+strconv.Quote(f.Name)+" is given twice")
		}
		left -= int64(len(f.Content))
	}
	content, err := bounded(part, left)
	if errs.Is(err, errs.TooLarge) {
		return errs.New(errs.TooLarge, "the files are larger than "+strconv.FormatInt(h.def.File.Limit, 10)+" bytes")
	}
	up.file, up.files = true, append(up.files, NamedFile{part.FileName(), content})
	return err
}

// store keeps the file.
func (h *handler[T, P]) store(ctx context.Context, part *multipart.Part, up *requestContent[T]) (err error) {
	f := h.def.File
	if f.Secret {
		up.plain, err = bounded(part, f.Limit)
		return err
	}
	source := &errorTap{from: part}
	if up.skipped {
		if n, err := io.Copy(io.Discard, io.LimitReader(source, f.Limit+1)); err == nil && n > f.Limit {
			return tooLarge(f.Limit)
		}
		if source.err != nil {
			return web.ReadError(source.err)
		}
		return nil
	}
	up.upload, err = h.db.ReceiveBlob(ctx, source, f.Limit)
	if source.err != nil {
		return web.ReadError(source.err)
	}
	if errs.Is(err, errs.TooLarge) {
		return tooLarge(f.Limit)
	}
	if err != nil {
		return err
	}
	digest, size := up.upload.Content()
	up.blobs = []store.Blob{{Name: "file", File: part.FileName(), Digest: digest, Size: size}}
	return nil
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

// errorTap remembers the error of a source, to distinguish the client's fault from the
// store's.
type errorTap struct {
	from io.Reader
	err  error
}

func (t *errorTap) Read(b []byte) (int, error) {
	n, err := t.from.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		t.err = err
	}
	return n, err
}

// bounded reads at most limit bytes; it never returns nil without an error.
func bounded(r io.Reader, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, web.ReadError(err)
	}
	if int64(len(data)) > limit {
		return nil, tooLarge(limit)
	}
	return data, nil
}

func tooLarge(limit int64) error {
	return errs.New(errs.TooLarge, "file is larger than "+strconv.FormatInt(limit, 10)+" bytes")
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
	if unique := h.uniqueKey(at, up.doc); unique.Name != "" {
		w.Refs = append(w.Refs, store.Ref{Key: uniqueIndexKey(at, unique)})
	}
	err := h.encode(&w, up.doc)
	return w, err
}

// encode puts a document into what is stored of it: its body, and its secret.
func (h *handler[T, P]) encode(w *store.Write, doc T) (err error) {
	full, err := json.Marshal(doc)
	if err != nil {
		return err
	}
	w.Body = full
	if m := h.def.Masking; m != nil && !m.InBody {
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
