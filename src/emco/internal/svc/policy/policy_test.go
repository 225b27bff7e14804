package policy_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/mux"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/authn"
	"github.com/emco-orchestrator/emco/src/emco/internal/authz"
	"github.com/emco-orchestrator/emco/src/emco/internal/resource/resourcetest"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/policy"
)

type step = resourcetest.Step

const group = store.Key("projects/p/composite-apps/ca/v1/deployment-intent-groups/g")

// recorder keeps the actions that are asked for.
type recorder struct {
	got  []policy.Request
	fail error
}

func (r *recorder) Act(_ context.Context, q policy.Request) error {
	r.got = append(r.got, q)
	return r.fail
}

// stage serves intents to a caller, who may do what bindings say.
type stage struct {
	*resourcetest.Server
	actions  *recorder
	caller   authn.Caller
	bindings []authz.Binding
}

func newStage(t *testing.T, guarded bool) *stage {
	t.Helper()
	s := &stage{actions: &recorder{}}
	s.Server = resourcetest.Serve(t, func(r *mux.Router, db *store.DB) {
		service := &policy.Service{DB: db, Actions: s.actions, Now: time.Now}
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
		step{Do: "POST " + intents + "/bad", Body: `{"spec":{"event":{"id":"","agent":"a b"},"policy":{"engineUrl":"http://opa:8181"},"actor":"approve","actorArg":{"revision":"1"}}}`, Status: 400, Text: `- spec.event.id: missing
- spec.event.agent: "a b" is not a name; use letters, digits, '-', '_' and '.', with a letter or digit at both ends
- spec.policy.engineUrl: EMCO asks no other engine`},
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
	want := policy.Request{Group: group, Action: "rollback", Revision: 3, Reason: "policy intent back, event errors of agent watcher"}
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
	s.Run(t, step{Do: "POST " + intents + "/stop", Body: intent("stop", "true", ""), Status: 403, Text: "was made while nobody had to sign in"})
}

func TestIntentsOfAGroupAreLimited(t *testing.T) {
	t.Parallel()
	s := newStage(t, false)
	for i := range 20 {
		s.Run(t, step{Do: fmt.Sprintf("POST %s/i%d", intents, i), Body: intent("stop", "true", ""), Status: 201})
	}
	s.Run(t, step{Do: "POST " + intents + "/more", Body: intent("stop", "true", ""), Status: 400, Text: "has 20 policy intents, and no more are allowed"})
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

// Repeated events with one Idempotency-Key are one for each intent; dry runs say so to who acts.
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
