package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"

	"github.com/emco-orchestrator/emco/scripts/e2e/fleet"
)

// sloppy is a DaemonSet as charts contain it: with a field that has no value, and with limits that its kind does not have there.
const sloppy = `apiVersion: apps/v1
kind: DaemonSet
metadata: {name: sloppy}
spec:
  replicas:
  selector: {matchLabels: {app: sloppy}}
  template:
    metadata: {labels: {app: sloppy}}
    spec:
      nodeSelector: {disk: none}
      containers:
      - name: main
        image: registry.example.com/sloppy:1.0
        resources: {requests: {cpu: 10m}}
        limits: {cpu: 100m}
`

// A real API server refuses null and unknown fields of server-side apply. EMCO leaves them out, and says so; Git gets no nulls.
func TestF01FieldsThatAnAPIServerRefusesAreLeftOut(t *testing.T) {
	do := steps{TB: t}
	do.next("a chart with such fields, on an API server and on a branch")
	l, s := clustersOf(t), newStage(t)
	f := s.fleet()
	s.must("register the fleet", f.Found(t.Context(), s.repository()))
	s.must("register the direct cluster", f.RegisterDirect(t.Context(), "direct", l.c1.Kubeconfig()))
	s.must("register the cluster that pulls", f.RegisterAs(t.Context(), "pulls", v2.PureGit))
	s.must("open the cloud", f.OpenCloud(t.Context()))
	d := fleet.Deployment{Name: "sloppy", Apps: []fleet.App{{Chart: fleet.Synthetic("web", 3).With("templates/sloppy.yaml", sloppy)}}}
	s.must("onboard", f.Onboard(t.Context(), s.dir, d))
	s.must("instantiate", f.Act(t.Context(), d.Path(), "instantiate"))
	s.wait(d.Path(), "instantiated")

	do.next("the API server has the object, and the status says what was left out")
	if got := kubectl(t, l.c1, "get", "daemonset", "sloppy", "-o", "jsonpath={.spec.template.spec.containers[0].resources}"); got != `{"requests":{"cpu":"10m"}}` {
		t.Errorf("the container has the resources %s", got)
	}
	st := s.status(d.Path())
	for _, c := range st.Apps[0].Clusters {
		told := slices.ContainsFunc(c.Findings, func(text string) bool {
			return strings.Contains(text, `containers[name="main"].limits was left out`)
		})
		if c.Phase != "Applied" || told != (c.Cluster == "direct") {
			t.Errorf("%s is %s, with the findings %q", c.Cluster, c.Phase, c.Findings)
		}
	}

	do.next("the branch has the object without the field that has no value")
	path := branch + ":clusters/" + fleet.Provider + "+pulls/context/" + st.States.StatusCtxID + "/app/web/sloppy+DaemonSet.yaml"
	text, err := s.bare.Git(t.Context(), "", "show", path)
	s.must("read the file", err)
	if strings.Contains(text, "replicas") || !strings.Contains(text, "cpu: 100m") {
		t.Errorf("the file is\n%s", text)
	}

	do.next("terminate")
	s.terminate(d.Path(), l.c1)
	do.next("done")
}

// Flux drops fields of Kubernetes' kinds without a word, and refuses those of custom kinds, with the whole app. EMCO names both before
// the delivery, writes what the chart says, and shows Flux's refusal; without the field the app becomes ready.
func TestF01FluxDropsOrRefusesWhatIsNotDeclared(t *testing.T) {
	do := steps{TB: t}
	do.next("Flux and a monitor; a chart with such fields of a Deployment and of a kind that it defines")
	l, s := clustersOf(t), newWatched(t)
	l.follow(s.testStage)
	m := s.monitor(l.c2, s.account(l.c2))
	defer s.stop(m)
	s.apply(loopValues(s.testStage, l), loopFiles("00-clusters.yaml", "01-app.yaml")...)
	chart := fleet.Synthetic("web", 3).With("crds/badge.yaml", badges).With("templates/badge.yaml", badge).With("templates/sloppy.yaml", sloppy)
	d := fleet.Deployment{Name: "sloppy", Apps: []fleet.App{{Chart: chart, Intent: on("c2")}}}
	s.must("onboard", s.fleet().Onboard(t.Context(), s.dir, d))
	s.must("instantiate", s.fleet().Act(t.Context(), d.Path(), "instantiate"))
	s.wait(d.Path(), "instantiated")

	do.next("the findings name file and field, and the status has the answer of Flux")
	eventually(t, "the refusal in the status", func() error {
		st := s.ready(d)
		all := strings.Join(st.Apps[0].Findings, "\n")
		for _, want := range []string{
			"DaemonSet default/sloppy in web/templates/sloppy.yaml:1: DaemonSet has no field spec.template.spec.containers[0].limits",
			"Badge default/one in web/templates/badge.yaml:1: Badge has no field spec.colour",
		} {
			if !strings.Contains(all, want) {
				t.Fatalf("the findings are\n%s\nwant %s", all, want)
			}
		}
		for _, r := range st.Apps[0].Clusters[0].Resources {
			if r.Name == "sloppy" && strings.Contains(r.Reason, ".spec.colour: field not declared in schema") {
				return nil
			}
		}
		return fmt.Errorf("the status is %+v", st.Apps[0].Clusters[0].Resources)
	})

	do.next("without the field of the custom kind the app is applied")
	s.must("change a value", s.fleet().Revalue(t.Context(), d, chart, "mended: true\n"))
	s.must("update", s.fleet().Act(t.Context(), d.Path(), "update"))
	eventually(t, "the DaemonSet without the field", func() error {
		got, err := l.c2.Kubectl(t.Context(), "get", "daemonset", "sloppy", "-o", "jsonpath={.spec.template.spec.containers[0].resources}")
		if err == nil && got != `{"requests":{"cpu":"10m"}}` {
			err = fmt.Errorf("the container has the resources %s", got)
		}
		return err
	})

	do.next("terminate")
	s.terminate(d.Path(), l.c2)
	do.next("done")
}

// badges defines a kind, and badge has a field that it does not declare.
const (
	badges = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: badges.undeclared.example.org}
spec:
  group: undeclared.example.org
  scope: Namespaced
  names: {plural: badges, singular: badge, kind: Badge}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {size: {type: integer}}}
`
	badge = `apiVersion: undeclared.example.org/v1
kind: Badge
metadata: {name: one}
spec: {size: 1{{ if not .Values.mended }}, colour: red{{ end }}}
`
)
