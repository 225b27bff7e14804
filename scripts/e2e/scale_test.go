package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"

	"github.com/emco-orchestrator/emco/scripts/e2e/fleet"
	"github.com/emco-orchestrator/emco/scripts/e2e/program"
)

// A large fleet costs work for differences only, and reaches the same result as a new installation: T4.
// EMCO_SCALE sets the size, such as 5000x20; without it the test skips. The program has no switch that
// renders each app for each cluster (T4f): the result of that is the same as a new installation, and
// its renders are a number.
func TestScale(t *testing.T) {
	var clusters, n int
	if _, err := fmt.Sscanf(os.Getenv("EMCO_SCALE"), "%dx%d", &clusters, &n); err != nil {
		t.Skip("EMCO_SCALE does not contain a size, such as 5000x20")
	}
	do := steps{TB: t}
	do.next("seed %d clusters", clusters)
	s := newScale(t, clusters, n)

	do.next("install %d apps on all of them", n)
	first := s.measure("instantiate", func() {})
	s.want("renders", first.renders, float64(n))
	s.within("commits of the installation", first.commits, float64(s.branches()*s.allowedCommits()))

	do.next("one value of one app")
	one := s.measure("update", func() { s.revalue("green") })
	s.want("renders of one value", one.renders, 1)
	s.want("commits of one value", one.commits, float64(s.branches()))
	s.printGoal("seconds of one value", one.seconds, 10)

	do.next("add one cluster")
	s.seed(clusters + 1)
	more := s.measure("update", func() {})
	s.want("renders of a cluster", more.renders, 0)
	s.within("commits of a cluster", more.commits, 1)
	s.printGoal("seconds of a cluster", more.seconds, 2)

	do.next("nothing")
	none := s.measure("update", func() {})
	s.want("commits of nothing", none.commits, 0)
	s.want("renders of nothing", none.renders, 0)
	m, err := s.emco.Memory()
	s.must("read memory", err)
	s.within("most resident memory, MiB", float64(m.Peak)/mib, 1536)
	s.within("renders in all, compared with one per pair and revision", first.renders+one.renders+more.renders+none.renders, float64(4*clusters*n)/50)

	do.next("the same in a new installation")
	again := newScale(t, clusters+1, n)
	again.revalue("green")
	again.measure("instantiate", func() {})
	s.equal(again)
	s.sound()
}

// scaleStage is a stage with a large fleet.
type scaleStage struct {
	*testStage
	clusters int
	d        fleet.Deployment
}

func newScale(t *testing.T, clusters, n int, args ...string) *scaleStage {
	t.Helper()
	s := &scaleStage{testStage: newStage(t, args...), clusters: clusters, d: apps("large", n, 5)}
	s.seed(clusters)
	s.must("onboard", s.fleet().Onboard(t.Context(), s.dir, s.d))
	return s
}

// seed registers clusters with simfleet and keeps existing ones. It spreads them over branch shards of
// at most a thousand.
func (s *scaleStage) seed(clusters int, more ...string) {
	s.Helper()
	began := time.Now()
	args := []string{
		"seed", "-api", s.emco.URL(), "-clusters", fmt.Sprint(clusters),
		"-provider", fleet.Provider, "-project", fleet.Project, "-cloud", fleet.Cloud, "-label", fleet.Label, "-refMode", "shard",
		"-git.url", s.repository().URL, "-git.user", writer,
	}
	cmd := exec.CommandContext(s.Context(), filepath.Join(binaries(), "simfleet"), append(args, more...)...)
	cmd.Env = append(os.Environ(), "GIT_TOKEN="+s.writeToken, "STATUS_TOKEN="+s.writeToken)
	if out, err := cmd.CombinedOutput(); err != nil {
		s.Fatalf("simfleet seed: %v: %s", err, out)
	}
	s.clusters = clusters
	s.Logf("    %d clusters registered in %.1f s", clusters, time.Since(began).Seconds())
}

func (s *scaleStage) revalue(colour string) {
	s.Helper()
	s.must("change a value", s.fleet().Revalue(s.Context(), s.d, s.d.Apps[0].Chart, "colour: "+colour+"\n"))
}

// operationCost is the cost of an operation.
type operationCost struct{ seconds, renders, commits float64 }

// measure changes the deployment and waits until the change is done. Seconds count to the last push, or
// to the end if nothing was pushed.
func (s *scaleStage) measure(action string, before func()) operationCost {
	s.Helper()
	var pushed atomic.Int64
	s.git.AfterPush(func(string) { pushed.Store(time.Now().UnixNano()) })
	old, err := s.emco.Metrics(s.Context())
	s.must("read metrics", err)
	began := time.Now()
	before()
	s.must(action, s.fleet().Act(s.Context(), s.d.Path(), action))
	answered := time.Since(began)
	s.done()
	c, done := operationCost{}, time.Since(began)
	s.git.AfterPush(nil)
	if c.seconds = done.Seconds(); pushed.Load() > 0 {
		last := time.Unix(0, pushed.Load())
		c.seconds = last.Sub(began).Seconds()
	}
	now, err := s.emco.Metrics(s.Context())
	s.must("read metrics", err)
	c.renders, c.commits = now["emco_renders_total"]-old["emco_renders_total"], now["emco_git_commits_total"]-old["emco_git_commits_total"]
	m, err := s.emco.Memory()
	s.must("read memory", err)
	s.Logf("    %s: answered after %.2f s, on the branches after %.1f s, status after %.1f s; %.0f renders, %.0f commits, %.0f calls of etcd, %d MiB resident, %d at most",
		action, answered.Seconds(), c.seconds, done.Seconds(), c.renders, c.commits, now["emco_etcd_operations_total"]-old["emco_etcd_operations_total"], m.Resident/mib, m.Peak/mib)
	return c
}

// done waits until the status reports the end, for at most ten minutes.
func (s *scaleStage) done() {
	s.Helper()
	s.doneBy(s.fleet())
}

// doneBy asks with a client, whose connections it uses again.
func (s *scaleStage) doneBy(f fleet.Fleet) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), 10*time.Minute)
	defer cancel()
	err := program.Poll(ctx, 500*time.Millisecond, func() error { // a poll of 100,000 pairs is not free
		st, err := f.Status(ctx, s.d.Path(), false)
		if err == nil && st.DeployedStatus != v2.StatusInstantiated {
			err = errors.New("deployedStatus is " + st.DeployedStatus)
		}
		return err
	})
	s.must("it is not done", err)
}

// branches counts the branches with clusters.
func (s *scaleStage) branches() int {
	s.Helper()
	out, err := s.bare.Git(s.Context(), "", "for-each-ref", "--format=%(refname:short)", "refs/heads/"+branch+"-*")
	s.must("list branches", err)
	return max(1, len(strings.Fields(out)))
}

// allowedCommits is the allowed number of commits of an installation on each branch.
func (s *scaleStage) allowedCommits() int { return 3 }

func (s *scaleStage) want(what string, got, want float64) {
	s.Helper()
	if got != want {
		s.Errorf("%s: %.0f, want %.0f", what, got, want)
	}
}

// printGoal prints a time next to its goal: the speed of a machine decides no test.
func (s *scaleStage) printGoal(what string, got, most float64) {
	s.Helper()
	s.Logf("    %s: %.1f, goal at most %.1f", what, got, most)
}

func (s *scaleStage) within(what string, got, most float64) {
	s.Helper()
	if got > most {
		s.Errorf("%s: %.1f, want at most %.1f", what, got, most)
	}
}

// Parts that differ between two deployments: their names, and the stamps of objects, which are digests
// of contents with the names.
var (
	deploymentID = regexp.MustCompile(`/context/([0-9]+)/`)
	stamp        = regexp.MustCompile(`emco/content: .*`)
)

// equal compares all files with those of another fleet.
func (s *scaleStage) equal(other *scaleStage) {
	s.Helper()
	a, b := s.contents(), other.contents()
	different := 0
	for path, text := range a {
		if b[path] != text {
			if different++; different == 1 {
				s.Errorf("%s differs from a new installation", path)
			}
		}
	}
	if different > 0 || len(a) != len(b) {
		s.Errorf("%d of %d files differ; the new installation has %d", different, len(a), len(b))
	}
	s.Logf("    %d files are equal", len(a)-different)
}

// contents lists the files of all branch shards, without the parts that differ between two deployments.
// The branch shard of a cluster depends on the other registrations at that moment.
func (s *scaleStage) contents() map[string]string {
	s.Helper()
	heads, err := s.bare.Git(s.Context(), "", "for-each-ref", "--format=%(refname:short)", "refs/heads/"+branch+"-*")
	s.must("list branches", err)
	out, texts := map[string]string{}, map[string]string{}
	for _, head := range strings.Fields(heads) {
		listing, err := s.bare.Git(s.Context(), "", "ls-tree", "-r", "-z", head)
		s.must("list "+head, err)
		for entry := range strings.SplitSeq(strings.TrimSuffix(listing, "\x00"), "\x00") {
			meta, path, _ := strings.Cut(entry, "\t")
			id := deploymentID.FindStringSubmatch(path)
			if id == nil {
				continue
			}
			blob := strings.Fields(meta)[2]
			if _, known := texts[blob]; !known {
				text, err := s.bare.Git(s.Context(), "", "cat-file", "blob", blob)
				s.must("read "+path, err)
				texts[blob] = stamp.ReplaceAllString(strings.ReplaceAll(text, id[1], "ID"), "emco/content: STAMP")
			}
			out[strings.ReplaceAll(path, id[1], "ID")] = texts[blob]
		}
	}
	return out
}
