package views

import (
	"net/http"
	"strings"
	"testing"
)

func TestTopicsOfStreamsAreChecked(t *testing.T) {
	t.Parallel()
	w, _ := shop(t)
	for query, want := range map[string]int{
		"":                                   http.StatusBadRequest,
		"?topics=moon":                       http.StatusBadRequest,
		"?topics=cluster:a":                  http.StatusBadRequest,
		"?topics=group:x":                    http.StatusBadRequest,
		"?topic=fleet":                       http.StatusBadRequest,
		"?topics=group:" + groupPath("none"): http.StatusNotFound,
		"?topics=fleet" + strings.Repeat(",fleet", maxTopics): http.StatusBadRequest,
	} {
		if got := w.get("/stream" + query); got.Code != want {
			t.Errorf("%s: %d %s, want %d", query, got.Code, got.Body, want)
		}
	}
}
