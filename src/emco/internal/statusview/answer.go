package statusview

import (
	"time"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/mirror"
)

// Answer is the answer to a query. It stores what many clusters share once, so that answers
// about ten thousand pairs are fast.
type Answer struct {
	Expires time.Time // when the answer changes because time passes; zero if it does not

	status   v2.Status // without apps and clusters
	apps     []appPart
	clusters []clusterPart // of a logical cloud
	cluster  *clusterPart  // of a cluster; see OfCluster
	list     string        // the list that the query asks for: apps, clusters, resources
	stale    bool          // some cluster's report is stale
	topics   mirror.Topics // that the answer depends on
}

// appPart is an app. Its status has no clusters.
type appPart struct {
	status   v2.AppStatus
	clusters []clusterPart
}

// clusterPart is a cluster. Its status has no resources.
type clusterPart struct {
	status  v2.ClusterStatus
	objects *objectBlock // nil: none
	extras  []v2.ResourceStatus
}

// objectBlock is the statuses of a bundle's objects. Clusters with equal statuses share it.
type objectBlock struct {
	list   []v2.ResourceStatus
	counts map[string]int
	text   []byte // list as JSON without brackets; made on first use
}

// dropLiveness removes the times that each heartbeat changes.
func (a *Answer) dropLiveness() {
	drop := func(c *v2.ClusterStatus) {
		if !c.Stale {
			c.LastReport = nil
		}
	}
	for _, app := range a.apps {
		for i := range app.clusters {
			drop(&app.clusters[i].status)
		}
	}
	if a.cluster != nil {
		drop(&a.cluster.status)
	}
}

// OfCluster returns an answer about one app on one cluster in the form of a cluster's status: the cluster takes
// the place of the apps.
func (a Answer) OfCluster() Answer {
	for _, app := range a.apps {
		for _, c := range app.clusters {
			a.cluster = &c
		}
	}
	a.apps = nil
	return a
}

// WithRenewal returns the answer with a renewal of certificates; nil for none.
func (a Answer) WithRenewal(r *v2.Renewal) Answer {
	a.status.Renewal = r
	return a
}

// Status returns the answer in one piece.
func (a Answer) Status() v2.Status {
	out := a.status
	for _, app := range a.apps {
		s := app.status
		s.Clusters = clusterStatuses(app.clusters)
		out.Apps = append(out.Apps, s)
	}
	out.Clusters = clusterStatuses(a.clusters)
	if a.cluster != nil {
		out.Cluster = &clusterStatuses([]clusterPart{*a.cluster})[0]
	}
	return out
}

func clusterStatuses(parts []clusterPart) (out []v2.ClusterStatus) {
	for _, c := range parts {
		s := c.status
		if c.objects != nil {
			s.Resources = append(s.Resources, c.objects.list...)
		}
		s.Resources = append(s.Resources, c.extras...)
		out = append(out, s)
	}
	return out
}

// listApps answers ?apps: the names of apps that have resources.
func (a Answer) listApps() v2.AppsAnswer {
	out := v2.AppsAnswer{StatusSubject: a.status.StatusSubject, Apps: []string{}}
	for _, app := range a.apps {
		out.Apps = append(out.Apps, app.status.Name)
	}
	return out
}

// listClusters answers ?clusters: the clusters of each app.
func (a Answer) listClusters() v2.ClustersAnswer {
	out := v2.ClustersAnswer{StatusSubject: a.status.StatusSubject, ClustersByApp: []v2.ClustersByApp{}}
	for _, app := range a.byApp() {
		entry := v2.ClustersByApp{App: app.status.Name, Clusters: []v2.ClusterRef{}}
		for _, c := range app.clusters {
			entry.Clusters = append(entry.Clusters, v2.ClusterRef{Provider: c.status.Provider, Cluster: c.status.Cluster})
		}
		out.ClustersByApp = append(out.ClustersByApp, entry)
	}
	return out
}

// listResources answers ?resources: the resources of each app on each cluster, which are
// never merged.
func (a Answer) listResources() v2.ResourcesAnswer {
	out := v2.ResourcesAnswer{StatusSubject: a.status.StatusSubject, ResourcesByApp: []v2.ResourcesByApp{}}
	for _, app := range a.byApp() {
		for i, c := range clusterStatuses(app.clusters) {
			if len(c.Resources) == 0 {
				continue
			}
			entry := v2.ResourcesByApp{App: app.status.Name, Provider: app.clusters[i].status.Provider, Cluster: c.Cluster}
			for _, r := range c.Resources {
				entry.Resources = append(entry.Resources, v2.ResourceKey{Name: r.Name, GVK: r.GVK})
			}
			out.ResourcesByApp = append(out.ResourcesByApp, entry)
		}
	}
	return out
}

// cloudApp is upstream's name for the only app of a logical cloud.
const cloudApp = "logical-cloud"

// byApp returns the apps. A logical cloud has one, with all its clusters.
func (a Answer) byApp() []appPart {
	if len(a.clusters) == 0 {
		return a.apps
	}
	return []appPart{{status: v2.AppStatus{Name: cloudApp}, clusters: a.clusters}}
}
