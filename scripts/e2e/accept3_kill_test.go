package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"

	"github.com/emco-orchestrator/emco/scripts/e2e/fleet"
	"github.com/emco-orchestrator/emco/scripts/e2e/program"
	"github.com/emco-orchestrator/emco/scripts/testbed/cluster"
)

const (
	killClusters = 20
	killObjects  = 3 * (10 + 4 + 2) // of all deployments on each cluster
	kills        = 10
)

// operationResult is the result of an operation, in the repository and on the direct cluster.
type operationResult struct {
	tree    map[string]string // blob by path
	objects map[string]string // the fields that EMCO set of each object, by kind and name
}

// lifecycleStep is an action and the state of the deployment after it.
type lifecycleStep struct {
	action, done string
	want         operationResult
	took         time.Duration // undisturbed
}

func TestAcceptance3Kill(t *testing.T) {
	do := steps{TB: t}
	random := seeded(t)
	do.next("%d Git clusters and one direct cluster, three deployments of 3 apps on all of them", killClusters)
	l, s := clustersOf(t), newStage(t)
	f := s.fleet()
	s.must("register the fleet", f.Found(t.Context(), s.repository()))
	s.must("register Git clusters", f.Register(t.Context(), killClusters))
	s.must("register c1", f.RegisterDirect(t.Context(), "c1", l.c1.Kubeconfig()))
	s.must("open the logical cloud", f.OpenCloud(t.Context()))
	all := []fleet.Deployment{threeApps("one", 10), threeApps("two", 4), threeApps("three", 2)}
	for _, d := range all {
		s.must("onboard", f.Onboard(t.Context(), s.dir, d))
	}

	do.next("an undisturbed run, for comparison")
	up, down := lifecycleStep{action: "instantiate", done: v2.StatusInstantiated}, lifecycleStep{action: "terminate", done: v2.StatusTerminated}
	for _, op := range []*lifecycleStep{&up, &down} {
		began := time.Now()
		s.must(op.action, errors.Join(s.act(all, op.action)...))
		for _, d := range all {
			s.reaches(d, op.done)
		}
		op.took = time.Since(began)
		op.want = s.outcome(l.c1)
	}
	if len(up.want.tree) != killClusters*killObjects+1 || len(up.want.objects) != killObjects || len(down.want.tree) != 1 || len(down.want.objects) != 0 {
		t.Fatalf("the undisturbed run made %d files and %d objects, and left %d and %d",
			len(up.want.tree), len(up.want.objects), len(down.want.tree), len(down.want.objects))
	}

	for i := range kills {
		op := []lifecycleStep{up, down}[i%2]
		at := time.Duration(random.Float64() * 1.2 * float64(op.took))
		do.next("kill -9 %d of %d, %d ms into %s (undisturbed %d ms)", i+1, kills, at.Milliseconds(), op.action, op.took.Milliseconds())
		s.killed(all, op, at, l.c1)
	}
	do.next("the repository is sound")
	s.sound()
	do.next("done")
}

// seeded returns random numbers; EMCO_E2E_SEED repeats those of an earlier run.
func seeded(t *testing.T) *rand.Rand {
	seed := rand.Uint64()
	if text := os.Getenv("EMCO_E2E_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("EMCO_E2E_SEED: %v", err)
		}
	}
	t.Logf("seed %d (EMCO_E2E_SEED=%d repeats it)", seed, seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// threeApps is a deployment of three charts on all clusters.
func threeApps(name string, resources int) fleet.Deployment {
	d := fleet.Deployment{Name: name}
	for _, app := range []string{"front", "middle", "back"} {
		d.Apps = append(d.Apps, fleet.App{Chart: fleet.Synthetic(app, resources)})
	}
	return d
}

// act requests an action on deployments, one after the other. It returns the errors in their order; nil
// for an accepted action.
func (s *testStage) act(all []fleet.Deployment, action string) []error {
	out := make([]error, len(all))
	f, err := fleet.Open(s.emco.URL())
	for i, d := range all {
		if out[i] = err; err == nil {
			out[i] = f.Act(s.Context(), d.Path(), action)
		}
	}
	return out
}

// killed runs an operation, kills emco at a moment during the operation, starts emco again and checks
// that the result is the same as in the undisturbed run.
func (s *testStage) killed(all []fleet.Deployment, op lifecycleStep, at time.Duration, direct *cluster.Cluster) {
	s.Helper()
	before := len(s.history())
	var asked sync.WaitGroup
	var answers []error
	asked.Go(func() { answers = s.act(all, op.action) })
	timer := time.NewTimer(at)
	<-timer.C
	s.emco.Kill()
	asked.Wait()
	landed := len(s.history()) - before
	s.start()
	var states []string
	for i, d := range all {
		states = append(states, s.restarted(d, op, answers[i]))
	}
	for _, d := range all {
		s.reaches(d, op.done)
	}
	eventuallyEqual(s, op.want, direct)
	s.distinct(before)
	s.Logf("after the restart: %s; commits before and after it: %d, %d", strings.Join(states, ", "), landed, len(s.history())-before-landed)
}

// restarted reads the state of a deployment, and repeats unanswered requests: the client does not know
// whether emco accepted them.
func (s *testStage) restarted(d fleet.Deployment, op lifecycleStep, answer error) string {
	s.Helper()
	f := s.fleet()
	st, err := f.Status(s.Context(), d.Path(), false)
	s.must("read the status after the restart", err)
	if answer == nil {
		return st.DeployedStatus
	}
	if err := f.Act(s.Context(), d.Path(), op.action); err != nil {
		return st.DeployedStatus + " (not answered, but accepted)"
	}
	return st.DeployedStatus + " (not answered, requested again)"
}

// reaches waits for a status and fails without it.
func (s *testStage) reaches(d fleet.Deployment, want string) {
	s.Helper()
	if err := s.await(d, want); err != nil {
		s.Fatal(err)
	}
}

// await waits for a status. Its error contains the state of the deployment.
func (s *testStage) await(d fleet.Deployment, want string) error {
	f, err := fleet.Open(s.emco.URL())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	err = program.Poll(ctx, 20*time.Millisecond, func() error {
		st, err := f.Status(ctx, d.Path(), false)
		if strings.HasSuffix(st.DeployedStatus, "Failed") {
			cancel()
		}
		if err == nil && st.DeployedStatus != want {
			err = fmt.Errorf("deployedStatus is %q %s %v", st.DeployedStatus, st.Failure, st.DeployedCounts)
		}
		return err
	})
	if err == nil {
		return nil
	}
	text := ""
	if st, unread := f.Status(s.Context(), d.Path(), true); unread == nil {
		text = explain(st)
	}
	return fmt.Errorf("%s does not become %s: %w\n%s", d.Name, want, err, text)
}

// explain prints the failures in a status, one line each.
func explain(st v2.Status) string {
	var out strings.Builder
	for _, app := range st.Apps {
		if app.Failure != nil {
			fmt.Fprintf(&out, "app %s: %s: %s\n", app.Name, app.Failure.File, app.Failure.Reason)
		}
		for _, c := range app.Clusters {
			fmt.Fprintf(&out, "app %s on %s: %s %s\n", app.Name, c.Cluster, c.Phase, c.Error)
		}
	}
	return fmt.Sprintf("%.3000s", out.String())
}

// outcome reads the current result.
func (s *testStage) outcome(direct *cluster.Cluster) operationResult {
	s.Helper()
	list, err := ours(s.Context(), direct)
	s.must("list objects", err)
	out := operationResult{tree: s.tree(), objects: map[string]string{}}
	for _, o := range list {
		text := fmt.Sprint(o.Metadata.Labels, o.Data)
		if o.Kind != "Service" { // the cluster sets their addresses
			text += string(o.Spec)
		}
		out.objects[o.String()] = text
	}
	return out
}

// eventuallyEqual waits until the cluster has deleted objects in the background, and compares the
// result.
func eventuallyEqual(s *testStage, want operationResult, direct *cluster.Cluster) {
	s.Helper()
	eventually(s, "the same result as undisturbed", func() error {
		got := s.outcome(direct)
		return errors.Join(differences("file", got.tree, want.tree), differences("object", got.objects, want.objects))
	})
}

// differences lists missing, surplus and differing objects.
func differences(what string, got, want map[string]string) error {
	var errs []error
	for name, text := range want {
		if have, ok := got[name]; !ok {
			errs = append(errs, fmt.Errorf("%s %s is missing", what, name))
		} else if have != text {
			errs = append(errs, fmt.Errorf("%s %s is %q, want %q", what, name, have, text))
		}
	}
	for name := range maps.Keys(got) {
		if _, ok := want[name]; !ok {
			errs = append(errs, fmt.Errorf("%s %s is orphaned", what, name))
		}
	}
	if len(errs) > 5 {
		errs = append(errs[:5], fmt.Errorf("and %d more", len(errs)-5))
	}
	return errors.Join(errs...)
}

// distinct checks that no state of the repository since a length of the history was committed twice.
func (s *testStage) distinct(before int) {
	s.Helper()
	all := s.history()
	seen := map[string]string{}
	for _, c := range all[:len(all)-before+1] {
		if other, twice := seen[c.Tree]; twice {
			s.Errorf("commits %s and %s of one operation have the same tree", c.Hash, other)
		}
		seen[c.Tree] = c.Hash
	}
}
