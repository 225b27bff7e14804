package orchestrator

import (
	"cmp"
	"maps"
	"slices"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
)

// appPlacement is an app with the clusters that it goes to, sorted.
type appPlacement struct {
	app      string
	bundle   appcontext.Digest
	clusters []string
}

// clusterGroup is what goes to the same clusters.
type clusterGroup struct {
	clusters []string // that are left
	apps     []appPlacement
}

// placementsByCluster turns spreads around: what each cluster holds, in order of cluster. Clusters that
// hold the same share it.
func placementsByCluster(all []appPlacement) []appcontext.Placement {
	lots, sets := groupByClusters(all), map[string]map[string]appcontext.Digest{}
	var out []appcontext.Placement
	for {
		cluster, more := firstCluster(lots)
		if !more {
			return out
		}
		who := removeCluster(lots, cluster)
		set, known := sets[string(who)]
		if !known {
			set = mergeApps(lots, who)
			sets[string(who)] = set
		}
		out = append(out, appcontext.Placement{Cluster: cluster, Apps: set})
	}
}

// groupByClusters puts together what shares its list of clusters, as apps with the same intent do.
func groupByClusters(all []appPlacement) (lots []clusterGroup) {
	for _, s := range all {
		if len(s.clusters) == 0 {
			continue
		}
		i := slices.IndexFunc(lots, func(l clusterGroup) bool {
			return len(l.clusters) == len(s.clusters) && &l.clusters[0] == &s.clusters[0]
		})
		if i < 0 {
			i, lots = len(lots), append(lots, clusterGroup{clusters: s.clusters})
		}
		lots[i].apps = append(lots[i].apps, s)
	}
	return lots
}

// firstCluster returns the first of the clusters that are left.
func firstCluster(lots []clusterGroup) (first string, any bool) {
	for _, l := range lots {
		if len(l.clusters) > 0 && (!any || l.clusters[0] < first) {
			first, any = l.clusters[0], true
		}
	}
	return first, any
}

// removeCluster takes a cluster out of the lots and says, by two bytes each, which of them had it.
func removeCluster(lots []clusterGroup, cluster string) (who []byte) {
	for i, l := range lots {
		if len(l.clusters) > 0 && l.clusters[0] == cluster {
			lots[i].clusters = l.clusters[1:]
			who = append(who, byte(i), byte(i>>8))
		}
	}
	return who
}

// mergeApps joins what lots hold; who is as take says it.
func mergeApps(lots []clusterGroup, who []byte) map[string]appcontext.Digest {
	set := map[string]appcontext.Digest{}
	for i := 0; i < len(who); i += 2 {
		for _, s := range lots[int(who[i])|int(who[i+1])<<8].apps {
			set[s.app] = s.bundle
		}
	}
	return set
}

// countRemoved counts the placements of now, and how many of them are not among the next ones.
func countRemoved(now, next []appcontext.Placement) (gone, all int) {
	lost := map[[2]uintptr]int{} // by what clusters share
	for was, is := range appcontext.Zip(now, next) {
		k := [2]uintptr{was.Set(), is.Set()}
		n, known := lost[k]
		if !known {
			n = countMissing(was.Apps, is.Apps)
			lost[k] = n
		}
		gone, all = gone+n, all+len(was.Apps)
	}
	return gone, all
}

// countMissing counts the apps that are not there any more.
func countMissing(was, is map[string]appcontext.Digest) (n int) {
	for app := range was {
		if _, stays := is[app]; !stays {
			n++
		}
	}
	return n
}

// clusterBundle is one app on one cluster, as wanted.
type clusterBundle struct {
	cluster string
	bundle  appcontext.Digest
}

// byApp turns placements around: app to clusters, in order.
func byApp(places []appcontext.Placement) map[string][]clusterBundle {
	out := map[string][]clusterBundle{}
	for _, p := range places {
		for app, bundle := range p.Apps {
			out[app] = append(out[app], clusterBundle{p.Cluster, bundle})
		}
	}
	for app := range maps.Keys(out) {
		slices.SortFunc(out[app], func(a, b clusterBundle) int { return cmp.Compare(a.cluster, b.cluster) })
	}
	return out
}

// object names an object without its version, which clusters may convert.
type object struct{ group, kind, namespace, name string }

func objectOf(id manifest.ID) object { return object{id.Group, id.Kind, id.Namespace, id.Name} }

func failureOf(a appcontext.App) *v2.AppFailure {
	if a.Failure == nil {
		return nil
	}
	return &v2.AppFailure{Stage: a.Failure.Stage, File: a.Failure.File, Reason: a.Failure.Reason}
}

// placementSet collects cluster → app → bundle.
type placementSet map[string]map[string]appcontext.Digest

func (p placementSet) put(cluster, app string, bundle appcontext.Digest) {
	if p[cluster] == nil {
		p[cluster] = map[string]appcontext.Digest{}
	}
	p[cluster][app] = bundle
}

func (p placementSet) sorted() []appcontext.Placement {
	out := make([]appcontext.Placement, 0, len(p))
	for cluster, apps := range p {
		out = append(out, appcontext.Placement{Cluster: cluster, Apps: apps})
	}
	slices.SortFunc(out, func(a, b appcontext.Placement) int { return cmp.Compare(a.Cluster, b.Cluster) })
	return out
}
