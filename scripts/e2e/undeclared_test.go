package e2e

import (
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
