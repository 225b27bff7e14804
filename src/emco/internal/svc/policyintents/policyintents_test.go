package policyintents_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/mux"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/authn"
	"github.com/emco-orchestrator/emco/src/emco/internal/authz"
	"github.com/emco-orchestrator/emco/src/emco/internal/condition"
	"github.com/emco-orchestrator/emco/src/emco/internal/resource/resourcetest"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/policyintents"
)

type step = resourcetest.Step

const group = store.Key("projects/p/composite-apps/ca/v1/deployment-intent-groups/g")

// recorder keeps the actions that are asked for.
type recorder struct {
	got    []policyintents.Request
	warned []string
	fail   error
}

func (r *recorder) Warn(_ context.Context, group store.Key, reason, message string) error {
	r.warned = append(r.warned, fmt.Sprint(group, " ", reason, ": ", message))
	return nil
}

// engine knows rules by their names. Rules of the package slow answer when another rule was asked for, or when their
// caller has given up.
type engine struct {
	rules  map[string]bool
	others chan struct{} // closed when another rule is asked for
	asked  sync.Once
}

func (e *engine) Admit(c v2.PolicyCondition) error {
	if c.EngineURL != "http://opa.example.org" {
		return errs.New(errs.Forbidden, "not allowed")
	}
	return nil
}

func (e *engine) Holds(ctx context.Context, c v2.PolicyCondition, in condition.Input) (bool, error) {
	if strings.HasPrefix(c.PolicyName, "slow/") {
		select {
		case <-e.others:
			return false, errs.E(errs.Unavailable, "ask", c.PolicyName, errors.New("others were asked meanwhile"))
		case <-ctx.Done():
			return false, errs.E(errs.Unavailable, "ask", c.PolicyName, ctx.Err())
		}
	}
	e.asked.Do(func() { close(e.others) })
	holds, known := e.rules[c.PolicyName+" of "+in.Group["project"]]
	if !known {
		return false, errs.New(errs.Invalid, "no rule "+c.PolicyName)
	}
	return holds, nil
}

func (r *recorder) Act(_ context.Context, q policyintents.Request) error {
	r.got = append(r.got, q)
	return r.fail
}

// stage serves intents to a caller, who may do what bindings allow.
type stage struct {
	*resourcetest.Server
	actions  *recorder
	engine   *engine
	now      time.Time
	caller   authn.Caller
	bindings []authz.Binding
}

func newStage(t *testing.T, guarded bool) *stage {
	t.Helper()
	s := &stage{actions: &recorder{}, engine: &engine{rules: map[string]bool{}, others: make(chan struct{})}, now: time.Now()}
	s.Server = resourcetest.Serve(t, func(r *mux.Router, db *store.DB) {
		service := &policyintents.Service{DB: db, Actions: s.actions, Engine: s.engine, Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return s.now }}
		if guarded {
			service.Grants = func() (*authz.Grants, error) { return authz.New(nil, s.bindings), nil }
		}
		service.Mount(r)
		r.Use(func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				next.ServeHTTP(w, r.WithContext(authn.With(r.Context(), s.caller)))
			})
		})
	})
	if _, err := s.DB.Create(t.Context(), store.Write{Key: group}); err != nil {
		t.Fatal(err)
	}
	return s
}

// intent is the document of an intent for the event "errors" of the agent "watcher".
func intent(actor, expression, more string) string {
	return fmt.Sprintf(`{"spec":{"event":{"id":"errors","agent":"watcher"},"policy":{"expression":%q},"actor":%q%s}}`, expression, actor, more)
}

const (
	intents = "/v2/" + string(group) + "/policy-intents"
	agents  = "/v2/policy/agents"
	events  = agents + "/watcher/events"
)

func TestIntentsAndAgents(t *testing.T) {
	t.Parallel()
	s := newStage(t, false)
	s.Run(t,
		step{Do: "GET /v2/health", Status: 200, Text: `{"status":"ok"}`},
		step{Do: "POST " + agents + "/watcher", Body: `{}`, Status: 201, Text: `"name":"watcher"`},
		step{Do: "POST " + agents + "/watcher", Body: `{}`, Status: 409, Text: "=Agent already exists"},
		step{Do: "POST " + agents + "/other", Body: `{"metadata":{"name":"watcher"}}`, Status: 400, Text: "metadata.name: it is not the name in the URL"},
		step{Do: "GET " + agents + "/watcher", Status: 200},
		step{Do: "GET " + agents, Status: 200, Text: `"watcher"`},

		step{Do: "POST " + intents + "/back", Body: intent("rollback", "event.data.rate > 0.5", `,"actorArg":{"revision":"3"},"author":"user:root"`), Status: 201, Text: `"author":""`},
		step{Do: "POST /v2/projects/p/composite-apps/ca/v1/deployment-intent-groups/none/policy-intents/x", Body: intent("stop", "true", ""), Status: 409, Text: "Parent resource not found"},
		step{Do: "POST " + intents + "/bad", Body: intent("stop", "event.data.rate", ""), Status: 400, Text: "- spec.policy.expression: the expression is a dyn, not true or false"},
		step{Do: "POST " + intents + "/bad", Body: `{"spec":{"event":{"id":"","agent":"a b"},"policy":{"engineUrl":"http://opa:8181?x","policyName":"../admin","expression":"true"},"actor":"approve","actorArg":{"revision":"1"}}}`, Status: 400, Text: `- spec.event.id: missing
- spec.event.agent: "a b" is not a name; use letters, digits, '-', '_' and '.', with a letter or digit at both ends
- spec.policy.engineUrl: "http://opa:8181?x": it must have neither a query nor a fragment
- spec.policy.policyName: "../admin" is no path of a rule; with engineUrl write one such as shop/halt, of letters, digits, '-', '_' and '/'
- spec.policy.expression: with engineUrl the server decides; leave one of both out
- spec.actor: "approve" is none`},
		step{Do: "POST " + intents + "/bad", Body: intent("rollback", "true", `,"actorArg":{"revision":"one"}`), Status: 400, Text: `- spec.actorArg.revision: "one" is no number of a revision`},
		step{Do: "GET " + intents + "/back", Status: 200, Text: `"actor":"rollback"`},
		step{Do: "DELETE " + agents + "/watcher", Status: 409, Text: "referencing resources"},

		step{Do: "POST " + events, Body: `{"id":"errors","data":{"rate":0.4}}`, Status: 200, Text: `"outcome":"unmet"`},
		step{Do: "POST " + events, Body: `{"id":"errors","data":{}}`, Status: 200, Text: `"outcome":"refused","error":"evaluate the expression: no such key: rate"`},
		step{Do: "POST " + events, Body: `{"id":"calm","data":{"rate":0.9}}`, Status: 200, Text: `=[]`},
		step{Do: "POST " + events, Body: `{"data":{}}`, Status: 400, Text: "id: missing"},
		step{Do: "POST " + events, Body: `{"id":`, Status: 422, Text: "the event is no JSON"},
		step{Do: "POST " + events, Body: `{"id":"errors","data":{"x":"` + strings.Repeat("x", 65<<10) + `"}}`, Status: 413},
		step{Do: "POST " + agents + "/none/events", Body: `{"id":"errors"}`, Status: 404, Text: "=Agent not found"},
	)
	if len(s.actions.got) > 0 {
		t.Errorf("actions %v without a condition that is met", s.actions.got)
	}
	s.Run(t, step{Do: "POST " + events, Body: `{"id":"errors","data":{"rate":0.9}}`, Status: 200, Text: `"outcome":"acted"`})
	want := policyintents.Request{Group: group, Action: "rollback", Revision: 3, Reason: "policy intent back, event errors of agent watcher"}
	if len(s.actions.got) != 1 || s.actions.got[0] != want {
		t.Errorf("the event asks for %+v, want %+v", s.actions.got, want)
	}
	for err, outcome := range map[error]string{errs.New(errs.Conflict, "it is terminated"): "refused", errs.New(errs.Unavailable, "etcd is down"): "failed"} {
		s.actions.fail = err
		s.Run(t, step{Do: "POST " + events, Body: `{"id":"errors","data":{"rate":0.9}}`, Status: 200, Text: `"outcome":"` + outcome + `","error":"` + err.Error()})
	}
	s.Run(t,
		step{Do: "DELETE " + intents + "/back", Status: 200},
		step{Do: "DELETE " + intents + "/back", Status: 404},
		step{Do: "DELETE " + agents + "/watcher", Status: 200},
	)
}

// An event does what the author may do itself at that moment: not what its groups may do, and not what it could do
// before.
func TestAnEventDoesNoMoreThanTheAuthorMay(t *testing.T) {
	t.Parallel()
	s := newStage(t, true)
	s.caller = authn.Caller{Subject: "user:corp:alice", Groups: []string{"group:corp:shop"}}
	group := authz.Binding{Name: "projects/p/role-bindings/team", Role: authz.Deployer, Subjects: []string{"group:corp:shop"}, Place: "projects/p"}
	own := authz.Binding{Name: "projects/p/role-bindings/alice", Role: authz.Deployer, Subjects: []string{"user:corp:alice"}, Place: "projects/p"}
	elsewhere := authz.Binding{Name: "projects/q/role-bindings/alice", Role: authz.Deployer, Subjects: []string{"user:corp:alice"}, Place: "projects/q"}
	s.Run(t, step{Do: "POST " + agents + "/watcher", Body: `{}`, Status: 201})
	for name, bindings := range map[string][]authz.Binding{"none": nil, "those of a group": {group}, "those of another project": {elsewhere}} {
		s.bindings = bindings
		s.Run(t, step{Do: "POST " + intents + "/stop", Body: intent("stop", "true", ""), Status: 403, Text: "user:corp:alice may not stop deployment-intent-groups in projects/p"})
		if len(s.actions.got) > 0 {
			t.Errorf("bindings %s: an action", name)
		}
	}
	s.bindings = []authz.Binding{own}
	s.Run(t,
		step{Do: "POST " + intents + "/stop", Body: intent("stop", "true", `,"author":"user:corp:root"`), Status: 201, Text: `"author":"user:corp:alice"`},
		step{Do: "POST " + events, Body: `{"id":"errors"}`, Status: 200, Text: `"outcome":"acted"`},
	)
	if len(s.actions.got) != 1 || s.actions.got[0].Actor != "user:corp:alice" {
		t.Fatalf("the actions are %+v", s.actions.got)
	}
	s.caller, s.bindings = authn.Caller{Subject: "token:watcher"}, []authz.Binding{group, elsewhere, {Name: "root", Role: authz.PlatformAdmin, Subjects: []string{"token:watcher"}}}
	s.Run(t, step{Do: "POST " + events, Body: `{"id":"errors"}`, Status: 200, Text: `"outcome":"refused","error":"user:corp:alice may not stop`})
	if len(s.actions.got) != 1 {
		t.Errorf("an event acts although its author may not any longer: %+v", s.actions.got)
	}
}

// Intents that were made before people had to sign in have no author, and do nothing afterwards.
func TestIntentsWithoutAnAuthorDoNothing(t *testing.T) {
	t.Parallel()
	s := newStage(t, true)
	s.Run(t, step{Do: "POST " + intents + "/stop", Body: intent("stop", "true", ""), Status: 403, Text: "was made while authentication was off"})
}

func TestIntentsOfAGroupAreLimited(t *testing.T) {
	t.Parallel()
	s := newStage(t, false)
	for i := range 20 {
		s.Run(t, step{Do: fmt.Sprintf("POST %s/i%d", intents, i), Body: intent("stop", "true", ""), Status: 201})
	}
	s.Run(t, step{Do: "POST " + intents + "/more", Body: intent("stop", "true", ""), Status: 409, Text: "has 20 documents, and at most 20 are allowed"})
}

// A project with very many intents harms its own alone.
func TestIntentsOfAProjectForAnEventAreLimited(t *testing.T) {
	t.Parallel()
	s := newStage(t, false)
	s.Run(t, step{Do: "POST " + agents + "/watcher", Body: `{}`, Status: 201})
	for _, g := range []string{"p/composite-apps/ca/v1/deployment-intent-groups/g1", "p/composite-apps/ca/v1/deployment-intent-groups/g2", "p/composite-apps/ca/v1/deployment-intent-groups/g3", "q/composite-apps/ca/v1/deployment-intent-groups/g"} {
		if _, err := s.DB.Create(t.Context(), store.Write{Key: store.Key("projects/" + g)}); err != nil {
			t.Fatal(err)
		}
		for i := range 20 {
			s.Run(t, step{Do: fmt.Sprintf("POST /v2/projects/%s/policy-intents/i%d", g, i), Body: intent("stop", "true", ""), Status: 201})
		}
	}
	s.Run(t, step{Do: "POST " + events, Body: `{"id":"errors"}`, Status: 200, Text: "more than 50 intents of the project name the event"})
	projects := map[string]int{}
	for _, a := range s.actions.got {
		projects[strings.Split(string(a.Group), "/")[1]]++
	}
	if projects["p"] != 50 || projects["q"] != 20 {
		t.Errorf("actions by project: %v", projects)
	}
}

// Repeated events with one Idempotency-Key are one for each intent; actions of dry runs are dry runs.
func TestKeysAndDryRunsReachTheActions(t *testing.T) {
	t.Parallel()
	s := newStage(t, false)
	s.Run(t,
		step{Do: "POST " + agents + "/watcher", Body: `{}`, Status: 201},
		step{Do: "POST " + intents + "/a", Body: intent("stop", "true", ""), Status: 201},
		step{Do: "POST " + intents + "/b", Body: intent("update", "true", ""), Status: 201},
		step{Do: "POST " + events + "?dryRun=true", Body: `{"id":"errors"}`, Status: 200},
	)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+events, strings.NewReader(`{"id":"errors"}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", "k1")
	res, err := http.DefaultClient.Do(r)
	if err != nil || res.StatusCode != 200 {
		t.Fatalf("%v %v", res, err)
	}
	_ = res.Body.Close()
	got := s.actions.got
	if len(got) != 4 || !got[0].DryRun || !got[1].DryRun || got[2].DryRun || !strings.HasPrefix(got[2].Key, "k1 ") || got[2].Key == got[3].Key {
		t.Errorf("the actions are %+v", got)
	}
}

// asking is the document of an intent whose condition is a rule of an OPA server.
func asking(rule string) string {
	return fmt.Sprintf(`{"spec":{"event":{"id":"errors","agent":"watcher"},"policy":{"engineUrl":"http://opa.example.org","policyName":%q},"actor":"stop"}}`, rule)
}

// Rules of OPA servers decide like expressions. If they cannot decide, the agent and the users of the deployment get
// the reason, once.
func TestRulesOfEnginesDecide(t *testing.T) {
	t.Parallel()
	s := newStage(t, false)
	s.engine.rules["halt/hot of p"], s.engine.rules["halt/cold of p"] = true, false
	s.Run(t,
		step{Do: "POST " + agents + "/watcher", Body: `{}`, Status: 201},
		step{Do: "POST " + intents + "/away", Body: strings.Replace(asking("halt/hot"), "opa.example.org", "evil.example.org", 1), Status: 403, Text: "not allowed"},
		step{Do: "POST " + intents + "/a", Body: asking("halt/hot"), Status: 201},
		step{Do: "POST " + intents + "/b", Body: asking("halt/cold"), Status: 201},
		step{Do: "POST " + intents + "/c", Body: asking("halt/none"), Status: 201},
		step{Do: "POST " + intents + "/d", Body: intent("stop", "true", ""), Status: 201},
	)
	event := func(query string) {
		s.Run(t, step{Do: "POST " + events + query, Body: `{"id":"errors"}`, Status: 200, Text: fmt.Sprintf(
			`=[{"intent":"%[1]s/a","actor":"stop","outcome":"acted"},{"intent":"%[1]s/b","actor":"stop","outcome":"unmet"},{"intent":"%[1]s/c","actor":"stop","outcome":"refused","error":"no rule halt/none"},{"intent":"%[1]s/d","actor":"stop","outcome":"acted"}]`,
			group+"/policy-intents")})
	}
	event("?dryRun=true")
	if len(s.actions.warned) > 0 {
		t.Errorf("a dry run warns: %q", s.actions.warned)
	}
	event("")
	event("")
	want := string(group) + " PolicyIntentRefused: policy intent c, event errors of agent watcher: no rule halt/none"
	if len(s.actions.warned) != 1 || s.actions.warned[0] != want {
		t.Errorf("warnings %q, want %q once", s.actions.warned, want)
	}
	s.now = s.now.Add(time.Hour)
	event("")
	if len(s.actions.warned) != 2 {
		t.Errorf("an hour later: %q", s.actions.warned)
	}
}

// Rules that do not answer delay neither expressions nor the rules of other projects.
func TestSlowRulesDelayTheirOwnProject(t *testing.T) {
	t.Parallel()
	s := newStage(t, false)
	other := strings.Replace(intents, "/p/", "/q/", 1)
	if _, err := s.DB.Create(t.Context(), store.Write{Key: "projects/q/composite-apps/ca/v1/deployment-intent-groups/g"}); err != nil {
		t.Fatal(err)
	}
	s.engine.rules["halt/hot of q"] = true
	s.Run(t,
		step{Do: "POST " + agents + "/watcher", Body: `{}`, Status: 201},
		step{Do: "POST " + intents + "/a", Body: asking("slow/rule"), Status: 201},
		step{Do: "POST " + intents + "/b", Body: asking("slow/rule"), Status: 201},
		step{Do: "POST " + intents + "/c", Body: intent("stop", "true", ""), Status: 201},
		step{Do: "POST " + other + "/d", Body: asking("halt/hot"), Status: 201},
		step{Do: "POST " + events, Body: `{"id":"errors"}`, Status: 200, Text: `/b","actor":"stop","outcome":"failed","error":"ask slow/rule: others were asked meanwhile"`},
	)
	if len(s.actions.got) != 2 || s.actions.got[0].Group != group || !strings.HasPrefix(string(s.actions.got[1].Group), "projects/q/") {
		t.Errorf("the actions are %+v", s.actions.got)
	}
}
