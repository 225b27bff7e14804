package resource

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// get serves GET of an item.
func (h *handler[T, P]) get(w http.ResponseWriter, r *http.Request) error {
	at, _, err := h.item(r)
	if err == nil {
		err = web.CheckQuery(r.URL.Query(), h.params(true)...)
	}
	if err != nil {
		return err
	}
	if h.queried(true) {
		if done, err := h.query(w, r, at, true); done || err != nil {
			return err
		}
	}
	return h.show(w, r, at.Key)
}

// form is how an item is shown.
type form uint8

const (
	asJSON form = iota
	asFile
	asMultipart
)

// show answers with the document, its file, or both, as the client accepts. A
// document without a file is always JSON.
func (h *handler[T, P]) show(w http.ResponseWriter, r *http.Request, key store.Key) error {
	as := asJSON
	if h.def.File != nil {
		var ok bool
		if as, ok = negotiate(r.Header.Values("Accept")); !ok {
			return errs.New(errs.NotAcceptable, "accept application/json, application/octet-stream (the file) or multipart/form-data (both)")
		}
	}
	doc, err := h.db.Get(r.Context(), key)
	if err != nil {
		return h.words(err, h.missing())
	}
	if web.Unchanged(w, r, etag(doc)) {
		return nil
	}
	if as == asJSON || doc.Secret == nil && len(doc.Blobs) == 0 {
		return h.answer(w, http.StatusOK, doc)
	}
	if h.def.File.Many > 0 {
		return h.several(w, r, doc, as)
	}
	file, err := h.open(r.Context(), doc)
	if err != nil {
		return err
	}
	defer file.Close()
	web.Extend(w, uploadTime)
	if as == asFile {
		return copyFile(w, doc, file)
	}
	return h.both(w, doc, file)
}

// open returns the file as clients may see it.
func (h *handler[T, P]) open(ctx context.Context, doc store.Doc) (io.ReadCloser, error) {
	f := h.def.File
	if !f.Secret {
		return h.db.OpenBlob(ctx, doc.Blobs[0].Digest)
	}
	plain, err := h.db.Reveal(ctx, doc)
	if err != nil {
		return nil, err
	}
	shown, err := f.Show(ctx, doc, plain)
	return io.NopCloser(bytes.NewReader(shown)), err
}

// several answers with the files of a document, one after the other, or each as a part.
func (h *handler[T, P]) several(w http.ResponseWriter, r *http.Request, doc store.Doc, as form) error {
	plain, err := h.db.Reveal(r.Context(), doc)
	if err != nil {
		return err
	}
	files, err := UnpackFiles(plain)
	if err != nil {
		return err
	}
	for i := range files {
		if files[i].Content, err = h.def.File.Show(r.Context(), doc, files[i].Content); err != nil {
			return err
		}
	}
	if as == asFile {
		w.Header().Set("Content-Type", "application/octet-stream")
		w.WriteHeader(http.StatusOK)
		for _, f := range files {
			cut(io.Copy(w, bytes.NewReader(f.Content)))
		}
		return nil
	}
	parts := h.beginParts(w, doc)
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

func copyFile(w http.ResponseWriter, doc store.Doc, file io.Reader) error {
	w.Header().Set("Content-Type", "application/octet-stream")
	if len(doc.Blobs) > 0 {
		w.Header().Set("Content-Length", strconv.FormatInt(doc.Blobs[0].Size, 10))
	}
	w.WriteHeader(http.StatusOK)
	cut(io.Copy(w, file))
	return nil
}

// both writes the parts "metadata" and "file", as upstream EMCO does.
func (h *handler[T, P]) both(w http.ResponseWriter, doc store.Doc, file io.Reader) error {
	parts := h.beginParts(w, doc)
	addPart(parts, "file", h.def.File.Name, file)
	cut(0, parts.Close())
	return nil
}

// beginParts begins an answer with the document's part.
func (h *handler[T, P]) beginParts(w http.ResponseWriter, doc store.Doc) *multipart.Writer {
	parts := multipart.NewWriter(w)
	w.Header().Set("Content-Type", parts.FormDataContentType())
	w.WriteHeader(http.StatusOK)
	meta, err := parts.CreatePart(textproto.MIMEHeader{
		"Content-Disposition": {`form-data; name="` + cmp.Or(h.def.File.Part, "metadata") + `"`},
		"Content-Type":        {"application/json"},
	})
	if err == nil {
		_, err = meta.Write(doc.Body)
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

// forms lists what an item can be shown as, in our order of preference, and which
// media types mean it.
var forms = [...]struct {
	form  form
	exact string
	group string // "application/*"
}{
	{asJSON, "application/json", "application/*"},
	{asFile, "application/octet-stream", "application/*"},
	{asMultipart, "multipart/form-data", "multipart/*"},
}

// negotiate picks the form that the client likes best. Where upstream EMCO demands a header,
// none and wildcards mean JSON here.
func negotiate(accept []string) (form, bool) {
	ranges := parseAccept(strings.Join(accept, ","))
	if len(ranges) == 0 {
		return asJSON, true
	}
	best, bestQ := asJSON, 0.0
	for _, f := range forms {
		if q := quality(ranges, f.exact, f.group); q > bestQ {
			best, bestQ = f.form, q
		}
	}
	return best, bestQ > 0
}

// quality returns how much a media type is liked: the most specific range decides.
func quality(ranges map[string]float64, exact, group string) float64 {
	for _, r := range []string{exact, group, "*/*"} {
		if q, ok := ranges[r]; ok {
			return q
		}
	}
	// A client that asks for problem documents wants JSON in the good case, too.
	if q, ok := ranges["application/problem+json"]; ok && exact == "application/json" && len(ranges) == 1 {
		return q
	}
	return 0
}

// parseAccept reads media ranges with their qualities; what it cannot read is left out.
func parseAccept(header string) map[string]float64 {
	ranges := map[string]float64{}
	for item := range strings.SplitSeq(header, ",") {
		kind, params, err := mime.ParseMediaType(strings.TrimSpace(item))
		if err != nil {
			continue
		}
		q, err := strconv.ParseFloat(params["q"], 64)
		if err != nil || q < 0 || q > 1 {
			q = 1
		}
		ranges[kind] = q
	}
	return ranges
}
