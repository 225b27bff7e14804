package resource

import (
	"cmp"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// get serves GET of an item.
func (h *handler[T, P]) get(w http.ResponseWriter, r *http.Request) error {
	at, _, err := h.def.item(r)
	if err == nil {
		err = web.CheckQuery(r.URL.Query(), h.def.params(true)...)
	}
	if err != nil {
		return err
	}
	if h.def.queried(true) {
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
		return h.def.words(err, h.def.missing())
	}
	if web.Unchanged(w, r, etag(doc)) {
		return nil
	}
	if as == asJSON || doc.Secret == nil && len(doc.Blobs) == 0 {
		return h.answer(w, http.StatusOK, doc)
	}
	f := h.def.File
	out := fileAnswer{db: h.db, doc: doc, as: as, show: f.Show, name: f.Name, part: cmp.Or(f.Part, "metadata")}
	if f.Many > 0 {
		return out.several(w, r)
	}
	return out.one(w, r, f.Secret)
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
