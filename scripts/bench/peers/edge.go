package peers

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/git/gittest"

	"github.com/emco-orchestrator/emco/scripts/e2e/fleet"
	"github.com/emco-orchestrator/emco/scripts/testbed/cluster"
	"github.com/emco-orchestrator/emco/scripts/testbed/flux"

	"github.com/emco-orchestrator/emco/scripts/bench/figures"
	"github.com/emco-orchestrator/emco/scripts/bench/site"
	"github.com/emco-orchestrator/emco/scripts/bench/world"
)

// drift is the time after which Flux compares a cluster with what it has read, as Flux's documentation has it. A change of the
// branch does not wait for it. With a comparison each second, ten apps would take more than half a processor in each
// cluster.
const drift = 10 * time.Minute

// Edge brings changes to real clusters.
type Edge interface {
	// Prepare starts everything. A Flux reads its branch once per every; others ignore every.
	Prepare(ctx context.Context, s world.Spec, every time.Duration) error
	// Converge makes a change of a shared world. It returns the time from when the change is durable (in Git, at the API
	// server of the hub, or accepted by emco) until the last cluster has it.
	Converge(ctx context.Context, t Turn) (time.Duration, error)
	// Processes are what runs after Prepare.
	Processes() Processes
	Close(ctx context.Context) error
}

// EdgeMaker makes an Edge with its data below a folder.
type EdgeMaker struct {
	Name    string
	Changes int // that are measured; 0: as many as for all
	Most    int // clusters; 0: no limit
	New     func(dir string) Edge
}

// Processes are the ids of the processes of an Edge, without the Git server.
type Processes struct {
	Control  []int // of what serves all clusters
	Clusters []int // in the clusters, in addition to Kubernetes
}

// EmcoEdge is the program emco with its backend for Flux.
func EmcoEdge(bin string) EdgeMaker {
	return EdgeMaker{Name: figures.Process, New: func(dir string) Edge {
		return &emcoEdge{Emco: NewEmco(bin, dir, Setup{}), clusters: realClusters{dir: dir}}
	}}
}

type emcoEdge struct {
	*Emco
	clusters realClusters
}

func (e *emcoEdge) Prepare(ctx context.Context, s world.Spec, every time.Duration) error {
	keys := map[string]v2.Scalar{"syncInterval": v2.Scalar(every.String()), "driftInterval": v2.Scalar(drift.String()), "retryInterval": v2.Scalar(every.String()), "secretRef": flux.Namespace}
	e.registerOne = func(ctx context.Context, i int, where fleet.Repository) error {
		return e.Fleet.RegisterFlux(ctx, world.Cluster(i), where, keys)
	}
	if err := e.Emco.Prepare(ctx, s, nil); err != nil {
		return err
	}
	return e.clusters.start(ctx, s.Clusters, fluxOf(e.Site(), flux.Options{}, func(i int) flux.Sync {
		return flux.Sync{Path: "clusters/" + v2.NewClusterKey(fleet.Provider, world.Cluster(i)).String(), Interval: every, Drift: drift}
	}))
}

func (e *emcoEdge) Processes() Processes {
	return Processes{Control: []int{e.Program.PID()}, Clusters: e.clusters.agents()}
}

func (e *emcoEdge) Converge(ctx context.Context, t Turn) (time.Duration, error) {
	if _, err := e.Apply(ctx, t); err != nil {
		return 0, err
	}
	return e.clusters.live(ctx, t.World, e.Site().LastPush())
}

func (e *emcoEdge) Close(ctx context.Context) error {
	e.clusters.stop()
	return e.Emco.Close(ctx)
}

// DirectEdge is the program emco that writes to the clusters itself, with their kubeconfigs. It has no Git: the change is
// acknowledged when the request for it is accepted, before it is rendered.
func DirectEdge(bin string) EdgeMaker {
	return EdgeMaker{Name: figures.Direct, New: func(dir string) Edge {
		return &directEdge{Emco: NewEmco(bin, dir, Setup{}), clusters: realClusters{dir: dir}}
	}}
}

type directEdge struct {
	*Emco
	clusters realClusters
}

func (e *directEdge) Prepare(ctx context.Context, s world.Spec, _ time.Duration) error {
	nothing := func(context.Context, int, *cluster.Cluster) (agent, error) { return nil, nil }
	if err := e.clusters.start(ctx, s.Clusters, nothing); err != nil {
		return err
	}
	e.registerOne = func(ctx context.Context, i int, _ fleet.Repository) error {
		return e.Fleet.RegisterDirect(ctx, world.Cluster(i), e.clusters.all[i].cluster.Kubeconfig())
	}
	return e.Emco.Prepare(ctx, s, nil)
}

func (e *directEdge) Processes() Processes { return Processes{Control: []int{e.Program.PID()}} }

func (e *directEdge) Converge(ctx context.Context, t Turn) (time.Duration, error) {
	if err := e.ask(ctx, t); err != nil {
		return 0, err
	}
	took, err := e.clusters.live(ctx, t.World, time.Now())
	if err != nil {
		return 0, err
	}
	return took, e.Await(ctx, v2.StatusInstantiated)
}

func (e *directEdge) Close(ctx context.Context) error {
	err := e.Emco.Close(ctx)
	e.clusters.stop()
	return err
}

// HandEdge is the layout of Flux's documentation: a Kustomization for each app that points to a folder
// of the bootstrapped repository. All clusters read the same.
func HandEdge() EdgeMaker {
	return EdgeMaker{Name: "a repository written by hand", New: func(dir string) Edge {
		return &handEdge{siteOrigin: siteOrigin{dir: filepath.Join(dir, "origin")}, clusters: realClusters{dir: dir}}
	}}
}

type handEdge struct {
	siteOrigin
	clusters realClusters
}

func (e *handEdge) Prepare(ctx context.Context, s world.Spec, every time.Duration) error {
	if err := e.open(ctx, nil); err != nil {
		return err
	}
	files := map[string]gittest.File{}
	for a := range s.Apps {
		files["clusters/one/"+world.App(a)+".yaml"] = gittest.File{Content: fmt.Sprintf(kustomization, world.App(a), flux.Namespace, drift, every, world.App(a), flux.Namespace)}
	}
	if _, err := e.site.Bare.CommitExternal(ctx, site.Branch, files); err != nil {
		return err
	}
	return e.clusters.start(ctx, s.Clusters, fluxOf(e.site, flux.Options{}, func(int) flux.Sync { return flux.Sync{Path: "clusters/one", Interval: every, Drift: drift} }))
}

func (e *handEdge) Processes() Processes { return Processes{Clusters: e.clusters.agents()} }

const kustomization = `apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata:
  name: %s
  namespace: %s
spec:
  interval: %s
  retryInterval: %s
  path: ./apps/%s
  prune: true
  targetNamespace: default
  sourceRef:
    kind: GitRepository
    name: %s
`

func (e *handEdge) Converge(ctx context.Context, t Turn) (time.Duration, error) {
	files := map[string]gittest.File{}
	for _, pair := range t.Pairs {
		for name, text := range pair.Files {
			files["apps/"+pair.App+"/"+name] = gittest.File{Content: string(text)}
		}
	}
	if _, err := e.site.Bare.CommitExternal(ctx, site.Branch, files); err != nil {
		return 0, err
	}
	return e.clusters.live(ctx, t.World, time.Now())
}

func (e *handEdge) Close(ctx context.Context) error {
	e.clusters.stop()
	return e.siteOrigin.Close(ctx)
}

// HubEdge is the layout of Flux's documentation with a hub: the Flux of one cluster writes to all others, by a
// Kustomization for each app on each cluster, with the kubeconfig of the cluster. The others run nothing for it.
func HubEdge() EdgeMaker {
	return EdgeMaker{Name: "Flux with a hub, by hand", New: func(dir string) Edge {
		return &hubEdge{
			handEdge: handEdge{siteOrigin: siteOrigin{dir: filepath.Join(dir, "origin")}, clusters: realClusters{dir: dir}},
			hub:      realCluster{dir: filepath.Join(dir, "hub")},
		}
	}}
}

type hubEdge struct {
	handEdge
	hub realCluster // its agent is Flux
}

// hubConcurrent is the number of concurrent reconciliations of a hub, as in what Flux's documentation says of scaling up.
const hubConcurrent = 10

func (e *hubEdge) Prepare(ctx context.Context, s world.Spec, every time.Duration) error {
	if err := e.open(ctx, nil); err != nil {
		return err
	}
	files := map[string]gittest.File{}
	for i := range s.Clusters {
		for a := range s.Apps {
			files["clusters/hub/"+world.Cluster(i)+"-"+world.App(a)+".yaml"] = gittest.File{Content: spoke(world.Cluster(i), world.App(a), every)}
		}
	}
	if _, err := e.site.Bare.CommitExternal(ctx, site.Branch, files); err != nil {
		return err
	}
	if err := e.hub.start(ctx); err != nil {
		return err
	}
	err := e.clusters.start(ctx, s.Clusters, func(ctx context.Context, i int, c *cluster.Cluster) (agent, error) {
		_, err := e.hub.cluster.Kubectl(ctx, "create", "secret", "generic", world.Cluster(i), "--from-file=value="+c.Kubeconfig())
		return nil, err
	})
	if err != nil {
		return err
	}
	e.hub.agent, err = fluxOf(e.site, flux.Options{Concurrent: hubConcurrent}, func(int) flux.Sync { return flux.Sync{Path: "clusters/hub", Interval: every, Drift: drift} })(ctx, 0, e.hub.cluster)
	return err
}

// spoke is an app of a cluster in a hub.
func spoke(name, app string, every time.Duration) string {
	return fmt.Sprintf(`apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata:
  name: %s-%s
  namespace: default
spec:
  interval: %s
  retryInterval: %s
  path: ./apps/%s
  prune: true
  targetNamespace: default
  kubeConfig:
    secretRef:
      name: %s
  sourceRef:
    kind: GitRepository
    name: %s
    namespace: %s
`, name, app, drift, every, app, name, flux.Namespace, flux.Namespace)
}

func (e *hubEdge) Processes() Processes { return Processes{Control: e.hub.control()} }

func (e *hubEdge) Close(ctx context.Context) error {
	e.hub.stop()
	return e.handEdge.Close(ctx)
}

// fluxOf starts the Flux of a cluster, and points it to a site.
func fluxOf(s *site.Site, o flux.Options, of func(i int) flux.Sync) startAgent {
	return func(ctx context.Context, i int, c *cluster.Cluster) (agent, error) {
		f, err := flux.Start(ctx, c, o)
		if err != nil {
			return nil, err
		}
		sync := of(i)
		sync.URL = s.Server.URL(site.Repository)
		sync.User, sync.Password = s.Credential()
		if err := f.Bootstrap(ctx, sync); err != nil {
			f.Stop()
			return nil, err
		}
		return f, nil
	}
}
