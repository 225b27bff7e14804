package apply_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/anchor"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/apply"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/config"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/document"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/output"
)

// resultPrinter is a printer that collects results.
type resultPrinter []output.Result

func (*resultPrinter) Begin(string)           {}
func (*resultPrinter) Called(output.Call)     {}
func (p *resultPrinter) Done(r output.Result) { *p = append(*p, r) }
func (*resultPrinter) End() error             { return nil }
func (p *resultPrinter) outcomes() (all []output.Outcome) {
	for _, r := range *p {
		all = append(all, r.Outcome)
	}
	return all
}

// projects are n documents of the projects p1, p2, ...
func projects(n int) (docs []document.Document) {
	for i := range n {
		name := fmt.Sprintf("p%d", i+1)
		docs = append(docs, document.Document{
			Anchor: "projects", Names: anchor.Names{Name: name}, Body: []byte(`{"metadata":{"name":"` + name + `","description":"mine"}}`),
			At: document.Position{File: "a.yaml", Line: i + 1},
		})
	}
	return docs
}

// run applies documents to a server.
func run(t *testing.T, h http.HandlerFunc, verb anchor.Verb, docs []document.Document, stop bool) (*resultPrinter, error) {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	var out resultPrinter
	e := apply.New(apply.Options{Servers: servers(t, server.URL), Printer: &out, Stop: stop})
	return &out, e.Run(t.Context(), verb, docs)
}

func servers(t *testing.T, url string) config.Servers {
	t.Helper()
	s, err := config.Load(config.ServerFlags{Server: url})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Another client changes a project between the GET and the PUT: its change stays, and the
// user gets an error.
func TestApplyKeepsAConcurrentChange(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	stored, tag := `{"metadata":{"name":"p1","description":"old"}}`, `"1"`
	got, err := run(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		switch r.Method {
		case http.MethodPost:
			http.Error(w, "Project already exists", http.StatusConflict)
		case http.MethodGet:
			w.Header().Set("ETag", tag)
			_, _ = io.WriteString(w, stored)
			stored, tag = `{"metadata":{"name":"p1","description":"theirs"}}`, `"2"`
		case http.MethodPut:
			if match := r.Header.Get("If-Match"); match != "" && match != tag {
				http.Error(w, "the document has changed", http.StatusPreconditionFailed)
				return
			}
			body, _ := io.ReadAll(r.Body)
			stored, tag = string(body), `"3"`
			w.Header().Set("ETag", tag)
			_, _ = w.Write(body)
		}
	}, anchor.Apply, projects(1), false)
	if !strings.Contains(stored, "theirs") {
		t.Errorf("the concurrent change is gone: the server has %s", stored)
	}
	if err == nil || !slices.Equal(got.outcomes(), []output.Outcome{output.Failed}) || !strings.Contains((*got)[0].Advice, "apply again") {
		t.Errorf("results are %+v, %v; want a failure with the advice to apply again", *got, err)
	}
}

// A refused action is done already only if the deployment is as the action leaves it.
func TestARefusedActionIsUnchangedOnlyIfItSucceeded(t *testing.T) {
	t.Parallel()
	const group = "projects/p/composite-apps/a/v1/deployment-intent-groups/d"
	states := func(last, status string) string {
		return `{"states":{"actions":[{"state":"Created"},{"state":"` + last + `"}]},` + status + `}`
	}
	for _, c := range []struct {
		name, action, status string
		want                 output.Outcome
	}{
		{"instantiated", "instantiate", states("Instantiated", `"deployedStatus":"Instantiated"`), output.Unchanged},
		{"under way", "instantiate", states("Instantiated", `"deployedStatus":"Instantiating"`), output.Unchanged},
		{"failed", "instantiate", states("Instantiated", `"deployedStatus":"InstantiateFailed"`), output.Failed},
		{"failed, by the other name of the status", "instantiate", states("Instantiated", `"status":"InstantiateFailed"`), output.Failed},
		{"terminated", "terminate", states("Terminated", `"deployedStatus":"Terminated"`), output.Unchanged},
		{"termination failed", "terminate", states("Terminated", `"deployedStatus":"TerminateFailed"`), output.Failed},
		{"in another state", "instantiate", states("Terminated", `"deployedStatus":"Terminated"`), output.Failed},
		{"approved already", "approve", states("Approved", `"deployedStatus":""`), output.Unchanged},
		{"of unknown state", "instantiate", "", output.Failed},
	} {
		got, err := run(t, func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.Method == http.MethodPost:
				http.Error(w, "not possible in this state", http.StatusConflict)
			case c.status == "":
				http.Error(w, "later", http.StatusServiceUnavailable)
			default:
				_, _ = io.WriteString(w, c.status)
			}
		}, anchor.Apply, []document.Document{{Anchor: group + "/" + c.action}}, false)
		if !slices.Equal(got.outcomes(), []output.Outcome{c.want}) || (err != nil) != (c.want == output.Failed) {
			t.Errorf("%s: results are %+v, %v; want %s", c.name, *got, err, c.want)
		}
	}
}

// Refusals stop the run only if the user wants that. A server that does not answer always
// stops it: all further documents would fail too.
func TestTheRunEndsWhenTheServerIsAway(t *testing.T) {
	t.Parallel()
	refuse := func(w http.ResponseWriter, r *http.Request) { http.Error(w, "bad", http.StatusBadRequest) }
	hangUp := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	second := func(then http.HandlerFunc) http.HandlerFunc {
		n := 0
		return func(w http.ResponseWriter, r *http.Request) {
			if n++; n > 1 {
				then(w, r)
				return
			}
			w.WriteHeader(http.StatusCreated)
		}
	}
	for _, c := range []struct {
		name string
		h    http.HandlerFunc
		stop bool
		want []output.Outcome
		left int
	}{
		{"away from the start", hangUp, false, []output.Outcome{output.Failed}, 2},
		{"away after the first", second(hangUp), false, []output.Outcome{output.Created, output.Failed}, 1},
		{"refuses all", refuse, false, []output.Outcome{output.Failed, output.Failed, output.Failed}, 0},
		{"refuses all, and the user wants to stop", refuse, true, []output.Outcome{output.Failed}, 2},
		{"refuses the others, and the user wants to stop", second(refuse), true, []output.Outcome{output.Created, output.Failed}, 1},
	} {
		got, err := run(t, c.h, anchor.Apply, projects(3), c.stop)
		failures, ok := errors.AsType[*apply.Failures](err)
		if !slices.Equal(got.outcomes(), c.want) || !ok || failures.Left != c.left {
			t.Errorf("%s: outcomes are %q, error %v; want %q and %d not tried", c.name, got.outcomes(), err, c.want, c.left)
		}
	}
}

// What is below a document that failed names that one, also if the server hides both from the caller.
func TestFailuresBelowAFailureNameIt(t *testing.T) {
	t.Parallel()
	docs := []document.Document{
		{Anchor: "cluster-providers", Names: anchor.Names{Name: "edge"}, Body: []byte(`{}`)},
		{Anchor: "cluster-providers/edge/clusters", Names: anchor.Names{Name: "c1"}, Body: []byte(`{}`)},
		{Anchor: "cluster-providers/other/clusters", Names: anchor.Names{Name: "c2"}, Body: []byte(`{}`)},
	}
	out, err := run(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v2/cluster-providers" {
			http.Error(w, "may not create cluster-providers", http.StatusForbidden)
			return
		}
		http.Error(w, "not found, or hidden", http.StatusNotFound)
	}, anchor.Apply, docs, false)
	if err == nil || len(*out) != 3 {
		t.Fatalf("%v, %v", *out, err)
	}
	for i, want := range []string{"", "cluster-providers/edge", ""} {
		if got := (*out)[i].Below; got != want {
			t.Errorf("%s is below %q, want %q", (*out)[i].Path, got, want)
		}
	}
}

// If the server does not say whether a refused document exists, its answer about that is the failure.
func TestAnUnknownDocumentIsNoMissingOne(t *testing.T) {
	t.Parallel()
	docs := []document.Document{{Anchor: "cluster-providers/edge/clusters", Names: anchor.Names{Name: "c1"}, Body: []byte(`{}`)}}
	for status, want := range map[int]errs.Kind{403: errs.Forbidden, 404: errs.Conflict, 503: errs.Unavailable} {
		out, err := run(t, func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.Method == http.MethodPost:
				http.Error(w, "Cluster already exists, its sync object is not found", http.StatusConflict)
			case strings.HasSuffix(r.URL.Path, "/c1"):
				http.Error(w, "no", status)
			}
		}, anchor.Apply, docs, false)
		if !errs.Is(err, want) || len(*out) != 1 || strings.Contains((*out)[0].Advice, "parent") {
			t.Errorf("the document is answered with %d: %+v, %v; want %s, and no advice about the parent, which exists", status, *out, err, want)
		}
	}
}

// A document whose update failed exists: what is below it can fail for reasons of its own.
func TestAFailureBelowAnExistingDocumentSaysWhy(t *testing.T) {
	t.Parallel()
	docs := []document.Document{
		{Anchor: "cluster-providers", Names: anchor.Names{Name: "edge"}, Body: []byte(`{"metadata":{"name":"edge","description":"new"}}`)},
		{Anchor: "cluster-providers/edge/clusters", Names: anchor.Names{Name: "c1"}, Body: []byte(`{}`)},
		{Anchor: "cluster-providers/edge/clusters", Names: anchor.Names{Name: "c2"}, Body: []byte(`{}`)},
	}
	asked := 0
	out, err := run(t, func(w http.ResponseWriter, r *http.Request) {
		switch last := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]; {
		case r.Method == http.MethodPut:
			http.Error(w, "too long", http.StatusBadRequest)
		case r.Method == http.MethodPost:
			http.Error(w, last+": Parent resource not found: sync object repo", http.StatusConflict)
		case last == "edge":
			asked++
			_, _ = io.WriteString(w, `{"metadata":{"name":"edge"}}`)
		default:
			http.Error(w, "Cluster not found", http.StatusNotFound)
		}
	}, anchor.Apply, docs, false)
	if err == nil || len(*out) != 3 {
		t.Fatalf("%v, %v", *out, err)
	}
	for _, r := range (*out)[1:] {
		if r.Below != "" || !strings.Contains(r.Err.Error(), "sync object repo") || strings.Contains(r.Advice, "parent") {
			t.Errorf("%s: below %q, %v, %q; want the server's reason", r.Path, r.Below, r.Err, r.Advice)
		}
	}
	if asked != 2 { // by the comparison, and once for both clusters
		t.Errorf("the provider was read %d times", asked)
	}
}
