package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"

	"github.com/emco-orchestrator/emco/scripts/e2e/fleet"
	"github.com/emco-orchestrator/emco/scripts/e2e/program"
)

// quiet is the size above which simulated clusters do not report through Git: thousands of pushes by
// one process would measure the Git server.
const quiet = 2000

// A simulated fleet asks the control plane for its branches, follows these, and reports; then the
// status is Ready. EMCO_FLEET sets the number of clusters in the process; default 200.
func TestSimulatedFleet(t *testing.T) {
	t.Parallel()
	s := newSimulated(t)
	_, err := s.git.Seed(t.Context(), "status", branch)
	s.must("create the repository for reports", err)
	reports := []string{"-status.url", s.git.URL("status"), "-status.user", writer}
	s.seed(s.clusters, reports...)
	if s.clusters > quiet {
		reports = append(reports, "-silent")
	}
	s.runFleet(s.clusters <= quiet, reports)
}

// The same fleet reports over HTTPS, through a gateway that the clusters must trust, each with its own
// token.
func TestSimulatedFleetByHTTPS(t *testing.T) {
	t.Parallel()
	s, gateway := newSimulated(t), newGateway(t)
	gateway.open(t, s.emco.URL())
	tokens, ca := filepath.Join(s.dir, "tokens"), filepath.Join(s.dir, "gateway.pem")
	s.must("write the gateway's certificate", os.WriteFile(ca, gateway.ca(), 0o600))
	s.seed(s.clusters, "-tokens", tokens)
	s.runFleet(true, []string{"-status.control", gateway.URL, "-status.controlCAFile", ca, "-status.tokens", tokens})
}

// newSimulated is a stage for an unregistered fleet.
func newSimulated(t *testing.T) *scaleStage {
	t.Helper()
	clusters := 200
	if text := os.Getenv("EMCO_FLEET"); text != "" {
		var err error
		if clusters, err = strconv.Atoi(text); err != nil {
			t.Fatalf("EMCO_FLEET is %q, want a number of clusters", text)
		}
	}
	return &scaleStage{testStage: newStage(t, "-status.interval", "1s"), clusters: clusters, d: apps("large", 3, 4)}
}

// runFleet deploys to the fleet and changes a value while a tenth is offline.
func (s *scaleStage) runFleet(reports bool, how []string) {
	s.Helper()
	do := steps{TB: s.TB}
	do.next("%d clusters, 3 apps", s.clusters)
	s.must("onboard", s.fleet().Onboard(s.Context(), s.dir, s.d))
	s.measure("instantiate", func() {})

	do.next("all clusters run, a tenth is offline for a while, and a value changes")
	sim := s.simulate(append(how, "-do", "4s 10% offline", "-do", "12s all online")...)
	s.measure("update", func() { s.revalue("green") })
	if reports {
		s.allReady()
	}
	sum := sim.end()
	if sum.Current != s.clusters || sum.Applied < s.clusters {
		s.Errorf("at the end %d of %d clusters are current, after %d applied changes", sum.Current, s.clusters, sum.Applied)
	}
	busy := strings.Contains(sum.LastReason, "503 Service Unavailable") // a request to come back later is no failure
	if reports && (sum.Reports < s.clusters || sum.Failures > 0 && !busy) {
		s.Errorf("%d reports, and %d that failed: %s", sum.Reports, sum.Failures, sum.LastReason)
	}
	do.next("done")
}

// simfleetRun is a running simfleet, and its final summary.
type simfleetRun struct {
	*scaleStage
	cmd      *exec.Cmd
	out, log bytes.Buffer
}

// simulate starts simfleet on the fleet. It ends when all clusters have been settled for some time, or
// with the test.
func (s *scaleStage) simulate(args ...string) *simfleetRun {
	s.Helper()
	sim := &simfleetRun{scaleStage: s}
	args = append([]string{
		"run", "-api", s.emco.URL(), "-clusters", fmt.Sprint(s.clusters), "-provider", fleet.Provider,
		"-git.url", s.repository().URL, "-git.user", writer, "-interval", "5s", "-apply", "1s", "-status.interval", "2s",
		"-settled", "15s", "-for", "10m", "-progress", "3s", "-json",
	}, args...)
	sim.cmd = exec.CommandContext(s.Context(), filepath.Join(binaries(), "simfleet"), args...)
	sim.cmd.Env = append(os.Environ(), "GIT_TOKEN="+s.writeToken, "STATUS_TOKEN="+s.writeToken)
	sim.cmd.Stdout, sim.cmd.Stderr = &sim.out, &sim.log
	s.must("start simfleet", sim.cmd.Start())
	return sim
}

// simfleetSummary is the content of a summary of simfleet.
type simfleetSummary struct {
	Current, Applied, Reports int
	AppliedP50Seconds         float64
	AppliedP99Seconds         float64
	Failures                  int    `json:"reportsFailed"`
	LastReason                string `json:"lastFailure"`
}

// end waits until simfleet ends without a signal and with all clusters settled.
func (s *simfleetRun) end() (sum simfleetSummary) {
	s.Helper()
	err := s.cmd.Wait()
	for line := range strings.Lines(s.log.String()) {
		s.Logf("    %s", strings.TrimSpace(line))
	}
	s.must("simfleet", err)
	s.must("read its summary", json.Unmarshal(s.out.Bytes(), &sum))
	if use, ok := s.cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		s.Logf("    applied: half after %.1f s, 99 %% after %.1f s; %d reports; %d MiB at most, %.0f s of processors",
			sum.AppliedP50Seconds, sum.AppliedP99Seconds, sum.Reports, use.Maxrss/1024, (s.cmd.ProcessState.UserTime() + s.cmd.ProcessState.SystemTime()).Seconds())
	}
	return sum
}

// allReady waits until the status is Ready.
func (s *scaleStage) allReady() {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), 10*time.Minute)
	defer cancel()
	began := time.Now()
	s.must("it does not become ready", program.Poll(ctx, time.Second, func() error {
		text, err := s.emco.Get(ctx, "/v2/"+s.d.Path()+"/status?status=ready&output=summary")
		if err != nil {
			return err
		}
		var st v2.Status
		if err := json.Unmarshal(text, &st); err != nil {
			return err
		}
		if st.ReadyStatus != v2.Ready {
			return fmt.Errorf("readyStatus is %q: %v", st.ReadyStatus, st.ReadyCounts)
		}
		return nil
	}))
	s.Logf("    Ready after %.1f s", time.Since(began).Seconds())
}
