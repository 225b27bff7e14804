package pairs_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/clusterhistory"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/pairstore"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pairs"
)

// entries keeps the history of clusters as lines, and notes writes among those of pairs.
type entries struct {
	r     *recorder
	lines []string
	fail  error
}

func (e *entries) AddClusterHistory(_ context.Context, all ...clusterhistory.Entry) error {
	if e.fail != nil {
		return e.fail
	}
	for _, h := range all {
		e.r.calls = append(e.r.calls, "history")
		line := fmt.Sprintf("%s %s %s:", h.At.Format(time.TimeOnly), h.Document, h.Deployment)
		for _, a := range h.Apps {
			line += fmt.Sprintf(" %s %s %d %s %s,", a.App, a.Change, a.Rev, strings.TrimPrefix(string(a.Bundle), "bundle-"), a.Commit)
		}
		e.lines = append(e.lines, fmt.Sprint(strings.TrimSuffix(line, ","), " on ", h.Clusters))
	}
	return nil
}

// An entry is for all clusters on which the same apps changed alike. It is written before the pairs; what failed, or is applied already, is
// none.
func TestTheHistoryOfClusters(t *testing.T) {
	t.Parallel()
	_, r := newStore(t)
	e := &entries{r: r}
	clock := noon
	c := config(t, r, func() time.Time { return clock })
	c.History = e
	l := pairs.New(c)
	if err := l.Load(t.Context(), pairstore.NewContents(l.Shard())); err != nil {
		t.Fatal(err)
	}
	desired := func(rev int64, bundle appcontext.Digest) {
		t.Helper()
		w := pair.Desired{Deployment: "7", Subject: "till", Rev: rev, Removed: bundle == "", Places: map[v2.ClusterKey]map[string]appcontext.Digest{}}
		for _, cluster := range []v2.ClusterKey{"a", "b", "c"} {
			if bundle != "" {
				w.Places[cluster] = map[string]appcontext.Digest{"db": "bundle-db", "web": bundle}
			}
		}
		setDesired(t, l, w)
		clock = clock.Add(time.Minute)
	}
	record := func(bundles map[string]appcontext.Digest, failed v2.ClusterKey) (err error) {
		t.Helper()
		var out []pair.Result
		for _, cluster := range []v2.ClusterKey{"a", "b", "c"} {
			for app, bundle := range bundles {
				res := pair.Result{Key: appcontext.PairKey{Cluster: cluster, Deployment: "7", App: app}, Bundle: bundle, Commit: "c0ffee"}
				if cluster == failed {
					res.Err = errs.New(errs.Unavailable, "away")
				}
				out = append(out, res)
			}
		}
		return l.Record(t.Context(), out)
	}
	wants := func(what string, err error, want ...string) {
		t.Helper()
		if got := strings.Join(e.lines, "\n"); err != nil || got != strings.Join(want, "\n") {
			t.Errorf("%s: %v\n%s\nwant\n%s", what, err, got, strings.Join(want, "\n"))
		}
		e.lines = nil
	}

	desired(1, "bundle-1")
	wants("what is only desired", nil)
	r.wrote()
	err := record(map[string]appcontext.Digest{"db": "bundle-db", "web": "bundle-1"}, "c")
	if got := r.wrote(); got != "history, pairs +6 -0" {
		t.Errorf("wrote %s", got)
	}
	wants("an installation that failed on c", err, "12:01:00 till 7: db install 1 db c0ffee, web install 1 1 c0ffee on [a b]")
	wants("c follows", record(map[string]appcontext.Digest{"db": "bundle-db", "web": "bundle-1"}, ""), "12:01:00 till 7: db install 1 db c0ffee, web install 1 1 c0ffee on [c]")

	desired(2, "bundle-2")
	e.fail = errs.New(errs.Unavailable, "etcd is away")
	if err := record(map[string]appcontext.Digest{"web": "bundle-2"}, ""); !errs.Is(err, errs.Unavailable) {
		t.Errorf("without its entry: %v", err)
	}
	if p := l.Of(pair.Target{Cluster: "a", Deployment: "7"})[1]; p.Applied != "bundle-1" {
		t.Errorf("a pair says %s before the history does", p.Applied)
	}
	e.fail = nil
	wants("an update", record(map[string]appcontext.Digest{"web": "bundle-2"}, ""), "12:02:00 till 7: web upgrade 2 2 c0ffee on [a b c]")

	desired(3, "bundle-3")
	desired(4, "")
	wants("a delivery that ends after its deployment was terminated", l.Record(t.Context(), []pair.Result{
		{Key: appcontext.PairKey{Cluster: "a", Deployment: "7", App: "web"}, Bundle: "bundle-3", Commit: "c0ffee"},
	}), "12:04:00 till 7: web upgrade 0 3 c0ffee on [a]")
	wants("the removal", record(map[string]appcontext.Digest{"db": "", "web": ""}, "b"), "12:04:00 till 7: db delete 0  , web delete 0   on [a c]")
}
