package web

import (
	"net/http"
	"strings"
)

// Unchanged sets the answer's ETag, and answers 304 if the client has this version already
// (If-None-Match); the caller then writes nothing.
func Unchanged(w http.ResponseWriter, r *http.Request, tag string) bool {
	w.Header().Set("ETag", tag)
	for _, header := range r.Header.Values("If-None-Match") {
		for known := range strings.SplitSeq(header, ",") {
			if known = strings.TrimPrefix(strings.TrimSpace(known), "W/"); known == "*" || known == tag {
				w.WriteHeader(http.StatusNotModified)
				return true
			}
		}
	}
	return false
}
