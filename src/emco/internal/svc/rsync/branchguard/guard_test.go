package branchguard_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/contexttest"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/gitstate"
	"github.com/emco-orchestrator/emco/src/emco/internal/resource/resourcetest"
	"github.com/emco-orchestrator/emco/src/emco/internal/route"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/branchguard"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
	backends "github.com/emco-orchestrator/emco/src/emco/internal/syncer/all"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncobjects"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/batch"
)

const repoURL = "https://git.example/fleet"

var (
	held = route.Branch{URL: repoURL, Name: "held"} // whose edits by others are held
	open = route.Branch{URL: repoURL, Name: "open"} // whose edits by others are overwritten
)

// fakePairs are the pairs of deployment 7 with the apps "db" and "web" on clusters.
type fakePairs struct {
	targets     []pair.Target
	err         error             // of the next NoteEdits
	noted       map[string]string // paths of edits by "cluster app", those that are held with "!"
	resolved    string
	undelivered []pair.Target
}

func (f *fakePairs) All() []pair.Target { return f.targets }

func (f *fakePairs) On(cluster v2.ClusterKey) (out []pair.Target) {
	for _, t := range f.targets {
		if t.Cluster == cluster {
			out = append(out, t)
		}
	}
	return out
}

func (f *fakePairs) Of(t pair.Target) (out []appcontext.Pair) {
	for _, app := range []string{"db", "web"} {
		out = append(out, appcontext.Pair{Key: appcontext.PairKey{Cluster: t.Cluster, Deployment: t.Deployment, App: app}})
	}
	return out
}

func (f *fakePairs) NoteEdits(_ context.Context, edits map[appcontext.PairKey]appcontext.ExternalEdit, held map[pair.Target]bool) (due []pair.Target, err error) {
	if err, f.err = f.err, nil; err != nil {
		return nil, err
	}
	f.noted = map[string]string{}
	for k, e := range edits {
		text := strings.Join(e.Paths, " ")
		if held[pair.TargetOf(k)] {
			text += "!"
		}
		f.noted[string(k.Cluster)+" "+k.App] = text
		due = append(due, pair.TargetOf(k))
	}
	return due, nil
}

func (f *fakePairs) ResolveEdits(_ context.Context, targets []pair.Target, keep bool) error {
	f.resolved = fmt.Sprint(targets, " ", keep)
	return nil
}

func (f *fakePairs) MarkUndelivered(_ context.Context, targets []pair.Target) error {
	f.undelivered = targets
	return nil
}

// fakeDiffer knows the paths that commits changed.
type fakeDiffer struct {
	err     error // of the next call
	changed map[git.Hash][]string
}

func (f *fakeDiffer) Changed(_ context.Context, _ git.Repo, d git.Difference) ([]string, error) {
	err := f.err
	f.err = nil
	return f.changed[d.After], err
}

// fixture is the guard of the shard of a branch.
type fixture struct {
	*testing.T
	guard    *branchguard.Guard
	pairs    *fakePairs
	differ   *fakeDiffer
	contexts *appcontext.Store
	requeued chan []pair.Target
	submit   func(batch.Job) (git.DerivedResult, error)
}

func newFixture(t *testing.T, shard int) *fixture {
	t.Helper()
	f := &fixture{
		T: t, pairs: &fakePairs{}, differ: &fakeDiffer{changed: map[git.Hash][]string{}},
		contexts: contexttest.New(t), requeued: make(chan []pair.Target, 10),
	}
	db := resourcetest.DB(t)
	put := func(key store.Key, doc any, secret string) { resourcetest.Put(t, db, key, doc, secret) }
	put("cluster-providers/edge", v2.Named{}, "")
	for branch, onEdit := range map[string]string{"held": "hold", "open": "overwrite"} {
		put(store.Key("cluster-providers/edge/cluster-sync-objects/"+branch), nil, fmt.Sprintf(
			`{"metadata":{"name":%q},"spec":{"kv":[{"url":%q},{"branch":%q},{"userName":"emco"},{"gitToken":"secret"},{"onForeignEdit":%q}]}}`, branch, repoURL, branch, onEdit))
	}
	for name, g := range map[string]v2.GitOps{
		"h1": {Type: "git", Reference: "held"}, "o1": {Type: "git", Reference: "open"},
		"own": {Type: "git", Reference: "open", RefMode: syncobjects.RefCluster},
	} {
		c := v2.Cluster{Named: v2.Named{Metadata: v2.Metadata{Name: name}}}
		c.Spec.GitOps = g
		put(store.Key("cluster-providers/edge/clusters/"+name), c, "")
		f.pairs.targets = append(f.pairs.targets, pair.Target{Cluster: v2.ClusterKey("edge+" + name), Deployment: "7"})
	}
	log := slog.New(slog.DiscardHandler)
	records := branchguard.NewRecords(f.contexts, log)
	f.guard = branchguard.New(branchguard.Options{
		Shard:  shard,
		Routes: &route.Resolver{DB: db, Backends: backends.Backends()}, Pairs: f.pairs, Records: records, Differ: f.differ,
		Submit: func(_ context.Context, job batch.Job) (git.DerivedResult, git.Hash, error) {
			d, err := f.submit(job)
			return d, "", err
		},
		Requeue:      func(_ context.Context, targets []pair.Target) { f.requeued <- targets },
		RequeueLater: func(pair.Target) {}, WriteEvents: func(context.Context) {}, Log: log,
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{}, 2)
	go func() { records.Run(ctx); done <- struct{}{} }()
	go func() { f.guard.Run(ctx); done <- struct{}{} }()
	t.Cleanup(func() { cancel(); <-done; <-done })
	return f
}

// inspect has commits by others inspected, the newest first.
func (f *fixture) inspect(on route.Branch, ids ...git.Hash) (keep []string, err error) {
	var commits []git.Commit
	for _, id := range ids {
		commits = append(commits, git.Commit{ID: id, Author: "someone", Parents: []git.Hash{"parent of " + id}})
	}
	f.pairs.noted = nil
	return f.guard.Inspect(f.Context(), git.Repo{URL: repoURL}, on, commits)
}

func (f *fixture) wantNoted(want map[string]string) {
	f.Helper()
	if !maps.Equal(f.pairs.noted, want) {
		f.Errorf("noted %q, want %q", f.pairs.noted, want)
	}
}

// An edit inside of an owned directory is noted with the apps that own the file, and the
// file is kept where edits are held.
func TestEditsByOthers(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, path string
		on         route.Branch
		keep       bool
		noted      map[string]string
	}{
		{"a file of an app, held", "clusters/edge+h1/context/7/app/web/x.yaml", held, true, map[string]string{"edge+h1 web": "clusters/edge+h1/context/7/app/web/x.yaml!"}},
		{"a file of all apps, held", "clusters/edge+h1/context/7/kustomization.yaml", held, true, map[string]string{
			"edge+h1 db": "clusters/edge+h1/context/7/kustomization.yaml!", "edge+h1 web": "clusters/edge+h1/context/7/kustomization.yaml!",
		}},
		{"a file of an app, overwritten", "clusters/edge+o1/context/7/app/db/x.yaml", open, false, map[string]string{"edge+o1 db": "clusters/edge+o1/context/7/app/db/x.yaml"}},
		{"a file of another deployment", "clusters/edge+h1/context/8/app/web/x.yaml", held, false, map[string]string{}},
		{"a file of no deployment", "clusters/edge+h1/README.md", held, false, map[string]string{}},
		{"a cluster of another branch", "clusters/edge+h1/context/7/app/web/x.yaml", open, false, map[string]string{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, held.Shard())
			f.differ.changed["c1"] = []string{tt.path}
			keep, err := f.inspect(tt.on, "c1")
			if err != nil || slices.Contains(keep, tt.path) != tt.keep {
				t.Errorf("keep %v, %v; want the path to be kept: %v", keep, err, tt.keep)
			}
			f.wantNoted(tt.noted)
		})
	}
}

// An inspection that fails stops the commit, and the next one finds the same edits.
func TestAnOutageHidesNoEdit(t *testing.T) {
	t.Parallel()
	const file = "clusters/edge+h1/context/7/app/web/x.yaml"
	for name, fail := range map[string]func(f *fixture){
		"the Git server is away":   func(f *fixture) { f.differ.err = errs.New(errs.Unavailable, "away") },
		"the Git server throttles": func(f *fixture) { f.differ.err = errs.New(errs.Throttled, "slow down") },
		"the edits are not stored": func(f *fixture) { f.pairs.err = errors.New("etcd is away") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, held.Shard())
			f.differ.changed["c1"] = []string{file}
			fail(f)
			if keep, err := f.inspect(held, "c2", "c1"); err == nil {
				t.Errorf("keep %v and no error, so the edit is overwritten", keep)
			}
			keep, err := f.inspect(held, "c2", "c1")
			if err != nil || !slices.Equal(keep, []string{file}) {
				t.Errorf("at the next try: keep %v, %v", keep, err)
			}
			f.wantNoted(map[string]string{"edge+h1 web": file + "!"})
		})
	}
}

// Commits are inspected once for each branch that has them.
func TestEachBranchIsInspected(t *testing.T) {
	t.Parallel()
	const onHeld, onOpen = "clusters/edge+h1/context/7/app/web/x.yaml", "clusters/edge+o1/context/7/app/web/x.yaml"
	f := newFixture(t, held.Shard())
	f.differ.changed["c1"] = []string{onHeld, onOpen}
	if _, err := f.inspect(open, "c1"); err != nil {
		t.Fatal(err)
	}
	f.wantNoted(map[string]string{"edge+o1 web": onOpen})
	keep, err := f.inspect(held, "c1")
	if err != nil || !slices.Equal(keep, []string{onHeld}) {
		t.Errorf("the other branch: keep %v, %v", keep, err)
	}
	f.wantNoted(map[string]string{"edge+h1 web": onHeld + "!"})
	if _, err := f.inspect(held, "c1"); err != nil {
		t.Fatal(err)
	}
	f.wantNoted(nil)
	f.differ.changed["c2"] = []string{onHeld}
	if _, err := f.inspect(held, "c2", "c1"); err != nil {
		t.Fatal(err)
	}
	f.wantNoted(map[string]string{"edge+h1 web": onHeld + "!"})
}

// What operators decide about a branch is carried out for its targets alone, and recorded.
func TestDecisionsAreCarriedOut(t *testing.T) {
	t.Parallel()
	target := []pair.Target{{Cluster: "edge+h1", Deployment: "7"}}
	for name, tt := range map[string]struct {
		decide func(f *fixture) error
		done   func(f *fixture, b gitstate.Branch) bool
	}{
		"history is adopted": {
			func(f *fixture) error { _, err := f.contexts.Adopt(f.Context(), held.URL, held.Name); return err },
			func(f *fixture, b gitstate.Branch) bool {
				return slices.Equal(f.pairs.undelivered, target) && b.Rewritten == b.Adopted
			},
		},
		"edits are kept": {
			func(f *fixture) error {
				_, err := f.contexts.ResolveEdits(f.Context(), held.URL, held.Name, true)
				return err
			},
			func(f *fixture, b gitstate.Branch) bool {
				return f.pairs.resolved == "[{edge+h1 7}] true" && b.CarriedOut == b.Decided
			},
		},
		"edits are overwritten": {
			func(f *fixture) error {
				_, err := f.contexts.ResolveEdits(f.Context(), held.URL, held.Name, false)
				return err
			},
			func(f *fixture, b gitstate.Branch) bool {
				return f.pairs.resolved == "[{edge+h1 7}] false" && b.CarriedOut == b.Decided
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, held.Shard())
			if _, err := f.contexts.PutBranch(t.Context(), appcontext.Fence{}, gitstate.Branch{URL: held.URL, Name: held.Name, Commit: "c0ffee"}); err != nil {
				t.Fatal(err)
			}
			if err := tt.decide(f); err != nil {
				t.Fatal(err)
			}
			if got := <-f.requeued; !slices.Equal(got, target) {
				t.Errorf("requeued %v, want the target on the branch", got)
			}
			b, err := f.contexts.Branch(t.Context(), held.URL, held.Name)
			if err != nil || !tt.done(f, b) {
				t.Errorf("resolved %q, undelivered %v, stored %+v, %v", f.pairs.resolved, f.pairs.undelivered, b, err)
			}
		})
	}
}

// The readers of a derived branch that others had changed are delivered again.
func TestDerivedBranchesAreRepaired(t *testing.T) {
	t.Parallel()
	f := newFixture(t, open.Shard())
	jobs := make(chan batch.Job, 1)
	f.submit = func(job batch.Job) (git.DerivedResult, error) {
		jobs <- job
		return git.DerivedResult{Diverged: []string{job.Derived[0].Branch}}, nil
	}
	own := pair.Target{Cluster: "edge+own", Deployment: "7"}
	r, err := f.guard.Routes.Lookup().Route(t.Context(), own.Cluster)
	if err != nil {
		t.Fatal(err)
	}
	f.guard.Track(own, r)
	if job := <-jobs; job.Branch != open.Name || len(job.Edits) > 0 || len(job.Derived) != 1 || job.Derived[0].Branch != r.Settings.DerivedBranch {
		t.Errorf("submitted %+v", job)
	}
	if got := <-f.requeued; !slices.Equal(got, []pair.Target{own}) || !slices.Equal(f.pairs.undelivered, got) {
		t.Errorf("requeued %v, undelivered %v; want the reader of the branch", got, f.pairs.undelivered)
	}
}

// The record of a branch is removed with the last target on it.
func TestTheLastTargetReleasesItsBranch(t *testing.T) {
	t.Parallel()
	f := newFixture(t, held.Shard())
	if err := f.guard.Records.SetCommit(t.Context(), appcontext.Fence{}, held, "c0ffee"); err != nil {
		t.Fatal(err)
	}
	known := func() bool {
		_, err := f.contexts.Branch(t.Context(), held.URL, held.Name)
		return err == nil
	}
	r, err := f.guard.Routes.Lookup().Route(t.Context(), "edge+h1")
	if err != nil {
		t.Fatal(err)
	}
	one, two := pair.Target{Cluster: "edge+h1", Deployment: "7"}, pair.Target{Cluster: "edge+h1", Deployment: "8"}
	f.guard.Track(one, r)
	f.guard.Track(two, r)
	f.guard.Release(t.Context(), one)
	f.guard.Release(t.Context(), one)
	if !known() {
		t.Error("the record was removed while a target is on the branch")
	}
	f.guard.Track(two, r)
	f.guard.Release(t.Context(), two)
	if known() {
		t.Error("the record is still there")
	}
}

// The guard counts the clusters on a branch, however many deployments they have, and adds up what others counted of them.
func TestClustersOfABranchAreCounted(t *testing.T) {
	t.Parallel()
	f := newFixture(t, open.Shard())
	track := func(cluster v2.ClusterKey, deployment v2.DeploymentID) {
		r, err := f.guard.Routes.Lookup().Route(t.Context(), cluster)
		if err != nil {
			t.Fatal(err)
		}
		f.guard.Track(pair.Target{Cluster: cluster, Deployment: deployment}, r)
	}
	edits := map[v2.ClusterKey]int{"edge+o1": 2, "edge+h1": 3, "edge+none": 4}
	track("edge+o1", "7")
	track("edge+o1", "8")
	track("edge+own", "7")
	if clusters, sum := f.guard.Count(open, edits); clusters != 2 || sum != 2 {
		t.Errorf("%d clusters with %d edits, want 2 and 2", clusters, sum)
	}
	f.guard.Release(t.Context(), pair.Target{Cluster: "edge+o1", Deployment: "7"})
	if clusters, sum := f.guard.Count(open, edits); clusters != 2 || sum != 2 {
		t.Errorf("one deployment is left: %d clusters with %d edits, want 2 and 2", clusters, sum)
	}
	f.guard.Release(t.Context(), pair.Target{Cluster: "edge+o1", Deployment: "8"})
	if clusters, sum := f.guard.Count(open, edits); clusters != 1 || sum != 0 {
		t.Errorf("no deployment is left: %d clusters with %d edits, want 1 and 0", clusters, sum)
	}
}
