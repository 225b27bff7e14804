package resource

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

// etag identifies a revision of a document. It includes the document's identity,
// so it does not match a document that was deleted and created again.
func etag(doc store.Doc) string {
	return `"` + doc.UID + "-" + strconv.FormatInt(doc.Rev, 10) + `"`
}

// conditional reports whether the client insists on a certain revision.
func conditional(r *http.Request) bool { return r.Header.Get("If-Match") != "" }

// matches reports whether the request may change doc: If-Match is absent, "*", or lists doc's
// ETag, and If-None-Match is neither.
func matches(r *http.Request, doc store.Doc) bool {
	return (!conditional(r) || lists(r, "If-Match", doc)) && !lists(r, "If-None-Match", doc)
}

// lists reports whether a header is "*" or lists doc's ETag.
func lists(r *http.Request, name string, doc store.Doc) bool {
	for _, header := range r.Header.Values(name) {
		for tag := range strings.SplitSeq(header, ",") {
			if tag = strings.TrimSpace(tag); tag == "*" || tag == etag(doc) {
				return true
			}
		}
	}
	return false
}
