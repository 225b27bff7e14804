package peers

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/emco-orchestrator/emco/src/api/client"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"

	"github.com/emco-orchestrator/emco/scripts/e2e/fleet"
	"github.com/emco-orchestrator/emco/scripts/e2e/program"
	"github.com/emco-orchestrator/emco/scripts/testbed/etcd"

	"github.com/emco-orchestrator/emco/scripts/bench/figures"
	"github.com/emco-orchestrator/emco/scripts/bench/site"
	"github.com/emco-orchestrator/emco/scripts/bench/world"
)

const (
	group  = "bench"
	canary = "canary" // the label of clusters with an additional app
	extra  = "extra"  // that app
	look   = 20 * time.Millisecond
)

// Process is the program emco with its embedded stores, from the REST call to the branch: it stores,
// places, renders and writes. Its charts render the same manifests for all clusters, so it takes part
// in shared worlds only. A change for one cluster is a label and an update that adds an app of one
// manifest to the cluster.
func Process(bin string) Maker { return ProcessAs(figures.Process, bin, Setup{}) }

// ProcessAs is Process in another setup.
func ProcessAs(name, bin string, setup Setup) Maker {
	shared := func(s world.Spec) bool { return s.Shared }
	return Maker{Name: name, Only: shared, New: func(dir string) Peer { return NewEmco(bin, dir, setup) }}
}

// Emco is a running emco with a fleet and one deployment.
type Emco struct {
	siteOrigin
	bin        string
	setup      Setup
	etcd       *etcd.Cluster // nil: the program has its own
	Token      client.Token  // of the administrator; empty without identity
	Program    *program.Emco // the process that gets the requests
	Others     []*program.Emco
	Fleet      fleet.Fleet
	API        *client.Client
	Deployment fleet.Deployment
	Break      string // an app whose chart does not render; empty for none

	// registerOne registers the cluster of a number; nil: clusters that pull from plain Git.
	registerOne func(ctx context.Context, i int, where fleet.Repository) error
}

// NewEmco returns an unprepared peer.
func NewEmco(bin, dir string, setup Setup) *Emco {
	return &Emco{siteOrigin: siteOrigin{dir: filepath.Join(dir, "origin")}, bin: bin, setup: setup}
}

// Prepare starts the program, registers the clusters and onboards the deployment.
func (p *Emco) Prepare(ctx context.Context, s world.Spec, base *world.World) error {
	if base != nil {
		return errors.New("emco must start with the installation")
	}
	if err := p.open(ctx, nil); err != nil {
		return err
	}
	if err := p.Start(ctx); err != nil {
		return err
	}
	user, token := p.site.Credential()
	where := fleet.Repository{URL: p.site.Server.URL(site.Repository), User: user, Token: token}
	p.Deployment = deployment(s)
	for i, a := range p.Deployment.Apps {
		if a.Chart.Name == p.Break {
			p.Deployment.Apps[i].Chart = a.Chart.With("templates/broken.yaml", "{{ fail \"out of order\" }}\n")
		}
	}
	return inOrder(
		func() error { return p.Fleet.Found(ctx, where) },
		func() error { return p.register(ctx, s.Clusters, where) },
		func() error { return p.Fleet.OpenCloud(ctx) },
		func() error { return p.label(ctx, 0) },
		func() error { return p.Fleet.Onboard(ctx, p.dir, p.Deployment) },
	)
}

func (p *Emco) register(ctx context.Context, n int, where fleet.Repository) error {
	if p.registerOne == nil {
		return p.Fleet.Register(ctx, n)
	}
	for i := range n {
		if err := p.registerOne(ctx, i, where); err != nil {
			return err
		}
	}
	return nil
}

func inOrder(steps ...func() error) error {
	for _, do := range steps {
		if err := do(); err != nil {
			return err
		}
	}
	return nil
}

// deployment has the apps of a world, and one more for canaries.
func deployment(s world.Spec) fleet.Deployment {
	d := fleet.Deployment{Name: group}
	for a := range s.Apps {
		d.Apps = append(d.Apps, fleet.App{Chart: Chart(world.App(a), s)})
	}
	one := s
	one.Resources = 1
	only := v2.PlacementSelection{AllOf: []v2.AllOf{{Selector: v2.Selector{Provider: fleet.Provider, Label: canary}}}}
	d.Apps = append(d.Apps, fleet.App{Chart: Chart(extra, one), Intent: only})
	return d
}

// Chart renders the manifests of an app of a shared world. All contain the version.
func Chart(app string, s world.Spec) fleet.Chart {
	c := fleet.Chart{Name: app, Files: map[string]string{
		"Chart.yaml": "apiVersion: v2\nname: " + app + "\nversion: 1.0.0\n", "values.yaml": "version: \"0\"\n",
	}}
	for r := range s.Resources {
		text := string(world.Manifest(world.Text{Cluster: "any", App: app, Resource: world.Resource(r), Version: "V", Bytes: s.Bytes}))
		c.Files["templates/"+world.Resource(r)+".yaml"] = strings.Replace(text, `"V"`, "{{ .Values.version | quote }}", 1)
	}
	return c
}

// Values are the values of a Chart with a version.
func Values(version int) string { return fmt.Sprintf("version: \"%d\"\n", version) }

func (p *Emco) label(ctx context.Context, cluster int) error { return p.Label(ctx, cluster, canary) }

// Label gives a cluster a label.
func (p *Emco) Label(ctx context.Context, cluster int, label string) error {
	path := v2.NewClusterKey(fleet.Provider, world.Cluster(cluster)).StoreKey() + "/labels"
	_, err := client.Post[client.NoContent](ctx, p.API, path, v2.ClusterLabel{Label: label})
	return err
}

// Apply requests a change and waits until it is on the branch, by the server's clock.
func (p *Emco) Apply(ctx context.Context, t Turn) (Cost, error) {
	before, err := p.renders(ctx)
	if err != nil {
		return Cost{}, err
	}
	used := p.CPU()
	began := time.Now()
	if err := p.ask(ctx, t); err != nil {
		return Cost{}, err
	}
	if err := p.awaitPush(ctx, began); err != nil {
		return Cost{}, err
	}
	if err := p.Await(ctx, v2.StatusInstantiated); err != nil {
		return Cost{}, err
	}
	c := Cost{Took: p.site.LastPush().Sub(began), CPU: p.CPU() - used}
	after, err := p.renders(ctx)
	c.Renders = after - before
	c.Peak = int64(p.Peak() * (1 << 20))
	if c.Took <= 0 {
		err = errors.Join(err, errors.New("nothing was pushed"))
	}
	return c, err
}

// ask sends a user's requests.
func (p *Emco) ask(ctx context.Context, t Turn) error {
	switch t.Kind {
	case world.Install:
		return p.Fleet.Act(ctx, p.Deployment.Path(), "instantiate")
	case world.Value:
		if err := p.Fleet.Revalue(ctx, p.Deployment, p.Deployment.Apps[t.App].Chart, Values(t.World.Version(t.App))); err != nil {
			return err
		}
	default:
		if err := p.label(ctx, t.Cluster); err != nil {
			return err
		}
	}
	return p.Fleet.Act(ctx, p.Deployment.Path(), "update")
}

// awaitPush waits for the first push since a time, without requests to the program: a status of a large
// fleet costs more than a change of one cluster.
func (p *Emco) awaitPush(ctx context.Context, since time.Time) error {
	return program.Poll(ctx, time.Millisecond, func() error {
		if !p.site.LastPush().After(since) {
			return errors.New("nothing was pushed")
		}
		return nil
	})
}

// Await polls the status, rarely enough not to influence the measurement.
func (p *Emco) Await(ctx context.Context, status string) error {
	return p.AwaitOf(ctx, p.Deployment, status)
}

// AwaitOf is Await of another deployment.
func (p *Emco) AwaitOf(ctx context.Context, d fleet.Deployment, status string) error {
	return program.Poll(ctx, look, func() error {
		st, err := p.Fleet.Status(ctx, d.Path(), false)
		if err == nil && st.DeployedStatus != status {
			err = errors.New("deployedStatus is " + st.DeployedStatus)
		}
		return err
	})
}

func (p *Emco) renders(ctx context.Context) (int, error) {
	sum := 0.0
	for _, e := range p.Processes() {
		m, err := e.Metrics(ctx)
		if err != nil {
			return 0, err
		}
		sum += m["emco_renders_total"]
	}
	return int(sum), nil
}

var versionLine = regexp.MustCompile(`(?m)^  version: "?([^"\n]*)"?$`)

// Probe returns the version of each manifest on the default branch.
func (p *Emco) Probe(ctx context.Context) (world.State, error) {
	return p.ProbeBranch(ctx, site.Branch)
}

// ProbeBranch returns the version of each manifest on a branch.
func (p *Emco) ProbeBranch(ctx context.Context, branch string) (world.State, error) {
	listing, err := p.site.Bare.Git(ctx, "", "ls-tree", "-r", "-z", branch)
	if err != nil {
		return nil, err
	}
	out, versions := world.State{}, map[string]string{}
	for entry := range strings.SplitSeq(strings.TrimSuffix(listing, "\x00"), "\x00") {
		head, path, _ := strings.Cut(entry, "\t")
		blob := strings.Fields(head)[2]
		part := strings.Split(path, "/") // clusters/<provider>+<cluster>/context/<id>/app/<app>/<name>+<Kind>.yaml
		if len(part) == 8 {
			part = slices.Delete(part, 1, 2) // a fan-out directory of a large fleet
		}
		if len(part) != 7 || part[4] != "app" {
			continue
		}
		if _, seen := versions[blob]; !seen {
			text, err := p.site.Bare.Git(ctx, "", "cat-file", "blob", blob)
			if err != nil {
				return nil, err
			}
			versions[blob] = found(text)
		}
		cluster, err := v2.ParseClusterKey(part[1])
		if err != nil {
			return nil, err
		}
		name := strings.TrimPrefix(strings.TrimSuffix(part[6], "+ConfigMap.yaml"), part[5]+"-")
		out["clusters/"+cluster.Cluster()+"/"+part[5]+"/"+name] = versions[blob]
	}
	return out, nil
}

func found(manifest string) string {
	if m := versionLine.FindStringSubmatch(manifest); m != nil {
		return m[1]
	}
	return "none"
}

// Want is the expected output of the charts for a world.
func (p *Emco) Want(w *world.World) world.State {
	out := world.State{}
	for i := range w.Spec.Clusters {
		for a := range w.Spec.Apps {
			for r := range w.Spec.Resources {
				out["clusters/"+world.Cluster(i)+"/"+world.App(a)+"/"+world.Resource(r)] = fmt.Sprint(w.Version(a))
			}
		}
	}
	canaries := w.Own()
	canaries[0]++
	for i := range canaries {
		out["clusters/"+world.Cluster(i)+"/"+extra+"/"+world.Resource(0)] = "0"
	}
	return out
}

// Close ends the program and expects a clean exit.
func (p *Emco) Close(ctx context.Context) error {
	var err error
	for _, e := range p.Processes() {
		err = errors.Join(err, e.Stop())
	}
	if p.etcd != nil {
		p.etcd.Close()
	}
	return errors.Join(err, p.siteOrigin.Close(ctx))
}
