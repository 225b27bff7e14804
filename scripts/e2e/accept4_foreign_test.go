package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/git/gittest"

	"github.com/emco-orchestrator/emco/scripts/e2e/fleet"
)

const (
	foreignPeriod   = 200 * time.Millisecond
	foreignTime     = 30 * time.Second
	foreignPatience = 5 * time.Minute // until both sides have made enough commits
	enoughTheirs    = 120
	enoughOurs      = 20
	foreignAhead    = enoughTheirs / enoughOurs // the most foreign commits between two of emco, or emco never wins on a slow machine
	foreignClusters = 10
	foreignGroups   = 4
)

// While someone else commits continuously, directly in the repository and so within any push of EMCO,
// the branch finally contains every commit of theirs and every path of EMCO, git finds no fault, the
// server refuses forced pushes, and emco tried none.
func TestAcceptance4ForeignCommits(t *testing.T) {
	do := steps{TB: t}
	do.next("%d Git clusters, %d deployments", foreignClusters, foreignGroups)
	s := newStage(t)
	f := s.fleet()
	s.must("register the fleet", f.Found(t.Context(), s.repository()))
	s.must("register clusters", f.Register(t.Context(), foreignClusters))
	s.must("open the logical cloud", f.OpenCloud(t.Context()))
	groups := make([]fleet.Deployment, foreignGroups)
	for i := range groups {
		groups[i] = threeApps(fmt.Sprintf("group%d", i), 4)
		s.must("onboard", f.Onboard(t.Context(), s.dir, groups[i]))
		s.must("instantiate", f.Act(t.Context(), groups[i].Path(), "instantiate"))
		s.reaches(groups[i], v2.StatusInstantiated)
	}
	full := s.tree() // every deployment exists, undisturbed
	tried := s.refuseForce()

	do.next("%s of emco's writes, while someone else commits every %s", foreignTime, foreignPeriod)
	ctx, cancel := context.WithTimeout(t.Context(), foreignPatience)
	defer cancel()
	others := &foreignCommitter{stage: s, files: map[string]string{}}
	var all sync.WaitGroup
	all.Go(func() {
		defer cancel()
		others.runUntilEnough(ctx)
	})
	all.Go(func() {
		defer cancel()
		others.write(ctx)
	})
	rounds := make([]int, foreignGroups)
	for i, d := range groups {
		all.Go(func() { rounds[i] = s.churn(ctx, d) })
	}
	all.Wait()
	if t.Failed() {
		return
	}

	do.next("half of the deployments are terminated, half stay")
	for i, d := range groups {
		if i%2 == 0 {
			s.must("terminate", f.Act(t.Context(), d.Path(), "terminate"))
			s.reaches(d, v2.StatusTerminated)
			drop(full, s.contextOf(d))
		}
	}
	do.next("all commits and all files are there")
	others.check(t)
	maps.Copy(full, others.expectedBlobs(s))
	if err := differences("file", s.tree(), full); err != nil {
		t.Error(err)
	}
	s.sound()
	s.unforced(tried)
	m, err := s.emco.Metrics(t.Context())
	s.must("read metrics", err)
	t.Logf("%d foreign commits, %.0f of emco after %.0f lost races, in %v rounds; %d in the history",
		len(others.commits), m["emco_git_commits_total"], m["emco_git_conflicts_total"], rounds, len(s.history()))
	if len(others.commits) < enoughTheirs || m["emco_git_commits_total"] < enoughOurs {
		t.Error("too few commits for a conclusion")
	}
	do.next("done")
}

// refuseForce makes the server record each push that is no fast-forward, before it refuses the push, in
// the returned file.
func (s *testStage) refuseForce() string {
	s.Helper()
	refuses, err := s.bare.Git(s.Context(), "", "config", "receive.denyNonFastForwards")
	s.must("read the refused pushes", err)
	if refuses != "true" {
		s.Fatal("the server accepts forced pushes")
	}
	note := filepath.Join(s.dir, "forced")
	s.must("watch pushes", s.bare.Hook("pre-receive", `while read -r old new ref; do
  case "$old" in *[!0]*) git merge-base --is-ancestor "$old" "$new" || echo "$ref $old $new" >>'`+note+`' ;; esac
done`))
	return note
}

// unforced expects an empty file of refuseForce.
func (s *testStage) unforced(note string) {
	s.Helper()
	if text, err := os.ReadFile(note); !errors.Is(err, os.ErrNotExist) {
		s.Errorf("emco tried pushes that are no fast-forward: %s, %v", text, err)
	}
}

// churn terminates and instantiates a deployment until the time ends. At the end the deployment is
// instantiated.
func (s *testStage) churn(ctx context.Context, d fleet.Deployment) (rounds int) {
	f := s.fleet()
	for ctx.Err() == nil {
		for _, step := range []struct{ action, done string }{{"terminate", v2.StatusTerminated}, {"instantiate", v2.StatusInstantiated}} {
			err := f.Act(s.Context(), d.Path(), step.action)
			if err == nil {
				err = s.await(d, step.done)
			}
			if err != nil {
				s.Errorf("%s of %s: %v", step.action, d.Name, err)
				return rounds
			}
		}
		rounds++
	}
	return rounds
}

// contextOf returns the context id, which is part of the paths of a deployment.
func (s *testStage) contextOf(d fleet.Deployment) string {
	s.Helper()
	st, err := s.fleet().Status(s.Context(), d.Path(), false)
	s.must("read the status", err)
	return st.States.StatusCtxID
}

// drop removes a deployment's files from a tree.
func drop(files map[string]string, id string) {
	maps.DeleteFunc(files, func(path, _ string) bool { return strings.Contains(path, "/context/"+id+"/") })
}

// foreignCommitter commits to the same branch as emco, directly in the repository and so at any moment of emco's
// pushes.
type foreignCommitter struct {
	stage   *testStage
	commits []string
	made    atomic.Int64      // the number of commits
	ahead   atomic.Int64      // the number of commits since the last one of emco that was seen
	ours    atomic.Int64      // the number of commits of emco that were seen
	files   map[string]string // content by path
}

// runUntilEnough counts the commits of emco until both sides have written for a while, and enough.
func (o *foreignCommitter) runUntilEnough(ctx context.Context) {
	began := time.Now()
	tick := time.NewTicker(foreignPeriod / 2)
	defer tick.Stop()
	for time.Since(began) < foreignTime || o.made.Load() < enoughTheirs || o.ours.Load() < enoughOurs {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		m, err := o.stage.emco.Metrics(ctx)
		if ours := int64(m["emco_git_commits_total"]); err == nil && ours > o.ours.Swap(ours) {
			o.ahead.Store(0)
		}
	}
}

// write commits at a steady rate, while it is not too far ahead of emco: a new file elsewhere, one in emco's folders, and a
// change of an earlier file of its own.
func (o *foreignCommitter) write(ctx context.Context) {
	tick := time.NewTicker(foreignPeriod)
	defer tick.Stop()
	for i := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if o.ahead.Load() >= foreignAhead {
			continue
		}
		edit := map[string]string{
			fmt.Sprintf("others/%03d.txt", i): fmt.Sprintf("number %d\n", i),
			"others/last.txt":                 fmt.Sprintf("%d\n", i),
			fmt.Sprintf("clusters/edge+%s/notes/%03d.txt", fleet.GitCluster(i%foreignClusters), i): "a note\n",
		}
		files := map[string]gittest.File{}
		for path, text := range edit {
			files[path] = gittest.File{Content: text}
		}
		hash, err := o.stage.bare.CommitExternal(o.stage.Context(), branch, files)
		if err != nil {
			o.stage.Errorf("commit as someone else: %v", err)
			return
		}
		o.commits = append(o.commits, hash)
		o.made.Add(1)
		o.ahead.Add(1)
		maps.Copy(o.files, edit)
		i++
	}
}

// check finds the commits in the history, by their names and by their number, because a name may belong
// to a commit of emco that followed immediately.
func (o *foreignCommitter) check(t *testing.T) {
	t.Helper()
	out, err := o.stage.bare.Git(t.Context(), "", "rev-list", branch)
	o.stage.must("list commits", err)
	for _, hash := range o.commits {
		if !strings.Contains(out, hash) {
			t.Errorf("foreign commit %s is not in the history", hash)
		}
	}
	theirs := -1 // the first commit of the repository
	for _, c := range o.stage.history() {
		if !c.Ours() {
			theirs++
		}
	}
	if theirs != len(o.commits) {
		t.Errorf("the history contains %d foreign commits, want %d", theirs, len(o.commits))
	}
}

// expectedBlobs returns the expected tree entries of the files.
func (o *foreignCommitter) expectedBlobs(s *testStage) map[string]string {
	out := map[string]string{}
	for path, text := range o.files {
		hash, err := s.bare.Git(s.Context(), text, "hash-object", "--stdin")
		s.must("hash a file", err)
		out[path] = hash
	}
	return out
}
