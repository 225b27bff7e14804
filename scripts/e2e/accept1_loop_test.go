package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"

	"github.com/emco-orchestrator/emco/scripts/e2e/program"
	"github.com/emco-orchestrator/emco/scripts/e2e/repo"
	"github.com/emco-orchestrator/emco/scripts/testbed/cluster"
	"github.com/emco-orchestrator/emco/scripts/testbed/flux"
)

// Files of others in the repository.
const (
	platformFile = "clusters/edge+c2/platform/settings.yaml"
	platform     = `apiVersion: v1
kind: ConfigMap
metadata: {name: platform-settings, namespace: default}
data: {owner: somebody else}
`
)

// The documents of the example, in the order of their application.
var (
	loopDocs  = []string{"00-clusters.yaml", "01-app.yaml", "02-deployment.yaml"}
	loopStart = "03-instantiate.yaml"
	loopApps  = []string{"web", "cache", "telemetry"}
)

func loopFiles(names ...string) []string {
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = example("02-kube-and-flux", name)
	}
	return out
}

// loopValues are the values of the example's templates.
func loopValues(s *testStage, l *sharedClusters) string {
	return s.values(map[string]any{
		"GitURL": s.git.URL(repoName), "GitUser": writer, "GitToken": s.writeToken,
		"FluxSecret": flux.Namespace, "SyncInterval": "1", "Kubeconfig": l.c1.Kubeconfig(),
		"Packages": s.packages(loopApps...), "Clusters": []string{"c1", "c2"}, "Apps": loopApps,
	})
}

func TestAcceptance1Loop(t *testing.T) {
	do := steps{TB: t}
	do.next("two API servers, Flux on the second")
	l, s := clustersOf(t), newStage(t)
	s.foreign(map[string]string{platformFile: platform})
	l.follow(s)
	foreign := s.tree()
	watch := watchBootstrap(t, l.c2)

	do.next("emcoctl apply of the documents in examples/02-kube-and-flux")
	values := loopValues(s, l)
	s.apply(values, loopFiles(loopDocs...)...)
	do.next("approve and instantiate")
	s.apply(values, loopFiles(loopStart)...)
	s.wait(group, "instantiated")

	do.next("Deployments become available, with the desired values")
	cache := placements(t, s.status(group))
	for c, apps := range map[*cluster.Cluster][]string{l.c1: {"web"}, l.c2: {"web", "telemetry"}} {
		for _, app := range apps {
			available(t, c, "r1-"+app)
		}
		customised(t, c)
	}
	available(t, map[string]*cluster.Cluster{"c1": l.c1, "c2": l.c2}[cache], "r1-cache")
	if got := kubectl(t, l.c2, "get", "probes.telemetry.example.com", "r1-telemetry-links", "-o", "jsonpath={.spec.interval}"); got != "10" {
		t.Errorf("interval of the custom resource from the profile: %q, want 10", got)
	}

	do.next("status: Ready for c1, unknown for c2")
	honest(t, s)

	do.next("a second apply changes nothing")
	unchanged(t, s, l, values)

	do.next("terminate")
	s.ctl("delete", "-o", "human", "-v", values, "-f", loopFiles(loopStart)[0])
	s.wait(group, "terminated")
	do.next("no object of EMCO is left")
	empty(t, l.c1)
	empty(t, l.c2)
	swept(t, s, l, foreign)
	watch.end(t)
	s.sound()
	do.next("done")
}

// placements checks where apps run, and returns the cluster with the cache.
func placements(t *testing.T, st v2.Status) (cache string) {
	t.Helper()
	got := map[string][]string{}
	for _, app := range st.Apps {
		for _, c := range app.Clusters {
			got[app.Name] = append(got[app.Name], c.Cluster)
		}
	}
	if !slices.Equal(got["web"], []string{"c1", "c2"}) || !slices.Equal(got["telemetry"], []string{"c2"}) || len(got["cache"]) != 1 {
		t.Fatalf("placement is %v, want web on c1 and c2, telemetry on c2, cache on one of them", got)
	}
	return got["cache"][0]
}

// customised checks the changes of the profile and the group to the web app.
func customised(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	if got := kubectl(t, c, "get", "deployment", "r1-web", "-o", "jsonpath={.status.availableReplicas}"); got != "2" {
		t.Errorf("%s: web has %q available replicas, want the profile's 2", c.Name(), got)
	}
	text := kubectl(t, c, "get", "configmap", "r1-web", "-o", `jsonpath={.data.index\.html}{.data.site\.conf}`)
	for _, want := range []string{"Welcome to the shop", "nosniff"} {
		if !strings.Contains(text, want) {
			t.Errorf("%s: the web ConfigMap lacks %q:\n%s", c.Name(), want, text)
		}
	}
}

// honest waits until all objects on c1 are Ready, and checks the status of c2.
func honest(t *testing.T, s *testStage) {
	t.Helper()
	eventually(t, "readiness of c1", func() error { return readyOn(s.status(group), "c1") })
	st := s.status(group)
	if st.ReadyStatus == v2.Ready {
		t.Errorf("readyStatus of the whole is %q without any report", st.ReadyStatus)
	}
	for _, app := range st.Apps {
		for _, c := range app.Clusters {
			if c.Cluster != "c2" {
				continue
			}
			if c.Phase != "Applied" || c.Commit == "" {
				t.Errorf("%s on c2: phase %q, commit %q, want Applied with the commit", app.Name, c.Phase, c.Commit)
			}
			for _, r := range c.Resources {
				if r.ReadyStatus != "Unknown" || !strings.Contains(r.Reason, "not reported") {
					t.Errorf("%s %s on c2: readyStatus %q (%s), want Unknown with a reason", r.GVK.Kind, r.Name, r.ReadyStatus, r.Reason)
				}
			}
		}
	}
	t.Logf("readyStatus %s, counts %v", st.ReadyStatus, st.ReadyCounts)
}

// readyOn returns an error unless every object on a cluster is Ready.
func readyOn(st v2.Status, cluster string) error {
	seen := 0
	for _, app := range st.Apps {
		for _, c := range app.Clusters {
			for _, r := range c.Resources {
				if c.Cluster != cluster {
					continue
				}
				if seen++; r.ReadyStatus != v2.Ready {
					return fmt.Errorf("%s %s of %s: %s %s", r.GVK.Kind, r.Name, app.Name, r.ReadyStatus, r.Reason)
				}
			}
		}
	}
	if seen == 0 {
		return errors.New("the status has no object on " + cluster)
	}
	return nil
}

// unchanged applies everything a second time.
func unchanged(t *testing.T, s *testStage, l *sharedClusters, values string) {
	t.Helper()
	head, on1, on2 := s.head(), identities(t, l.c1), identities(t, l.c2)
	out := s.apply(values, loopFiles(append(slices.Clone(loopDocs), loopStart)...)...)
	for line := range strings.Lines(out) {
		if !strings.HasSuffix(strings.TrimSpace(line), " unchanged") {
			t.Errorf("second apply: %s", line)
		}
	}
	if now := s.head(); now != head {
		t.Errorf("second apply moved the branch from %s to %s", head, now)
	}
	if now := identities(t, l.c1); now != on1 {
		t.Errorf("second apply changed c1 from\n%s to\n%s", on1, now)
	}
	if now := identities(t, l.c2); now != on2 {
		t.Errorf("second apply changed c2 from\n%s to\n%s", on2, now)
	}
}

// swept checks what a termination leaves: files of others, and definitions.
func swept(t *testing.T, s *testStage, l *sharedClusters, foreign map[string]string) {
	t.Helper()
	now := s.tree()
	for path, blob := range foreign {
		if now[path] != blob {
			t.Errorf("the foreign file %s is %q in the tree, want %q", path, now[path], blob)
		}
		delete(now, path)
	}
	if left := repo.Below(now, "clusters"); len(left) > 0 {
		t.Errorf("left in the repository: %v", left)
	}
	if got := kubectl(t, l.c2, "get", "configmap", "platform-settings", "-o", "jsonpath={.data.owner}"); got != "somebody else" {
		t.Errorf("the platform's ConfigMap on c2 contains %q", got)
	}
	kubectl(t, l.c2, "get", "crd", "probes.telemetry.example.com")
	if left := kubectl(t, l.c2, "get", "probes.telemetry.example.com", "-A", "-o", "name"); left != "" {
		t.Errorf("custom resources are left on c2: %s", left)
	}
	eventually(t, "Flux's objects are gone", func() error {
		list, err := objects(t.Context(), l.c2, "kustomizations,gitrepositories", "-n", flux.Namespace)
		if err == nil && len(list) != 2 {
			err = fmt.Errorf("namespace %s contains %v, want only the objects of the bootstrap", flux.Namespace, names(list))
		}
		return err
	})
}

// bootstrapWatch polls Flux's own Kustomization.
type bootstrapWatch struct {
	stop context.CancelFunc
	done sync.WaitGroup

	looks  int
	broken []string        // unexpected conditions
	owned  map[string]bool // all entries that its inventory ever had
}

func watchBootstrap(t *testing.T, c *cluster.Cluster) *bootstrapWatch {
	t.Helper()
	w := &bootstrapWatch{owned: map[string]bool{}}
	eventually(t, "Flux follows the repository", func() error {
		o, err := bootstrapped(t.Context(), c)
		if err == nil && ready(o) != "True" {
			err = fmt.Errorf("conditions are %+v", o.Status.Conditions)
		}
		return err
	})
	ctx, cancel := context.WithCancel(t.Context())
	w.stop = cancel
	w.done.Go(func() {
		_ = program.Poll(ctx, 250*time.Millisecond, func() error { // ends with ctx
			w.look(ctx, c)
			return errors.New("look again")
		})
	})
	t.Cleanup(func() { cancel(); w.done.Wait() })
	return w
}

func (w *bootstrapWatch) look(ctx context.Context, c *cluster.Cluster) {
	o, err := bootstrapped(ctx, c)
	if err != nil {
		if ctx.Err() == nil {
			w.broken = append(w.broken, err.Error())
		}
		return
	}
	w.looks++
	if ready(o) == "False" {
		w.broken = append(w.broken, fmt.Sprintf("%+v", o.Status.Conditions))
	}
	for _, e := range o.Status.Inventory.Entries {
		w.owned[e.ID] = true
	}
}

// end checks the samples: always ready, and never the owner of an app's object.
func (w *bootstrapWatch) end(t *testing.T) {
	t.Helper()
	w.stop()
	w.done.Wait()
	if len(w.broken) > 0 {
		t.Errorf("Flux's bootstrap Kustomization was not ready in %d of %d samples: %s", len(w.broken), w.looks, w.broken[0])
	}
	for id := range w.owned {
		pointer := strings.HasPrefix(id, flux.Namespace+"_emco-") && strings.Contains(id, ".toolkit.fluxcd.io_")
		own := strings.HasPrefix(id, "flux-system_flux-system_") || strings.HasPrefix(id, "default_platform-settings_")
		if !pointer && !own {
			t.Errorf("Flux's bootstrap Kustomization owned %s, which belongs to the app's Kustomization", id)
		}
	}
	if len(w.owned) < 6 || w.looks < 10 {
		t.Errorf("the watch of Flux has too few samples: %d, owned %v", w.looks, w.owned)
	}
	t.Logf("Flux's bootstrap Kustomization was ready in %d samples and owned %d objects: EMCO's pointers, its own, the platform's", w.looks, len(w.owned))
}

func bootstrapped(ctx context.Context, c *cluster.Cluster) (o kubeObject, err error) {
	out, err := c.Kubectl(ctx, "get", "kustomization", flux.Namespace, "-n", flux.Namespace, "-o", "json")
	if err == nil {
		err = json.Unmarshal([]byte(out), &o)
	}
	return o, err
}

func ready(o kubeObject) string {
	for _, c := range o.Status.Conditions {
		if c.Type == "Ready" {
			return c.Status
		}
	}
	return ""
}

// TestExampleGitFleet runs the documents of examples/01-git-fleet: Git clusters only.
func TestExampleGitFleet(t *testing.T) {
	s := newStage(t)
	values := s.values(map[string]any{
		"GitURL": s.git.URL(repoName), "GitUser": writer, "GitToken": s.writeToken,
		"Packages": s.packages("web", "cache"), "Apps": []map[string]string{{"Name": "web"}, {"Name": "cache"}},
		"Clusters": []map[string]string{{"Name": "alpha", "Label": "store"}, {"Name": "bravo", "Label": "store"}, {"Name": "charlie", "Label": "depot"}},
	})
	docs := []string{example("01-git-fleet", "00-clusters.yaml"), example("01-git-fleet", "01-app.yaml"), example("01-git-fleet", "02-deployment.yaml")}
	before := s.tree()
	s.apply(values, docs...)
	s.wait(group, "instantiated")
	for cluster, want := range map[string]string{"alpha": "web", "bravo": "web", "charlie": "cache"} {
		apps := appsIn(s.tree(), cluster)
		if !slices.Equal(apps, []string{want}) {
			t.Errorf("the folder of %s contains the apps %v, want %s", cluster, apps, want)
		}
	}
	head := s.head()
	if out := s.apply(values, docs...); strings.Contains(out, "created") || strings.Contains(out, "configured") || s.head() != head {
		t.Errorf("a second apply changes something:\n%s", out)
	}
	s.ctl("apply", group+"/terminate")
	s.wait(group, "terminated")
	if now := s.tree(); !maps.Equal(now, before) {
		t.Errorf("after terminate the tree is %v, want %v", now, before)
	}
	s.sound()
}

// appsIn lists the apps in a cluster's folder.
func appsIn(files map[string]string, cluster string) (apps []string) {
	for _, file := range repo.Below(files, "clusters/edge+"+cluster+"/context") {
		apps = append(apps, path.Base(path.Dir(file)))
	}
	slices.Sort(apps)
	return slices.Compact(apps)
}
