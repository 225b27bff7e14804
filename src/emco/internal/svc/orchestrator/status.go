package orchestrator

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/lifecycle"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// status answers a status query. A group that was never instantiated shows its
// identity and history only.
func (g *Groups) status(w http.ResponseWriter, r *http.Request) error {
	doc, err := g.group(r)
	if err != nil {
		return err
	}
	q, err := parseQuery(r.URL.Query())
	if err != nil {
		return err
	}
	out, err := g.report(r.Context(), doc, q)
	if err != nil {
		return err
	}
	switch q.list {
	case "apps":
		return web.JSON(w, http.StatusOK, listApps(out))
	case "clusters":
		return web.JSON(w, http.StatusOK, listClusters(out))
	case "resources":
		return web.JSON(w, http.StatusOK, listResources(out))
	}
	return web.JSON(w, http.StatusOK, out)
}

func (g *Groups) report(ctx context.Context, doc store.Doc, q query) (v2.Status, error) {
	out, err := g.identity(doc)
	if err != nil {
		return out, err
	}
	head, acts, err := lifecycle.History(ctx, g.contexts, doc)
	if err != nil {
		return out, err
	}
	if err := latest(acts, q.instance); err != nil {
		return out, err
	}
	out.States = lifecycle.States(head, acts)
	if head.LastRev == 0 {
		return out, nil
	}
	return out, g.fill(ctx, &out, head, q)
}

// latest refuses instances other than the latest one: what older ones looked like is
// not kept in view yet.
func latest(acts []appcontext.Action, instance string) error {
	last := lastInstance(acts)
	if instance == "" || instance == last {
		return nil
	}
	if slices.ContainsFunc(acts, func(a appcontext.Action) bool { return a.Instance == instance }) {
		return errs.New(errs.Invalid, "Invalid query instance: only the latest one, "+last+", can be shown")
	}
	return errs.New(errs.Invalid, "Invalid query instance: the deployment has none with this id")
}

// fill adds what is known of apps and clusters.
func (g *Groups) fill(ctx context.Context, out *v2.Status, head appcontext.Head, q query) error {
	s, err := g.situation(ctx, head)
	if err != nil {
		return err
	}
	if head.Gone && head.Op == nil {
		left, err := g.contexts.Remains(ctx, head.UID)
		if err != nil {
			return err
		}
		for _, p := range left {
			s.pairs[p.Key] = p
		}
	}
	v := view{situation: s, query: q}
	if q.ready {
		if v.reports, err = g.reportsAt(ctx, keysOf(head.UID, s.wants)); err != nil {
			return err
		}
	}
	if v.bundles, err = g.bundles(ctx, s); err != nil {
		return err
	}
	if q.output == "detail" {
		if v.details, err = g.details(ctx, v.bundles); err != nil {
			return err
		}
	}
	return v.write(out)
}

// identity is what names the group in an answer.
func (g *Groups) identity(doc store.Doc) (v2.Status, error) {
	group, err := store.Decode[v2.DeploymentIntentGroup](doc)
	part := strings.Split(string(doc.Key), "/") // projects/P/composite-apps/C/V/deployment-intent-groups/D
	return v2.Status{Identity: v2.Identity{
		Project: part[1], CompositeApp: part[3], CompositeAppVersion: part[4],
		CompositeProfile: group.Spec.Profile, Name: part[6],
	}}, err
}

func (g *Groups) reportsAt(ctx context.Context, keys []appcontext.PairKey) (map[appcontext.PairKey]appcontext.Report, error) {
	reports, err := g.contexts.ReportsAt(ctx, keys)
	out := make(map[appcontext.PairKey]appcontext.Report, len(reports))
	for _, r := range reports {
		out[r.Key] = r
	}
	return out, err
}

// bundles reads each bundle of the situation once, however many clusters hold it.
func (g *Groups) bundles(ctx context.Context, s situation) (map[appcontext.Digest]appcontext.Bundle, error) {
	out := map[appcontext.Digest]appcontext.Bundle{}
	for _, p := range s.wants {
		for _, d := range p.Apps {
			if _, ok := out[d]; ok {
				continue
			}
			b, err := g.contexts.GetBundle(ctx, d)
			if err != nil {
				return nil, err
			}
			out[d] = b
		}
	}
	return out, nil
}

// details reads every object of the bundles, with the values of Secrets hidden.
func (g *Groups) details(ctx context.Context, bundles map[appcontext.Digest]appcontext.Bundle) (map[appcontext.Digest]json.RawMessage, error) {
	out := map[appcontext.Digest]json.RawMessage{}
	for _, b := range bundles {
		for _, ref := range slices.Concat(b.CRDs, b.Objects) {
			content, err := g.contexts.GetBlob(ctx, ref.Digest)
			if err == nil {
				out[ref.Digest], err = manifest.Masked(manifest.Object{ID: ref.ID, Content: content})
			}
			if err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// placed is one app on one cluster, as wanted.
type placed struct {
	cluster string
	bundle  appcontext.Digest
}

// byApp turns placements around: app to clusters, in order.
func byApp(places []appcontext.Placement) map[string][]placed {
	out := map[string][]placed{}
	for _, p := range places {
		for app, bundle := range p.Apps {
			out[app] = append(out[app], placed{p.Cluster, bundle})
		}
	}
	for app := range maps.Keys(out) {
		slices.SortFunc(out[app], func(a, b placed) int { return cmp.Compare(a.cluster, b.cluster) })
	}
	return out
}
