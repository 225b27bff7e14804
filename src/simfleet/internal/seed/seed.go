// Package seed registers a fleet with the control plane, by its REST API: a provider, the
// repositories, the clusters with their labels, and a logical cloud that holds them all.
// What is there already is left as it is, so that seeding twice adds what is missing.
package seed

import (
	"context"
	"fmt"
	"net/http"
	"sync"

	"github.com/emco-orchestrator/emco/src/api/client"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
)

// atOnce bounds the requests that are under way.
const atOnce = 8

// Options say what is registered.
type Options struct {
	Clusters []string // names without the provider
	Provider string
	Type     string // how the clusters are fed: git, fluxcd, ...
	Sync     string // name of the cluster-sync-object
	Pairs    []map[string]v2.Scalar
	Label    string // on all clusters
	Waves    int    // the clusters are labelled wave-0 to wave-(n-1) in turn; 0: they are not
	Project  string
	Cloud    string // a logical cloud of level 0; none if empty
}

// Fleet registers everything and opens the logical cloud. told is called after each cluster.
func Fleet(ctx context.Context, api *client.Client, o Options, told func()) error {
	s := seeder{api: api, o: o}
	if err := s.found(ctx); err != nil {
		return err
	}
	if err := s.each(ctx, told); err != nil {
		return err
	}
	if o.Cloud == "" {
		return nil
	}
	return s.open(ctx)
}

type seeder struct {
	api *client.Client
	o   Options
}

func (s seeder) provider() string { return "cluster-providers/" + s.o.Provider }
func (s seeder) cloud() string    { return "projects/" + s.o.Project + "/logical-clouds/" + s.o.Cloud }

// found makes what the clusters need.
func (s seeder) found(ctx context.Context) error {
	object := v2.SyncObject{Named: named(s.o.Sync)}
	object.Spec.KV = s.o.Pairs
	if err := create(ctx, s.api, "cluster-providers", s.o.Provider, v2.ClusterProvider{Named: named(s.o.Provider)}); err != nil {
		return err
	}
	if err := create(ctx, s.api, s.provider()+"/cluster-sync-objects", s.o.Sync, object); err != nil {
		return err
	}
	if s.o.Cloud == "" {
		return nil
	}
	if err := create(ctx, s.api, "projects", s.o.Project, v2.Project{Named: named(s.o.Project)}); err != nil {
		return err
	}
	cloud := v2.LogicalCloud{Named: named(s.o.Cloud), Spec: v2.LogicalCloudSpec{Level: v2.LevelAdmin}}
	return create(ctx, s.api, "projects/"+s.o.Project+"/logical-clouds", s.o.Cloud, cloud)
}

// each registers the clusters.
func (s seeder) each(ctx context.Context, told func()) error {
	return aFewAtATime(ctx, len(s.o.Clusters), func(ctx context.Context, i int) error {
		defer told()
		return s.cluster(ctx, i)
	})
}

// aFewAtATime does something n times, until it fails.
func aFewAtATime(ctx context.Context, n int, do func(context.Context, int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	jobs := make(chan int)
	var all sync.WaitGroup
	for range atOnce {
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

func (s seeder) cluster(ctx context.Context, i int) error {
	name := s.o.Clusters[i]
	c := v2.Cluster{Named: named(name)}
	c.Spec.GitOps = v2.GitOps{Type: s.o.Type, Reference: s.o.Sync}
	if err := create(ctx, s.api, s.provider()+"/clusters", name, c); err != nil {
		return err
	}
	labels := []string{s.o.Label}
	if s.o.Waves > 0 {
		labels = append(labels, fmt.Sprintf("wave-%d", i%s.o.Waves))
	}
	for _, label := range labels {
		if err := create(ctx, s.api, s.provider()+"/clusters/"+name+"/labels", label, v2.ClusterLabel{Label: label}); err != nil {
			return err
		}
	}
	if s.o.Cloud == "" {
		return nil
	}
	ref := v2.ClusterReference{Named: named(name), Spec: v2.ClusterReferenceSpec{ClusterProvider: s.o.Provider, Cluster: name}}
	return create(ctx, s.api, s.cloud()+"/cluster-references", name, ref)
}

// open instantiates the logical cloud, unless it is.
func (s seeder) open(ctx context.Context) error {
	path := s.cloud() + "/instantiate"
	res, err := s.api.Do(ctx, client.Request{Method: http.MethodPost, Path: path})
	if err != nil || res.Status == http.StatusConflict {
		return err
	}
	return res.Err(http.MethodPost, path)
}

// Tokens makes a token for each cluster, with which it may report by HTTPS, by its name
// without the provider.
func Tokens(ctx context.Context, api *client.Client, o Options) (map[string]string, error) {
	var mu sync.Mutex
	out := map[string]string{}
	err := aFewAtATime(ctx, len(o.Clusters), func(ctx context.Context, i int) error {
		path := "cluster-providers/" + o.Provider + "/clusters/" + o.Clusters[i] + "/monitor/token"
		made, err := client.Post[struct{ Token string }](ctx, api, path, struct{}{})
		mu.Lock()
		defer mu.Unlock()
		out[o.Clusters[i]] = made.Token
		return err
	})
	return out, err
}

// Branches asks the control plane which branch each cluster of a provider reads, by its full
// name, where that is not branch itself. views begin the names of branches of one cluster.
func Branches(ctx context.Context, api *client.Client, provider, branch, views string) (map[string]string, error) {
	all, err := client.Get[[]v2.Cluster](ctx, api, "cluster-providers/"+provider+"/clusters")
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, c := range all {
		name := provider + "+" + c.Metadata.Name
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

// create makes a document. A refusal because it exists is fine; others of the same status
// (a parent is missing, say) are not.
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
