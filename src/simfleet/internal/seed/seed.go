// Package seed registers a fleet with the control plane through its REST API: a provider, a
// sync object, the clusters with their labels and, if asked to, a project and a logical cloud with all clusters, which it
// instantiates. It leaves existing documents as they are, so a second run adds what is missing. Tokens creates the tokens for
// reports by HTTPS, and Branches asks which branch each cluster reads.
package seed

import (
	"context"
	"fmt"
	"net/http"
	"sync"

	"github.com/emco-orchestrator/emco/src/api/client"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
)

// maxRequests bounds the parallel requests.
const maxRequests = 8

// Options describe what to register.
type Options struct {
	Clusters []string // names without the provider
	Provider string
	Type     string // gitOpsType of the clusters: git, fluxcd, ...
	Sync     string // name of the cluster-sync-object
	Pairs    []map[string]v2.Scalar
	Label    string // on all clusters
	Waves    int    // label the clusters wave-0 to wave-(n-1) in turn; 0: do not
	Project  string
	Cloud    string // a logical cloud of level 0; none if empty
}

// Fleet registers everything and instantiates the logical cloud. It calls registered after
// each cluster.
func Fleet(ctx context.Context, api *client.Client, o Options, registered func()) error {
	s := seeder{api: api, options: o}
	if err := s.createParents(ctx); err != nil {
		return err
	}
	if err := s.createClusters(ctx, registered); err != nil {
		return err
	}
	if o.Cloud == "" {
		return nil
	}
	return s.instantiateCloud(ctx)
}

type seeder struct {
	api     *client.Client
	options Options
}

func (s seeder) provider() string {
	return v2.ProviderStoreKey(s.options.Provider)
}

func (s seeder) cloud() string {
	return v2.LogicalCloudKey{Project: s.options.Project, Name: s.options.Cloud}.StoreKey()
}

// createParents creates the documents that clusters refer to.
func (s seeder) createParents(ctx context.Context) error {
	object := v2.SyncObject{Named: named(s.options.Sync)}
	object.Spec.KV = s.options.Pairs
	if err := create(ctx, s.api, "cluster-providers", s.options.Provider, v2.ClusterProvider{Named: named(s.options.Provider)}); err != nil {
		return err
	}
	if err := create(ctx, s.api, s.provider()+"/cluster-sync-objects", s.options.Sync, object); err != nil {
		return err
	}
	if s.options.Cloud == "" {
		return nil
	}
	if err := create(ctx, s.api, "projects", s.options.Project, v2.Project{Named: named(s.options.Project)}); err != nil {
		return err
	}
	cloud := v2.LogicalCloud{Named: named(s.options.Cloud), Spec: v2.LogicalCloudSpec{Level: v2.LevelAdmin}}
	return create(ctx, s.api, v2.ProjectStoreKey(s.options.Project)+"/logical-clouds", s.options.Cloud, cloud)
}

// createClusters registers the clusters.
func (s seeder) createClusters(ctx context.Context, registered func()) error {
	return forEach(ctx, len(s.options.Clusters), func(ctx context.Context, i int) error {
		defer registered()
		return s.createCluster(ctx, i)
	})
}

// forEach calls do n times, a few calls in parallel, until one fails.
func forEach(ctx context.Context, n int, do func(context.Context, int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	jobs := make(chan int)
	var all sync.WaitGroup
	for range maxRequests {
		all.Go(func() {
			for i := range jobs {
				if err := do(ctx, i); err != nil {
					cancel(err)
				}
			}
		})
	}
	for i := 0; i < n && ctx.Err() == nil; i++ {
		jobs <- i
	}
	close(jobs)
	all.Wait()
	return context.Cause(ctx)
}

func (s seeder) createCluster(ctx context.Context, i int) error {
	name := s.options.Clusters[i]
	c := v2.Cluster{Named: named(name)}
	c.Spec.GitOps = v2.GitOps{Type: s.options.Type, Reference: s.options.Sync}
	if err := create(ctx, s.api, s.provider()+"/clusters", name, c); err != nil {
		return err
	}
	labels := []string{s.options.Label}
	if s.options.Waves > 0 {
		labels = append(labels, fmt.Sprintf("wave-%d", i%s.options.Waves))
	}
	for _, label := range labels {
		if err := create(ctx, s.api, s.provider()+"/clusters/"+name+"/labels", label, v2.ClusterLabel{Label: label}); err != nil {
			return err
		}
	}
	if s.options.Cloud == "" {
		return nil
	}
	ref := v2.ClusterReference{Named: named(name), Spec: v2.ClusterReferenceSpec{ClusterProvider: s.options.Provider, Cluster: name}}
	return create(ctx, s.api, s.cloud()+"/cluster-references", name, ref)
}

// instantiateCloud instantiates the logical cloud, unless that was done.
func (s seeder) instantiateCloud(ctx context.Context) error {
	path := s.cloud() + "/instantiate"
	res, err := s.api.Do(ctx, client.Request{Method: http.MethodPost, Path: path})
	if err != nil || res.Status == http.StatusConflict {
		return err
	}
	return res.Err(http.MethodPost, path)
}

// Tokens creates a token for each cluster, for its reports by HTTPS. The keys are names
// without the provider.
func Tokens(ctx context.Context, api *client.Client, o Options) (map[string]string, error) {
	var mu sync.Mutex
	out := map[string]string{}
	err := forEach(ctx, len(o.Clusters), func(ctx context.Context, i int) error {
		path := v2.NewClusterKey(o.Provider, o.Clusters[i]).StoreKey() + "/monitor/token"
		made, err := client.Post[struct{ Token string }](ctx, api, path, struct{}{})
		mu.Lock()
		defer mu.Unlock()
		out[o.Clusters[i]] = made.Token
		return err
	})
	return out, err
}

// Branches asks the control plane which branch each cluster of a provider reads, if it is not
// branch. The keys are full names. views is the prefix of branches for a single cluster.
func Branches(ctx context.Context, api *client.Client, provider, branch, views string) (map[string]string, error) {
	all, err := client.Get[[]v2.Cluster](ctx, api, v2.ProviderStoreKey(provider)+"/clusters")
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, c := range all {
		name := v2.NewClusterKey(provider, c.Metadata.Name).String()
		switch g := c.Spec.GitOps; g.RefMode {
		case "cluster":
			out[name] = views + name
		case "shard":
			out[name] = branch + "-" + g.Shard
		}
	}
	return out, nil
}

func named(name string) v2.Named { return v2.Named{Metadata: v2.Metadata{Name: name}} }

// create creates a document, unless it exists. A missing parent has the same status as an
// existing document, so a conflict is checked.
func create[D any](ctx context.Context, api *client.Client, path, name string, doc D) error {
	_, err := client.Post[client.NoContent](ctx, api, path, doc)
	if client.StatusOf(err) != http.StatusConflict {
		return err
	}
	if _, missing := client.Get[client.NoContent](ctx, api, path+"/"+name); missing != nil {
		return err
	}
	return nil
}
