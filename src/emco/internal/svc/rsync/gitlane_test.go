package rsync

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/contexttest"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/route"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/branchguard"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/content"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/queue"

	backends "github.com/emco-orchestrator/emco/src/emco/internal/syncer/all"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/batch"
)

// shelf keeps bundles of one object each; it stands for the AppContext.
type shelf map[appcontext.Digest]appcontext.Bundle

func (s shelf) GetBundle(_ context.Context, d appcontext.Digest) (appcontext.Bundle, error) {
	b, ok := s[d]
	if !ok {
		return b, errors.New("no bundle " + string(d))
	}
	return b, nil
}

func (s shelf) GetBlob(_ context.Context, d appcontext.Digest) ([]byte, error) {
	return json.Marshal(map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]string{"name": string(d), "namespace": "default"}})
}

// put shelves a bundle with one config map.
func (s shelf) put(d appcontext.Digest, name string) {
	id := manifest.ID{Version: "v1", Kind: "ConfigMap", Namespace: "default", Name: name}
	s[d] = appcontext.Bundle{Objects: []appcontext.Ref{{ID: id, Digest: appcontext.Digest(name)}}}
}

func TestAnAppThatTheBackendRefusesStaysAsItWas(t *testing.T) {
	t.Parallel()
	b, err := backends.Backends().Open("git", nil)
	if err != nil {
		t.Fatal(err)
	}
	s := shelf{}
	s.put("good", "good")
	s.put("old", "old")
	s.put("bad", "../../../README") // a name that climbs out of the target's folder
	pairs := []appcontext.Pair{
		{Key: appcontext.PairKey{Cluster: "edge+c1", UID: "7", App: "a"}, Desired: "good"},
		{Key: appcontext.PairKey{Cluster: "edge+c1", UID: "7", App: "b"}, Desired: "bad", Applied: "old"},
		{Key: appcontext.PairKey{Cluster: "edge+c1", UID: "7", App: "c"}, Desired: "bad"},
	}
	c := content.NewReader(s)
	sink := &gitSink{contents: c, ways: content.NewStepPlans(c), ledger: storeOf(t)}
	plan, err := sink.plan(t.Context(), pair.Target{Cluster: "edge+c1", UID: "7"}, route.Route{Backend: b}, pairs)
	if err != nil {
		t.Fatal(err)
	}
	if got := slices.Sorted(maps.Keys(plan.refused)); !slices.Equal(got, []string{"b", "c"}) {
		t.Errorf("refused %v", plan.refused)
	}
	var files []string
	for _, e := range plan.edits {
		files = append(files, slices.Sorted(maps.Keys(e.Dir))...)
	}
	if got, want := strings.Join(files, " "), "app/a/good+ConfigMap.yaml app/b/old+ConfigMap.yaml"; got != want {
		t.Errorf("files %s, want %s", got, want)
	}
}

// unwritten knows that nothing was written to any branch.
func unwritten(t *testing.T) *branchguard.Records {
	b := branchguard.NewRecords(contexttest.New(t), slog.New(slog.DiscardHandler))
	go b.Run(t.Context())
	return b
}

// picky refuses commits that touch a path, as a host does where a link is in the way.
type picky struct {
	bad  string
	jobs []batch.Job
}

func (p *picky) Submit(_ context.Context, job batch.Job) (git.Hash, error) {
	for _, e := range job.Edits {
		if git.Inside(p.bad, e.Path) {
			return "", git.BadPath(p.bad, "a link is in the way")
		}
	}
	p.jobs = append(p.jobs, job)
	job.OnCommit("c0ffee")
	return "c0ffee", nil
}

func TestATargetWhosePathIsRefusedFailsAlone(t *testing.T) {
	t.Parallel()
	b, err := backends.Backends().Open("git", nil)
	if err != nil {
		t.Fatal(err)
	}
	shelved := shelf{}
	shelved.put("bundle", "settings")
	l := storeOf(t)
	c := content.NewReader(shelved)
	found, due := map[pair.Target]route.Route{}, []pair.Target{{Cluster: "edge+c1", UID: "7"}, {Cluster: "edge+c2", UID: "7"}, {Cluster: "edge+c3", UID: "7"}}
	for _, at := range due {
		hold(t, l, appcontext.Pair{Key: appcontext.PairKey{Cluster: at.Cluster, UID: at.UID, App: "a"}, Desired: "bundle", Phase: appcontext.Pending})
		found[at] = route.Route{Backend: b}
	}
	host := &picky{bad: "clusters/edge+c2/context/7/app"}
	setDesired(t, l, pair.Desired{Deployment: "7", Head: "70", Scope: map[string]bool{}})
	var recorded []string
	sink := &gitSink{commits: host, contents: c, ledger: l, ways: content.NewStepPlans(c), brakes: queue.NewCancellations(t.Context()), branches: unwritten(t)}
	sink.record = func(_ context.Context, head string, rev int64, c ...appcontext.RevisionCommit) error {
		recorded = append(recorded, fmt.Sprint(head, " ", rev, " ", c[0].Commit, " ", c[0].Clusters))
		return nil
	}
	got := map[string]string{}
	for _, o := range slices.Concat(slices.Collect(sink.deliver(t.Context(), due, found))...) {
		got[o.Key.Cluster] = fmt.Sprint(o.Commit, " ", o.Err)
	}
	want := map[string]string{
		"edge+c1": "c0ffee <nil>", "edge+c3": "c0ffee <nil>",
		"edge+c2": ` edit: "clusters/edge+c2/context/7/app": a link is in the way`,
	}
	if !maps.Equal(got, want) || len(host.jobs) != 1 {
		t.Errorf("got %q in %d commits, want %q in one", got, len(host.jobs), want)
	}
	if want := []string{"70 0 c0ffee 2"}; !slices.Equal(recorded, want) {
		t.Errorf("recorded %q, want %q: the head, its revision, and the clusters", recorded, want)
	}
}

func TestTitles(t *testing.T) {
	t.Parallel()
	const group = "projects/shop/composite-apps/till/v1/deployment-intent-groups/autumn"
	there, gone := []appcontext.Pair{{Desired: "a"}, {}}, []appcontext.Pair{{}}
	tests := []struct {
		name string
		note func(*summary)
		want string
	}{
		{"one deployment on one cluster", func(s *summary) { s.note(group, pair.Target{Cluster: "edge+c1", UID: "7"}, there) }, "Update shop/till/v1/autumn on edge+c1"},
		{"a removal", func(s *summary) { s.note(group, pair.Target{Cluster: "edge+c1", UID: "7"}, gone) }, "Remove shop/till/v1/autumn on edge+c1"},
		{"several", func(s *summary) {
			s.note(group, pair.Target{Cluster: "edge+c1", UID: "7"}, gone)
			s.note("8", pair.Target{Cluster: "edge+c2", UID: "8"}, there)
		}, "Update 2 deployments on 2 clusters"},
	}
	for _, tt := range tests {
		var s summary
		if tt.note(&s); s.title() != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, s.title(), tt.want)
		}
	}
}
