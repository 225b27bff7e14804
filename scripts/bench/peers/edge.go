package peers

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/git/gittest"

	"github.com/emco-orchestrator/emco/scripts/e2e/fleet"
	"github.com/emco-orchestrator/emco/scripts/e2e/program"
	"github.com/emco-orchestrator/emco/scripts/testbed/bed"
	"github.com/emco-orchestrator/emco/scripts/testbed/cluster"
	"github.com/emco-orchestrator/emco/scripts/testbed/flux"

	"github.com/emco-orchestrator/emco/scripts/bench/figures"
	"github.com/emco-orchestrator/emco/scripts/bench/site"
	"github.com/emco-orchestrator/emco/scripts/bench/world"
)

// Edge writes for real clusters, whose Flux applies the content.
type Edge interface {
	// Prepare starts everything. Flux checks its branch once per interval every.
	Prepare(ctx context.Context, s world.Spec, every time.Duration) error
	// Converge writes a change of a shared world. It returns the time from the durable change in Git
	// until the last cluster had it.
	Converge(ctx context.Context, t Turn) (time.Duration, error)
	Close(ctx context.Context) error
}

// EdgeMaker makes an Edge with its data below a folder.
type EdgeMaker struct {
	Name string
	New  func(dir string) Edge
}

// EmcoEdge is the program emco with its backend for Flux.
func EmcoEdge(bin string) EdgeMaker {
	return EdgeMaker{figures.Process, func(dir string) Edge {
		return &emcoEdge{Emco: NewEmco(bin, dir), clusters: fluxClusters{dir: dir}}
	}}
}

type emcoEdge struct {
	*Emco
	clusters fluxClusters
}

func (e *emcoEdge) Prepare(ctx context.Context, s world.Spec, every time.Duration) error {
	e.Flux = map[string]v2.Scalar{"syncInterval": v2.Scalar(every.String()), "retryInterval": v2.Scalar(every.String()), "secretRef": flux.Namespace}
	if err := e.Emco.Prepare(ctx, s, nil); err != nil {
		return err
	}
	return e.clusters.start(ctx, s.Clusters, e.Site(), func(i int) flux.Sync {
		return flux.Sync{Path: "clusters/" + v2.NewClusterKey(fleet.Provider, world.Cluster(i)).String(), Interval: every}
	})
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

// HandEdge is the layout of Flux's documentation: a Kustomization for each app that points to a folder
// of the bootstrapped repository. All clusters read the same.
func HandEdge() EdgeMaker {
	return EdgeMaker{"a repository written by hand", func(dir string) Edge {
		return &handEdge{siteOrigin: siteOrigin{dir: filepath.Join(dir, "origin")}, clusters: fluxClusters{dir: dir}}
	}}
}

type handEdge struct {
	siteOrigin
	clusters fluxClusters
}

func (e *handEdge) Prepare(ctx context.Context, s world.Spec, every time.Duration) error {
	if err := e.open(ctx, nil); err != nil {
		return err
	}
	files := map[string]gittest.File{}
	for a := range s.Apps {
		files["clusters/one/"+world.App(a)+".yaml"] = gittest.File{Content: fmt.Sprintf(kustomization, world.App(a), flux.Namespace, every, every, world.App(a), flux.Namespace)}
	}
	if _, err := e.site.Bare.CommitExternal(ctx, site.Branch, files); err != nil {
		return err
	}
	return e.clusters.start(ctx, s.Clusters, e.site, func(int) flux.Sync { return flux.Sync{Path: "clusters/one", Interval: every} })
}

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

// fluxClusters are clusters with Flux.
type fluxClusters struct {
	dir string
	all []*fluxCluster
}

// start starts n clusters, and points the Flux of each to its path of a site.
func (l *fluxClusters) start(ctx context.Context, n int, s *site.Site, of func(i int) flux.Sync) error {
	for i := range n {
		one := &fluxCluster{dir: filepath.Join(l.dir, "cluster"+strconv.Itoa(i))}
		l.all = append(l.all, one)
		if err := os.MkdirAll(one.dir, 0o700); err != nil {
			return err
		}
		if err := one.start(ctx, s, of(i)); err != nil {
			return err
		}
	}
	return nil
}

func (l *fluxClusters) stop() {
	for _, one := range l.all {
		one.stop()
	}
}

// live waits until all clusters have the desired objects, and returns the time since a moment.
func (l *fluxClusters) live(ctx context.Context, w *world.World, since time.Time) (time.Duration, error) {
	failed := make([]error, len(l.all))
	var all sync.WaitGroup
	for i, one := range l.all {
		all.Go(func() { failed[i] = one.live(ctx, w) })
	}
	all.Wait()
	return time.Since(since), errors.Join(failed...)
}

// fluxCluster is a cluster with Flux.
type fluxCluster struct {
	dir     string
	bed     *bed.Bed
	cluster *cluster.Cluster
	flux    *flux.Flux
	client  *http.Client
	token   string
}

// start starts the cluster, and points its Flux to a site.
func (l *fluxCluster) start(ctx context.Context, s *site.Site, sync flux.Sync) (err error) {
	if l.bed, l.cluster, err = OpenCluster(ctx, l.dir); err != nil {
		return err
	}
	if err = l.connect(); err != nil {
		return err
	}
	if l.flux, err = flux.Start(ctx, l.cluster, flux.Options{}); err != nil {
		return err
	}
	sync.URL = s.Server.URL(site.Repository)
	sync.User, sync.Password = s.Credential()
	return l.flux.Bootstrap(ctx, sync)
}

func (l *fluxCluster) stop() {
	if l.flux != nil {
		l.flux.Stop()
	}
	if l.cluster != nil {
		l.cluster.Stop()
		l.bed.Close()
	}
}

var (
	tokenLine     = regexp.MustCompile(`token: (\S+)`)
	authorityLine = regexp.MustCompile(`certificate-authority-data: (\S+)`)
)

// connect creates a client of the API server: kubectl would take longer than the measured time.
func (l *fluxCluster) connect() error {
	text, err := os.ReadFile(l.cluster.Kubeconfig())
	if err != nil {
		return err
	}
	token, authority := tokenLine.FindSubmatch(text), authorityLine.FindSubmatch(text)
	if token == nil || authority == nil {
		return errors.New("the kubeconfig has no token, or no authority")
	}
	pem, err := base64.StdEncoding.DecodeString(string(authority[1]))
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	l.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}, Timeout: 10 * time.Second}
	l.token = string(token[1])
	return nil
}

// live waits until the cluster has the desired objects.
func (l *fluxCluster) live(ctx context.Context, w *world.World) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	return program.Poll(ctx, look, func() error { return l.holds(ctx, w) })
}

func (l *fluxCluster) holds(ctx context.Context, w *world.World) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, l.cluster.Server()+"/api/v1/namespaces/default/configmaps", nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+l.token)
	res, err := l.client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	var list struct {
		Items []struct {
			Metadata struct{ Name string }
			Data     map[string]string
		}
	}
	if err := json.NewDecoder(res.Body).Decode(&list); err != nil {
		return err
	}
	versions := map[string]string{}
	for _, o := range list.Items {
		versions[o.Metadata.Name] = o.Data["version"]
	}
	return holdsAll(versions, w)
}

func holdsAll(versions map[string]string, w *world.World) error {
	var missing []string
	for a := range w.Spec.Apps {
		for r := range w.Spec.Resources {
			name := world.App(a) + "-" + world.Resource(r)
			if versions[name] != fmt.Sprint(w.Version(a)) {
				missing = append(missing, name)
			}
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("the cluster does not have %s", strings.Join(missing, ", "))
	}
	return nil
}
