package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"

	"github.com/emco-orchestrator/emco/scripts/testbed/temporal"
)

const backupHook = group + "/temporal-action-controller/10-backup"

func startTemporal(t *testing.T) *temporal.Server {
	t.Helper()
	server, err := temporal.Start(t.Context(), temporal.Options{Dir: t.TempDir(), Progress: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	return server
}

// goBuild builds a program of a module, and returns its path.
func goBuild(t *testing.T, module, pkg string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "program")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", out, pkg)
	cmd.Dir = module
	cmd.Env = append(os.Environ(), "GOWORK=off")
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build %s in %s: %v\n%s", pkg, module, err, text)
	}
	return out
}

// TestTemporalRunnerOnARealServer runs the tests of the runner, on this server too.
func TestTemporalRunnerOnARealServer(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-v", "./...")
	cmd.Dir = "../../src/emco/temporal"
	cmd.Env = append(os.Environ(), "EMCO_TEMPORAL="+startTemporal(t).Address(), "GOWORK=off")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if n := strings.Count(string(out), "/real ("); n < 6 {
		t.Errorf("only %d tests ran on the real server:\n%s", n, out)
	}
}

// backupWorker is the worker of examples/05-temporal, which tests start and stop.
type backupWorker struct {
	*testStage
	program, address, data, log string
}

// start runs the worker until the returned function ends it.
func (w *backupWorker) start() (stop func()) {
	w.Helper()
	log, err := os.OpenFile(w.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	w.must("open the worker's log", err)
	defer log.Close()
	cmd := exec.CommandContext(w.Context(), w.program, "-address", w.address, "-data", w.data, "-backups", filepath.Join(w.dir, "backups"))
	cmd.Stdout, cmd.Stderr = log, log
	w.must("start the worker", cmd.Start())
	return func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	}
}

// copied returns how often the worker did the work of a workflow.
func (w *backupWorker) copied(id string) int {
	w.Helper()
	text, err := os.ReadFile(w.log)
	w.must("read the worker's log", err)
	return strings.Count(string(text), "copied "+id+"\n")
}

// hookBecomes waits until the last run of the hook has a state.
func (s *testStage) hookBecomes(want string) (st v2.WorkflowStatus) {
	s.Helper()
	eventually(s, "the hook becomes "+want, func() error {
		text, err := s.emco.Get(s.Context(), "/v2/"+backupHook+"/status")
		if err != nil {
			return err
		}
		st = v2.WorkflowStatus{}
		if err := json.Unmarshal(text, &st); err != nil || st.State != want {
			return fmt.Errorf("%v: %s", err, text)
		}
		return nil
	})
	return st
}

// TestTemporalRunsAHook runs examples/05-temporal on the deployment of examples/01-git-fleet.
func TestTemporalRunsAHook(t *testing.T) {
	do := steps{TB: t}
	do.next("Temporal without a worker, and a deployment with a hook before updates")
	server := startTemporal(t)
	s := newStageOf(t, goBuild(t, "../../src/emco/temporal", "./cmd/emco-temporal"),
		"-workflows.temporal.address", server.Address(), "-workflows.temporal.taskQueues", "backups")
	w := &backupWorker{s, goBuild(t, example("05-temporal"), "."), server.Address(), t.TempDir(), filepath.Join(s.dir, "worker.log")}
	s.must("create a database", os.WriteFile(filepath.Join(w.data, "till"), []byte("sold out"), 0o600))
	values := func(database string) string {
		return s.values(map[string]any{
			"GitURL": s.git.URL(repoName), "GitUser": writer, "GitToken": s.writeToken, "Database": database,
			"Packages": s.packages("web", "cache"), "Apps": []map[string]string{{"Name": "web"}, {"Name": "cache"}},
			"Clusters": []map[string]string{{"Name": "alpha", "Label": "store"}, {"Name": "bravo", "Label": "depot"}},
		})
	}
	hook := example("05-temporal", "hooks.yaml")
	s.apply(values("till"), example("01-git-fleet", "00-clusters.yaml"), example("01-git-fleet", "01-app.yaml"), example("01-git-fleet", "02-deployment.yaml"))
	s.wait(group, "instantiated")
	s.apply(values("till"), hook)

	do.next("an update waits in Temporal, while emco is killed and Temporal restarts")
	before := s.head()
	s.ctl("apply", group+"/update")
	first := s.hookBecomes(v2.RunRunning)
	s.emco.Kill()
	s.must("restart Temporal", server.Restart(t.Context()))
	s.start()
	if again := s.hookBecomes(v2.RunRunning); again.ID != first.ID || s.head() != before {
		t.Errorf("after the restart the run is %s, want %s; the branch was at %s and is at %s", again.ID, first.ID, before, s.head())
	}

	do.next("a worker comes, and the update goes on (a Temporal that restarts hands tasks out after a minute)")
	stop := w.start()
	defer func() { stop() }()
	done := s.hookBecomes(v2.RunSucceeded)
	if text, err := os.ReadFile(done.Result); err != nil || string(text) != "sold out" || done.ID != first.ID || w.copied(first.ID) != 1 {
		t.Errorf("the run is %+v, its copy is %q (%v), and was made %d times", done, text, err, w.copied(first.ID))
	}
	s.wait(group, "instantiated")

	do.next("emco is killed while the worker makes a copy")
	slow := filepath.Join(w.data, "slow") // a reader waits for a writer
	s.must("create a pipe", syscall.Mkfifo(slow, 0o600))
	s.apply(values("slow"), hook)
	s.ctl("apply", group+"/update")
	var pipe *os.File
	eventually(t, "the worker reads the database", func() (err error) {
		pipe, err = os.OpenFile(slow, os.O_WRONLY|syscall.O_NONBLOCK, 0)
		return err
	})
	defer pipe.Close()
	underWay := s.hookBecomes(v2.RunRunning)
	s.emco.Kill()
	s.start()
	s.must("end the copy", pipe.Close())
	if found := s.hookBecomes(v2.RunSucceeded); found.ID != underWay.ID || w.copied(found.ID) != 1 {
		t.Errorf("the run is %+v, want %s; its copy was made %d times", found, underWay.ID, w.copied(found.ID))
	}
	s.wait(group, "instantiated")

	do.next("a workflow fails, and its intent is mended")
	s.apply(values("warehouse"), hook)
	s.ctl("apply", group+"/update")
	if failed := s.hookBecomes(v2.RunFailed); !strings.Contains(failed.Message, "there is no database warehouse") || !slices.Contains(failed.Actions, "retry") {
		t.Errorf("the failed run is %+v", failed)
	}
	s.apply(values("till"), hook)
	s.ctl("apply", backupHook+"/retry")
	second := s.hookBecomes(v2.RunSucceeded)
	s.wait(group, "instantiated")

	do.next("a workflow is canceled before a worker comes to it")
	stop()
	s.ctl("apply", group+"/update")
	s.hookBecomes(v2.RunRunning)
	s.ctl("apply", backupHook+"/cancel")
	canceled := s.hookBecomes(v2.RunCanceled)
	if strings.Contains(canceled.Message, "may go on") {
		t.Errorf("the canceled run is %+v", canceled)
	}
	stop = w.start()
	s.ctl("apply", backupHook+"/retry")
	third := s.hookBecomes(v2.RunSucceeded)
	s.wait(group, "instantiated")
	if w.copied(canceled.ID) != 0 || w.copied(second.ID) != 1 || w.copied(third.ID) != 1 {
		t.Errorf("copies of the canceled run: %d, of the others %d and %d", w.copied(canceled.ID), w.copied(second.ID), w.copied(third.ID))
	}
}
