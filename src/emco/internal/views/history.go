package views

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"math"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/clusterhistory"
	"github.com/emco-orchestrator/emco/src/emco/internal/views/tally"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// History reads what clusters held. Both sequences end at the first error.
type History interface {
	// ClusterHistory yields the entries of a deployment, the oldest first.
	ClusterHistory(ctx context.Context, id v2.DeploymentID) iter.Seq2[clusterhistory.Entry, error]
	// ClusterHistoryOn yields the entries of all deployments that name a cluster, without the other clusters, of each deployment the
	// oldest first.
	ClusterHistoryOn(ctx context.Context, cluster v2.ClusterKey) iter.Seq2[clusterhistory.Entry, error]
}

// historyFilter is the parameters that choose intervals.
type historyFilter struct {
	at, since time.Time
	apps      []string
}

// readHistoryQuery reads the parameters of a history; further are those of the view.
func readHistoryQuery(values url.Values, further ...string) (q pageQuery, f historyFilter, err error) {
	q, err = readPage(values, []string{"-from"}, append([]string{"app", "at", "since"}, further...)...)
	if err == nil && q.states != nil {
		err = errs.New(errs.Invalid, "Invalid query state: what clusters held has none")
	}
	if err != nil {
		return q, f, err
	}
	f.apps = values["app"]
	return q, f, readTimes(values, map[string]*time.Time{"at": &f.at, "since": &f.since})
}

// admits reports whether an interval is chosen. It holds from From on, and no longer at To.
func (f historyFilter) admits(h v2.HistoryView) bool {
	endsAfter := func(at time.Time) bool { return h.To.IsZero() || h.To.After(at) }
	return (len(f.apps) == 0 || slices.Contains(f.apps, h.App)) &&
		(f.at.IsZero() || !h.From.After(f.at) && endsAfter(f.at)) && (f.since.IsZero() || endsAfter(f.since))
}

// clusterHistory answers with a page of what a cluster held, the newest first. A cluster that is not registered any longer has its history.
func (v *Views) clusterHistory(w http.ResponseWriter, r *http.Request) error {
	q, f, err := readHistoryQuery(r.URL.Query())
	if err != nil {
		return err
	}
	key, err := web.Cluster(r)
	if err != nil {
		return err
	}
	ctx := r.Context()
	held, err := clusterhistory.Fold(v.History.ClusterHistoryOn(ctx, key), func(v2.ClusterKey) bool { return true })
	if err != nil {
		return err
	}
	var pairs []appcontext.Pair
	for _, e := range v.Pairs.Cluster(key) {
		if e.State != nil {
			pairs = append(pairs, e.State.Pair(appcontext.PairKey{Cluster: key, Deployment: e.UID, App: e.App}, ""))
		}
	}
	seen := v.historySeen(ctx, held, pairs)
	if len(seen) == 0 {
		_, known, err := v.registered(ctx, pageFilter{})
		if err != nil {
			return err
		}
		if _, there := known[key]; !there {
			return errs.New(errs.NotFound, "Cluster not found")
		}
	}
	apps := appsHeld(seen)
	unheld := slices.DeleteFunc(slices.Clone(f.apps), func(app string) bool { return slices.Contains(apps, app) })
	if err := v.checkApps(ctx, unheld); err != nil {
		return err
	}
	return v.answerHistory(w, r, q, f, seen)
}

// groupHistory answers with a page of what clusters held of a deployment, the newest first.
func (v *Views) groupHistory(w http.ResponseWriter, r *http.Request) error {
	values := r.URL.Query()
	q, f, err := readHistoryQuery(values, "cluster")
	if err != nil {
		return err
	}
	clusters := map[v2.ClusterKey]bool{}
	for _, name := range values["cluster"] {
		key, err := v2.ParseClusterKey(name)
		if err != nil {
			return errs.New(errs.Invalid, fmt.Sprintf("Invalid query cluster: %+q is not PROVIDER+CLUSTER; in a URL, write the + as %%2B", name))
		}
		clusters[key] = true
	}
	wanted := func(c v2.ClusterKey) bool { return len(clusters) == 0 || clusters[c] }
	doc, err := v.groupOf(r)
	if err != nil {
		return err
	}
	ctx := r.Context()
	head := appcontext.HeadID(doc.UID)
	deployment := head.Deployment()
	if h, known := v.Tally.Heads()[head]; known {
		deployment = h.Deployment()
	}
	held, err := clusterhistory.Fold(v.History.ClusterHistory(ctx, deployment), wanted)
	if err != nil {
		return err
	}
	pairs := slices.DeleteFunc(v.Pairs.PairsOf(deployment), func(p appcontext.Pair) bool { return !wanted(p.Key.Cluster) })
	seen := v.historySeen(ctx, held, pairs)
	if err := v.checkHeld(ctx, clusters, seen); err != nil {
		return err
	}
	if err := v.checkGroupApps(ctx, f.apps, string(doc.Key), appsHeld(seen)); err != nil {
		return err
	}
	return v.answerHistory(w, r, q, f, seen)
}

// checkHeld refuses names of clusters that are neither registered nor in a history.
func (v *Views) checkHeld(ctx context.Context, clusters map[v2.ClusterKey]bool, seen []v2.HistoryView) error {
	if len(clusters) == 0 {
		return nil
	}
	held := map[v2.ClusterKey]bool{}
	for _, h := range seen {
		held[v2.NewClusterKey(h.Provider, h.Cluster)] = true
	}
	_, registered, err := v.registered(ctx, pageFilter{})
	if err != nil {
		return err
	}
	for _, c := range slices.Sorted(maps.Keys(clusters)) {
		if _, known := registered[c]; !known && !held[c] {
			return errs.New(errs.Invalid, fmt.Sprintf("Invalid query cluster: %s is not registered, and held nothing of the deployment", c))
		}
	}
	return nil
}

// historySeen returns what the caller may see of intervals, and of the pairs without any: these were applied when no history was kept
// yet, or so long ago that their entry was removed.
func (v *Views) historySeen(ctx context.Context, held []clusterhistory.Interval, pairs []appcontext.Pair) (seen []v2.HistoryView) {
	owners, sees, recorded := v.documents(), sightOf(ctx), map[appcontext.PairKey]bool{}
	add := func(i clusterhistory.Interval, isRecorded bool) {
		path := i.Document
		if i.To.IsZero() { // a migration passes on what runs
			path = cmp.Or(owners[i.Deployment], path)
		}
		if sees.path(path) {
			seen = append(seen, historyView(i, path, isRecorded))
		}
	}
	for _, i := range held {
		recorded[i.Place()] = true
		add(i, true)
	}
	for _, p := range pairs {
		if p.Applied != "" && !recorded[p.Key] {
			add(heldNow(p), false)
		}
	}
	return seen
}

// heldNow is what a cluster holds by its pair alone: it holds it since At or longer.
func heldNow(p appcontext.Pair) clusterhistory.Interval {
	out := clusterhistory.Interval{Cluster: p.Key.Cluster, Deployment: p.Key.Deployment, From: p.At.UTC()}
	out.App, out.Bundle, out.Commit = p.Key.App, p.Applied, p.Commit
	if p.Applied == p.Desired { // else the pair has the revision of what comes next
		out.Rev = p.Rev
	}
	return out
}

func historyView(i clusterhistory.Interval, path string, recorded bool) v2.HistoryView {
	out := v2.HistoryView{
		Provider: i.Cluster.Provider(), Cluster: i.Cluster.Cluster(), Path: path, DeploymentID: i.Deployment, App: i.App,
		Change: string(i.Change), Revision: i.Rev, Commit: i.Commit, Bundle: string(i.Bundle), From: i.From, To: i.To, Recorded: recorded,
	}
	if k, ok := v2.GroupOf(path); ok {
		out.Project, out.CompositeApp, out.Version, out.Group = k.CompositeApp.Project, k.CompositeApp.Name, k.CompositeApp.Version, k.Name
	}
	return out
}

// appsHeld returns the names of the apps that intervals are of.
func appsHeld(seen []v2.HistoryView) []string {
	names := map[string]bool{}
	for _, h := range seen {
		names[h.App] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// answerHistory answers with a page of intervals.
func (v *Views) answerHistory(w http.ResponseWriter, r *http.Request, q pageQuery, f historyFilter, seen []v2.HistoryView) error {
	var rows []pageRow
	items := map[string]v2.HistoryView{}
	for _, h := range seen {
		if f.admits(h) && q.admits(tally.None, h.Provider+"/"+h.Cluster+" "+h.Path+" "+h.App) {
			key := newestFirst(h)
			rows, items[key] = append(rows, pageRow{key, key}), h
		}
	}
	_, mark := v.Tally.ClusterSums(nil)
	out := v2.HistoryViews{ViewPage: v2.ViewPage{Mark: mark, Total: len(rows)}, Items: []v2.HistoryView{}}
	rows, out.Continue = q.cut(rows)
	for _, row := range rows {
		out.Items = append(out.Items, items[row.name])
	}
	return answer(w, r, &out, func(o *v2.HistoryViews) { o.At = v.Now().UTC() })
}

// newestFirst is the sort key of an interval.
func newestFirst(h v2.HistoryView) string {
	return fmt.Sprintf("%019d %s %s %s", math.MaxInt64-max(0, h.From.UnixNano()), v2.NewClusterKey(h.Provider, h.Cluster), h.App, h.DeploymentID)
}
