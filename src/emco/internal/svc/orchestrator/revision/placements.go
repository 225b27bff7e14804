package revision

import (
	"cmp"
	"context"
	"maps"
	"slices"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/orchestrator/plan"
)

// appPlacement is an app with its bundle and the clusters that it goes to, sorted.
type appPlacement struct {
	app      string
	bundle   appcontext.Digest
	clusters []v2.ClusterKey
}

// clusterGroup is the apps that share one list of clusters.
type clusterGroup struct {
	clusters []v2.ClusterKey // sorted; placementsByCluster removes those that it has done
	apps     []appPlacement
}

// placementsByCluster turns lists of clusters by app into the apps of each cluster, in order
// of cluster. Clusters with equal apps share one map, which keeps large fleets small.
func placementsByCluster(all []appPlacement) []appcontext.Placement {
	groups := groupByClusters(all)
	shared := map[string]map[string]appcontext.Digest{} // by members, see below
	var out []appcontext.Placement
	for {
		var next v2.ClusterKey
		for _, g := range groups {
			if len(g.clusters) > 0 && (next == "" || g.clusters[0] < next) {
				next = g.clusters[0]
			}
		}
		if next == "" {
			return out
		}
		var members []byte // two bytes for the index of each group that holds the cluster
		for i, g := range groups {
			if len(g.clusters) > 0 && g.clusters[0] == next {
				groups[i].clusters = g.clusters[1:]
				members = append(members, byte(i), byte(i>>8))
			}
		}
		apps, known := shared[string(members)]
		if !known {
			apps = map[string]appcontext.Digest{}
			for i := 0; i < len(members); i += 2 {
				for _, a := range groups[int(members[i])|int(members[i+1])<<8].apps {
					apps[a.app] = a.bundle
				}
			}
			shared[string(members)] = apps
		}
		out = append(out, appcontext.Placement{Cluster: next, Apps: apps})
	}
}

// groupByClusters groups apps that share the same slice of clusters, as apps with equal
// intents do.
func groupByClusters(all []appPlacement) (groups []clusterGroup) {
	for _, a := range all {
		if len(a.clusters) == 0 {
			continue
		}
		i := slices.IndexFunc(groups, func(g clusterGroup) bool {
			return len(g.clusters) == len(a.clusters) && &g.clusters[0] == &a.clusters[0]
		})
		if i < 0 {
			i, groups = len(groups), append(groups, clusterGroup{clusters: a.clusters})
		}
		groups[i].apps = append(groups[i].apps, a)
	}
	return groups
}

// ClusterBundle is what one cluster should hold of an app.
type ClusterBundle struct {
	Cluster v2.ClusterKey
	Bundle  appcontext.Digest
}

// ByApp turns placements by cluster into the clusters of each app, in order.
func ByApp(placements []appcontext.Placement) map[string][]ClusterBundle {
	out := map[string][]ClusterBundle{}
	for _, p := range placements {
		for app, bundle := range p.Apps {
			out[app] = append(out[app], ClusterBundle{p.Cluster, bundle})
		}
	}
	for app := range out {
		slices.SortFunc(out[app], func(a, b ClusterBundle) int { return cmp.Compare(a.Cluster, b.Cluster) })
	}
	return out
}

// Desired returns the placements that a head desires now, in order of cluster; none if it desires
// nothing. Until a revision replaces the state that a migration handed
// over, the pairs hold the desired placements. Errors are the store's.
func Desired(ctx context.Context, contexts *appcontext.Store, head appcontext.Head) ([]appcontext.Placement, error) {
	switch {
	case head.Gone || !head.Owns():
		return nil, nil
	case head.TookOver():
		return inheritedPlacements(ctx, contexts, head.Inherited)
	case head.Rev == 0:
		return nil, nil
	}
	return contexts.DesiredPlacements(ctx, head.UID, head.Rev)
}

// inheritedPlacements returns what the pairs of a deployment should hold.
func inheritedPlacements(ctx context.Context, contexts *appcontext.Store, d v2.DeploymentID) ([]appcontext.Placement, error) {
	pairs, err := contexts.PairsOf(ctx, d)
	if err != nil {
		return nil, err
	}
	apps := map[v2.ClusterKey]map[string]appcontext.Digest{}
	for _, p := range pairs {
		if p.Desired == "" {
			continue
		}
		if apps[p.Key.Cluster] == nil {
			apps[p.Key.Cluster] = map[string]appcontext.Digest{}
		}
		apps[p.Key.Cluster][p.Key.App] = p.Desired
	}
	out := make([]appcontext.Placement, 0, len(apps))
	for _, cluster := range slices.Sorted(maps.Keys(apps)) {
		out = append(out, appcontext.Placement{Cluster: cluster, Apps: apps[cluster]})
	}
	return out, nil
}

// Planned returns where the apps of a plan should run, whether or not they can be rendered.
func Planned(p plan.Plan) []appcontext.Placement {
	all := make([]appPlacement, 0, len(p.Apps))
	for _, a := range p.Apps {
		all = append(all, appPlacement{app: a.Name, clusters: a.Decision.Clusters})
	}
	return placementsByCluster(all)
}
