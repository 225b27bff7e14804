package e2e

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/scripts/testbed/cluster"
	"github.com/emco-orchestrator/emco/scripts/testbed/flux"
)

const team = "projects/shop/logical-clouds/team"

// TestLogicalCloudOfLevel1 runs the example of a standard logical cloud on a direct cluster and on
// one with Flux: the clusters are prepared, the apps are applied as the cloud's user and as its
// account, nothing leaves the namespace, and nothing stays behind.
func TestLogicalCloudOfLevel1(t *testing.T) {
	do := steps{TB: t}
	do.next("a cloud with a namespace, a user, permissions and a quota on two clusters")
	l, s := clustersOf(t), newStage(t)
	l.follow(s)
	values := s.values(map[string]any{
		"GitURL": s.git.URL(repoName), "GitUser": writer, "GitToken": s.writeToken, "FluxSecret": flux.Namespace, "SyncInterval": "1",
		"Kubeconfig": l.c1.Kubeconfig(), "Packages": s.packages("web"), "Clusters": []string{"c1", "c2"}, "App": "web",
	})
	suite := func(name string) string { return example("emco", "logical-clouds", name) }
	s.apply(values, loopFiles("00-clusters.yaml")...)
	s.apply(values, suite("01-cloud.yaml"))
	s.wait(team, "instantiated")
	for _, c := range []*cluster.Cluster{l.c1, l.c2} {
		eventually(t, "the namespace has the quota", func() error {
			if got := kubectl(t, c, "get", "resourcequota", "small", "-n", "shop-team", "--ignore-not-found", "-o", "jsonpath={.spec.hard.pods}"); got != "30" {
				return fmt.Errorf("pods: %q, want 30", got)
			}
			return nil
		})
	}

	do.next("the app runs in the namespace, applied as the cloud's user and account")
	s.apply(values, suite("02-app.yaml"), suite("03-instantiate.yaml"))
	s.wait(group, "instantiated")
	for _, c := range []*cluster.Cluster{l.c1, l.c2} {
		eventually(t, "the Deployment is there", func() error {
			if got := kubectl(t, c, "get", "deployment", "-n", "shop-team", "--ignore-not-found", "r1-web", "-o", "jsonpath={.metadata.name}"); got != "r1-web" {
				return fmt.Errorf("there is %q", got)
			}
			return nil
		})
	}
	account := kubectl(t, l.c2, "get", "kustomizations", "-n", flux.Namespace, "-o", "jsonpath={.items[*].spec.serviceAccountName}")
	if account != "shop-team-sa" {
		t.Errorf("Flux applies as %q, want shop-team-sa for the app alone", account)
	}

	do.next("a kubeconfig of the user reaches the namespace, and nothing else")
	path := filepath.Join(t.TempDir(), "kubeconfig")
	s.must("write", os.WriteFile(path, s.kubeconfig(team+"/cluster-references/c1"), 0o600))
	if got := kubectl(t, l.c1, "--kubeconfig", path, "auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"); got != "team" {
		t.Errorf("the kubeconfig is of %q, want team", got)
	}
	if got := kubectl(t, l.c1, "--kubeconfig", path, "get", "deployments", "-o", "name"); !strings.Contains(got, "r1-web") {
		t.Errorf("the user sees %q in its namespace", got)
	}
	if out, err := l.c1.Kubectl(t.Context(), "--kubeconfig", path, "get", "configmaps", "-n", "kube-system"); err == nil {
		t.Errorf("the user reads kube-system: %s", out)
	}
	if left := kubectl(t, l.c1, "get", "certificatesigningrequests", "-o", "name"); left != "" {
		t.Errorf("requests for certificates are left: %s", left)
	}

	do.next("an update changes the quota")
	s.apply(values, suite("04-update.yaml"))
	for _, c := range []*cluster.Cluster{l.c1, l.c2} {
		eventually(t, "the quota is the new one", func() error {
			if got := kubectl(t, c, "get", "resourcequota", "small", "-n", "shop-team", "-o", "jsonpath={.spec.hard.pods}"); got != "50" {
				return fmt.Errorf("pods: %q, want 50", got)
			}
			return nil
		})
	}

	do.next("the cloud goes after its deployment, and leaves nothing")
	if r := s.emco.Emcoctl(t.Context(), "apply", team+"/terminate"); r.Code == 0 || !strings.Contains(r.Out+r.Err, "in use by") {
		t.Errorf("terminate while in use: exit code %d, %s%s", r.Code, r.Out, r.Err)
	}
	s.ctl("apply", group+"/terminate")
	s.wait(group, "terminated")
	s.ctl("apply", team+"/terminate")
	s.wait(team, "terminated")
	for _, c := range []*cluster.Cluster{l.c1, l.c2} {
		empty(t, c)
		eventually(t, "the namespace is gone", func() error {
			if left := kubectl(t, c, "get", "namespaces,serviceaccounts,roles,rolebindings", "-A", "-l", deploymentLabel, "-o", "name"); left != "" {
				return fmt.Errorf("there is %s", left)
			}
			return nil
		})
	}
	s.sound()
	do.next("done")
}

// kubeconfig gets a kubeconfig for the user of a logical cloud on the cluster of a reference.
func (s *testStage) kubeconfig(reference string) []byte {
	s.Helper()
	r, err := http.Get(s.emco.URL() + "/v2/" + reference + "/kubeconfig")
	s.must("get a kubeconfig", err)
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	s.must("read a kubeconfig", err)
	if r.StatusCode != http.StatusOK || r.Header.Get("Content-Type") != "application/yaml" {
		s.Fatalf("get a kubeconfig: %d %s", r.StatusCode, text)
	}
	return text
}
