package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/git/gittest"

	"github.com/emco-orchestrator/emco/scripts/e2e/fleet"
	"github.com/emco-orchestrator/emco/scripts/e2e/program"
	"github.com/emco-orchestrator/emco/scripts/testbed/bed"
)

// replicaStage are several processes on one etcd and one folder of documents.
type replicaStage struct {
	*testStage
	etcd string
	all  []*program.Emco
}

// newStageOnEtcd starts an etcd, and returns its URL and a stage whose programs the test starts.
func newStageOnEtcd(t *testing.T) (*testStage, string) {
	t.Helper()
	b, err := bed.Open(t.Context(), bed.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	s := newStage(t)
	s.must("stop the program on embedded stores", s.emco.Stop())
	s.emco = nil
	return s, b.EtcdURL()
}

// newReplicas starts an etcd, and a process for all services except rsync.
func newReplicas(t *testing.T) *replicaStage {
	t.Helper()
	s, etcd := newStageOnEtcd(t)
	r := &replicaStage{testStage: s, etcd: etcd}
	s.emco = r.start("api", "clm,dcm,placementintent,orchestrator")
	t.Cleanup(func() { s.emco = nil }) // it ends with the others
	return r
}

// start runs a process with some of the services.
func (r *replicaStage) start(name, target string) *program.Emco {
	r.Helper()
	return r.startFrom(binaries(), name, target)
}

// startFrom runs a process of the programs in a folder.
func (r *replicaStage) startFrom(bin, name, target string) *program.Emco {
	r.Helper()
	e, err := program.Start(r.Context(), program.Options{
		Bin: bin, Dir: filepath.Join(r.dir, name),
		Args: []string{"-target", target, "-data", filepath.Join(r.dir, "shared"), "-etcd.endpoints", r.etcd, "-etcd.prefix", "/emco-" + filepath.Base(r.dir) + "/", "-lease", "3s"},
	})
	r.must("start "+name, err)
	r.all = append(r.all, e)
	r.Cleanup(e.Kill)
	return e
}

// commits is the number of a process's commits.
func (r *replicaStage) commits(e *program.Emco) float64 {
	r.Helper()
	m, err := e.Metrics(r.Context())
	r.must("read metrics", err)
	return m["emco_git_commits_total"]
}

// share waits until each of some rsync processes works on its part of the shards.
func (r *replicaStage) share(all ...*program.Emco) {
	r.Helper()
	for _, e := range all {
		eventually(r, "a part of the shards for each process", func() error {
			text, err := e.Get(r.Context(), "/readyz?verbose")
			if err != nil {
				return err
			}
			_, state, _ := strings.Cut(string(text), "rsync: ready; works on ")
			state, _, _ = strings.Cut(state, "\n")
			if want := fmt.Sprintf("members: %d", len(all)); !strings.HasSuffix(state, want) || strings.HasPrefix(state, "0 ") {
				return fmt.Errorf("a process works on %q, want %s", state, want)
			}
			return nil
		})
	}
}

// Two rsync processes share the repositories of a fleet. When one is paused or killed, the other takes
// over; the paused one does no harm when it wakes up.
func TestReplicasShareWorkAndReplaceEachOther(t *testing.T) {
	do := steps{TB: t}
	const repositories = 12
	do.next("one etcd, a process for the API, one for the orchestrator, two for rsync; %d repositories", repositories)
	r := newReplicas(t)
	s := r.testStage
	one, two := r.start("rsync-1", "rsync"), r.start("rsync-2", "rsync")

	f := s.fleet()
	s.must("register the fleet", f.Found(t.Context(), s.repository()))
	var bares []gittest.Bare
	for i := range repositories {
		name := fmt.Sprintf("repo-%02d", i)
		bare, err := s.git.Seed(t.Context(), name, branch)
		s.must("create a repository", err)
		bares = append(bares, bare)
		s.must("register", f.RegisterIn(t.Context(), name, fleet.Repository{URL: s.git.URL(name), User: writer, Token: s.writeToken}))
	}
	s.must("open the logical cloud", f.OpenCloud(t.Context()))
	d := apps("shared", 2, 3)
	s.must("onboard", f.Onboard(t.Context(), s.dir, d))

	r.share(one, two)
	do.next("instantiate: both work")
	s.phase(d, "instantiate", v2.StatusInstantiated)
	if a, b := r.commits(one), r.commits(two); a == 0 || b == 0 || a+b != repositories {
		t.Errorf("commits: %.0f and %.0f, want both to work, %d in all", a, b, repositories)
	}

	do.next("pause the first, update: the second does all work")
	s.must("pause", syscall.Kill(one.PID(), syscall.SIGSTOP))
	s.must("change a value", f.Revalue(t.Context(), d, d.Apps[0].Chart, "colour: green\n"))
	s.phase(d, "update", v2.StatusInstantiated)
	want := r.colours(bares, "green")

	do.next("wake the first up, kill the second, update: the first does all work")
	s.must("wake up", syscall.Kill(one.PID(), syscall.SIGCONT))
	two.Kill()
	s.must("change a value", f.Revalue(t.Context(), d, d.Apps[0].Chart, "colour: red\n"))
	s.phase(d, "update", v2.StatusInstantiated)
	if now := r.colours(bares, "red"); now != want+repositories {
		t.Errorf("%d commits in all repositories, want %d: one each for the last update", now, want+repositories)
	}
	s.phase(d, "terminate", v2.StatusTerminated)
	for _, bare := range bares {
		s.must("git fsck --strict", bare.Fsck(t.Context()))
	}
	do.next("done")
}

// colours checks the value in all repositories, and counts their commits.
func (r *replicaStage) colours(bares []gittest.Bare, want string) (commits int) {
	r.Helper()
	for _, bare := range bares {
		text, err := bare.Git(r.Context(), "", "grep", "-h", "colour", branch, "--", "*app00-00*")
		r.must("search the branch", err)
		if !strings.Contains(text, want) {
			r.Errorf("%s contains %q, want %s", bare.Dir, text, want)
		}
		log, err := bare.Git(r.Context(), "", "rev-list", "--count", branch)
		r.must("count commits", err)
		var n int
		_, err = fmt.Sscan(log, &n)
		r.must("count commits", err)
		commits += n
	}
	return commits
}
