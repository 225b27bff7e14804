package app_test

import (
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/app"
	"github.com/emco-orchestrator/emco/src/emco/internal/config"
	"github.com/emco-orchestrator/emco/src/emco/internal/tracing/tracingtest"
)

const instantiated = "POST /v2/projects/{project}/composite-apps/{compositeApp}/{compositeAppVersion}/deployment-intent-groups/{deploymentIntentGroup}/instantiate"

// traced starts the program with a collector that gets all spans. Tests may change the configuration further.
func traced(t *testing.T, more ...func(*config.Config)) (*testStage, *tracingtest.Collector) {
	c := tracingtest.Serve(t)
	return newStageWith(t, func(to *config.Config) {
		to.Trace = config.Trace{Endpoint: c.Endpoint, Ratio: 1}
		for _, change := range more {
			change(to)
		}
	}, app.WithFarewell(tracingtest.Patience)), c
}

// A collector whose certificate a private authority made gets spans with trace.ca.
func TestSpansGoToACollectorOfAPrivateAuthority(t *testing.T) {
	t.Parallel()
	c := new(tracingtest.Collector)
	server := httptest.NewTLSServer(c)
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	s := newStageWith(t, func(to *config.Config) {
		to.Trace = config.Trace{Endpoint: server.URL + "/v1/traces", CA: file, Ratio: 1}
	}, app.WithFarewell(tracingtest.Patience))
	s.expect(201, "POST", "projects", named("shop"))
	s.stop()
	c.One(t, "POST /v2/projects")
}

// An instantiation is one trace from the request over its operation to the commit, whose trailer continues it.
func TestOneTraceFromTheRequestToTheCommit(t *testing.T) {
	t.Parallel()
	s, c := traced(t)
	g := s.running("a", "b")
	events := s.do("GET", g.path+"/events", "").Body
	s.stop()
	request, operation, deliver := c.One(t, instantiated), c.One(t, "operation instantiate"), c.One(t, "deliver")
	rendering := c.One(t, "render")
	if request.Parent != "" || operation.Parent != request.ID || deliver.Parent != request.ID || rendering.Parent != operation.ID {
		t.Errorf("the spans hang together in another way: %+v", []tracingtest.Span{request, operation, rendering, deliver})
	}
	for _, span := range []tracingtest.Span{operation, rendering, deliver} {
		if span.Trace != request.Trace || span.Failure != "" {
			t.Errorf("the request is in trace %s: %+v", request.Trace, span)
		}
	}
	if deliver.Facts["emco.clusters"] != "2" || request.Facts["http.response.status_code"] != "202" {
		t.Errorf("the facts are %v and %v", request.Facts, deliver.Facts)
	}
	message, err := s.bare.Git(t.Context(), "", "log", "-1", "--format=%H%n%B", branch)
	s.must("read the log", err)
	if want := "Traceparent: 00-" + request.Trace + "-" + deliver.ID + "-01"; !strings.Contains(message, want) || !strings.HasPrefix(message, deliver.Facts["git.commit"]) {
		t.Errorf("the commit lacks %s:\n%s", want, message)
	}
	for _, reason := range []string{"Instantiated", "RevisionPublished"} {
		if !regexp.MustCompile(`"reason":"` + reason + `"[^{}]*"trace":"` + request.Trace + `"`).MatchString(events) {
			t.Errorf("the event %s lacks the trace %s:\n%s", reason, request.Trace, events)
		}
	}
	for _, line := range []string{`"msg":"request"`, `"msg":"revision published"`} {
		if !regexp.MustCompile(line + `[^\n]*"trace":"` + request.Trace + `"`).MatchString(s.log.String()) {
			t.Errorf("no line of the log has %s and the trace", line)
		}
	}
	all, err := json.Marshal(c.Spans())
	s.must("write the spans", err)
	if strings.Contains(string(all), s.token) {
		t.Error("a span holds the token")
	}
}

// A trace goes on in the process after a restart, and a removal belongs to the request that asked for it.
func TestATraceSurvivesARestart(t *testing.T) {
	t.Parallel()
	s, c := traced(t)
	g := s.running("a")
	s.git.Answer(1<<30, http.StatusServiceUnavailable, 0)
	g.act("terminate")
	s.eventually("a delivery failed", func() string {
		if p := pair(g.status(), "web", "a"); p.Attempts == 0 {
			return "it did not"
		}
		return ""
	})
	s.stop()
	asked := c.One(t, strings.TrimSuffix(instantiated, "instantiate")+"terminate")
	before := len(c.Named("deliver"))
	s.git.Answer(0, 0, 0)
	s.start()
	g.becomes("Terminated")
	s.stop()
	spans := c.Named("deliver")
	last := spans[len(spans)-1]
	if len(spans) == before || last.Trace != asked.Trace || last.Parent != asked.ID || last.Failure != "" {
		t.Errorf("the removal was asked for by %+v and delivered by %+v", asked, spans)
	}
	if first := spans[1]; before < 2 || first.Trace != asked.Trace || first.Failure == "" {
		t.Errorf("the delivery that fails is %+v", spans)
	}
}

// An abort is an action of a user: its event names the trace of its request.
func TestAnAbortIsTraced(t *testing.T) {
	t.Parallel()
	w := newWorkflowServer(t)
	s, c := traced(t, func(to *config.Config) { to.Workflows.Endpoints = []string{w.URL + "/"} })
	s.fleet("a")
	s.onboard("web")
	g := s.group("autumn", appPlaces{"web": {"a"}})
	g.hook(w, "pre-install", "check", "")
	w.do(func(workflowCall) (int, string) { return http.StatusUnprocessableEntity, "no room" })
	g.act("instantiate")
	g.hookBecomes("check", v2.RunFailed)
	g.hookDo("check", "abort")
	g.becomes("InstantiateFailed")
	events := s.do("GET", g.path+"/events", "").Body
	s.stop()
	asked := c.One(t, strings.TrimSuffix(instantiated, "instantiate")+"temporal-action-controller/{hookIntent}/abort")
	if !regexp.MustCompile(`"reason":"Aborted"[^{}]*"trace":"` + asked.Trace + `"`).MatchString(events) {
		t.Errorf("the event of the abort lacks the trace %s:\n%s", asked.Trace, events)
	}
}

// Whoever is not known cannot write into the trace of another.
func TestTheParentOfAnAnonymousCallerIsALink(t *testing.T) {
	t.Parallel()
	s, c := traced(t)
	const id = "0af7651916cd43dd8448eb211c80319c"
	header := []string{"Content-Type: application/json", "Traceparent: 00-" + id + "-b7ad6b7169203331-01"}
	s.raw("POST", "/v2/projects", "", named("bank"), header...)
	s.raw("GET", "/v2/projects/bank", "", "", append(header, "X-Forwarded-User: alice")...)
	s.stop()
	anonymous, alice := c.One(t, "POST /v2/projects"), c.One(t, "GET /v2/projects/{project}")
	if anonymous.Trace == id || anonymous.Parent != "" || len(anonymous.Links) != 1 || anonymous.Links[0] != id {
		t.Errorf("anonymous: %+v", anonymous)
	}
	if alice.Trace != id || alice.Parent != "b7ad6b7169203331" {
		t.Errorf("alice: %+v", alice)
	}
}

// Without trace.endpoint there is no goroutine for spans, and no trace of them in what is stored. The test is not
// parallel: it looks at the goroutines of the whole process.
func TestWithoutAnEndpointNothingIsTraced(t *testing.T) {
	s := newStage(t)
	s.raw("POST", "/v2/projects", "", named("bank"), "Content-Type: application/json", "Traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	g := s.running("a")
	if stacks := goroutines(); strings.Contains(stacks, "go.opentelemetry.io/otel/sdk") {
		t.Errorf("a goroutine waits for spans:\n%s", stacks)
	}
	message, err := s.bare.Git(t.Context(), "", "log", "--format=%B", branch)
	s.must("read the log", err)
	if strings.Contains(strings.ToLower(message), "traceparent") || strings.Contains(s.do("GET", g.path+"/events", "").Body, "trace") {
		t.Errorf("something is traced:\n%s", message)
	}
}
