package e2e

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
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
	waveClusters = 1000 // on one branch
	waveApps     = 2    // each a deployment that changes concurrently with the other
	waveRounds   = 2    // of at least two waves
	pushPeriod   = time.Second
	enoughPushes = 6
	wavePatience = 8 * time.Minute
)

// TW-b: while apps get new values in waves of a thousand clusters, all on one branch and several at a
// time, a foreign process pushes to that branch every second. Every wave is one rendering and at most
// one commit, and reaches the branch. Every commit of either side is in one line of history, in order.
// For each lost race there is a push of the other side. No process tries to force a push.
func TestTWbForeignPushesDuringWaves(t *testing.T) {
	do := steps{TB: t}
	do.next("%d apps on %d clusters of one branch", waveApps, waveClusters)
	s := newStage(t)
	s.found(waveClusters)
	w := &waveSet{testStage: s}
	for i := range waveApps {
		w.all = append(w.all, apps(fmt.Sprintf("wave%d", i), 1, 3))
		s.must("onboard", s.fleet().Onboard(t.Context(), s.dir, w.all[i]))
	}
	w.each(func(d fleet.Deployment) error { return w.act(d, "instantiate") })
	w.each(func(d fleet.Deployment) error { return w.changeValue(d, "green") })
	want := s.tree() // undisturbed
	tried := s.refuseForce()
	before, err := s.emco.Metrics(t.Context())
	s.must("read metrics", err)
	old, calm := len(s.history()), w.bumps.Load()

	do.next("waves, while someone else pushes every %s", pushPeriod)
	ctx, cancel := context.WithTimeout(t.Context(), wavePatience)
	defer cancel()
	p := newPusher(s)
	var all sync.WaitGroup
	all.Go(func() { p.run(ctx) })
	w.each(func(d fleet.Deployment) error { return w.changeUntilEnough(ctx, d, p) })
	cancel()
	all.Wait()
	if t.Failed() {
		return
	}

	do.next("nothing is lost on either side")
	after, err := s.emco.Metrics(t.Context())
	s.must("read metrics", err)
	rise := func(name string) float64 { return after[name] - before[name] }
	bumps, commits, lost := float64(w.bumps.Load()-calm), rise("emco_git_commits_total"), rise("emco_git_conflicts_total")
	maps.Copy(want, p.expectedBlobs(s))
	if err := differences("file", s.tree(), want); err != nil {
		t.Error(err)
	}
	p.inLine(old, int(commits))
	s.sound()
	s.unforced(tried)
	if n := rise("emco_renders_total"); n != bumps {
		t.Errorf("%.0f renders for %.0f waves, want one each", n, bumps)
	}
	if commits > bumps || commits == 0 {
		t.Errorf("%.0f commits for %.0f waves, want at most one each", commits, bumps)
	}
	if pushes := float64(p.pushed.Load()); lost > pushes {
		t.Errorf("%.0f races were lost to %.0f pushes", lost, pushes)
	}
	t.Logf("%.0f waves in %.0f commits after %.0f lost races; %d pushes of someone else, who lost %d", bumps, commits, lost, p.pushed.Load(), p.lost)
	do.next("done")
}

// waveSet are deployments on all clusters, whose apps get one value after the other.
type waveSet struct {
	*testStage
	all   []fleet.Deployment
	bumps atomic.Int64
}

// each runs a function for all deployments concurrently.
func (w *waveSet) each(do func(fleet.Deployment) error) {
	w.Helper()
	var all sync.WaitGroup
	for _, d := range w.all {
		all.Go(func() {
			if err := do(d); err != nil {
				w.Errorf("%s: %v", d.Name, err)
			}
		})
	}
	all.Wait()
	if w.Failed() {
		w.FailNow()
	}
}

// act runs an action until all is on the branch.
func (w *waveSet) act(d fleet.Deployment, action string) error {
	if err := w.fleet().Act(w.Context(), d.Path(), action); err != nil {
		return err
	}
	return w.await(d, v2.StatusInstantiated)
}

// changeValue gives the app of a deployment another value.
func (w *waveSet) changeValue(d fleet.Deployment, colour string) error {
	if err := w.fleet().Revalue(w.Context(), d, d.Apps[0].Chart, "colour: "+colour+"\n"); err != nil {
		return err
	}
	w.bumps.Add(1)
	return w.act(d, "update")
}

// changeUntilEnough changes a value back and forth until both sides have written enough. Afterwards the branch
// contains what the status reports as instantiated. After each round it waits for a push of the other side, which
// loses each race to a program that writes all the time.
func (w *waveSet) changeUntilEnough(ctx context.Context, d fleet.Deployment, p *foreignPusher) error {
	file := fmt.Sprintf("clusters/edge+%s/context/%s/app/%s/%s-%s-00+ConfigMap.yaml",
		fleet.GitCluster(waveClusters-1), w.contextOf(d), d.Apps[0].Chart.Name, d.Name, d.Apps[0].Chart.Name)
	for round := 0; round < waveRounds || p.pushed.Load() < enoughPushes; round++ {
		pushed := p.pushed.Load()
		for _, colour := range []string{"red", "green"} {
			if err := w.changeValue(d, colour); err != nil {
				return err
			}
			text, err := w.bare.Show(w.Context(), branch, file)
			if err != nil || !strings.Contains(text, colour) {
				return fmt.Errorf("the status reports it, and %s contains %q, want %s: %w", file, text, colour, err)
			}
		}
		for p.pushed.Load() == pushed {
			if ctx.Err() != nil || w.Failed() {
				return ctx.Err()
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	return nil
}

// foreignPusher has its own clone, commits there and pushes. After a lost race it fetches, commits again and
// pushes again.
type foreignPusher struct {
	foreignCommitter
	clone  gittest.Bare
	pushed atomic.Int64
	lost   int // races
}

func newPusher(s *testStage) *foreignPusher {
	s.Helper()
	p := &foreignPusher{foreignCommitter: foreignCommitter{stage: s, files: map[string]string{}}, clone: gittest.Bare{Dir: filepath.Join(s.dir, "clone.git")}}
	url := strings.Replace(s.git.URL(repoName), "://", "://"+writer+":"+s.writeToken+"@", 1)
	_, err := s.bare.Git(s.Context(), "", "clone", "-q", "--bare", "--single-branch", "--branch", branch, url, p.clone.Dir)
	s.must("clone", err)
	return p
}

// run pushes at a steady rate until ctx ends; on a busy machine less often, so that pushes take at most
// half of the time.
func (p *foreignPusher) run(ctx context.Context) {
	for pause := pushPeriod; ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		began := time.Now()
		if err := p.push(len(p.commits)); err != nil {
			p.stage.Errorf("push as someone else: %v", err)
			return
		}
		p.pushed.Add(1)
		pause = max(pushPeriod-time.Since(began), time.Since(began))
	}
}

// push makes the i-th commit, a new file elsewhere and one in emco's folders, and brings it to the
// branch.
func (p *foreignPusher) push(i int) error {
	ctx := p.stage.Context()
	edit := map[string]string{
		"others/last.txt": fmt.Sprintf("%d\n", i),
		fmt.Sprintf("clusters/edge+%s/notes/%03d.txt", fleet.GitCluster(i%waveClusters), i): "a note\n",
	}
	files := map[string]gittest.File{}
	for path, text := range edit {
		files[path] = gittest.File{Content: text}
	}
	for {
		if _, err := p.clone.Git(ctx, "", "fetch", "-q", "origin", "+"+branch+":"+branch); err != nil {
			return err
		}
		hash, err := p.clone.CommitExternal(ctx, branch, files)
		if err != nil {
			return err
		}
		_, err = p.clone.Git(ctx, "", "push", "-q", "origin", branch)
		switch {
		case err == nil:
			p.commits = append(p.commits, hash)
			maps.Copy(p.files, edit)
			return nil
		case ctx.Err() != nil || !overtaken(err):
			return err
		}
		p.lost++
	}
}

// overtaken reports whether git's output is that of a late push, detected by git or by the server.
func overtaken(err error) bool {
	text := err.Error()
	return slices.ContainsFunc([]string{"fetch first", "non-fast-forward", "cannot lock ref", "failed to update ref", "incorrect old value"},
		func(words string) bool { return strings.Contains(text, words) })
}

// inLine expects that the history is one line, and that the given number of emco's commits, and all
// foreign commits in their order, follow the earlier ones.
func (p *foreignPusher) inLine(before, ours int) {
	s := p.stage
	s.Helper()
	merges, err := s.bare.Git(s.Context(), "", "rev-list", "--count", "--min-parents=2", branch)
	s.must("count merges", err)
	if merges != "0" {
		s.Errorf("%s commits of the branch have two parents", merges)
	}
	all := s.history()
	var theirs []string
	for _, c := range all[:len(all)-before] {
		if !c.Ours() {
			theirs = append(theirs, c.Hash)
		}
	}
	slices.Reverse(theirs)
	if !slices.Equal(theirs, p.commits) {
		s.Errorf("the foreign commits are %v, want %v", theirs, p.commits)
	}
	if n := len(all) - before - len(theirs); n != ours {
		s.Errorf("the history contains %d commits of emco, and its counter is %d", n, ours)
	}
}
