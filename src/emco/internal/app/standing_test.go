package app_test

import (
	"net/http"
	"strings"
	"testing"
)

func TestReadyzReportsShards(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	a := s.do("GET", "/readyz?verbose", "")
	if a.Status != http.StatusOK {
		t.Errorf("got %d %s", a.Status, a.Body)
	}
	for _, want := range []string{
		"orchestrator: ready; works on 8 of 8 shards, members: 1\n", "rsync: ready; works on 16 of 16 shards, members: 1\n", "http: ready",
	} {
		if !strings.Contains(string(a.Body), want) {
			t.Errorf("got %s, want a line %q", a.Body, want)
		}
	}
	if a := s.do("GET", "/readyz", ""); string(a.Body) != "ok" {
		t.Errorf("in short: %d %s", a.Status, a.Body)
	}
}
