// Package fleet works with a server over REST for tests and benchmarks: it registers clusters, onboards
// deployments with synthetic charts, runs actions that need no body, and reads statuses.
package fleet

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"github.com/emco-orchestrator/emco/src/api/client"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
)

// atOnce limits concurrent requests.
const atOnce = 8

// The names that all deployments of a fleet share.
const (
	Provider = "edge"
	Project  = "shop"
	Cloud    = "stores"
	syncName = "fleet-repo"
	Label    = "store" // on every cluster
)

// Repository is the repository of Git clusters.
type Repository struct {
	URL, User, Token string

	Keys map[string]v2.Scalar // further keys of the sync object
}

// Fleet is the set of clusters and deployments of one server.
type Fleet struct {
	api *client.Client
}

// Open returns the fleet of a server.
func Open(url string) (Fleet, error) { return OpenAs(url, "") }

// OpenAs returns the fleet of a server that wants a token.
func OpenAs(url string, token client.Token) (Fleet, error) {
	c, err := client.New(client.Options{BaseURL: url, Token: token})
	return Fleet{api: c}, err
}

// GitCluster is the name of the i-th Git cluster.
func GitCluster(i int) string { return fmt.Sprintf("g%04d", i) }

// Found creates the provider, the sync object, the project and the logical cloud.
func (f Fleet) Found(ctx context.Context, r Repository) error {
	cloud := v2.LogicalCloud{Named: named(Cloud), Spec: v2.LogicalCloudSpec{Level: v2.LevelAdmin}}
	return errors.Join(
		create(ctx, f, "cluster-providers", v2.ClusterProvider{Named: named(Provider)}),
		create(ctx, f, providerPath+"/cluster-sync-objects", syncObject(syncName, r)),
		create(ctx, f, "projects", v2.Project{Named: named(Project)}),
		create(ctx, f, projectPath+"/logical-clouds", cloud),
	)
}

func syncObject(name string, r Repository) v2.SyncObject {
	o := v2.SyncObject{Named: named(name)}
	o.Spec.KV = []map[string]v2.Scalar{{"url": v2.Scalar(r.URL)}, {"userName": v2.Scalar(r.User)}, {"gitToken": v2.Scalar(r.Token)}, {"branch": "main"}}
	if len(r.Keys) > 0 {
		o.Spec.KV = append(o.Spec.KV, r.Keys)
	}
	return o
}

// RegisterIn adds a cluster that pulls from its own repository.
func (f Fleet) RegisterIn(ctx context.Context, name string, r Repository) error {
	return f.registerWith(ctx, syncObject(name, r), v2.PureGit)
}

// RegisterFlux adds a cluster whose Flux pulls from a repository, with further keys in its
// sync object.
func (f Fleet) RegisterFlux(ctx context.Context, name string, r Repository, keys map[string]v2.Scalar) error {
	return f.RegisterWith(ctx, name, v2.FluxCD, r, keys)
}

// RegisterWith adds a cluster of a type that pulls from a repository, with further keys in
// its sync object.
func (f Fleet) RegisterWith(ctx context.Context, name, kind string, r Repository, keys map[string]v2.Scalar) error {
	o := syncObject(name, r)
	o.Spec.KV = append(o.Spec.KV, keys)
	return f.registerWith(ctx, o, kind)
}

// RegisterAs adds a cluster of a type that pulls from the repository of Found.
func (f Fleet) RegisterAs(ctx context.Context, name, kind string) error {
	return f.registerAs(ctx, name, v2.GitOps{Type: kind, Reference: syncName})
}

// RegisterPublished adds a cluster of a type that reads a published folder, at the place in the keys of
// its sync object.
func (f Fleet) RegisterPublished(ctx context.Context, name, kind string, keys map[string]v2.Scalar) error {
	o := v2.SyncObject{Named: named(name)}
	o.Spec.KV = []map[string]v2.Scalar{keys}
	return f.registerWith(ctx, o, kind)
}

// registerWith adds a cluster of a type, with the sync object of its name.
func (f Fleet) registerWith(ctx context.Context, o v2.SyncObject, kind string) error {
	name := o.Metadata.Name
	if err := create(ctx, f, providerPath+"/cluster-sync-objects", o); err != nil {
		return err
	}
	return f.registerAs(ctx, name, v2.GitOps{Type: kind, Reference: name})
}

// registerAs adds a pull-mode cluster, with the label and a reference in the logical cloud.
func (f Fleet) registerAs(ctx context.Context, name string, how v2.GitOps) error {
	c := v2.Cluster{Named: named(name)}
	c.Spec.GitOps = how
	if err := create(ctx, f, providerPath+"/clusters", c); err != nil {
		return err
	}
	return f.join(ctx, name)
}

// Register adds n clusters that pull from the repository of Found, with the label and a
// reference in the logical cloud.
func (f Fleet) Register(ctx context.Context, n int) error {
	return Each(ctx, n, func(ctx context.Context, i int) error {
		return f.RegisterAs(ctx, GitCluster(i), v2.PureGit)
	})
}

// RegisterDirect adds a cluster by its kubeconfig, with the label and a reference.
func (f Fleet) RegisterDirect(ctx context.Context, name, kubeconfig string) error {
	err := client.Upload(ctx, f.api, providerPath+"/clusters", v2.Cluster{Named: named(name)}, client.OneFile(kubeconfig))
	if err != nil {
		return err
	}
	return f.join(ctx, name)
}

func (f Fleet) join(ctx context.Context, cluster string) error {
	ref := v2.ClusterReference{Named: named(cluster), Spec: v2.ClusterReferenceSpec{ClusterProvider: Provider, Cluster: cluster}}
	return errors.Join(
		create(ctx, f, providerPath+"/clusters/"+cluster+"/labels", v2.ClusterLabel{Label: Label}),
		create(ctx, f, cloudPath+"/cluster-references", ref),
	)
}

// OpenCloud instantiates the logical cloud, after its clusters are registered.
func (f Fleet) OpenCloud(ctx context.Context) error {
	return f.Act(ctx, cloudPath, "instantiate")
}

const (
	providerPath = "cluster-providers/" + Provider
	projectPath  = "projects/" + Project
	cloudPath    = projectPath + "/logical-clouds/" + Cloud
)

// Policy creates a policy of the project.
func (f Fleet) Policy(ctx context.Context, name string, spec v2.PolicySpec) error {
	return create(ctx, f, projectPath+"/policies", v2.Policy{Named: named(name), Spec: spec})
}

// Act runs an action; it returns when the server has accepted it.
func (f Fleet) Act(ctx context.Context, path, action string) error {
	_, err := f.api.Ask(ctx, client.Request{Method: http.MethodPost, Path: path + "/" + action}) // update returns a number
	return err
}

// Status reads the status of a deployment intent group, with its apps only on request.
func (f Fleet) Status(ctx context.Context, group string, apps bool) (v2.Status, error) {
	output := "summary"
	if apps {
		output = "all"
	}
	return client.Get[v2.Status](ctx, f.api, group+"/status?status=deployed&output="+output)
}

func named(name string) v2.Named { return v2.Named{Metadata: v2.Metadata{Name: name}} }

// create posts a document and ignores the answer.
func create[D any](ctx context.Context, f Fleet, path string, doc D) error {
	_, err := client.Post[client.NoContent](ctx, f.api, path, doc)
	return err
}

// Each calls do for 0 to n-1, a few at a time, until one fails.
func Each(ctx context.Context, n int, do func(context.Context, int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	jobs := make(chan int)
	var all sync.WaitGroup
	for range min(n, atOnce) {
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
