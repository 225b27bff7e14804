package orchestrator

import v2 "github.com/emco-orchestrator/emco/src/api/v2"

// listApps answers ?apps: the names of apps that have resources.
func listApps(s v2.Status) v2.AppsAnswer {
	out := v2.AppsAnswer{Identity: s.Identity, Apps: []string{}}
	for _, a := range s.Apps {
		out.Apps = append(out.Apps, a.Name)
	}
	return out
}

// listClusters answers ?clusters: the clusters of each app.
func listClusters(s v2.Status) v2.ClustersAnswer {
	out := v2.ClustersAnswer{Identity: s.Identity, ClustersByApp: []v2.ClustersByApp{}}
	for _, a := range s.Apps {
		entry := v2.ClustersByApp{App: a.Name, Clusters: []v2.ClusterKey{}}
		for _, c := range a.Clusters {
			entry.Clusters = append(entry.Clusters, v2.ClusterKey{Provider: c.Provider, Cluster: c.Cluster})
		}
		out.ClustersByApp = append(out.ClustersByApp, entry)
	}
	return out
}

// listResources answers ?resources: the resources of each app on each cluster.
func listResources(s v2.Status) v2.ResourcesAnswer {
	out := v2.ResourcesAnswer{Identity: s.Identity, ResourcesByApp: []v2.ResourcesByApp{}}
	for _, a := range s.Apps {
		for _, c := range a.Clusters {
			entry := v2.ResourcesByApp{App: a.Name, Provider: c.Provider, Cluster: c.Cluster}
			for _, r := range c.Resources {
				entry.Resources = append(entry.Resources, v2.ResourceKey{Name: r.Name, GVK: r.GVK})
			}
			out.ResourcesByApp = append(out.ResourcesByApp, entry)
		}
	}
	return out
}
