package workflowmgr_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/mux"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/contexttest"
	"github.com/emco-orchestrator/emco/src/emco/internal/resource/resourcetest"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/workflowmgr"
	"github.com/emco-orchestrator/emco/src/emco/internal/workflow"
	"github.com/emco-orchestrator/emco/src/emco/internal/workflow/httprunner"
)

type step = resourcetest.Step

const group = store.Key("projects/p/composite-apps/ca/v1/deployment-intent-groups/g")

func serve(t *testing.T) *resourcetest.Server {
	t.Helper()
	r, err := httprunner.New([]string{"http://wf.example.org:9090/"}, func(netip.Addr) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	contexts := contexttest.New(t)
	s := resourcetest.Serve(t, func(m *mux.Router, db *store.DB) {
		workflowmgr.Resources{DB: db, Contexts: contexts, Runners: workflow.Runners{"http": r}, Now: time.Now}.Mount(m)
	})
	if _, err := s.DB.Create(t.Context(), store.Write{Key: group}); err != nil {
		t.Fatal(err)
	}
	return s
}

func document(name, spec string) string {
	return `{"metadata":{"name":"` + name + `"},"spec":` + spec + `}`
}

const server = `"workflowClient":{"clientEndpointName":"wf.example.org","clientEndpointPort":9090},"temporal":{"workflowClientName":"backup","workflowStartOptions":{"id":"i","taskqueue":"q"},"workflowParams":{"activityParams":{"a":{"b":"c"}}}}`

func TestHookIntents(t *testing.T) {
	t.Parallel()
	s := serve(t)
	hooks := "/v2/" + string(group) + "/temporal-action-controller"
	workers := hooks + "/h/workers"
	s.Run(t,
		step{Do: "GET " + hooks, Status: 200, Text: "=[]"},
		step{Do: "POST " + strings.Replace(hooks, "/g/", "/x/", 1), Body: document("h", `{"hookType":"pre-install",`+server+`}`), Status: 409, Text: "Parent resource not found"},
		// Members of upstream's examples that the server does not know are dropped, and names match in any case.
		step{Do: "POST " + hooks, Body: document("h", `{"hookType":"pre-install","hookBlocking":true,`+server+`}`), Status: 201, Text: `"workflowStartOptions":{"ID":"i","TaskQueue":"q"}`},
		step{Do: "POST " + hooks, Body: document("h", `{"hookType":"pre-install",`+server+`}`), Status: 409, Text: "=HookIntent already exists"},
		step{Do: "PUT " + hooks + "/h", Body: document("h", `{"hookType":"post-update","after":"applied",`+server+`}`), Status: 200, Text: `"after":"applied"`},
		step{Do: "POST " + hooks, Body: document("bad", `{"hookType":"never","after":"noon","runner":"cron","timeoutSeconds":90000}`), Status: 400, Text: `- spec.after: "noon" is neither ready nor applied
- spec.hookType: "never" is none of pre-install, post-install, pre-update, post-update, pre-termination, post-termination
- spec.runner: "cron" is none of http, command, temporal
- spec.timeoutSeconds: 90000 is not between 0 and 86400`},
		step{Do: "POST " + hooks, Body: document("bad", `{"hookType":"pre-install","after":"ready","workflowClient":{"scheme":"ftp","clientEndpointName":"a b","clientEndpointPort":0},"temporal":{"workflowClientName":"","workflowStartOptions":{"ID":"a\nb"}}}`), Status: 400, Text: `- spec.after: only hooks of the types post-install and post-update have it
- spec.temporal.workflowClientName: missing
- spec.temporal.workflowStartOptions.ID: "a\nb" is no text of printable ASCII characters
- spec.workflowClient.clientEndpointName: "a b" is no host name or address
- spec.workflowClient.clientEndpointPort: 0 is not between 1 and 65535
- spec.workflowClient.scheme: "ftp" is neither http nor https`},
		step{Do: "POST " + hooks, Body: document("bad", `{"hookType":"pre-install","runner":"temporal","temporal":{"workflowClientName":"w"}}`), Status: 400, Text: "TaskQueue: missing; Temporal's workers listen to a task queue"},
		// Options of upstream's documents are kept, in any case of letters; others are dropped.
		step{
			Do: "PUT " + hooks + "/h", Body: document("h", `{"hookType":"pre-install",`+strings.Replace(server, `"taskqueue":"q"`, `"taskqueue":"q","workflowruntimeout":60000000000,"cronschedule":"* * * * *","retrypolicy":{"initialinterval":1000000000,"backoffcoefficient":1.5,"maximumattempts":3}`, 1)+`}`),
			Status: 200, Text: `"workflowStartOptions":{"ID":"i","TaskQueue":"q","WorkflowRunTimeout":60000000000,"RetryPolicy":{"InitialInterval":1000000000,"BackoffCoefficient":1.5,"MaximumAttempts":3}}`,
		},
		step{Do: "POST " + hooks, Body: document("bad", `{"hookType":"pre-install",`+strings.Replace(server, `"taskqueue":"q"`, `"WorkflowTaskTimeout":-1,"RetryPolicy":{"MaximumInterval":90000000000000,"BackoffCoefficient":0.5,"MaximumAttempts":-1}`, 1)+`}`), Status: 400, Text: `- spec.temporal.workflowStartOptions.RetryPolicy.BackoffCoefficient: 0.5 is not between 1 and 100
- spec.temporal.workflowStartOptions.RetryPolicy.MaximumAttempts: -1 is not between 0 and 1000000
- spec.temporal.workflowStartOptions.RetryPolicy.MaximumInterval: 90000000000000 is not between 0 and 86400000000000 nanoseconds
- spec.temporal.workflowStartOptions.WorkflowTaskTimeout: -1 is not between 0 and 86400000000000 nanoseconds`},
		step{Do: "POST " + hooks, Body: document("bad", `{"hookType":"pre-install","runner":"command"}`), Status: 400, Text: "- spec.command: missing"},
		step{Do: "POST " + hooks, Body: document("bad", `{"hookType":"pre-install",`+strings.Replace(server, "wf.", "other.", 1)+`}`), Status: 403, Text: "the operator allows them with workflows.endpoints"},
		step{Do: "POST " + hooks, Body: document("bad", `{"hookType":"pre-install",`+strings.Replace(server, "9090", "9091", 1)+`}`), Status: 403, Text: "http://wf.example.org:9091/invoke/backup"},
		step{Do: "POST " + hooks, Body: document("bad", `{"hookType":"pre-install","runner":"command","command":"sh"}`), Status: 403, Text: "the runner command is off"},

		step{Do: "GET " + workers, Status: 200, Text: "=[]"},
		step{Do: "POST " + workers, Body: document("w", `{"startToCloseTimeout":-1,"deploymentIntentGroup":""}`), Status: 400, Text: "- spec.deploymentIntentGroup: missing"},
		step{Do: "POST " + workers, Body: document("w", `{"startToCloseTimeout":60,"deploymentIntentGroup":"d","compositeApp":"c","compositeAppVersion":"v1"}`), Status: 201},
		step{Do: "PUT " + workers + "/w", Body: document("w", `{"startToCloseTimeout":90,"deploymentIntentGroup":"d","compositeApp":"c","compositeAppVersion":"v1"}`), Status: 200, Text: "90"},
		step{Do: "DELETE " + hooks + "/h", Status: 409, Text: "Cannot delete parent"},
		step{Do: "DELETE " + workers + "/w", Status: 204},

		step{Do: "GET " + hooks + "/h/status", Status: 200, Text: `={"name":"h","state":"NotStarted"}`},
		step{Do: "POST " + hooks + "/h/retry", Status: 409, Text: "retry: not allowed while the run is NotStarted"},
		step{Do: "POST " + hooks + "/x/abort", Status: 404, Text: "HookIntent not found"},
		step{Do: "DELETE " + hooks + "/h", Status: 204},
		step{Do: "GET " + hooks + "/h", Status: 404, Text: "HookIntent not found"},
	)
}

func TestWorkflowIntents(t *testing.T) {
	t.Parallel()
	s := serve(t)
	all := "/v2/" + string(group) + "/temporal-workflow-intents"
	s.Run(t,
		step{Do: "POST " + all, Body: document("w", `{`+server+`}`), Status: 201},
		step{Do: "PUT " + all + "/w", Body: document("w", `{`+server+`}`), Status: 405},
		step{Do: "POST " + all + "/w/cancel", Status: 409, Text: "cancel: not allowed while the run is NotStarted; allowed is start"},
		step{Do: "POST " + all + "/w/start?dryRun=true", Status: 200, Text: `={"action":"start","state":"Waiting"}`},
		step{Do: "GET " + all + "/w/status", Status: 200, Text: `={"name":"w","state":"NotStarted","actions":["start"]}`},
		step{Do: "POST " + all + "/w/start", Status: 202},
		step{Do: "GET " + all + "/w/status", Status: 200, Text: `"workflowID":"i/`},
		step{Do: "DELETE " + all + "/w", Status: 409, Text: "a run of it is Waiting"},
		step{Do: "POST " + all + "/w/cancel", Body: `{"spec":{"reason":"not now"}}`, Status: 202},
		step{Do: "GET " + all + "/w/status", Status: 200, Text: `"state":"Canceled"`},
		step{Do: "POST " + all + "/w/cancel", Status: 409, Text: "allowed is start"},
		step{Do: "DELETE " + all + "/w", Status: 204},
	)
}

// The store lists all runs of a group for each request and each change: their number has a limit.
func TestAGroupHasAtMostSoManyWorkflowsAndRuns(t *testing.T) {
	t.Parallel()
	s := serve(t)
	all := "/v2/" + string(group) + "/temporal-workflow-intents"
	for i := range 256 {
		name := fmt.Sprint("w", i)
		s.Run(t, step{Do: "POST " + all, Body: document(name, `{`+server+`}`), Status: 201})
		if i < 64 {
			s.Run(t, step{Do: "POST " + all + "/" + name + "/start", Status: 202})
		}
	}
	s.Run(t,
		step{Do: "POST " + all, Body: document("more", `{`+server+`}`), Status: 409, Text: "has 256 documents, and at most 256 are allowed"},
		step{Do: "POST " + all + "/w64/start", Status: 409, Text: "start: 64 runs of the group are not over, which is the limit"},
		step{Do: "POST " + all + "/w0/cancel", Status: 202},
		step{Do: "POST " + all + "/w64/start", Status: 202},
		step{Do: "DELETE " + all + "/w0", Status: 204},
		step{Do: "POST " + all, Body: document("more", `{`+server+`}`), Status: 201},
	)
}

// Hooks of other types than that of an action count, too: a change of its type gives a hook a further run.
func TestAGroupHasAtMostSoManyHooks(t *testing.T) {
	t.Parallel()
	s := serve(t)
	all := "/v2/" + string(group) + "/temporal-action-controller"
	types := []string{"pre-install", "post-install", "pre-update", "post-update", "pre-termination", "post-termination"}
	hook := func(name, kind string) string { return document(name, `{"hookType":"`+kind+`",`+server+`}`) }
	for i := range 96 {
		name := fmt.Sprint("h", i)
		s.Run(t, step{Do: "POST " + all, Body: hook(name, types[i%len(types)]), Status: 201})
	}
	s.Run(t,
		step{Do: "POST " + all, Body: hook("more", "pre-install"), Status: 409, Text: "has 96 documents, and at most 96 are allowed"},
		step{Do: "PUT " + all + "/more", Body: hook("more", "pre-install"), Status: 409, Text: "has 96 documents"},
		step{Do: "PUT " + all + "/h0", Body: hook("h0", "post-update"), Status: 200},
		step{Do: "DELETE " + all + "/h1", Status: 204},
		step{Do: "PUT " + all + "/more", Body: hook("more", "pre-install"), Status: 201},
	)
}
