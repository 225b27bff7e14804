package peers

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/scripts/bench/world"
)

// A cluster is listed once, and then watched: a change that comes later needs no further look.
func TestAClusterIsWatchedUntilItHasAChange(t *testing.T) {
	t.Parallel()
	w := world.New(world.Spec{Apps: 1, Clusters: 1, Resources: 2, Bytes: 200, Shared: true})
	w.Make(world.Change{Kind: world.Install})
	w.Make(world.Change{Kind: world.Value, App: 0})
	object := func(resource int, version string) string {
		return fmt.Sprintf(`{"metadata": {"name": "%s-%s"}, "data": {"version": %q}}`, world.App(0), world.Resource(resource), version)
	}
	events := []string{`{"type": "MODIFIED", "object": ` + object(0, "1") + `}`, `{"type": "ADDED", "object": ` + object(1, "1") + `}`}
	var lists int
	server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Authorization") != "Bearer secret":
			http.Error(out, "who are you", http.StatusUnauthorized)
		case r.URL.Query().Get("watch") == "":
			lists++
			fmt.Fprintf(out, `{"metadata": {"resourceVersion": "7"}, "items": [%s]}`, object(0, "0"))
		case r.URL.Query().Get("resourceVersion") != "7":
			http.Error(out, "gone", http.StatusGone)
		default:
			fmt.Fprint(out, strings.Join(events, "\n"))
		}
	}))
	defer server.Close()
	l := realCluster{client: server.Client(), server: server.URL, token: "secret"}
	if err := l.arrival(t.Context(), w); err != nil || lists != 1 {
		t.Errorf("after %d lists: %v", lists, err)
	}
	events = events[:1] // and the API server ends the watch
	if err := l.arrival(t.Context(), w); err == nil || !strings.Contains(err.Error(), world.App(0)+"-"+world.Resource(1)) || strings.Contains(err.Error(), world.App(0)+"-"+world.Resource(0)) {
		t.Errorf("got %v, want an error that names the second object alone", err)
	}
	l.token = "wrong"
	if err := l.arrival(t.Context(), w); err == nil || !strings.Contains(err.Error(), "who are you") {
		t.Errorf("got %v, want the refusal", err)
	}
}
