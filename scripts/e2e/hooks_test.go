package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"

	"github.com/emco-orchestrator/emco/scripts/testbed/cluster"
	"github.com/emco-orchestrator/emco/scripts/testbed/flux"
)

// workflows is a server of workflows. It does the work of a key once, and answers a repeated request with what it
// answered before.
type workflows struct {
	testing.TB
	*httptest.Server
	web *cluster.Cluster // where the app web is

	mu   sync.Mutex
	room bool              // guarded by mu
	late bool              // the workflow drain does not end; guarded by mu
	done map[string]string // what was answered, by key; guarded by mu
	work []string          // what was done: the name of the workflow, and what the cluster held; guarded by mu
}

func newWorkflows(t *testing.T, web *cluster.Cluster) *workflows {
	w := &workflows{TB: t, web: web, late: true, done: map[string]string{}}
	w.Server = httptest.NewServer(w)
	t.Cleanup(w.Close)
	return w
}

func (w *workflows) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	name, key := strings.TrimPrefix(r.URL.Path, "/invoke/"), r.Header.Get("Idempotency-Key")
	_, _ = io.Copy(io.Discard, r.Body) // only then the server notices that the client leaves
	w.mu.Lock()
	room, late, answer := w.room, w.late, w.done[key]
	w.mu.Unlock()
	switch {
	case r.Method != http.MethodPost || key == "" || name == r.URL.Path:
		http.Error(out, "no such call", http.StatusNotFound)
		return
	case name == "room" && !room:
		http.Error(out, "no room for 2 processors", http.StatusUnprocessableEntity)
		return
	case name == "drain" && late:
		<-r.Context().Done()
		return
	case answer == "":
		held, err := ours(w.Context(), w.web)
		if err != nil {
			http.Error(out, err.Error(), http.StatusInternalServerError) // EMCO asks again
			return
		}
		what := "nothing"
		if slices.ContainsFunc(held, func(o kubeObject) bool { return o.Kind == "Deployment" && o.Metadata.Name == "r1-web" }) {
			what = "web"
		}
		w.mu.Lock()
		if answer = w.done[key]; answer == "" {
			answer = "the cluster has " + what
			w.done[key], w.work = answer, append(w.work, name+" "+what)
		}
		w.mu.Unlock()
	}
	fmt.Fprint(out, answer)
}

// be changes how workflows end.
func (w *workflows) be(room, late bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.room, w.late = room, late
}

// TestWorkflowHooks runs the suite examples/emco/hooks: c1 is a direct cluster, c2 has Flux. A hook fails, one is late,
// and each time a user goes on in another way.
func TestWorkflowHooks(t *testing.T) {
	do := steps{TB: t}
	do.next("two clusters, a server of workflows and a program")
	l := clustersOf(t)
	w := newWorkflows(t, l.c1)
	programs := t.TempDir()
	text, err := os.ReadFile(example("emco", "hooks", "programs", "backup"))
	if err == nil {
		err = os.WriteFile(filepath.Join(programs, "backup"), text, 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
	s := newStage(t, "-workflows.endpoints", w.URL+"/", "-workflows.programs", "backup="+filepath.Join(programs, "backup"))
	l.follow(s)
	host, port, err := net.SplitHostPort(w.Listener.Addr().String())
	s.must("read the address", err)
	file := func(name string) string { return example("emco", "hooks", name) }
	values := s.values(map[string]any{
		"GitURL": s.git.URL(repoName), "GitUser": writer, "GitToken": s.writeToken, "Kubeconfig": l.c1.Kubeconfig(),
		"FluxSecret": flux.Namespace, "SyncInterval": "1", "Packages": s.packages("web", "cache"),
		"WorkflowHost": host, "WorkflowPort": json.RawMessage(port),
	})
	run := func(collection, name string) (st v2.WorkflowStatus) {
		t.Helper()
		s.must("read the status of "+name, json.Unmarshal([]byte(s.ctl("get", "-o", "json", group+"/"+collection+"/"+name+"/status")), &st))
		return st
	}
	const hooks, started = "temporal-action-controller", "temporal-workflow-intents"
	becomes := func(collection, name, state string) (st v2.WorkflowStatus) {
		t.Helper()
		eventually(t, name+" becomes "+state, func() error {
			if st = run(collection, name); st.State != state {
				return fmt.Errorf("it is %s: %s", st.State, st.Message)
			}
			return nil
		})
		return st
	}
	s.apply(values, file("00-clusters.yaml"), file("01-app.yaml"), file("02-deployment.yaml"), file("03-hooks.yaml"))

	do.next("a hook before the installation fails: nothing is installed, until a retry succeeds")
	s.apply(values, file("04-instantiate.yaml"))
	if st := becomes(hooks, "10-room", v2.RunFailed); !strings.Contains(st.Message, "no room for 2 processors") || !slices.Equal(st.Actions, []string{"retry", "skip", "abort"}) {
		t.Errorf("a hook that failed: %+v", st)
	}
	if shown := s.ctl("status", group); !strings.Contains(shown, "HookFailed") || !strings.Contains(shown, "10-room") {
		t.Errorf("the status does not name the hook that failed:\n%s", shown)
	}
	empty(t, l.c1)
	empty(t, l.c2)
	w.be(true, true)
	s.ctl("apply", group+"/"+hooks+"/10-room/retry")
	s.wait(group, "instantiated")
	if st := becomes(hooks, "20-smoke", v2.RunSucceeded); st.Result != "the cluster has web" {
		t.Errorf("a hook after the installation: %+v", st)
	}
	available(t, l.c1, "r1-web")
	available(t, l.c2, "r1-cache")

	do.next("a hook before an update is late: nothing is updated, until a user skips it")
	before := identities(t, l.c2)
	s.apply(values, file("05-update.yaml"))
	if st := becomes(hooks, "40-drain", v2.RunFailed); !strings.Contains(st.Message, "it did not end within 5s") {
		t.Errorf("a hook that is late: %+v", st)
	}
	saved, err := os.ReadDir(filepath.Join(programs, "backups"))
	if st := run(hooks, "30-backup"); err != nil || len(saved) != 1 || st.State != v2.RunSucceeded || !strings.HasPrefix(st.Result, "saved "+saved[0].Name()) {
		t.Errorf("the program made the backups %v, %v; %+v", saved, err, st)
	}
	if now := identities(t, l.c2); now != before {
		t.Errorf("before the hooks are complete, c2 has\n%s\nbefore\n%s", now, before)
	}
	s.ctl("apply", group+"/"+hooks+"/40-drain/abort")
	eventually(t, "the update ends", func() error {
		if now := s.status(group).DeployedStatus; now != "InstantiateFailed" {
			return errors.New("the status is " + now)
		}
		return nil
	})
	if now := identities(t, l.c2); now != before {
		t.Errorf("after an update that was aborted, c2 has\n%s\nbefore\n%s", now, before)
	}
	s.apply(values, file("05-update.yaml"))
	becomes(hooks, "40-drain", v2.RunFailed)
	s.ctl("apply", group+"/"+hooks+"/40-drain/skip")
	s.wait(group, "instantiated")
	available(t, l.c2, "r1-web")

	do.next("users start a workflow")
	s.apply(values, file("06-workflow.yaml"))
	becomes(started, "count", v2.RunSucceeded)

	do.next("terminate, with hooks before and after it")
	s.terminate(group, l.c1, l.c2)
	becomes(hooks, "60-release", v2.RunSucceeded)
	w.mu.Lock()
	defer w.mu.Unlock()
	if want := []string{"room nothing", "smoke web", "count web", "farewell web", "release nothing"}; !slices.Equal(w.work, want) {
		t.Errorf("the workflows saw %q, want %q", w.work, want)
	}
	s.sound()
	s.ctl("delete", group+"/temporal-workflow-intents/count")
	s.clear(values, file("00-clusters.yaml"), file("01-app.yaml"), file("02-deployment.yaml"), file("03-hooks.yaml"))
	do.next("done")
}
