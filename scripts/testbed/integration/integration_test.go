// Package integration tests a whole bed. It builds the parts that the cache lacks, which takes minutes,
// so it runs only with EMCO_TESTBED=1.
package integration

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/scripts/testbed/bed"
	"github.com/emco-orchestrator/emco/scripts/testbed/cluster"
	"github.com/emco-orchestrator/emco/scripts/testbed/flux"
	"github.com/emco-orchestrator/emco/scripts/testbed/githost"
	"github.com/emco-orchestrator/emco/scripts/testbed/internal/poll"
)

const deployment = `apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: example.test/web:1}]}
`

const configMap = `apiVersion: v1
kind: ConfigMap
metadata: {name: from-git, namespace: default}
data: {colour: blue}
`

// options returns a bed that writes its progress to the test.
func options(t *testing.T) bed.Options {
	return bed.Options{Dir: t.TempDir(), Progress: t.Output()}
}

func startCluster(t *testing.T, b *bed.Bed, name string) *cluster.Cluster {
	t.Helper()
	c, err := cluster.Start(t.Context(), cluster.Options{Bed: b, Name: name})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	return c
}

func TestABed(t *testing.T) {
	if os.Getenv("EMCO_TESTBED") != "1" {
		t.Skip("set EMCO_TESTBED=1 to run real clusters; the first run builds them, which takes minutes")
	}
	b, err := bed.Open(t.Context(), options(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	one, two := startCluster(t, b, "c1"), startCluster(t, b, "c2")
	t.Run("an object applied to one cluster runs there and not in the other", func(t *testing.T) { isolated(t, one, two) })
	t.Run("service accounts may do nothing unless allowed", func(t *testing.T) { guarded(t, one) })
	t.Run("the certificate authority signs requests of users", func(t *testing.T) { signs(t, one) })
	t.Run("flux follows a repository", func(t *testing.T) { follows(t, two) })
	for _, c := range []*cluster.Cluster{one, two} {
		if err := c.Check(); err != nil {
			t.Error(err)
		}
	}
}

func isolated(t *testing.T, here, there *cluster.Cluster) {
	if err := here.Apply(t.Context(), deployment); err != nil {
		t.Fatal(err)
	}
	kubectl(t, here, "wait", "--for=condition=Available", "--timeout=60s", "deployment/web")
	if got := kubectl(t, here, "get", "deployment", "web", "-o", "jsonpath={.status.availableReplicas}"); got != "3" {
		t.Errorf("available replicas in %s: %q, want 3", here.Name(), got)
	}
	if got := kubectl(t, there, "get", "deployments,pods", "-A", "-o", "name"); got != "" {
		t.Errorf("%s contains %q, want nothing", there.Name(), got)
	}
}

func guarded(t *testing.T, c *cluster.Cluster) {
	can := func() string {
		out, _ := c.Kubectl(t.Context(), "auth", "can-i", "create", "deployments", "--as=system:serviceaccount:default:default")
		return strings.TrimSpace(out)
	}
	if got := can(); got != "no" {
		t.Errorf("a service account may create deployments: %q, want no", got)
	}
	kubectl(t, c, "create", "rolebinding", "edit", "--clusterrole=edit", "--serviceaccount=default:default")
	err := eventually(t, func() error {
		if got := can(); got != "yes" {
			return fmt.Errorf("answer %q, want yes", got)
		}
		return nil
	})
	if err != nil {
		t.Errorf("a service account with role edit: %v", err)
	}
}

func signs(t *testing.T, c *cluster.Cluster) {
	if err := c.Apply(t.Context(), request(t)); err != nil {
		t.Fatal(err)
	}
	kubectl(t, c, "certificate", "approve", "user")
	err := eventually(t, func() error {
		if kubectl(t, c, "get", "csr", "user", "-o", "jsonpath={.status.certificate}") == "" {
			return errors.New("no certificate yet")
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// follows pushes, changes and removes a file and waits for each change to arrive.
func follows(t *testing.T, c *cluster.Cluster) {
	host, err := githost.Start(t.Context(), githost.Options{Dir: t.TempDir(), User: "flux", Password: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { host.Close() })
	if err := host.Create(t.Context(), "fleet"); err != nil {
		t.Fatal(err)
	}
	f, err := flux.Start(t.Context(), c, flux.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Stop)
	work := clone(t, host)
	work.put("clusters/c2/config.yaml", configMap)
	work.put("clusters/c2/web.yaml", deployment)
	work.put("clusters/other/config.yaml", strings.ReplaceAll(configMap, "from-git", "for-another"))
	work.push()
	sync := flux.Sync{URL: host.URL("fleet"), Path: "clusters/c2", User: "flux", Password: "secret"}
	if err := f.Bootstrap(t.Context(), sync); err != nil {
		t.Fatal(err)
	}
	arrives(t, c, "the first push", "blue")
	kubectl(t, c, "wait", "--for=condition=Available", "--timeout=60s", "deployment/web")
	work.put("clusters/c2/config.yaml", strings.ReplaceAll(configMap, "blue", "green"))
	work.push()
	arrives(t, c, "a change", "green")
	work.remove("clusters/c2/config.yaml")
	work.push()
	arrives(t, c, "a removal", "")
	if got := kubectl(t, c, "get", "configmap", "for-another", "--ignore-not-found", "-o", "name"); got != "" {
		t.Errorf("%s received %s, which is for another cluster", c.Name(), got)
	}
	if err := f.Check(); err != nil {
		t.Error(err)
	}
}

// arrives waits until the ConfigMap from Git has a colour; empty for none.
func arrives(t *testing.T, c *cluster.Cluster, what, colour string) {
	t.Helper()
	begin := time.Now()
	err := eventually(t, func() error {
		got := kubectl(t, c, "get", "configmap", "from-git", "--ignore-not-found", "-o", "jsonpath={.data.colour}")
		if got != colour {
			return fmt.Errorf("colour is %q, want %q", got, colour)
		}
		return nil
	})
	if err != nil {
		status, _ := c.Kubectl(t.Context(), "-n", flux.Namespace, "get", "gitrepositories,kustomizations", "-o", "yaml")
		t.Fatalf("%s did not arrive: %v\n%s", what, err, status)
	}
	t.Logf("%s arrived after %.1f s", what, time.Since(begin).Seconds())
}

func eventually(t *testing.T, try func() error) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	return poll.Until(ctx, 200*time.Millisecond, func(context.Context) error { return try() })
}

func kubectl(t *testing.T, c *cluster.Cluster, args ...string) string {
	t.Helper()
	out, err := c.Kubectl(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// A worktree is a test's clone.
type gitWorktree struct {
	t   *testing.T
	dir string
}

func clone(t *testing.T, host *githost.Host) gitWorktree {
	w := gitWorktree{t: t, dir: t.TempDir()}
	w.git("init", "-q", "--initial-branch=main")
	w.git("remote", "add", "origin", host.PushURL("fleet"))
	return w
}

func (w gitWorktree) put(name, text string) {
	w.t.Helper()
	path := filepath.Join(w.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

func (w gitWorktree) remove(name string) {
	w.t.Helper()
	if err := os.Remove(filepath.Join(w.dir, name)); err != nil {
		w.t.Fatal(err)
	}
}

func (w gitWorktree) push() {
	w.t.Helper()
	w.git("add", "-A")
	w.git("-c", "user.name=test", "-c", "user.email=test@example.test", "commit", "-q", "-m", "change")
	w.git("push", "-q", "origin", "HEAD:main")
}

func (w gitWorktree) git(args ...string) {
	w.t.Helper()
	cmd := exec.CommandContext(w.t.Context(), "git", args...)
	cmd.Dir = w.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		w.t.Fatalf("git %s: %v: %s", strings.Join(args, " "), err, out)
	}
}
