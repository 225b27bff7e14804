package rest_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/client"
	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/api/rest"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
)

// asked is what a server was asked: method, path with its query, and body.
type asked struct{ lines []string }

// serve answers every request with h, after it was noted.
func serve(t *testing.T, h http.HandlerFunc) (*client.Client, *asked) {
	t.Helper()
	seen := &asked{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		seen.lines = append(seen.lines, strings.TrimSpace(r.Method+" "+r.RequestURI+" "+string(body)))
		h(w, r)
	}))
	t.Cleanup(s.Close)
	c, err := client.New(client.Options{BaseURL: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	return c, seen
}

func (a *asked) want(t *testing.T, want ...string) {
	t.Helper()
	if !slices.Equal(a.lines, want) {
		t.Errorf("asked\n%s\nwant\n%s", strings.Join(a.lines, "\n"), strings.Join(want, "\n"))
	}
}

func TestNamesCannotLeaveTheirRoute(t *testing.T) {
	t.Parallel()
	c, seen := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("{}")) })
	for _, names := range [][]string{{}, {""}, {"."}, {".."}, {"a", "b"}} {
		if _, err := rest.Projects.Get(t.Context(), c, names...); !errs.Is(err, errs.Invalid) {
			t.Errorf("a project of the names %q: %v, want Invalid", names, err)
		}
	}
	if err := rest.Projects.Delete(t.Context(), c); !errs.Is(err, errs.Invalid) {
		t.Errorf("a deletion without a name: %v, want Invalid", err)
	}
	if _, err := rest.CompositeApps.Get(t.Context(), c, "a/../b?x=1", "web", "v1"); err != nil {
		t.Error(err)
	}
	seen.want(t, "GET /v2/projects/a%2F..%2Fb%3Fx=1/composite-apps/web/v1")
}

func TestListsAreReadInPages(t *testing.T) {
	t.Parallel()
	c, seen := serve(t, func(w http.ResponseWriter, r *http.Request) {
		page := r.URL.Query().Get("continue")
		w.Header().Set("X-Continue", map[string]string{"": "a", "a": "b", "b": "c"}[page])
		fmt.Fprintf(w, `[{"metadata":{"name":"p%s"}}]`, page)
	})
	var names []string
	for p, err := range rest.Projects.All(t.Context(), c) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, p.Metadata.Name)
		if p.Metadata.Name == "pb" {
			break
		}
	}
	if !slices.Equal(names, []string{"p", "pa", "pb"}) {
		t.Errorf("the projects are %q", names)
	}
	seen.want(t, "GET /v2/projects?limit=500", "GET /v2/projects?continue=a&limit=500", "GET /v2/projects?continue=b&limit=500")
}

func TestAListEndsWithItsError(t *testing.T) {
	t.Parallel()
	c, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no parent", http.StatusNotFound) })
	n := 0
	for _, err := range rest.LogicalClouds.All(t.Context(), c, "shop") {
		if n++; !errs.Is(err, errs.NotFound) {
			t.Errorf("the error is %v, want NotFound", err)
		}
	}
	if n != 1 {
		t.Errorf("the list had %d elements, want its error alone", n)
	}
}

func TestAnActionCarriesItsOptions(t *testing.T) {
	t.Parallel()
	var header http.Header
	c, seen := serve(t, func(w http.ResponseWriter, r *http.Request) {
		header = r.Header
		w.WriteHeader(http.StatusAccepted)
		_, _ = w.Write([]byte("3\n"))
	})
	o := rest.ActionOptions{Reason: "new shop", Key: "k1", IfPlan: "d1", Force: true}
	n, err := rest.UpdateDeployment.Do(t.Context(), c, client.None, o, "p", "ca", "v1", "g")
	if err != nil || n != 3 {
		t.Errorf("the revision is %d, %v", n, err)
	}
	if header.Get("Idempotency-Key") != "k1" || header.Get("If-Plan") != "d1" {
		t.Errorf("the header is %v", header)
	}
	seen.want(t, "POST /v2/projects/p/composite-apps/ca/v1/deployment-intent-groups/g/update?force=true&reason=new+shop")
}

func TestABlankAnswerIsNone(t *testing.T) {
	t.Parallel()
	c, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("\n")) })
	if n, err := rest.ApproveDeployment.Do(t.Context(), c, client.None, rest.ActionOptions{}, "p", "ca", "v1", "g"); err != nil || n != 0 {
		t.Errorf("an action that answers a blank line: %d, %v", n, err)
	}
}

// A dry run must never become the action itself, whatever else is in the query.
func TestADryRunStaysOne(t *testing.T) {
	t.Parallel()
	c, seen := serve(t, func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(v2.Plan{}) })
	query := url.Values{"dryRun": {"false"}, "output": {"summary"}}
	if _, err := rest.InstantiateDeployment.DryRun(t.Context(), c, client.None, query, "p", "ca", "v1", "g"); err != nil {
		t.Error(err)
	}
	seen.want(t, "POST /v2/projects/p/composite-apps/ca/v1/deployment-intent-groups/g/instantiate?dryRun=true&output=summary")
}

func TestADryRunOfARunSaysWhereItLeads(t *testing.T) {
	t.Parallel()
	c, seen := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("dryRun") == "true" {
			_, _ = w.Write([]byte(`{"action":"retry","state":"Waiting"}`))
		}
	})
	at := []string{"p", "ca", "v1", "g", "gate"}
	if p, err := rest.RetryHook.DryRun(t.Context(), c, client.None, at...); err != nil || p.Action != "retry" || p.State != "Waiting" {
		t.Errorf("the preview is %+v, %v", p, err)
	}
	if err := rest.RetryHook.Do(t.Context(), c, client.None, at...); err != nil {
		t.Error(err)
	}
	const path = "POST /v2/projects/p/composite-apps/ca/v1/deployment-intent-groups/g/temporal-action-controller/gate/retry"
	seen.want(t, path+"?dryRun=true", path)
}

func TestAPlanByClassesHasItsOwnCall(t *testing.T) {
	t.Parallel()
	c, seen := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"plan":"sha256:d1","apps":[{"name":"web","classes":[{"id":"c1-1"}]}]}`))
	})
	query := url.Values{"output": {"classes"}}
	if _, err := rest.UpdateDeployment.DryRun(t.Context(), c, client.None, query, "p", "ca", "v1", "g"); !errs.Is(err, errs.Invalid) {
		t.Errorf("a dry run with classes, which are no plan: %v, want Invalid", err)
	}
	p, err := rest.UpdateDeployment.Classes(t.Context(), c, client.None, url.Values{"reason": {"x"}}, "p", "ca", "v1", "g")
	if err != nil || p.Digest != "sha256:d1" || len(p.Apps) != 1 || p.Apps[0].Classes[0].ID != "c1-1" {
		t.Errorf("the classes are %+v, %v", p, err)
	}
	seen.want(t, "POST /v2/projects/p/composite-apps/ca/v1/deployment-intent-groups/g/update?dryRun=true&output=classes&reason=x")
}

func TestACallCarriesItsKeyAndQuery(t *testing.T) {
	t.Parallel()
	var key string
	c, seen := serve(t, func(w http.ResponseWriter, r *http.Request) {
		key = r.Header.Get("Idempotency-Key")
		_, _ = w.Write([]byte("[]"))
	})
	o := rest.CallOptions{Key: "k1", Query: url.Values{"dryRun": {"true"}}}
	if _, err := rest.DeliverEvent.Do(t.Context(), c, v2.AgentEvent{ID: "alarm"}, o, "watcher"); err != nil || key != "k1" {
		t.Errorf("the key is %q, %v", key, err)
	}
	seen.want(t, `POST /v2/policy/agents/watcher/events?dryRun=true {"id":"alarm"}`)
}

// Without an entity tag a PUT would replace whatever is there.
func TestAnUpdateNeedsAnETag(t *testing.T) {
	t.Parallel()
	c, seen := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"metadata":{"name":"shop"}}`)) })
	change := func(*v2.Project) error { t.Error("the document is changed"); return nil }
	if _, err := rest.Projects.Update(t.Context(), c, change, "shop"); !errs.Is(err, errs.Malformed) {
		t.Errorf("an update without an ETag: %v, want Malformed", err)
	}
	seen.want(t, "GET /v2/projects/shop")
}

func TestOnlyAStreamHasLines(t *testing.T) {
	t.Parallel()
	c, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("watch") {
			w.Header().Set("Content-Type", client.LinesType)
			_, _ = w.Write([]byte("{}\n{}\n"))
		}
	})
	n := 0
	each := func([]byte) error { n++; return nil }
	if err := rest.CloudStatus.Lines(t.Context(), c, url.Values{"watch": {"true"}}, each, "p", "lc"); err != nil || n != 2 {
		t.Errorf("%d lines, %v", n, err)
	}
	if err := rest.CloudStatus.Lines(t.Context(), c, nil, each, "p", "lc"); !errs.Is(err, errs.Malformed) {
		t.Errorf("an answer that is no stream: %v, want Malformed", err)
	}
	var text bytes.Buffer
	if err := rest.AuditFile.Copy(t.Context(), c, &text, url.Values{"watch": {"true"}}); err != nil || text.String() != "{}\n{}\n" {
		t.Errorf("the file is %q, %v", &text, err)
	}
}
