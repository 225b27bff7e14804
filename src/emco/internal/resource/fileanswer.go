package resource

import (
	"bytes"
	"context"
	"io"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"strconv"

	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// fileAnswer answers with the file of a document, or its files.
type fileAnswer struct {
	db   *store.DB
	doc  store.Doc
	as   form   // asFile or asMultipart
	name string // of the file in multipart answers
	part string // name of the document's part
	show func(ctx context.Context, doc store.Doc, content []byte) ([]byte, error)
}

// one answers with the file, or as upstream EMCO does with the document and the file as parts.
func (a fileAnswer) one(w http.ResponseWriter, r *http.Request, secret bool) error {
	file, err := a.open(r.Context(), secret)
	if err != nil {
		return err
	}
	defer file.Close()
	web.Extend(w, uploadTime)
	if a.as == asMultipart {
		parts := a.beginParts(w)
		addPart(parts, "file", a.name, file)
		cut(0, parts.Close())
		return nil
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	if len(a.doc.Blobs) > 0 {
		w.Header().Set("Content-Length", strconv.FormatInt(a.doc.Blobs[0].Size, 10))
	}
	w.WriteHeader(http.StatusOK)
	cut(io.Copy(w, file))
	return nil
}

// open returns the file as clients may see it.
func (a fileAnswer) open(ctx context.Context, secret bool) (io.ReadCloser, error) {
	if !secret {
		return a.db.OpenBlob(ctx, a.doc.Blobs[0].Digest)
	}
	plain, err := a.db.Reveal(ctx, a.doc)
	if err != nil {
		return nil, err
	}
	shown, err := a.show(ctx, a.doc, plain)
	return io.NopCloser(bytes.NewReader(shown)), err
}

// several answers with the files of the document, one after the other, or each as a part.
func (a fileAnswer) several(w http.ResponseWriter, r *http.Request) error {
	plain, err := a.db.Reveal(r.Context(), a.doc)
	if err != nil {
		return err
	}
	files, err := UnpackFiles(plain)
	if err != nil {
		return err
	}
	for i := range files {
		if files[i].Content, err = a.show(r.Context(), a.doc, files[i].Content); err != nil {
			return err
		}
	}
	if a.as == asFile {
		w.Header().Set("Content-Type", "application/octet-stream")
		w.WriteHeader(http.StatusOK)
		for _, f := range files {
			cut(io.Copy(w, bytes.NewReader(f.Content)))
		}
		return nil
	}
	parts := a.beginParts(w)
	name := "file" // as upstream EMCO does
	if len(files) > 1 {
		name = "files"
	}
	for _, f := range files {
		addPart(parts, name, f.Name, bytes.NewReader(f.Content))
	}
	cut(0, parts.Close())
	return nil
}

// beginParts begins an answer with the document's part.
func (a fileAnswer) beginParts(w http.ResponseWriter) *multipart.Writer {
	parts := multipart.NewWriter(w)
	w.Header().Set("Content-Type", parts.FormDataContentType())
	w.WriteHeader(http.StatusOK)
	meta, err := parts.CreatePart(textproto.MIMEHeader{
		"Content-Disposition": {`form-data; name="` + a.part + `"`},
		"Content-Type":        {"application/json"},
	})
	if err == nil {
		_, err = meta.Write(a.doc.Body)
	}
	cut(0, err)
	return parts
}

// addPart adds a file to an answer.
func addPart(parts *multipart.Writer, part, name string, content io.Reader) {
	disposition := `form-data; name="` + part + `"`
	if name != "" {
		disposition = multipart.FileContentDisposition(part, name)
	}
	to, err := parts.CreatePart(textproto.MIMEHeader{
		"Content-Disposition": {disposition},
		"Content-Type":        {"application/octet-stream"},
	})
	cut(0, err)
	cut(io.Copy(to, content))
}

// cut ends the connection if an answer cannot be completed: the client must not
// mistake it for a complete one.
func cut(_ int64, err error) {
	if err != nil {
		panic(http.ErrAbortHandler)
	}
}
