package peers

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/scripts/bench/world"
)

// Argo CD finds the Applications of a push by the address of the repository without ".git", the branch and the changed files.
func TestAWebhookNamesWhatChanged(t *testing.T) {
	t.Parallel()
	var got struct {
		Ref, Before, After string
		Repository         struct {
			HTMLURL string `json:"html_url"`
		}
		Commits []struct{ Modified []string }
	}
	code := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		if err := json.Unmarshal(text, &got); err != nil || r.Header.Get("X-GitHub-Event") != "push" {
			t.Errorf("got %s, %v, event %q", text, err, r.Header.Get("X-GitHub-Event"))
		}
		w.WriteHeader(code)
	}))
	defer server.Close()
	event := pushEvent("http://127.0.0.1:1/fleet.git", "b", "a", []string{"apps/x/y.yaml"})
	if err := announce(t.Context(), server.URL, event); err != nil {
		t.Fatal(err)
	}
	if got.Ref != "refs/heads/main" || got.Before != "b" || got.After != "a" || got.Repository.HTMLURL != "http://127.0.0.1:1/fleet" || len(got.Commits) != 1 || got.Commits[0].Modified[0] != "apps/x/y.yaml" {
		t.Errorf("the event is %+v", got)
	}
	if code = http.StatusBadRequest; announce(t.Context(), server.URL, event) == nil {
		t.Error("a refused webhook: no error")
	}
}

// An ApplicationSet has an Application for each app; the clusters are those that are registered.
func TestAnApplicationSetHasAllApps(t *testing.T) {
	t.Parallel()
	text := applicationSet("http://127.0.0.1:1/fleet.git", world.Spec{Apps: 2, Clusters: 3})
	for _, want := range []string{"{app: " + world.App(0) + "}, {app: " + world.App(1) + "}", "repoURL: http://127.0.0.1:1/fleet.git, targetRevision: main", "argocd.argoproj.io/secret-type: cluster"} {
		if !strings.Contains(text, want) {
			t.Errorf("the ApplicationSet lacks %q:\n%s", want, text)
		}
	}
}
