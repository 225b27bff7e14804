package web

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
)

// Conditional answers with JSON text and an ETag of it, or 304 if the client has it already.
func Conditional(w http.ResponseWriter, r *http.Request, data []byte) error {
	if Unchanged(w, r, TagOf(data)) {
		return nil
	}
	return Raw(w, http.StatusOK, data)
}

// TagOf returns the ETag of an answer.
func TagOf(data []byte) string {
	sum := sha256.Sum256(data)
	return `"` + hex.EncodeToString(sum[:12]) + `"`
}

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
