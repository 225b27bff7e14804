package resource

import (
	"context"
	"errors"
	"io"
	"mime/multipart"
	"net/http"
	"strconv"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/seal"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// receivedParts is a document as it was sent, and its file.
type receivedParts struct {
	text  []byte // the document
	file  bool
	plain seal.Secret // a secret file, or several that are packed
	files []NamedFile // several files, until they are packed
	blobs []store.Blob

	upload  store.Upload // what blobs name, until it is kept; nil without a file
	skipped bool         // the file was not taken in, because the parent is missing
}

// discard removes a file that was not kept.
func (r *receivedParts) discard() {
	if r.upload != nil {
		r.upload.Discard()
	}
}

// keep stores the file.
func (r *receivedParts) keep() error {
	if r.upload == nil {
		return nil
	}
	return r.upload.Keep()
}

// complete packs the files, if there are several, and demands the document.
func (r *receivedParts) complete(many bool) (err error) {
	if r.text == nil {
		return errs.New(errs.Invalid, `the body has no part "metadata"`+textForm)
	}
	if many && r.file {
		r.plain, err = PackFiles(r.files)
	}
	return err
}

// partReader reads the parts of a multipart body.
type partReader struct {
	db     *store.DB
	limit  int64 // of the file, or of all files together
	many   int   // largest number of files; 0: one
	secret bool  // the file is kept in memory
	receivedParts
}

// read reads the parts "metadata" and "file", in any order; others are
// skipped. A large file goes to the blob store while it arrives.
func (p *partReader) read(w http.ResponseWriter, r *http.Request) error {
	web.Extend(w, uploadTime)
	r.Body = http.MaxBytesReader(w, r.Body, p.limit+2*maxBody)
	parts, err := r.MultipartReader()
	if err != nil {
		return errs.New(errs.Malformed, err.Error())
	}
	most := maxParts + p.many
	for range most {
		part, err := parts.NextPart()
		if errors.Is(err, io.EOF) {
			return p.complete(p.many > 0)
		}
		if err != nil {
			return web.ReadError(err)
		}
		if err := p.part(r.Context(), part); err != nil {
			return err
		}
	}
	return errs.New(errs.Invalid, "the body has more than "+strconv.Itoa(most)+" parts")
}

func (p *partReader) part(ctx context.Context, part *multipart.Part) (err error) {
	name := part.FormName()
	if p.many > 0 && (name == "file" || name == "files") {
		return p.another(part)
	}
	switch {
	case name == "metadata" && p.text != nil:
		return errs.New(errs.Malformed, `part "metadata" is given twice`)
	case name == "file" && p.file:
		return errs.New(errs.Invalid, `part "file" is given twice`)
	}
	switch name {
	case "metadata":
		p.text, err = bounded(part, maxBody)
	case "file":
		p.file = true
		err = p.store(ctx, part)
	}
	return err
}

// another keeps one of several files.
func (p *partReader) another(part *multipart.Part) error {
	if len(p.files) == p.many {
		return errs.New(errs.Invalid, "the body has more than "+strconv.Itoa(p.many)+" files")
	}
	left := p.limit
	for _, f := range p.files {
		if f.Name == part.FileName() {
			return errs.New(errs.Invalid, "file "+strconv.Quote(f.Name)+" is given twice")
		}
		left -= int64(len(f.Content))
	}
	content, err := bounded(part, left)
	if errs.Is(err, errs.TooLarge) {
		return errs.New(errs.TooLarge, "the files are larger than "+strconv.FormatInt(p.limit, 10)+" bytes")
	}
	p.file, p.files = true, append(p.files, NamedFile{part.FileName(), content})
	return err
}

// store keeps the file.
func (p *partReader) store(ctx context.Context, part *multipart.Part) (err error) {
	if p.secret {
		p.plain, err = bounded(part, p.limit)
		return err
	}
	source := &errorTap{from: part}
	if p.skipped {
		if n, err := io.Copy(io.Discard, io.LimitReader(source, p.limit+1)); err == nil && n > p.limit {
			return tooLarge(p.limit)
		}
		if source.err != nil {
			return web.ReadError(source.err)
		}
		return nil
	}
	p.upload, err = p.db.ReceiveBlob(ctx, source, p.limit)
	if source.err != nil {
		return web.ReadError(source.err)
	}
	if errs.Is(err, errs.TooLarge) {
		return tooLarge(p.limit)
	}
	if err != nil {
		return err
	}
	digest, size := p.upload.Content()
	p.blobs = []store.Blob{{Name: "file", File: part.FileName(), Digest: digest, Size: size}}
	return nil
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
