package app_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/status"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/config"
)

// workflowServer runs workflows as their clients see it: it does the work of a key once, and answers a repeated
// request with what it answered before.
type workflowServer struct {
	*httptest.Server
	mu    sync.Mutex
	calls []workflowCall                     // guarded by mu
	act   func(c workflowCall) (int, string) // what a workflow does; guarded by mu
	held  map[string]chan struct{}           // calls of workflows that wait, by name; guarded by mu
}

type workflowCall struct {
	Name, Key, Group, Intent, HookType string
	Params                             string
	Done                               <-chan struct{}
}

func newWorkflowServer(t *testing.T) *workflowServer {
	w := &workflowServer{held: map[string]chan struct{}{}}
	w.Server = httptest.NewServer(w)
	t.Cleanup(w.Close)
	return w
}

func (w *workflowServer) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	var body struct {
		Options v2.WorkflowOptions         `json:"workflowStartOptions"`
		Params  map[string]json.RawMessage `json:"workflowParams"`
		EMCO    struct {
			Group    string `json:"deploymentIntentGroup"`
			Intent   string `json:"intent"`
			HookType string `json:"hookType"`
		} `json:"emco"`
	}
	text, err := io.ReadAll(r.Body)
	name, invoked := strings.CutPrefix(r.URL.Path, "/invoke/")
	if err = firstError(err, json.Unmarshal(text, &body)); err != nil || !invoked || r.Method != http.MethodPost || body.Options.ID != r.Header.Get("Idempotency-Key") {
		http.Error(out, fmt.Sprint("no such call: ", err), http.StatusTeapot)
		return
	}
	c := workflowCall{name, body.Options.ID, body.EMCO.Group, body.EMCO.Intent, body.EMCO.HookType, fmt.Sprintf("%s", body.Params), r.Context().Done()}
	w.mu.Lock()
	w.calls = append(w.calls, c)
	act, held := w.act, w.held[name]
	w.mu.Unlock()
	if held != nil {
		select {
		case <-held:
		case <-c.Done:
			return
		}
	}
	status, answer := http.StatusOK, "done"
	if act != nil {
		status, answer = act(c)
	}
	out.WriteHeader(status)
	_, _ = io.WriteString(out, answer)
}

func firstError(all ...error) error {
	for _, err := range all {
		if err != nil {
			return err
		}
	}
	return nil
}

// hold has calls of a workflow wait until they are released.
func (w *workflowServer) hold(name string) (release func()) {
	c := make(chan struct{})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held[name] = c
	return sync.OnceFunc(func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.held, name)
		close(c)
	})
}

func (w *workflowServer) do(act func(c workflowCall) (int, string)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.act = act
}

// seen returns the calls of a workflow.
func (w *workflowServer) seen(name string) (out []workflowCall) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.calls {
		if c.Name == name {
			out = append(out, c)
		}
	}
	return out
}

func (w *workflowServer) port() string { return w.URL[strings.LastIndex(w.URL, ":")+1:] }

// spec returns the members that name a workflow of the server.
func (w *workflowServer) spec(name string) string {
	return `"workflowClient":{"clientEndpointName":"127.0.0.1","clientEndpointPort":` + w.port() + `},"temporal":{"workflowClientName":"` + name + `","workflowStartOptions":{"ID":"","taskqueue":"q"},"workflowParams":{"activityParams":{"a":{"b":"c"}}}}`
}

// hook adds a hook whose workflow has its name.
func (g testGroup) hook(w *workflowServer, kind, name, more string) {
	g.Helper()
	g.expect(201, "POST", g.path+"/temporal-action-controller", `{"metadata":{"name":"`+name+`"},"spec":{"hookType":"`+kind+`",`+w.spec(name)+more+`}}`)
}

// hookStatus reads the last run of a hook.
func (g testGroup) hookStatus(name string) (st v2.WorkflowStatus) {
	g.Helper()
	g.must("read a status", json.Unmarshal([]byte(g.expect(200, "GET", g.path+"/temporal-action-controller/"+name+"/status", "")), &st))
	return st
}

func (g testGroup) hookBecomes(name, want string) (st v2.WorkflowStatus) {
	g.Helper()
	g.eventually("hook "+name+" becomes "+want, func() string {
		st = g.hookStatus(name)
		return unless(st.State, want)
	})
	return st
}

func (g testGroup) hookDo(name, action string) {
	g.Helper()
	g.expect(202, "POST", g.path+"/temporal-action-controller/"+name+"/"+action, "")
}

// stalled returns the reason and message of the condition Stalled, if it is true.
func stalled(st v2.Status) string {
	for _, c := range st.Conditions {
		if c.Type == v2.Stalled && c.Status == v2.True {
			return c.Reason + ": " + c.Message
		}
	}
	return ""
}

// hookStage is a stage with a server of workflows and an approved group on one cluster.
func hookStage(t *testing.T) (*testStage, *workflowServer, testGroup) {
	t.Helper()
	w := newWorkflowServer(t)
	s := newStageWith(t, func(c *config.Config) {
		c.Workflows.Endpoints, c.Status.Interval = []string{w.URL + "/"}, config.Duration(time.Second)
	})
	s.fleet("a")
	s.onboard("web")
	return s, w, s.group("autumn", appPlaces{"web": {"a"}})
}

// Hooks before an action run before anything changes in Git, in order of name; hooks after it when the change is
// proved.
func TestHooksRunAroundActions(t *testing.T) {
	t.Parallel()
	s, w, g := hookStage(t)
	for _, kind := range []string{"pre-install", "pre-update", "pre-termination", "post-termination"} {
		g.hook(w, kind, kind+"-2", "")
		g.hook(w, kind, kind+"-1", "")
	}
	g.hook(w, "post-install", "post-install-1", `,"after":"applied"`)
	g.hook(w, "post-update", "post-update-1", "")
	before := map[string]string{} // what Git holds when a workflow begins
	w.do(func(c workflowCall) (int, string) {
		w.mu.Lock()
		defer w.mu.Unlock()
		before[c.Name] = "empty"
		for _, path := range s.tree() {
			if !strings.HasSuffix(path, "+ConfigMap.yaml") {
				continue
			}
			if before[c.Name] = "deployed"; strings.Contains(s.file(path), "spring") {
				before[c.Name] = "updated"
			}
		}
		return 200, "ok " + c.Name
	})
	g.act("instantiate")
	g.hookBecomes("post-install-1", v2.RunSucceeded)
	g.becomes("Instantiated")
	s.profile("PUT", till+"/composite-profiles/small/profiles/web", "web", "spring")
	g.act("update")
	g.becomes("Instantiated")
	if got := g.hookStatus("post-update-1"); got.State != v2.RunWaiting || !strings.Contains(got.Message, "revision 2 are ready") {
		t.Errorf("a hook after an update whose cluster does not report: %+v", got)
	}
	s.agent("a").report(status.Current)
	if st := g.hookBecomes("post-update-1", v2.RunSucceeded); st.Result != "ok post-update-1" || st.Revision != 2 || st.Attempt != 1 {
		t.Errorf("the last run: %+v", st)
	}
	g.act("terminate")
	g.hookBecomes("post-termination-2", v2.RunSucceeded)
	g.becomes("Terminated")

	var order []string
	for _, c := range w.calls {
		order = append(order, c.Name+" "+before[c.Name])
		if c.HookType+"-" != c.Name[:len(c.HookType)+1] || c.Intent != c.Name || !strings.HasSuffix(c.Group, "/autumn") || !strings.Contains(c.Params, `{"a":{"b":"c"}}`) {
			t.Errorf("call %+v", c)
		}
	}
	wantEqual(s, "calls", order, []string{
		"pre-install-1 empty", "pre-install-2 empty", "post-install-1 deployed",
		"pre-update-1 deployed", "pre-update-2 deployed", "post-update-1 updated",
		"pre-termination-1 updated", "pre-termination-2 updated", "post-termination-1 empty", "post-termination-2 empty",
	})
	var hooks []string
	for _, h := range g.status().Hooks {
		hooks = append(hooks, h.HookType+" "+h.State)
	}
	wantEqual(s, "hooks in the status", hooks, []string{
		"post-install Succeeded", "post-termination Succeeded", "post-termination Succeeded", "post-update Succeeded",
		"pre-install Succeeded", "pre-install Succeeded", "pre-termination Succeeded", "pre-termination Succeeded", "pre-update Succeeded", "pre-update Succeeded",
	})
}

// A failed hook is a status with ways on: retry, skip, abort. Nothing changes on clusters meanwhile.
func TestAFailedHookWaitsForUsers(t *testing.T) {
	t.Parallel()
	s, w, g := hookStage(t)
	g.hook(w, "pre-install", "check", "")
	g.hook(w, "pre-termination", "drain", "")
	w.do(func(workflowCall) (int, string) { return 422, "no room\x1b[31m" })
	g.act("instantiate")
	failed := g.hookBecomes("check", v2.RunFailed)
	if !strings.Contains(failed.Message, "422 Unprocessable Entity: no room") || strings.Contains(failed.Message, "\x1b") || !slices.Equal(failed.Actions, []string{"retry", "skip", "abort"}) {
		t.Errorf("a failed hook: %+v", failed)
	}
	st := g.status()
	if st.DeployedStatus != "Instantiating" || !strings.Contains(stalled(st), "HookFailed: hook check (pre-install)") || !strings.Contains(stalled(st), "retry, skip, abort it") {
		t.Errorf("status %s, stalled %q", st.DeployedStatus, stalled(st))
	}
	s.wantTree()
	s.expect(409, "DELETE", g.path+"/temporal-action-controller/check", "")
	g.hookDo("check", "retry")
	s.eventually("the retry is asked", func() string { return unless(len(w.seen("check")), 2) })
	again := g.hookBecomes("check", v2.RunFailed)
	if again.ID == failed.ID {
		t.Error("a retry has the id of the run that failed")
	}

	g.hookDo("check", "abort")
	if st = g.becomes("InstantiateFailed"); !strings.Contains(st.Failure, "instantiate: anonymous aborted it at hook check") {
		t.Errorf("failure %q", st.Failure)
	}
	g.hookBecomes("check", v2.RunReplaced)
	s.wantTree()

	g.act("instantiate")
	g.hookBecomes("check", v2.RunFailed)
	g.hookDo("check", "skip")
	st = g.becomes("Instantiated")
	if got := g.hookStatus("check"); got.State != v2.RunSkipped || got.Message != "skipped by anonymous" {
		t.Errorf("a skipped hook: %+v", got)
	}
	files := s.tree()

	g.act("terminate")
	g.hookBecomes("drain", v2.RunFailed)
	if st = g.status(); st.DeployedStatus != "Terminating" || !slices.Equal(s.tree(), files) {
		t.Errorf("while a hook before the termination failed: %s, %v", st.DeployedStatus, s.tree())
	}
	g.hookDo("drain", "abort")
	st = g.becomes("Instantiated")
	if last := st.States.Actions[len(st.States.Actions)-1]; last.State != "Instantiated" {
		t.Errorf("the last action is %+v", last)
	}
	w.do(nil)
	g.act("terminate")
	g.becomes("Terminated")
	s.wantTree()
	s.expect(204, "DELETE", g.path+"/temporal-action-controller/check", "")
	s.expect(409, "POST", g.path+"/temporal-action-controller/drain/retry", "")
	s.expect(404, "GET", g.path+"/temporal-action-controller/check/status", "")
}

// Errors that may pass are tried again with the same key, until the deadline. A user may cancel a run.
func TestHooksAreRepeatedCanceledAndLate(t *testing.T) {
	t.Parallel()
	s, w, g := hookStage(t)
	g.hook(w, "pre-install", "busy", "")
	times := 0
	w.do(func(workflowCall) (int, string) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if times++; times < 3 {
			return 503, "later"
		}
		return 204, ""
	})
	g.act("instantiate")
	g.becomes("Instantiated")
	calls := w.seen("busy")
	if len(calls) != 3 || calls[0].Key != calls[1].Key || calls[1].Key != calls[2].Key {
		t.Errorf("calls %+v", calls)
	}

	g.hook(w, "pre-update", "slow", "")
	release := w.hold("slow")
	defer release()
	g.act("update")
	s.eventually("the hook is asked", func() string { return unless(len(w.seen("slow")), 1) })
	s.expect(400, "POST", g.path+"/temporal-action-controller/slow/cancel", `{"spec":{"reason":"a\nb"}}`)
	s.expect(202, "POST", g.path+"/temporal-action-controller/slow/cancel", `{"metadata":{"name":"x"},"spec":{"temporalServer":"t:7233","reason":"too slow"}}`)
	if st := g.hookBecomes("slow", v2.RunCanceled); st.Message != "canceled by anonymous: too slow" {
		t.Errorf("a canceled hook: %+v", st)
	}
	<-w.seen("slow")[0].Done // its connection is closed
	g.hookDo("slow", "abort")
	g.becomes("InstantiateFailed")

	g.expect(200, "PUT", g.path+"/temporal-action-controller/slow", `{"metadata":{"name":"slow"},"spec":{"hookType":"pre-update","timeoutSeconds":1,`+w.spec("slow")+`}}`)
	g.act("update")
	if st := g.hookBecomes("slow", v2.RunFailed); !strings.Contains(st.Message, "it did not end within 1s") {
		t.Errorf("a late hook: %+v", st)
	}
	g.act("update") // it replaces the one whose hook is late
	g.hookBecomes("slow", v2.RunFailed)
	release()
	g.hookDo("slow", "retry")
	g.becomes("Instantiated")
}

// While a run is repeated, a user corrects its hook: the next attempt uses the corrected one, with the same key.
func TestAMendedHookCountsForTheNextAttempt(t *testing.T) {
	t.Parallel()
	s, w, g := hookStage(t)
	g.hook(w, "pre-install", "check", "")
	w.do(func(c workflowCall) (int, string) {
		if c.Name == "check" {
			return 503, "the wrong one"
		}
		return 200, "checked"
	})
	g.act("instantiate")
	s.eventually("the hook is asked", func() string { return unless(min(len(w.seen("check")), 1), 1) })
	g.expect(200, "PUT", g.path+"/temporal-action-controller/check", `{"metadata":{"name":"check"},"spec":{"hookType":"pre-install",`+w.spec("mended")+`}}`)
	g.becomes("Instantiated")
	if st := g.hookStatus("check"); st.State != v2.RunSucceeded || st.Result != "checked" || w.seen("mended")[0].Key != w.seen("check")[0].Key {
		t.Errorf("the last run: %+v, calls %+v", st, w.calls)
	}
}

// A project has sixteen runs under way at a time. Those that pause between attempts are not among them.
func TestRunsThatPauseLetOthersRun(t *testing.T) {
	t.Parallel()
	s, w, g := hookStage(t)
	all := g.path + "/temporal-workflow-intents"
	state := func(name string) (st v2.WorkflowStatus) {
		s.must("read a status", json.Unmarshal([]byte(s.expect(200, "GET", all+"/"+name+"/status", "")), &st))
		return st
	}
	w.do(func(c workflowCall) (int, string) {
		if c.Name == "busy" {
			return 503, "later"
		}
		return 200, "done"
	})
	start := func(name, workflow string) {
		s.expect(201, "POST", all, `{"metadata":{"name":"`+name+`"},"spec":{`+w.spec(workflow)+`}}`)
		s.expect(202, "POST", all+"/"+name+"/start", "")
	}
	for i := range 16 {
		name := fmt.Sprint("busy-", i)
		start(name, "busy")
		s.eventually(name+" pauses", func() string { return unless(min(len(state(name).Message), 1), 1) })
	}
	start("index", "index")
	s.eventually("the other one ends", func() string { return unless(state("index").State, v2.RunSucceeded) })
	if st := state("busy-0"); st.State != v2.RunRunning || st.Attempt == 0 {
		t.Errorf("a run that pauses: %+v", st)
	}
}

// A run under way when the program is killed goes on with the same key in the next one.
func TestHooksSurviveAKill(t *testing.T) {
	t.Parallel()
	w := newWorkflowServer(t)
	release := w.hold("check")
	defer release()
	var g testGroup
	v := newCrashStage(t, func(s *testStage) {
		s.config.Workflows.Endpoints = []string{w.URL + "/"}
		s.stop()
		s.start()
		s.fleet("a")
		s.onboard("web")
		g = s.group("autumn", appPlaces{"web": {"a"}})
		g.hook(w, "pre-install", "check", "")
		g.act("instantiate")
		s.eventually("the hook is asked", func() string { return unless(len(w.seen("check")), 1) })
	})
	for n := 2; n <= 3; n++ { // a clean stop, and a kill
		v.eventually("the next process asks again", func() string { return unless(len(w.seen("check")), n) })
		if n == 2 {
			v.mu.Lock()
			p := v.now
			v.mu.Unlock()
			_ = p.cmd.Process.Kill()
			<-p.ended
		}
	}
	release()
	v.ready("the deployment is complete", g, func(st v2.Status) string { return unless(st.DeployedStatus, "Instantiated") })
	calls := w.seen("check")
	if len(calls) != 3 || calls[0].Key != calls[1].Key || calls[1].Key != calls[2].Key {
		t.Errorf("calls %+v", calls)
	}
}

// Users start workflows, follow and cancel them.
func TestWorkflowsThatUsersStart(t *testing.T) {
	t.Parallel()
	s, w, g := hookStage(t)
	all, at := g.path+"/temporal-workflow-intents", g.path+"/temporal-workflow-intents/index"
	s.expect(201, "POST", all, `{"metadata":{"name":"index"},"spec":{`+w.spec("index")+`}}`)
	s.expect(405, "PUT", at, `{}`)
	got := func() (st v2.WorkflowStatus) {
		s.must("read a status", json.Unmarshal([]byte(s.expect(200, "GET", at+"/status", `{"temporalServer":"t:7233","workflowID":"x"}`)), &st))
		return st
	}
	if st := got(); st.State != v2.RunNotStarted || !slices.Equal(st.Actions, []string{"start"}) {
		t.Errorf("before: %+v", st)
	}
	s.expect(409, "POST", at+"/cancel", "")
	release := w.hold("index")
	defer release()
	s.expect(202, "POST", at+"/start", "")
	s.eventually("it runs", func() string { return unless(got().State, v2.RunRunning) })
	s.expect(409, "POST", at+"/start", "")
	s.expect(409, "DELETE", at, "")
	s.expect(202, "POST", at+"/cancel", "")
	s.eventually("it is canceled", func() string { return unless(got().State, v2.RunCanceled) })
	release()
	s.expect(202, "POST", at+"/start", "")
	s.eventually("it ends", func() string { return unless(got().State, v2.RunSucceeded) })
	if st := got(); st.Result != "done" || st.HookType != "" {
		t.Errorf("after: %+v", st)
	}
	s.expect(204, "DELETE", at, "")
	s.expect(404, "POST", at+"/start", "")
	s.expect(201, "POST", all, `{"metadata":{"name":"index"},"spec":{`+w.spec("index")+`}}`)
	if st := got(); st.State != v2.RunNotStarted {
		t.Errorf("a new intent has the run of the old one: %+v", st)
	}
	g.act("instantiate") // workflows that users start are no hooks
	g.becomes("Instantiated")
}

// Without settings no workflow runs; a setting allows its servers and programs only.
func TestWorkflowsNeedTheOperator(t *testing.T) {
	t.Parallel()
	s, w, g := hookStage(t)
	all := g.path + "/temporal-workflow-intents"
	for spec, why := range map[string]string{
		strings.Replace(w.spec("x"), w.port(), "1", 1):                                                       "allows them with workflows.endpoints",
		strings.Replace(w.spec("x"), "127.0.0.1", "169.254.169.254", 1):                                      "allows them with workflows.endpoints",
		`"runner":"command","command":"sh"`:                                                                  "the runner command is off: the operator allows programs with workflows.programs",
		`"runner":"temporal","temporal":{"workflowClientName":"x","workflowStartOptions":{"TaskQueue":"q"}}`: "the runner temporal is off: the operator runs emco-temporal instead of emco",
	} {
		if text := s.expect(403, "POST", all, `{"metadata":{"name":"x"},"spec":{`+spec+`}}`); !strings.Contains(text, why) {
			t.Errorf("%s: %s", spec, text)
		}
	}
}
