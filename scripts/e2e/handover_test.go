package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"

	"github.com/emco-orchestrator/emco/scripts/e2e/fleet"
)

const movers = 4 // clusters

// Two rsync processes share the branches of moving clusters. First both work, and hand work over to
// each other. Then one works alone, and the test kills it when a move has reached the first of its two
// branches and the process does not know. The other process, paused until then, finishes the moves.
// Each branch sees one commit of each move, the clusters' branches keep their content, and nothing is
// in two places.
func TestAMoveIsFinishedByAnotherProcess(t *testing.T) {
	do := steps{TB: t}
	do.next("one etcd, a process for the API and the orchestrator, two for rsync; %d clusters", movers)
	m := &moveTest{newReplicas(t)}
	s := m.testStage
	one, two := m.start("rsync-1", "rsync"), m.start("rsync-2", "rsync")
	repository := s.repository()
	repository.Keys = map[string]v2.Scalar{"refMode": "cluster"}
	f := s.fleet()
	s.must("register the fleet", f.Found(t.Context(), repository))
	s.must("register", f.Register(t.Context(), movers))
	s.must("open the logical cloud", f.OpenCloud(t.Context()))
	d := apps("moving", 2, 3)
	s.must("onboard", f.Onboard(t.Context(), s.dir, d))
	s.must("instantiate", f.Act(t.Context(), d.Path(), "instantiate"))
	s.follow(d, v2.StatusInstantiated)

	do.next("all clusters move, until both processes have written branches")
	round, was := 0, m.read()
	for round < 6 && (m.commits(one) == 0 || m.commits(two) == 0) {
		round++
		m.move(round)
		m.arrive(round)
		m.check(round, was)
	}
	n1, n2 := m.commits(one), m.commits(two)
	t.Logf("    %d rounds; %.0f commits by one, %.0f by the other", round, n1, n2)
	if n1 == 0 || n2 == 0 {
		t.Errorf("commits: %.0f and %.0f, want both to work", n1, n2)
	}

	do.next("one is paused, the other works alone, and is killed when the first move has landed without its knowledge")
	s.must("pause", syscall.Kill(two.PID(), syscall.SIGSTOP))
	s.must("change a value", f.Revalue(t.Context(), d, d.Apps[0].Chart, "colour: green\n"))
	s.must("update", f.Act(t.Context(), d.Path(), "update"))
	s.follow(d, v2.StatusInstantiated)
	was = m.read()
	dead := make(chan struct{})
	var once sync.Once
	s.git.AfterPush(func(string) {
		once.Do(func() {
			one.Kill()
			close(dead)
		})
	})
	round++
	m.move(round)
	<-dead
	s.git.AfterPush(nil)
	if n := m.done(round); n == movers {
		t.Error("all clusters had moved before the kill")
	}
	s.must("wake up", syscall.Kill(two.PID(), syscall.SIGCONT))
	m.arrive(round)
	m.check(round, was)

	do.next("it continues with an update, and terminates")
	s.must("change a value", f.Revalue(t.Context(), d, d.Apps[0].Chart, "colour: red\n"))
	s.must("update", f.Act(t.Context(), d.Path(), "update"))
	s.follow(d, v2.StatusInstantiated)
	for i := range movers {
		if text := m.bareGit("grep", "-h", "colour", m.shard(round, i), "--", "*app00-00*"); !strings.Contains(text, "red") {
			t.Errorf("%s contains %q, want red", m.shard(round, i), text)
		}
	}
	s.must("terminate", f.Act(t.Context(), d.Path(), "terminate"))
	s.follow(d, v2.StatusTerminated)
	for i := range movers {
		m.empty(m.shard(round, i))
	}
	s.must("git fsck --strict", s.bare.Fsck(t.Context()))
	do.next("done")
}

// moveTest moves all clusters to other branches, in rounds.
type moveTest struct{ *replicaStage }

// shard is the branch shard of the i-th cluster after a round.
func (m *moveTest) shard(round, i int) string { return fmt.Sprintf("%s-s%d%02d", branch, round, i) }

func view(i int) string { return "clusters/edge+" + fleet.GitCluster(i) }

func (m *moveTest) bareGit(args ...string) string {
	m.Helper()
	out, err := m.bare.Git(m.Context(), "", args...)
	m.must("git "+strings.Join(args, " "), err)
	return out
}

// read returns the heads of the clusters' branches.
func (m *moveTest) read() (at []string) {
	m.Helper()
	for i := range movers {
		at = append(at, m.bareGit("rev-parse", view(i)))
	}
	return at
}

// move requests the moves of a round.
func (m *moveTest) move(round int) {
	m.Helper()
	for i := range movers {
		_, to, _ := strings.Cut(m.shard(round, i), "-")
		m.ctl("move", "edge/"+fleet.GitCluster(i), "--to", to)
	}
}

// done counts the clusters that have arrived.
func (m *moveTest) done(round int) (n int) {
	m.Helper()
	for i := range movers {
		text, err := m.emco.Get(m.Context(), "/v2/cluster-providers/edge/clusters/"+fleet.GitCluster(i)+"/move")
		m.must("read the move", err)
		var c v2.ClusterMove
		m.must("read the move", json.Unmarshal(text, &c))
		if c.Done && branch+"-"+c.To.Shard == m.shard(round, i) {
			n++
		}
	}
	return n
}

func (m *moveTest) arrive(round int) {
	m.Helper()
	eventually(m, "all clusters have moved", func() error {
		if n := m.done(round); n < movers {
			return fmt.Errorf("%d of %d have moved", n, movers)
		}
		return nil
	})
}

// check expects each cluster in its new place, by one commit, unchanged and equal to its derived
// branch, and nothing in the old place.
func (m *moveTest) check(round int, was []string) {
	m.Helper()
	now := m.read()
	for i := range movers {
		to := m.shard(round, i)
		if now[i] != was[i] {
			m.Errorf("what %s reads went from %s to %s", fleet.GitCluster(i), was[i], now[i])
		}
		if a, b := m.bareGit("rev-parse", to+":clusters"), m.bareGit("rev-parse", view(i)+":clusters"); a != b {
			m.Errorf("%s contains %s, and its cluster reads %s", to, a, b)
		}
		if n := m.bareGit("rev-list", "--count", to); n != "1" {
			m.Errorf("%s has %s commits, want one:\n%s", to, n, m.bareGit("log", "-p", "--format=%ci %B", to))
		}
		if round > 1 {
			m.empty(m.shard(round-1, i))
		}
	}
}

// empty expects an empty branch whose last commit removed the content.
func (m *moveTest) empty(branch string) {
	m.Helper()
	if files := m.bareGit("ls-tree", "-r", "--name-only", branch, "--", "clusters/"); files != "" {
		m.Errorf("%s still contains %s", branch, files)
	}
	same := strings.Fields(m.bareGit("log", "--format=%T", branch))
	for i := range same[1:] {
		if same[i] == same[i+1] {
			m.Errorf("a commit of %s changed nothing", branch)
		}
	}
}
