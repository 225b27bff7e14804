package gitwriter_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/route"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/content"
	deliver "github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/deliver/gitwriter"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/queue"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer"
	backends "github.com/emco-orchestrator/emco/src/emco/internal/syncer/all"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncobjects"
	"github.com/emco-orchestrator/emco/src/emco/internal/tracing/tracingtest"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/batch"
)

// bundles keeps bundles of one object each; it stands for the AppContext.
type bundles map[appcontext.Digest]appcontext.Bundle

func (b bundles) GetBundle(_ context.Context, d appcontext.Digest) (appcontext.Bundle, error) {
	bundle, ok := b[d]
	if !ok {
		return bundle, errors.New("no bundle " + string(d))
	}
	return bundle, nil
}

func (b bundles) GetBlob(_ context.Context, d appcontext.Digest) ([]byte, error) {
	return json.Marshal(map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]string{"name": string(d), "namespace": "default"}})
}

// put stores a bundle with one config map.
func (b bundles) put(d appcontext.Digest, name string) {
	id := manifest.ID{Version: "v1", Kind: "ConfigMap", Namespace: "default", Name: name}
	b[d] = appcontext.Bundle{Objects: []appcontext.Ref{{ID: id, Digest: appcontext.Digest(name)}}}
}

// fakePairs are the pairs of a shard, all of deployment 7, whose head is 70.
type fakePairs map[pair.Target][]appcontext.Pair

func (f fakePairs) AppendOf(to []appcontext.Pair, t pair.Target) []appcontext.Pair {
	return append(to, f[t]...)
}

func (f fakePairs) Urgent(t pair.Target) bool { return slices.ContainsFunc(f[t], pair.Urgent) }

func (f fakePairs) On(cluster v2.ClusterKey) []pair.Target {
	return []pair.Target{{Cluster: cluster, Deployment: "7"}}
}
func (f fakePairs) Document(v2.DeploymentID) string                { return subject }
func (f fakePairs) Head(v2.DeploymentID) (appcontext.HeadID, bool) { return "70", true }
func (f fakePairs) Trace(v2.DeploymentID) string                   { return "" }
func (f fakePairs) Needs(appcontext.PairKey) []syncer.Dependency   { return nil }
func (f fakePairs) Address(t pair.Target, r route.Route) syncer.Target {
	return r.Target(t.Cluster, t.Deployment)
}

func (f fakePairs) add(p appcontext.Pair) { t := pair.TargetOf(p.Key); f[t] = append(f[t], p) }

const subject = "projects/shop/composite-apps/till/v1/deployment-intent-groups/autumn"

// fakeBranches records the last commit of each branch.
type fakeBranches map[route.Branch]git.Hash

func (f fakeBranches) Base(_ context.Context, at route.Branch) (git.Hash, error) { return f[at], nil }

func (f fakeBranches) SetCommit(_ context.Context, _ appcontext.Fence, at route.Branch, c git.Hash) error {
	f[at] = c
	return nil
}

// fakeCommitter keeps the jobs that it commits. It refuses jobs that touch a path, as a
// host does where a link is in the way.
type fakeCommitter struct {
	refused string

	mu   sync.Mutex  // clusters are published at the same time
	jobs []batch.Job // guarded by mu, until all are done
}

func (f *fakeCommitter) Submit(_ context.Context, job batch.Job) (git.Hash, error) {
	for _, e := range job.Edits {
		if f.refused != "" && git.Inside(f.refused, e.Path) {
			return "", git.BadPath(f.refused, "a link is in the way")
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.jobs = append(f.jobs, job)
	id := git.Hash(fmt.Sprint("commit", len(f.jobs)))
	if job.OnCommit != nil {
		job.OnCommit(id)
	}
	return id, nil
}

// fixture is a writer over fakes.
type fixture struct {
	*testing.T
	*deliver.Writer
	bundles   bundles
	pairs     fakePairs
	branches  fakeBranches
	committer *fakeCommitter
	backend   syncer.Backend
	recorded  []string // commits of revisions
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{T: t, bundles: bundles{}, pairs: fakePairs{}, branches: fakeBranches{}, committer: &fakeCommitter{}}
	var err error
	if f.backend, err = backends.Backends().Open("git", nil); err != nil {
		t.Fatal(err)
	}
	reader := content.NewReader(f.bundles)
	f.Writer = &deliver.Writer{
		Commits: f.committer, Content: reader, Plans: content.NewStepPlans(reader), Pairs: f.pairs, Branches: f.branches,
		Cancellations: queue.NewCancellations(t.Context()), Log: slog.New(slog.DiscardHandler),
		RecordCommit: func(_ context.Context, head appcontext.HeadID, rev int64, c ...appcontext.RevisionCommit) error {
			f.recorded = append(f.recorded, fmt.Sprint(head, " ", rev, " ", c[0].Commit, " ", c[0].Clusters))
			return nil
		},
	}
	return f
}

// pair adds a pair that is due.
func (f *fixture) pair(cluster v2.ClusterKey, app string, p appcontext.Pair) {
	p.Key, p.Phase = appcontext.PairKey{Cluster: cluster, Deployment: "7", App: app}, appcontext.Pending
	f.pairs.add(p)
}

// deliver delivers to all targets and returns the results by cluster and app.
func (f *fixture) deliver() map[string]string {
	f.Helper()
	due, routes := slices.Collect(maps.Keys(f.pairs)), map[pair.Target]route.Route{}
	for _, t := range due {
		routes[t] = route.Route{Backend: f.backend}
		routes[t] = withBranch(routes[t])
	}
	out := map[string]string{}
	f.Deliver(f.Context(), due, routes, func(results []pair.Result) {
		for _, r := range results {
			out[string(r.Key.Cluster)+" "+r.Key.App] = fmt.Sprint(r.Commit, " ", r.Err)
		}
	}, always)
	return out
}

// always goes on.
func always([]pair.Target) bool { return true }

func withBranch(r route.Route) route.Route {
	r.Settings = &syncobjects.Settings{Repo: git.Repo{URL: "https://git.example/fleet"}, Branch: "main"}
	return r
}

var mainBranch = route.Branch{URL: "https://git.example/fleet", Name: "main"}

func TestAnAppThatTheBackendRefusesStaysAsItWas(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.bundles.put("good", "good")
	f.bundles.put("old", "old")
	f.bundles.put("bad", "../../../README") // a name that climbs out of the target's folder
	f.pair("edge+c1", "a", appcontext.Pair{Desired: "good"})
	f.pair("edge+c1", "b", appcontext.Pair{Desired: "bad", Applied: "old"})
	f.pair("edge+c1", "c", appcontext.Pair{Desired: "bad"})
	got := f.deliver()
	if got["edge+c1 a"] != "commit1 <nil>" || !strings.Contains(got["edge+c1 b"], "README") || !strings.Contains(got["edge+c1 c"], "README") {
		t.Errorf("results %q, want those of b and c to fail", got)
	}
	var files []string
	for _, e := range f.committer.jobs[0].Edits {
		files = append(files, slices.Sorted(maps.Keys(e.Dir))...)
	}
	if got, want := strings.Join(files, " "), "app/a/good+ConfigMap.yaml app/b/old+ConfigMap.yaml"; got != want {
		t.Errorf("files %s, want %s", got, want)
	}
}

// tracedPairs are pairs of several deployments whose requests are traced.
type tracedPairs struct{ fakePairs }

func (f tracedPairs) On(cluster v2.ClusterKey) (out []pair.Target) {
	for t := range f.fakePairs {
		if t.Cluster == cluster {
			out = append(out, t)
		}
	}
	slices.SortFunc(out, pair.CompareTargets)
	return out
}

func (f tracedPairs) Trace(v2.DeploymentID) string {
	return "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
}

// Clusters of a registry fail alone, and so do the spans of their deployments.
func TestTheSpanOfADeploymentHasItsOwnError(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.bundles.put("bundle", "settings")
	due, routes := []pair.Target{{Cluster: "edge+c1", Deployment: "7"}, {Cluster: "edge+c2", Deployment: "8"}, {Cluster: "edge+c3", Deployment: "7"}}, map[pair.Target]route.Route{}
	for _, t := range due {
		f.pairs.add(appcontext.Pair{Key: appcontext.PairKey{Cluster: t.Cluster, Deployment: t.Deployment, App: "a"}, Phase: appcontext.Pending, Desired: "bundle", Rev: 3})
		r := withBranch(route.Route{Backend: f.backend})
		r.Settings.Repo.Provider = syncobjects.KindOCI
		routes[t] = r
	}
	f.committer.refused = "clusters/edge+c2/context/8/app"
	collector := tracingtest.Serve(t)
	f.Pairs, f.Tracer = tracedPairs{f.pairs}, collector.Tracer(t)
	f.Deliver(t.Context(), due, routes, func(results []pair.Result) {
		for _, r := range results {
			if failed := r.Err != nil; failed != (r.Key.Deployment == "8") {
				t.Errorf("%s: %v", r.Key, r.Err)
			}
		}
	}, always)
	f.Tracer.Close()
	spans := collector.Named("deliver")
	for _, s := range spans {
		if failed := s.Failure != ""; failed != (s.Facts["emco.deployment"] == "8") {
			t.Errorf("the span of deployment %s: %q", s.Facts["emco.deployment"], s.Failure)
		}
	}
	if len(spans) != 2 {
		t.Errorf("the spans are %+v", spans)
	}
}

func TestATargetWhosePathIsRefusedFailsAlone(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.bundles.put("bundle", "settings")
	for _, c := range []v2.ClusterKey{"edge+c1", "edge+c2", "edge+c3"} {
		f.pair(c, "a", appcontext.Pair{Desired: "bundle", Rev: 3})
	}
	f.committer.refused = "clusters/edge+c2/context/7/app"
	want := map[string]string{
		"edge+c1 a": "commit1 <nil>", "edge+c3 a": "commit1 <nil>",
		"edge+c2 a": ` edit: "clusters/edge+c2/context/7/app": a link is in the way`,
	}
	if got := f.deliver(); !maps.Equal(got, want) || len(f.committer.jobs) != 1 {
		t.Errorf("got %q in %d commits, want %q in one", got, len(f.committer.jobs), want)
	}
	if want := []string{"70 3 commit1 2"}; !slices.Equal(f.recorded, want) {
		t.Errorf("recorded %q, want %q: the head, its revision, the commit, and the number of clusters", f.recorded, want)
	}
}

// An edit by others that is held is not overwritten: nothing is committed for its target.
func TestHeldEditsAreNotOverwritten(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.bundles.put("bundle", "settings")
	edit := &appcontext.ExternalEdit{Commit: "0123456789abcdef", Author: "someone", Paths: []string{"clusters/edge+c1/x"}, Held: true}
	f.pair("edge+c1", "web", appcontext.Pair{Desired: "bundle", Edit: edit})
	f.pair("edge+c1", "db", appcontext.Pair{Desired: "bundle"})
	f.pair("edge+c2", "web", appcontext.Pair{Desired: "bundle"})
	got := f.deliver()
	for _, k := range []string{"edge+c1 web", "edge+c1 db"} {
		if !strings.Contains(got[k], "someone changed clusters/edge+c1/x") {
			t.Errorf("%s: %q, want the held edit as the error", k, got[k])
		}
	}
	if got["edge+c2 web"] != "commit1 <nil>" {
		t.Errorf("another cluster: %q", got["edge+c2 web"])
	}
	for _, e := range f.committer.jobs[0].Edits {
		if strings.HasPrefix(e.Path, "clusters/edge+c1") {
			t.Errorf("%s was written", e.Path)
		}
	}
}

// Each commit names the one before as its base, so our own commits are never inspected as
// commits by others.
func TestCommitsBuildOnTheLastOne(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.bundles.put("bundle", "settings")
	f.pair("edge+c1", "web", appcontext.Pair{Desired: "bundle"})
	f.branches[mainBranch] = "commit0"
	f.deliver()
	f.deliver()
	var bases []git.Hash
	for _, job := range f.committer.jobs {
		bases = append(bases, job.Base)
	}
	if !slices.Equal(bases, []git.Hash{"commit0", "commit1"}) || f.branches[mainBranch] != "commit2" {
		t.Errorf("bases %q, stored %v", bases, f.branches)
	}
}

// Commits by others are inspected for the branch that the job writes, and the paths that
// must be kept reach the job.
func TestJobsInspectCommitsByOthers(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var asked []route.Branch
	f.Inspect = func(_ context.Context, _ git.Repo, on route.Branch, commits []git.Commit) ([]string, error) {
		asked = append(asked, on)
		return []string{"clusters/edge+c1/x"}, errs.New(errs.Unavailable, "away")
	}
	f.bundles.put("bundle", "settings")
	f.pair("edge+c1", "web", appcontext.Pair{Desired: "bundle"})
	f.deliver()
	keep, err := f.committer.jobs[0].OnExternalEdits(t.Context(), []git.Commit{{ID: "theirs"}})
	if !slices.Equal(keep, []string{"clusters/edge+c1/x"}) || !errs.Is(err, errs.Unavailable) || !slices.Equal(asked, []route.Branch{mainBranch}) {
		t.Errorf("keep %v, %v; asked about %v", keep, err, asked)
	}
}

// inCloud are pairs in a confined logical cloud, whose app web needs app db.
type inCloud struct{ fakePairs }

func (inCloud) Address(t pair.Target, r route.Route) syncer.Target {
	out := r.Target(t.Cluster, t.Deployment)
	out.Cloud = syncer.Cloud{Name: "shop+east", Confined: true, Account: "tenant-east"}
	return out
}

func (inCloud) Needs(k appcontext.PairKey) []syncer.Dependency {
	if k.App == "web" {
		return []syncer.Dependency{{App: "db", Ready: true}}
	}
	return nil
}

// Reconcilers act for the logical cloud and in the order of the apps.
func TestTheLogicalCloudAndTheOrderReachTheBackend(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.bundles.put("bundle", "settings")
	f.pair("edge+c1", "db", appcontext.Pair{Desired: "bundle"})
	f.pair("edge+c1", "web", appcontext.Pair{Desired: "bundle"})
	f.Pairs = inCloud{f.pairs}
	var err error
	if f.backend, err = backends.Backends().Open("fluxcd", syncer.Options{"dependsOn": "native"}); err != nil {
		t.Fatal(err)
	}
	f.deliver()
	var text string
	for _, e := range f.committer.jobs[0].Edits {
		text += string(e.File)
	}
	for _, part := range []string{"serviceAccountName: tenant-east\n", "dependsOn:\n    - name: emco-7-db\n", "wait: true\n"} {
		if !strings.Contains(text, part) {
			t.Errorf("the files lack %q:\n%s", part, text)
		}
	}
}

func TestTitlesAndTrailers(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		pairs    map[v2.ClusterKey]appcontext.Digest // desired bundle by cluster
		title    string
		clusters v2.ClusterKey
	}{
		{"one cluster", map[v2.ClusterKey]appcontext.Digest{"edge+c1": "bundle"}, "Update shop/till/v1/autumn on edge+c1", "edge+c1"},
		{"a removal", map[v2.ClusterKey]appcontext.Digest{"edge+c1": ""}, "Remove shop/till/v1/autumn on edge+c1", "edge+c1"},
		{"several", map[v2.ClusterKey]appcontext.Digest{"edge+c1": "", "edge+c2": "bundle"}, "Update shop/till/v1/autumn on 2 clusters", "edge+c1, edge+c2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.bundles.put("bundle", "settings")
			for c, d := range tt.pairs {
				f.pair(c, "web", appcontext.Pair{Desired: d, Rev: 3})
			}
			f.deliver()
			job := f.committer.jobs[0]
			want := []git.Trailer{{Key: "Emco-Clusters", Value: string(tt.clusters)}, {Key: "Emco-Deployment", Value: "7"}, {Key: "Emco-Revision", Value: "7.3"}}
			if job.Title != tt.title || !slices.Equal(job.Trailers, want) {
				t.Errorf("got %q %v, want %q %v", job.Title, job.Trailers, tt.title, want)
			}
		})
	}
}
