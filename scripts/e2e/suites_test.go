package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/scripts/testbed/cluster"
)

const stores = "projects/shop/logical-clouds/stores"

// suite is a folder of examples/emco. Its values name the shared clusters by their kubeconfigs, and the repository.
type suite struct {
	*testStage
	name, values string
}

func newSuite(t *testing.T, l *sharedClusters, name string, values map[string]any, apps ...string) *suite {
	t.Helper()
	s := &suite{testStage: newStage(t), name: name}
	values["HostIP"], values["Packages"] = "127.0.0.1", s.packages(apps...)
	values["GitURL"], values["GitUser"], values["GitToken"] = s.git.URL(repoName), writer, s.writeToken
	values["Clusters"] = []map[string]string{
		{"Name": "c1", "Kubeconfig": l.c1.Kubeconfig()}, {"Name": "c2", "Kubeconfig": l.c2.Kubeconfig()},
	}
	s.values = s.testStage.values(values)
	return s
}

// apply applies files of the suite.
func (s *suite) apply(files ...string) {
	s.Helper()
	s.testStage.apply(s.values, s.files(files)...)
}

// delete deletes the documents of files of the suite, the last file first.
func (s *suite) delete(files ...string) {
	s.Helper()
	s.testStage.delete(s.values, s.files(files)...)
}

func (s *suite) files(names []string) []string {
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = example("emco", s.name, name)
	}
	return out
}

// absent waits until a query of objects finds none.
func absent(t *testing.T, c *cluster.Cluster, query ...string) {
	t.Helper()
	eventually(t, "nothing is left on "+c.Name(), func() error {
		out, err := c.Kubectl(t.Context(), append([]string{"get", "-o", "name", "--ignore-not-found"}, query...)...)
		if err == nil && out != "" {
			err = errors.New("there is " + out)
		}
		return err
	})
}

// TestSeveralClusters runs the suite examples/emco/multi-cluster: an admin cloud over two direct clusters, and three apps with
// lists of clusters of their own. The chart of one leaves members empty, and has one that its kind does not know.
func TestSeveralClusters(t *testing.T) {
	do := steps{TB: t}
	do.next("two clusters, three apps")
	l := clustersOf(t)
	s := newSuite(t, l, "multi-cluster", map[string]any{"Applist": []map[string]any{
		{"Name": "web", "Clusters": []string{"c1", "c2"}}, {"Name": "cache", "Clusters": []string{"c2"}}, {"Name": "logger", "Clusters": []string{"c1"}},
	}}, "web", "cache", "logger")
	s.apply("00-controllers.yaml", "01-prerequisites.yaml", "02-instantiate-lc.yaml")
	s.wait(stores, "instantiated")
	s.apply("03-deployment-intent.yaml", "04-deployment-instantiate.yaml")
	s.wait(group, "instantiated")

	do.next("each app is on its clusters, and nowhere else")
	available(t, l.c1, "r1-web")
	available(t, l.c2, "r1-web")
	available(t, l.c2, "r1-cache")
	if got := kubectl(t, l.c1, "get", "daemonset", "r1-logger", "-o", "jsonpath={.spec.template.spec.containers[0].volumeMounts}"); got != `[{"mountPath":"/etc/logger","name":"config"}]` {
		t.Errorf("the logger mounts %s", got)
	}
	if got := kubectl(t, l.c1, "get", "configmap", "r1-logger", "-o", "jsonpath={.data.rate}"); got != "50" {
		t.Errorf("the rate is %q, want that of the profile, 50", got)
	}
	absent(t, l.c1, "deployment", "r1-cache")
	absent(t, l.c2, "daemonset", "r1-logger")

	do.next("the status names the member that the cluster does not know")
	for _, app := range s.status(group).Apps {
		for _, c := range app.Clusters {
			told := slices.ContainsFunc(c.Findings, func(text string) bool { return strings.Contains(text, ".hostPath was left out") })
			if told != (app.Name == "logger") {
				t.Errorf("%s on %s has the findings %q", app.Name, c.Cluster, c.Findings)
			}
		}
	}

	do.next("everything goes, in upstream's order")
	s.terminate(group, l.c1, l.c2)
	absent(t, l.c1, "daemonsets", "-l", deploymentLabel)
	s.delete("03-deployment-intent.yaml")
	s.ctl("apply", stores+"/terminate")
	s.wait(stores, "terminated")
	s.delete("00-controllers.yaml", "01-prerequisites.yaml")
	s.nothing()
	do.next("done")
}

// TestDependencies runs the suite examples/emco/dependency: web waits for cache, and cache for telemetry, on two direct
// clusters. One of them takes no pods at first, so the chain does not go on.
func TestDependencies(t *testing.T) {
	do := steps{TB: t}
	do.next("three apps, while c1 takes no pods")
	l := clustersOf(t)
	s := newSuite(t, l, "dependency", map[string]any{"Applist": []string{"web", "cache", "telemetry"}}, "web", "cache", "telemetry")
	nodes := strings.Fields(kubectl(t, l.c1, "get", "nodes", "-o", "name"))
	kubectl(t, l.c1, append([]string{"cordon"}, nodes...)...)
	open := func(ctx context.Context) error {
		_, err := l.c1.Kubectl(ctx, append([]string{"uncordon"}, nodes...)...)
		return err
	}
	t.Cleanup(func() {
		if err := open(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	s.apply("controllers.yaml", "projects.yaml", "clusters.yaml", "logicalclouds.yaml", "instantiatelc.yaml")
	s.wait(stores, "instantiated")
	s.apply("apps.yaml", "intents.yaml", "instantiate.yaml")
	available(t, l.c2, "r1-telemetry")
	eventually(t, "cache waits for telemetry, and web for cache", func() error {
		out := s.ctl("status", group, "-o", "json")
		for _, reason := range []string{"waits for app cache", "waits for app telemetry"} {
			if !strings.Contains(out, reason) {
				return fmt.Errorf("no %q in %s", reason, out)
			}
		}
		return nil
	})
	for _, c := range []*cluster.Cluster{l.c1, l.c2} {
		absent(t, c, "deployments", "r1-cache", "r1-web")
	}

	do.next("c1 takes pods: one app follows the other")
	s.must("open the nodes", open(t.Context()))
	s.wait(group, "instantiated")
	for _, c := range []*cluster.Cluster{l.c1, l.c2} {
		for _, app := range []string{"telemetry", "cache", "web"} {
			available(t, c, "r1-"+app)
		}
		if got := kubectl(t, c, "get", "service", "r1-web", "-o", "jsonpath={.spec.ports[0].port}"); got != "8080" {
			t.Errorf("the Service on %s has the port %s, want that of the group, 8080", c.Name(), got)
		}
		after(t, c, "r1-cache", l.c1, "r1-telemetry", 0)
		after(t, c, "r1-web", l.c1, "r1-cache", 2*time.Second)
		after(t, c, "r1-web", l.c2, "r1-cache", 2*time.Second)
	}

	do.next("the files that end everything")
	s.apply("terminate.yaml")
	s.wait(group, "terminated")
	empty(t, l.c1)
	empty(t, l.c2)
	s.delete("apps.yaml", "intents.yaml")
	s.apply("terminatelc.yaml")
	s.wait(stores, "terminated")
	s.delete("controllers.yaml", "projects.yaml", "clusters.yaml", "logicalclouds.yaml")
	s.nothing()
	do.next("done")
}

// after fails the test unless a Deployment was created when another one, maybe on another cluster, had been available for a time.
func after(t *testing.T, c *cluster.Cluster, later string, on *cluster.Cluster, earlier string, wait time.Duration) {
	t.Helper()
	read := func(c *cluster.Cluster, name, path string) time.Time {
		t.Helper()
		at, err := time.Parse(time.RFC3339, kubectl(t, c, "get", "deployment", name, "-o", "jsonpath={"+path+"}"))
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	made := read(c, later, ".metadata.creationTimestamp")
	ready := read(on, earlier, `.status.conditions[?(@.type=="Available")].lastTransitionTime`)
	if made.Before(ready.Add(wait)) {
		t.Errorf("%s on %s was created at %s, but %s on %s was available at %s", later, c.Name(), made, earlier, on.Name(), ready)
	}
}

// TestPrivilegedCloudGrows runs the suite examples/emco/privileged-cloud: a cloud with rights outside of its namespace has one
// direct cluster, and gets a second one by an update. Its app defines a kind, as the cloud's user.
func TestPrivilegedCloudGrows(t *testing.T) {
	do := steps{TB: t}
	do.next("a cloud with one cluster")
	l := clustersOf(t)
	s := newSuite(t, l, "privileged-cloud", map[string]any{"Kubeconfig1": l.c1.Kubeconfig(), "Kubeconfig2": l.c2.Kubeconfig()}, "telemetry")
	s.apply("00-prerequisites.yaml", "01-first-cluster.yaml", "02-instantiate-lc.yaml")
	s.wait(team, "instantiated")
	prepared := func(c *cluster.Cluster) {
		t.Helper()
		for query, want := range map[string]string{
			"get configmaps -n kube-system": "yes", "get secrets -n kube-system": "no", "create customresourcedefinitions": "yes",
			"delete customresourcedefinitions": "no", "create deployments.apps -n shop-team": "yes", "create deployments.apps -n default": "no",
		} {
			eventually(t, query+" on "+c.Name(), func() error {
				out, err := c.Kubectl(t.Context(), append([]string{"auth", "can-i", "--as=team"}, strings.Fields(query)...)...)
				if answer, _, _ := strings.Cut(out, "\n"); answer != want && !(want == "no" && err != nil) {
					return fmt.Errorf("the answer is %q, want %s", out, want)
				}
				return nil
			})
		}
		if got := kubectl(t, c, "get", "resourcequota", "small", "-n", "shop-team", "-o", "jsonpath={.spec.hard.pods}"); got != "30" {
			t.Errorf("the quota on %s allows %q pods, want 30", c.Name(), got)
		}
	}
	prepared(l.c1)
	absent(t, l.c2, "namespace", "shop-team")

	do.next("a second cluster, and an update of the cloud")
	before := kubectl(t, l.c1, "get", "namespace", "shop-team", "-o", "jsonpath={.metadata.uid} {.metadata.resourceVersion}")
	s.apply("03-second-cluster.yaml", "04-update-lc.yaml")
	s.wait(team, "instantiated")
	prepared(l.c2)
	if now := kubectl(t, l.c1, "get", "namespace", "shop-team", "-o", "jsonpath={.metadata.uid} {.metadata.resourceVersion}"); now != before {
		t.Errorf("the update changed the namespace on c1: %s, before %s", now, before)
	}

	do.next("an app that defines a kind, on both")
	s.apply("05-deployment-intent.yaml", "06-instantiate.yaml")
	s.wait(group, "instantiated")
	for _, c := range []*cluster.Cluster{l.c1, l.c2} {
		if got := kubectl(t, c, "get", "probes.telemetry.example.com", "-n", "shop-team", "r1-telemetry-links", "-o", "jsonpath={.spec.interval}"); got != "10" {
			t.Errorf("the interval of the probe on %s is %q, want 10", c.Name(), got)
		}
	}

	do.next("the app goes, then the cloud")
	s.terminate(group, l.c1, l.c2)
	s.delete("05-deployment-intent.yaml")
	s.ctl("apply", team+"/terminate")
	s.wait(team, "terminated")
	for _, c := range []*cluster.Cluster{l.c1, l.c2} {
		absent(t, c, "namespaces,resourcequotas,roles,rolebindings,clusterroles,clusterrolebindings", "-A", "-l", deploymentLabel)
	}
	s.delete("00-prerequisites.yaml", "01-first-cluster.yaml", "03-second-cluster.yaml")
	s.nothing()
	do.next("done")
}

// TestPlacementByNeeds runs the suite examples/emco/hpa, whose clusters pull: two API servers take the places of those that are
// chosen, and get what is in their folders. Pods run on the nodes that they need, with the memory that they need.
func TestPlacementByNeeds(t *testing.T) {
	do := steps{TB: t}
	do.next("five clusters with facts, one app with needs")
	l := clustersOf(t)
	s := newSuite(t, l, "hpa", map[string]any{}, "web")
	fast := map[string]string{} // by cluster: its node with the disk that pods need
	for _, c := range []*cluster.Cluster{l.c1, l.c2} {
		node := strings.Fields(kubectl(t, c, "get", "nodes", "-o", "jsonpath={.items[*].metadata.name}"))[0]
		fast[c.Name()] = node
		kubectl(t, c, "label", "node", node, "nodes.example.org/disk=ssd")
		t.Cleanup(func() {
			if _, err := c.Kubectl(context.WithoutCancel(t.Context()), "label", "node", node, "nodes.example.org/disk-"); err != nil {
				t.Error(err)
			}
		})
	}
	s.apply("00-clusters.yaml", "01-app.yaml", "02-deployment.yaml", "03-needs.yaml", "04-instantiate.yaml")
	s.wait(group, "instantiated")
	if got := s.places(); !slices.Equal(got, []string{"c1", "c4"}) {
		t.Fatalf("web is on %v, want c1 and c4", got)
	}

	do.next("c1, and c2 in the place of c4")
	runs := func(c *cluster.Cluster, folder string) (objects string) {
		t.Helper()
		objects = s.folder(folder)
		kubectl(t, c, "apply", "--server-side", "-f", objects)
		available(t, c, "r1-web")
		got := kubectl(t, c, "get", "pods", "-l", "app.kubernetes.io/name=web", "-o",
			`jsonpath={range .items[*]}{.spec.nodeName} {.spec.containers[?(@.name=="nginx")].resources.requests.memory}{"\n"}{end}`)
		if want := strings.Repeat(fast[c.Name()]+" 1Gi\n", 2); strings.TrimSpace(got) != strings.TrimSpace(want) {
			t.Errorf("the pods of %s are\n%swant\n%s", folder, got, want)
		}
		return objects
	}
	on1, on4 := runs(l.c1, "c1"), runs(l.c2, "c4")

	do.next("c2 has more memory now: the app moves there from c4")
	s.apply("05-update.yaml")
	s.wait(group, "instantiated")
	if got := s.places(); !slices.Equal(got, []string{"c1", "c2"}) {
		t.Errorf("web is on %v, want c1 and c2", got)
	}
	kubectl(t, l.c2, "delete", "-f", on4)
	empty(t, l.c2)
	on2 := runs(l.c2, "c2")

	do.next("terminate")
	s.delete("04-instantiate.yaml")
	s.wait(group, "terminated")
	if left := s.places(); len(left) > 0 {
		t.Errorf("web is on %v after its end", left)
	}
	kubectl(t, l.c1, "delete", "-f", on1)
	kubectl(t, l.c2, "delete", "-f", on2)
	empty(t, l.c1)
	empty(t, l.c2)
	s.sound()
	s.testStage.clear(s.values, s.files([]string{"00-clusters.yaml", "01-app.yaml", "02-deployment.yaml", "03-needs.yaml"})...)
	do.next("done")
}

// places returns the clusters whose folders on the branch have objects of apps, sorted.
func (s *suite) places() (clusters []string) {
	s.Helper()
	for path := range s.tree() {
		if at, below, ok := strings.Cut(strings.TrimPrefix(path, "clusters/edge+"), "/context/"); ok && strings.Contains(below, "/app/") {
			clusters = append(clusters, at)
		}
	}
	slices.Sort(clusters)
	return slices.Compact(clusters)
}

// folder writes the objects of a cluster's folder on the branch to one file.
func (s *suite) folder(cluster string) string {
	s.Helper()
	var objects strings.Builder
	for _, path := range slices.Sorted(maps.Keys(s.tree())) {
		if strings.HasPrefix(path, "clusters/edge+"+cluster+"/context/") && strings.Contains(path, "/app/") {
			text, err := s.bare.Git(s.Context(), "", "show", branch+":"+path)
			s.must("read "+path, err)
			objects.WriteString("---\n" + text + "\n")
		}
	}
	path := filepath.Join(s.dir, cluster+".yaml")
	s.must("write the objects", os.WriteFile(path, []byte(objects.String()), 0o600))
	return path
}
