package peers

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/emco-orchestrator/emco/scripts/e2e/program"
	"github.com/emco-orchestrator/emco/scripts/testbed/bed"
	"github.com/emco-orchestrator/emco/scripts/testbed/cluster"

	"github.com/emco-orchestrator/emco/scripts/bench/world"
)

// most is the largest size of an answer of an API server: a world has some hundred KiB.
const most = 64 << 20

// agent is what a peer runs in a cluster.
type agent interface {
	Stop()
	PIDs() map[string]int
}

// startAgent starts the agent of the cluster of a number; without one it returns nil.
type startAgent func(ctx context.Context, i int, c *cluster.Cluster) (agent, error)

// realClusters are real clusters that a peer changes. They share an etcd and are bare: nothing in a cluster acts on the
// objects of a world.
type realClusters struct {
	dir      string
	patience time.Duration // until a change is in a cluster; 0: three minutes
	bed      *bed.Bed      // nil before start
	all      []*realCluster
}

// starting is the number of clusters that start at once.
const starting = 3

// start starts n clusters with their agents.
func (l *realClusters) start(ctx context.Context, n int, start startAgent) (err error) {
	if l.bed, err = bed.Open(ctx, bed.Options{Dir: filepath.Join(l.dir, "clusters")}); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	slots := make(chan struct{}, starting)
	var all sync.WaitGroup
	for i := range n {
		one := &realCluster{}
		l.all = append(l.all, one)
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			if ctx.Err() != nil {
				return
			}
			if err := one.join(ctx, l.bed, i, start); err != nil {
				cancel(err)
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

func (l *realClusters) stop() {
	for _, one := range l.all {
		one.stop()
	}
	if l.bed != nil {
		l.bed.Close()
	}
}

// agents are the ids of the processes of all agents.
func (l *realClusters) agents() (ids []int) {
	for _, one := range l.all {
		if one.agent != nil {
			ids = slices.AppendSeq(ids, maps.Values(one.agent.PIDs()))
		}
	}
	return ids
}

// live waits until all clusters have the desired objects, and returns the time since a moment.
func (l *realClusters) live(ctx context.Context, w *world.World, since time.Time) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(l.patience, 3*time.Minute))
	defer cancel()
	failed := make([]error, len(l.all))
	var all sync.WaitGroup
	for i, one := range l.all {
		all.Go(func() { failed[i] = program.Poll(ctx, look, func() error { return one.arrival(ctx, w) }) })
	}
	all.Wait()
	return time.Since(since), errors.Join(failed...)
}

// realCluster is a cluster, and what a peer runs in it.
type realCluster struct {
	dir     string   // of its own bed
	bed     *bed.Bed // its own; nil if it shares one
	cluster *cluster.Cluster
	agent   agent // nil without one

	// What the administrator asks the API server with: kubectl would take longer than the measured time.
	client        *http.Client
	server, token string
}

// start starts a cluster with its own bed, and all programs of a control plane.
func (l *realCluster) start(ctx context.Context) (err error) {
	if err = os.MkdirAll(l.dir, 0o700); err != nil {
		return err
	}
	if l.bed, l.cluster, err = OpenCluster(ctx, l.dir); err != nil {
		return err
	}
	l.connect()
	return nil
}

// join starts the cluster of a number in a bed, with its agent.
func (l *realCluster) join(ctx context.Context, b *bed.Bed, i int, start startAgent) (err error) {
	if l.cluster, err = cluster.Start(ctx, cluster.Options{Bed: b, Name: world.Cluster(i), Bare: true}); err != nil {
		return err
	}
	l.connect()
	l.agent, err = start(ctx, i, l.cluster)
	return err
}

func (l *realCluster) connect() {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(l.cluster.CA())
	l.server, l.token = l.cluster.Server(), l.cluster.Token()
	l.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}, Timeout: 10 * time.Second}
}

func (l *realCluster) stop() {
	if l.agent != nil {
		l.agent.Stop()
	}
	if l.cluster != nil {
		l.cluster.Stop()
	}
	if l.bed != nil {
		l.bed.Close()
	}
}

// control are the processes of a cluster that serves others: its agent with the store, API server and controllers. They
// leave out the scheduler and the nodes, which it does not need.
func (l *realCluster) control() []int {
	kube := l.cluster.PIDs()
	ids := []int{l.bed.EtcdPID(), kube["kube-apiserver"], kube["kube-controller-manager"]}
	return slices.AppendSeq(ids, maps.Values(l.agent.PIDs()))
}

const configMaps = "/api/v1/namespaces/default/configmaps"

// arrival returns when the cluster has the desired objects. It lists them once, and then waits for changes, which takes no
// processor from the measured programs.
func (l *realCluster) arrival(ctx context.Context, w *world.World) error {
	text, err := l.do(ctx, http.MethodGet, configMaps, nil)
	if err != nil {
		return err
	}
	var list struct {
		Metadata struct{ ResourceVersion string }
		Items    []configMap
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return err
	}
	versions := map[string]string{}
	for _, o := range list.Items {
		versions[o.Metadata.Name] = o.Data.Version
	}
	missing := holdsAll(versions, w)
	if missing == nil {
		return nil
	}
	res, err := l.request(ctx, &http.Client{Transport: l.client.Transport}, http.MethodGet, configMaps+"?watch=1&resourceVersion="+list.Metadata.ResourceVersion, nil)
	if err != nil {
		return errors.Join(missing, err)
	}
	defer res.Body.Close()
	for changes := json.NewDecoder(res.Body); missing != nil; missing = holdsAll(versions, w) {
		var change struct {
			Type   string
			Object configMap
		}
		if err := changes.Decode(&change); err != nil {
			return errors.Join(missing, err)
		}
		switch o := change.Object; change.Type {
		case "ADDED", "MODIFIED":
			versions[o.Metadata.Name] = o.Data.Version
		case "DELETED":
			delete(versions, o.Metadata.Name)
		default:
			return errors.Join(missing, fmt.Errorf("the watch ended with %s", change.Type))
		}
	}
	return nil
}

// configMap is what tells the state of an object of a world.
type configMap struct {
	Metadata struct{ Name string }
	Data     struct{ Version string }
}

// apply applies a ConfigMap in the namespace default, by server-side apply.
func (l *realCluster) apply(ctx context.Context, name string, manifest []byte) error {
	_, err := l.do(ctx, http.MethodPatch, configMaps+"/"+name+"?fieldManager=bench&force=true", manifest)
	return err
}

// do sends a request of the administrator with a manifest, nil for none, and returns the answer.
func (l *realCluster) do(ctx context.Context, method, path string, manifest []byte) ([]byte, error) {
	res, err := l.request(ctx, l.client, method, path, manifest)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	return io.ReadAll(io.LimitReader(res.Body, most))
}

// request sends a request of the administrator. The caller closes the body of the answer.
func (l *realCluster) request(ctx context.Context, by *http.Client, method, path string, manifest []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, l.server+path, bytes.NewReader(manifest))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+l.token)
	if manifest != nil {
		req.Header.Set("Content-Type", "application/apply-patch+yaml")
	}
	res, err := by.Do(req)
	if err != nil {
		return nil, err
	}
	if res.StatusCode/100 != 2 {
		text, err := io.ReadAll(io.LimitReader(res.Body, 300))
		return nil, errors.Join(fmt.Errorf("%s %s: %s: %s", method, path, res.Status, text), err, res.Body.Close())
	}
	return res, nil
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
