package resource

import (
	"errors"
	"net/http"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// Upstream's sentences. Clients print them, some compare them; what we know better is
// added behind a colon.
const (
	textNoParent    = "Cannot perform requested operation. Parent resource not found"
	textHasChildren = "Cannot delete parent without deleting child references first"
	textReferenced  = "Cannot delete without deleting or updating referencing resources first"
	textNoTarget    = "Cannot perform requested operation. Referenced resource not found"
	textAbsent      = "The requested resource not found"
	textMismatch    = "Mismatched name in PUT request"
	textNoFile      = "Unable to process file"

	textForm = `: send multipart/form-data with the document as part "metadata" and its file as part "file", as curl -F metadata='{…}' -F file=@PATH does`
)

var reasons = []struct {
	reason error
	text   string
}{
	{store.ErrNoParent, textNoParent},
	{store.ErrNoTarget, textNoTarget},
	{store.ErrHasChildren, textHasChildren},
	{store.ErrReferenced, textReferenced},
}

// words puts upstream's words in the place of the store's. missing is the text for
// NotFound. Errors of others pass as they are.
func (d *Def[T]) words(err error, missing string) error {
	if related, ok := errors.AsType[*store.Related](err); ok {
		for _, row := range reasons {
			if errors.Is(related, row.reason) {
				return errs.New(errs.Conflict, row.text+": "+string(related.Key))
			}
		}
	}
	switch {
	case errs.Is(err, errs.NotFound):
		return errs.New(errs.NotFound, missing)
	case errs.Is(err, errs.Exists):
		return errs.New(errs.Exists, d.Kind+" already exists")
	}
	return err
}

// missing is the text of a GET that finds nothing.
func (d *Def[T]) missing() string {
	if d.Missing != "" {
		return d.Missing
	}
	return d.Kind + " not found"
}

// absent is the text of a DELETE that finds nothing.
func (d *Def[T]) absent() string {
	if d.Absent != "" {
		return d.Absent
	}
	return textAbsent
}

// stale is the answer to an If-Match or If-None-Match that the document does not meet.
func stale(r *http.Request, doc store.Doc) error {
	text := "the document has changed: its ETag is " + etag(doc) + " now; read it again"
	if !conditional(r) || lists(r, "If-Match", doc) {
		text = "the document exists, with the ETag " + etag(doc) + ", and If-None-Match excludes that"
	}
	return web.WithStatus(http.StatusPreconditionFailed, errs.New(errs.Conflict, text))
}
