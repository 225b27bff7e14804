package e2e

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"

	"github.com/emco-orchestrator/emco/scripts/e2e/fleet"
	"github.com/emco-orchestrator/emco/scripts/testbed/cluster"
)

// direct registers both clusters by their kubeconfigs.
func (s *testStage) direct(l *sharedClusters) {
	s.Helper()
	f := s.fleet()
	s.must("register the fleet", f.Found(s.Context(), s.repository()))
	for _, c := range []*cluster.Cluster{l.c1, l.c2} {
		s.must("register "+c.Name(), f.RegisterDirect(s.Context(), c.Name(), c.Kubeconfig()))
	}
	s.must("open the logical cloud", f.OpenCloud(s.Context()))
}

// on is an intent for one cluster.
func on(name string) v2.PlacementSelection {
	return v2.PlacementSelection{AllOf: []v2.AllOf{{Selector: v2.Selector{Provider: fleet.Provider, Cluster: name}}}}
}

// ready reads a deployment's status in the clusters' view.
func (s *testStage) ready(d fleet.Deployment) v2.Status { s.Helper(); return s.status(d.Path()) }

// One manifest that the API servers refuse, among four apps on two clusters: all other pairs become
// ready, and the status names the bad one.
func TestConformance03OneRefusedManifestStopsNoOther(t *testing.T) {
	do := steps{TB: t}
	do.next("four apps on two clusters; app01 has a Service that API servers refuse")
	l, s := clustersOf(t), newStage(t)
	s.direct(l)
	d := apps("autumn", 4, 4)
	d.Apps[1].Chart = d.Apps[1].Chart.With("templates/refused.yaml", "apiVersion: v1\nkind: Service\nmetadata: {name: refused}\nspec: {ports: [{port: 99999}]}\n")
	s.must("onboard", s.fleet().Onboard(t.Context(), s.dir, d))
	s.must("instantiate", s.fleet().Act(t.Context(), d.Path(), "instantiate"))

	do.next("three apps become ready on both clusters, app01 shows its error")
	eventually(t, "the status shows both", func() error {
		st := s.ready(d)
		for _, app := range st.Apps {
			for _, c := range app.Clusters {
				if app.Name == "app01" {
					if c.Phase != "Failed" || !strings.Contains(c.Error, "refused") || !strings.Contains(c.Error, "99999") {
						return fmt.Errorf("app01 on %s: phase %s, error %q", c.Cluster, c.Phase, c.Error)
					}
					continue
				}
				for _, r := range c.Resources {
					if r.ReadyStatus != v2.Ready {
						return fmt.Errorf("%s on %s: %s %s is %s: %s", app.Name, c.Cluster, r.GVK.Kind, r.Name, r.ReadyStatus, r.Reason)
					}
				}
			}
		}
		if len(st.Apps) != 4 || st.DeployedStatus != v2.StatusInstantiateFailed || st.ReadyStatus != v2.NotReady {
			return fmt.Errorf("%d apps, deployedStatus %s, readyStatus %s", len(st.Apps), st.DeployedStatus, st.ReadyStatus)
		}
		return nil
	})
	do.next("terminate")
	s.must("terminate", s.fleet().Act(t.Context(), d.Path(), "terminate"))
	s.wait(d.Path(), "terminated")
	empty(t, l.c1)
	empty(t, l.c2)
	do.next("done")
}

// slowStart is a Deployment that becomes available only on nodes with the label of its value.
const slowStart = `apiVersion: apps/v1
kind: Deployment
metadata: {name: {{ .Release.Name }}-db}
spec:
  replicas: 1
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      nodeSelector: {disk: {{ .Values.disk }}}
      containers: [{name: main, image: "registry.example.com/db:1.0"}]
`

// An app that waits for a ready app on another cluster is delivered after that app is ready, and not
// before: at installation, after an update, and after a rollback.
func TestConformance08AppsWaitForEachOther(t *testing.T) {
	do := steps{TB: t}
	do.next("db on c1, web on c2; web waits for db to be ready")
	l, s := clustersOf(t), newStage(t)
	s.direct(l)
	node := kubectl(t, l.c1, "get", "nodes", "-o", "jsonpath={.items[0].metadata.name}")
	disk := func(value string) { t.Helper(); kubectl(t, l.c1, "label", "--overwrite", "node", node, "disk="+value) }
	t.Cleanup(func() { _, _ = l.c1.Kubectl(t.Context(), "label", "node", node, "disk-") })
	db := fleet.Chart{Name: "db", Files: map[string]string{
		"Chart.yaml": "apiVersion: v2\nname: db\nversion: 1.0.0\n", "values.yaml": "disk: one\n", "templates/db.yaml": slowStart,
	}}
	web := fleet.Synthetic("web", 3)
	d := fleet.Deployment{Name: "ordered", Apps: []fleet.App{
		{Chart: web, Intent: on("c2"), After: []v2.AppDependencySpec{{App: "db", OpStatus: "Ready"}}},
		{Chart: db, Intent: on("c1")},
	}}
	s.must("onboard", s.fleet().Onboard(t.Context(), s.dir, d))
	colour := func() string {
		out, _ := l.c2.Kubectl(t.Context(), "get", "configmap", "ordered-web-00", "--ignore-not-found", "-o", "jsonpath={.data.colour}")
		return out
	}
	s.must("instantiate", s.fleet().Act(t.Context(), d.Path(), "instantiate"))

	do.next("web is blocked and names the reason")
	blocked := func() {
		t.Helper()
		eventually(t, "web shows that it waits for db", func() error {
			if out := s.ctl("status", d.Path(), "-o", "json"); !strings.Contains(out, "waits for") || !strings.Contains(out, "db") {
				return errors.New(out)
			}
			return nil
		})
	}
	blocked()
	if got := colour(); got != "" {
		t.Errorf("web is on c2 before db is ready: %q", got)
	}
	disk("one")
	s.wait(d.Path(), "instantiated")
	if got := colour(); got != "blue" {
		t.Errorf("after db is ready, web's colour is %q, want blue", got)
	}

	do.next("an update keeps the order")
	s.must("change db", s.fleet().Revalue(t.Context(), d, db, "disk: two\n"))
	s.must("change web", s.fleet().Revalue(t.Context(), d, web, "colour: green\n"))
	s.must("update", s.fleet().Act(t.Context(), d.Path(), "update"))
	blocked()
	if got := colour(); got != "blue" {
		t.Errorf("web was updated before db was ready: %q", got)
	}
	disk("two")
	s.wait(d.Path(), "instantiated")
	if got := colour(); got != "green" {
		t.Errorf("after the update web's colour is %q, want green", got)
	}

	do.next("a rollback keeps the order")
	s.ctl("apply", "-f", s.rollback(d, 1))
	blocked()
	if got := colour(); got != "green" {
		t.Errorf("web was rolled back before db was: %q", got)
	}
	disk("one")
	s.wait(d.Path(), "instantiated")
	if got := colour(); got != "blue" {
		t.Errorf("after the rollback web's colour is %q, want blue", got)
	}
	s.must("terminate", s.fleet().Act(t.Context(), d.Path(), "terminate"))
	s.wait(d.Path(), "terminated")
	empty(t, l.c1)
	empty(t, l.c2)
	do.next("done")
}

// rollback writes a document that rolls a deployment back.
func (s *testStage) rollback(d fleet.Deployment, revision int) string {
	s.Helper()
	path, err := fleet.Document(s.dir, "rollback", "version: emco/v2\nresourceContext:\n  anchor: "+d.Path()+"/rollback\nmetadata:\n  description: back\nspec:\n  revision: \""+strconv.Itoa(revision)+"\"\n")
	s.must("write a document", err)
	return path
}

// held is an object with a finalizer: after its deletion, its last version shows the time.
const held = `apiVersion: v1
kind: %s
metadata: {name: {{ .Release.Name }}-held, finalizers: [example.com/held]}
%s
`

// Terminate deletes in the reverse order of installation, and keeps definitions, because others may
// have objects of these kinds.
func TestConformance12DefinitionsStayAndDeletionIsReversed(t *testing.T) {
	do := steps{TB: t}
	do.next("an app with a definition, and objects that show their deletion times")
	l, s := clustersOf(t), newStage(t)
	s.direct(l)
	chart, err := fleet.FromFolder(example("charts", "telemetry"))
	s.must("read the chart", err)
	bodies := []string{"ServiceAccount", "", "ConfigMap", "data: {a: b}", "Service", "spec: {ports: [{port: 80}]}"} // in the order of installation
	for i := 0; i < len(bodies); i += 2 {
		chart = chart.With("templates/held-"+strconv.Itoa(i)+".yaml", fmt.Sprintf(held, bodies[i], bodies[i+1]))
	}
	d := fleet.Deployment{Name: "crds", Apps: []fleet.App{{Chart: chart, Intent: on("c1")}}}
	s.must("onboard", s.fleet().Onboard(t.Context(), s.dir, d))
	s.must("instantiate", s.fleet().Act(t.Context(), d.Path(), "instantiate"))
	s.wait(d.Path(), "instantiated")
	foreign, err := fleet.Document(s.dir, "probe", "apiVersion: telemetry.example.com/v1\nkind: Probe\nmetadata: {name: foreign, namespace: default}\nspec: {interval: 5, metrics: [links]}\n")
	s.must("write a document", err)
	kubectl(t, l.c1, "apply", "-f", foreign)
	t.Cleanup(func() { _, _ = l.c1.Kubectl(t.Context(), "delete", "--ignore-not-found", "-f", foreign) })

	do.next("terminate")
	s.must("terminate", s.fleet().Act(t.Context(), d.Path(), "terminate"))
	s.wait(d.Path(), "terminated")
	deleted := map[string]int{}
	for _, kind := range []string{"serviceaccount", "configmap", "service"} {
		out := kubectl(t, l.c1, "get", kind, "crds-held", "-o", "jsonpath={.metadata.resourceVersion} {.metadata.deletionTimestamp}")
		version, when, _ := strings.Cut(out, " ")
		if deleted[kind], err = strconv.Atoi(version); err != nil || when == "" {
			t.Errorf("%s was not deleted: %q", kind, out)
		}
	}
	order := []int{deleted["service"], deleted["configmap"], deleted["serviceaccount"]}
	if !slices.IsSorted(order) {
		t.Errorf("deleted at %v, want first the Service, then the ConfigMap, last the ServiceAccount", deleted)
	}
	for _, kind := range []string{"serviceaccount", "configmap", "service"} {
		kubectl(t, l.c1, "patch", kind, "crds-held", "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
	}
	if got := kubectl(t, l.c1, "get", "probes.telemetry.example.com", "foreign", "-o", "jsonpath={.spec.interval}"); got != "5" {
		t.Errorf("the foreign object of the definition: %q", got)
	}
	if got := kubectl(t, l.c1, "get", "probes.telemetry.example.com", "-o", "name", "-l", deploymentLabel); got != "" {
		t.Errorf("EMCO's own objects of the definition still exist: %s", got)
	}
	do.next("done")
}
