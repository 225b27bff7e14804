package views

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/clusterhistory"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/mirror"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/pairstore"
	"github.com/emco-orchestrator/emco/src/emco/internal/authz"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
)

// ClusterHistory implements History.
func (w *world) ClusterHistory(_ context.Context, id v2.DeploymentID) iter.Seq2[clusterhistory.Entry, error] {
	return func(yield func(clusterhistory.Entry, error) bool) {
		for _, e := range w.held {
			if e.Deployment == id && !yield(e, nil) {
				return
			}
		}
	}
}

// ClusterHistoryOn implements History.
func (w *world) ClusterHistoryOn(_ context.Context, cluster v2.ClusterKey) iter.Seq2[clusterhistory.Entry, error] {
	return func(yield func(clusterhistory.Entry, error) bool) {
		for _, e := range w.held {
			if !slices.Contains(e.Clusters, cluster) {
				continue
			}
			if e.Clusters = []v2.ClusterKey{cluster}; !yield(e, nil) {
				return
			}
		}
	}
}

// holds adds an entry some minutes after noon: clusters got a revision of "web", or lost the app if it is 0. The bundle is named after
// whether the revision is odd.
func (w *world) holds(minutes int, head appcontext.HeadID, document string, revision int64, clusters ...v2.ClusterKey) {
	a := clusterhistory.AppChange{App: "web", Change: pairstore.Remove}
	if revision > 0 {
		a = clusterhistory.AppChange{App: "web", Change: pairstore.Upgrade, Rev: revision, Bundle: manifest.Digest(fmt.Sprint("b", revision%2)), Commit: "c0ffee"}
	}
	w.held = append(w.held, clusterhistory.Entry{
		Deployment: head.Deployment(), At: noon.Add(time.Duration(minutes) * time.Minute), Document: document, Apps: []clusterhistory.AppChange{a}, Clusters: clusters,
	})
}

// rows are the items of a page in short: "cluster group revision from-to".
func rows(page v2.HistoryViews) (out []string) {
	for _, h := range page.Items {
		to := "now"
		if !h.To.IsZero() {
			to = h.To.Format("15:04")
		}
		row := fmt.Sprintf("%s %s %d %s-%s", h.Cluster, h.Group, h.Revision, h.From.Format("15:04"), to)
		if !h.Recorded {
			row += " unrecorded"
		}
		out = append(out, row)
	}
	return out
}

func (w *world) wantRows(path string, want ...string) {
	w.Helper()
	if got := rows(read[v2.HistoryViews](w, path)); !slices.Equal(got, want) {
		w.Errorf("%s: got\n%s\nwant\n%s", path, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// retail is two deployments of project shop, one of which was deleted, and one of project bank, on two clusters.
func retail(t *testing.T) *world {
	w, prod := shop(t)
	const bank = "projects/bank/composite-apps/till/v1/deployment-intent-groups/atm"
	atm := w.deployment(bank)
	w.holds(1, "900", groupPath("gone"), 1, "edge+a", "edge+old")
	w.holds(5, "900", groupPath("gone"), 0, "edge+a", "edge+old")
	w.holds(2, prod, groupPath("prod"), 1, "edge+a", "edge+b")
	w.holds(3, prod, groupPath("prod"), 2, "edge+a")
	w.holds(4, prod, groupPath("prod"), 3, "edge+a")
	w.holds(6, atm, bank, 1, "edge+a")
	return w
}

func TestWhatAClusterHeld(t *testing.T) {
	t.Parallel()
	w := retail(t)
	at := "/clusters/edge/a/history"
	w.wantRows(at+"?app=web", "a atm 1 12:06-now", "a prod 3 12:04-now", "a prod 2 12:03-12:04", "a prod 1 12:02-12:03", "a gone 1 12:01-12:05")
	w.wantRows(at+"?app=web&at=2026-11-21T12:03:00Z", "a prod 2 12:03-12:04", "a gone 1 12:01-12:05")
	w.wantRows(at+"?app=web&at=2026-11-21T12:05:30Z", "a prod 3 12:04-now")
	w.wantRows(at + "?app=web&at=2026-11-21T12:00:00Z")
	w.wantRows(at+"?app=web&since=2026-11-21T12:04:00Z", "a atm 1 12:06-now", "a prod 3 12:04-now", "a gone 1 12:01-12:05")
	w.wantRows(at+"?q=gone", "a gone 1 12:01-12:05")
	first := read[v2.HistoryViews](w, at+"?app=web&limit=3")
	if first.Total != 5 || first.Mark != 7 || len(first.Items) != 3 {
		t.Errorf("the first page: %+v", first)
	}
	w.wantRows(at+"?app=web&limit=3&continue="+first.Continue, "a prod 1 12:02-12:03", "a gone 1 12:01-12:05")
	h := first.Items[1]
	want := v2.HistoryView{
		Provider: "edge", Cluster: "a", Path: groupPath("prod"), Project: "shop", CompositeApp: "till", Version: "v1", Group: "prod", DeploymentID: h.DeploymentID,
		App: "web", Change: "upgrade", Revision: 3, Commit: "c0ffee", Bundle: "b1", From: noon.Add(4 * time.Minute), Recorded: true,
	}
	if h != want {
		t.Errorf("got  %+v\nwant %+v", h, want)
	}

	w.wantRows("/clusters/edge/old/history", "old gone 1 12:01-12:05") // it was deregistered
	for path, status := range map[string]int{
		"/clusters/edge/none/history": 404, "/clusters/edge/c/history": 200, at + "?at=yesterday": 400, at + "?since=1h": 400, at + "?cluster=edge%2Ba": 400,
		at + "?state=ready": 400, at + "?app=wbe": 400, at + "?nosuch=1": 400,
	} {
		if got := w.get(path); got.Code != status {
			t.Errorf("%s: %d %s, want %d", path, got.Code, got.Body, status)
		}
	}
}

// What was applied before there were entries is shown from its pair alone. A pair that is being changed still holds what was applied.
func TestWhatRunsIsNeverMissingInAHistory(t *testing.T) {
	t.Parallel()
	w := retail(t)
	w.wantRows("/clusters/edge/a/history?app=db", "a prod 2 12:00-now unrecorded")
	w.wantRows("/"+groupPath("prod")+"/history?app=db", "a prod 2 12:00-now unrecorded")
	for k := range w.pairs {
		if k.App == "db" {
			w.pairs[k] = &mirror.Entry{State: pairstore.StateOf(appcontext.Pair{Rev: 4, Desired: "e", Applied: "d", Phase: appcontext.Pending, At: noon.Add(time.Hour)})}
		}
	}
	w.wantRows("/clusters/edge/a/history?app=db", "a prod 0 13:00-now unrecorded")
}

func TestTheHistoryOfADeployment(t *testing.T) {
	t.Parallel()
	w := retail(t)
	at := "/" + groupPath("prod") + "/history"
	w.wantRows(at+"?app=web", "a prod 3 12:04-now", "a prod 2 12:03-12:04", "a prod 1 12:02-12:03", "b prod 1 12:02-now")
	w.wantRows(at+"?cluster=edge%2Bb", "b prod 1 12:02-now")
	w.wantRows(at+"?cluster=edge%2Bb&cluster=edge%2Ba&app=web&at=2026-11-21T12:02:30Z", "a prod 1 12:02-12:03", "b prod 1 12:02-now")
	w.wantRows("/" + groupPath("prod") + "/history?cluster=edge%2Bc")
	for query, text := range map[string]string{"?cluster=edge+b": "%2B", "?app=wbe": "did you mean web?", "?at=1": "Invalid query at"} {
		if got := w.get(at + query); got.Code != http.StatusBadRequest || !strings.Contains(got.Body.String(), text) {
			t.Errorf("%s: %d %s, want %q", query, got.Code, got.Body, text)
		}
	}
	if got := w.get("/" + groupPath("gone") + "/history"); got.Code != http.StatusNotFound {
		t.Errorf("a group that was deleted: %d", got.Code)
	}
}

// A deployment that a migration passed to another group was of its former group until then; what runs still is of the new one.
func TestTheHistoryOfAMigratedDeployment(t *testing.T) {
	t.Parallel()
	w, prod := shop(t)
	w.holds(1, prod, groupPath("prod"), 1, "edge+b")
	w.holds(2, prod, groupPath("prod"), 2, "edge+b")
	next := w.group("next")
	from, to := w.heads[prod], w.heads[next]
	from.MovedTo, to.Inherited = next, prod.Deployment()
	w.tally.HeadChanged(prod, &from)
	w.tally.HeadChanged(next, &to)
	want := []string{"b next 2 12:02-now", "b prod 1 12:01-12:02"}
	w.wantRows("/clusters/edge/b/history", want...)
	w.wantRows("/"+groupPath("next")+"/history?cluster=edge%2Bb", want...)
}

// A caller sees what belongs to projects that it may see, and a cluster without any is as one that does not exist.
func TestHistoriesAreConfined(t *testing.T) {
	t.Parallel()
	w := retail(t)
	w.as(nil, bound(authz.Viewer, "projects/bank"), bound(authz.Viewer, "cluster-providers/edge"))
	w.wantRows("/clusters/edge/a/history", "a atm 1 12:06-now")
	if got := w.get("/clusters/edge/old/history"); got.Code != http.StatusNotFound {
		t.Errorf("a former cluster of others: %d %s", got.Code, got.Body)
	}
	if got := w.get("/clusters/edge/a/history?app=db"); got.Code != http.StatusBadRequest {
		t.Errorf("an app of others: %d %s", got.Code, got.Body)
	}
}

// brokenHistory ends with an error.
type brokenHistory struct{ *world }

func (brokenHistory) ClusterHistoryOn(context.Context, v2.ClusterKey) iter.Seq2[clusterhistory.Entry, error] {
	return func(yield func(clusterhistory.Entry, error) bool) {
		yield(clusterhistory.Entry{}, errs.E(errs.Unavailable, "list", "etcd", errors.New("no leader")))
	}
}

func TestAHistoryThatCannotBeReadIsNotEmpty(t *testing.T) {
	t.Parallel()
	w := retail(t)
	w.views.History = brokenHistory{w}
	if got := w.get("/clusters/edge/a/history"); got.Code != http.StatusServiceUnavailable {
		t.Errorf("got %d %s", got.Code, got.Body)
	}
}
