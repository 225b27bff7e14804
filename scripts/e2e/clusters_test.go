package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/scripts/testbed/bed"
	"github.com/emco-orchestrator/emco/scripts/testbed/cluster"
	"github.com/emco-orchestrator/emco/scripts/testbed/flux"
)

// sharedClusters are two real clusters, the second with Flux, that all tests share.
type sharedClusters struct {
	c1, c2 *cluster.Cluster
	flux   *flux.Flux
	close  []func() // in order of opening
}

// lab starts the clusters when the first test needs them. It is the only state of this package;
// TestMain ends it.
var lab = sync.OnceValues(startLab)

// started returns the lab to TestMain, which must not start it only to end it.
var started struct {
	sync.Mutex
	lab *sharedClusters
	dir string
}

func TestMain(m *testing.M) {
	code := m.Run()
	started.Lock()
	defer started.Unlock()
	if started.lab != nil {
		started.lab.stop()
	}
	if started.dir != "" && code == 0 {
		_ = os.RemoveAll(started.dir) // best effort: it is in the temporary folder
	}
	if code != 0 && started.dir != "" {
		fmt.Fprintln(os.Stderr, "logs of the clusters are in", started.dir)
	}
	os.Exit(code)
}

func startLab() (*sharedClusters, error) {
	dir, err := os.MkdirTemp("", "emco-e2e-")
	if err != nil {
		return nil, err
	}
	l := &sharedClusters{}
	started.Lock()
	started.lab, started.dir = l, dir
	started.Unlock()
	ctx := context.Background()
	b, err := bed.Open(ctx, bed.Options{Dir: dir, Progress: os.Stderr})
	if err != nil {
		return nil, err
	}
	l.close = append(l.close, b.Close)
	for name, at := range map[string]**cluster.Cluster{"c1": &l.c1, "c2": &l.c2} {
		if *at, err = cluster.Start(ctx, cluster.Options{Bed: b, Name: name}); err != nil {
			return nil, err
		}
		l.close = append(l.close, (*at).Stop)
	}
	if l.flux, err = flux.Start(ctx, l.c2, flux.Options{}); err != nil {
		return nil, err
	}
	l.close = append(l.close, l.flux.Stop)
	return l, nil
}

func (l *sharedClusters) stop() {
	for _, f := range slices.Backward(l.close) {
		f()
	}
}

// clustersOf returns the clusters, and cleans them up after the test.
func clustersOf(t *testing.T) *sharedClusters {
	t.Helper()
	l, err := lab()
	if err != nil {
		t.Fatalf("start the clusters: %v", err)
	}
	t.Cleanup(func() { l.clean(t) })
	return l
}

// clean removes the leftovers of a failed test: Flux first, which would restore the others.
func (l *sharedClusters) clean(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	const wait = "--timeout=30s"
	kinds := strings.Join(appKinds, ",")
	for _, do := range []struct {
		on   *cluster.Cluster
		args []string
	}{
		{l.c2, []string{"delete", "-n", flux.Namespace, "kustomizations,gitrepositories,buckets,ocirepositories", "--all", wait}},
		{l.c2, []string{"delete", "-n", flux.Namespace, "secrets", flux.Namespace, "emco-bucket", "emco-registry", ageSecret, "--ignore-not-found", wait}},
		{l.c1, []string{"delete", kinds, "-A", "-l", deploymentLabel, wait}},
		{l.c2, []string{"delete", kinds, "-A", "-l", deploymentLabel, wait}},
	} {
		if _, err := do.on.Kubectl(ctx, do.args...); err != nil {
			t.Logf("clean up: %v", err)
		}
	}
	for _, err := range []error{l.c1.Check(), l.c2.Check(), l.flux.Check()} {
		if err != nil {
			t.Error(err)
		}
	}
}

// deploymentLabel is on every object that emco creates on a cluster.
const deploymentLabel = "emco/deployment-id"

// appKinds are the kinds in the charts.
var appKinds = []string{"deployments", "services", "configmaps", "secrets", "poddisruptionbudgets"}

// bootstrapFile is the file of `flux bootstrap` in the repository: the folder that Flux follows is
// never empty, and Flux applies its own objects from there.
const (
	bootstrapFile = "clusters/edge+c2/flux-system/gotk-sync.yaml"
	bootstrap     = `apiVersion: source.toolkit.fluxcd.io/v1
kind: GitRepository
metadata: {name: flux-system, namespace: flux-system}
spec: {interval: 1000ms, timeout: 60s, ref: {branch: main}, secretRef: {name: flux-system}, url: %s}
---
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: flux-system, namespace: flux-system}
spec:
  interval: 1000ms
  retryInterval: 1000ms
  path: ./clusters/edge+c2
  prune: true
  sourceRef: {kind: GitRepository, name: flux-system}
`
)

// follow points Flux on c2 at its folder of the stage's repository, as `flux bootstrap` does.
func (l *sharedClusters) follow(s *testStage) {
	s.Helper()
	url := s.git.URL(repoName)
	s.foreign(map[string]string{bootstrapFile: fmt.Sprintf(bootstrap, url)})
	err := l.flux.Bootstrap(s.Context(), flux.Sync{
		URL: url, Branch: branch, Path: "clusters/edge+c2", User: reader, Password: s.readerToken,
	})
	s.must("bootstrap Flux", err)
}

func kubectl(t testing.TB, c *cluster.Cluster, args ...string) string {
	t.Helper()
	out, err := c.Kubectl(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// kubeObject contains the members that tests read.
type kubeObject struct {
	Kind     string
	Metadata struct {
		Name, Namespace, UID string
		Generation           int64
		Labels               map[string]string
	}
	Data   map[string]string
	Spec   json.RawMessage
	Status struct {
		Inventory  struct{ Entries []struct{ ID string } }
		Conditions []struct{ Type, Status, Reason, Message string }
	}
}

func (o kubeObject) String() string {
	return o.Kind + " " + o.Metadata.Namespace + "/" + o.Metadata.Name
}

// objects lists objects.
func objects(ctx context.Context, c *cluster.Cluster, args ...string) ([]kubeObject, error) {
	out, err := c.Kubectl(ctx, append([]string{"get", "-o", "json"}, args...)...)
	if err != nil {
		return nil, err
	}
	var list struct{ Items []kubeObject }
	return list.Items, json.Unmarshal([]byte(out), &list)
}

// ours lists the objects with the deployment label, sorted by kind and name.
func ours(ctx context.Context, c *cluster.Cluster) ([]kubeObject, error) {
	list, err := objects(ctx, c, strings.Join(appKinds, ","), "-A", "-l", deploymentLabel)
	slices.SortFunc(list, func(a, b kubeObject) int { return strings.Compare(a.String(), b.String()) })
	return list, err
}

// names prints objects by kind and name.
func names(list []kubeObject) (out []string) {
	for _, o := range list {
		out = append(out, o.String())
	}
	return out
}

// identities prints the objects and how often their specs have changed.
func identities(t testing.TB, c *cluster.Cluster) string {
	t.Helper()
	list, err := ours(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, o := range list {
		fmt.Fprintf(&out, "%s %s %d\n", o, o.Metadata.UID, o.Metadata.Generation)
	}
	return out.String()
}

// define adds the definitions of a file to clusters until the test ends.
func define(t *testing.T, definitions string, clusters ...*cluster.Cluster) {
	t.Helper()
	for _, c := range clusters {
		// The cluster may still be removing the same definitions after another test, and would remove these with them.
		kubectl(t, c, "delete", "--ignore-not-found", "--timeout=4m", "-f", definitions)
		kubectl(t, c, "apply", "--server-side", "-f", definitions)
		eventually(t, "definitions on "+c.Name(), func() error { // kubectl gives up while there are no conditions yet
			_, err := c.Kubectl(t.Context(), "wait", "--for=condition=established", "--timeout=60s", "-f", definitions)
			return err
		})
		t.Cleanup(func() {
			if _, err := c.Kubectl(context.WithoutCancel(t.Context()), "delete", "--ignore-not-found", "--wait=false", "-f", definitions); err != nil {
				t.Error(err)
			}
		})
	}
}

// available waits until a Deployment has all its replicas.
func available(t testing.TB, c *cluster.Cluster, name string) {
	t.Helper()
	eventually(t, fmt.Sprintf("deployment %s on %s", name, c.Name()), func() error {
		out, err := c.Kubectl(t.Context(), "get", "deployment", name, "-o", `jsonpath={.status.conditions[?(@.type=="Available")].status}`)
		if err == nil && out != "True" {
			err = fmt.Errorf("available is %q", out)
		}
		return err
	})
}

// empty waits until a cluster holds no object of EMCO.
func empty(t testing.TB, c *cluster.Cluster) {
	t.Helper()
	eventually(t, "empty "+c.Name(), func() error {
		list, err := ours(t.Context(), c)
		if err == nil && len(list) > 0 {
			err = errors.New("still there: " + strings.Join(names(list), ", "))
		}
		return err
	})
}
