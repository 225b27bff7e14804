package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"

	"github.com/emco-orchestrator/emco/scripts/e2e/fleet"
	"github.com/emco-orchestrator/emco/scripts/testbed/argocd"
	"github.com/emco-orchestrator/emco/scripts/testbed/cluster"
)

// argoEdge contains the objects that docs/backends/argocd.md asks of an operator: the credential for
// the private repository, and the Application that applies EMCO's files next to context/.
const argoEdge = `apiVersion: v1
kind: Secret
metadata:
  name: emco-git
  namespace: argocd
  labels: {argocd.argoproj.io/secret-type: repository}
stringData: {type: git, url: %[1]s, username: %[2]s, password: %[3]s}
---
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: emco, namespace: argocd}
spec:
  project: default
  source: {repoURL: %[1]s, targetRevision: main, path: clusters/edge+c1}
  destination: {server: https://kubernetes.default.svc, namespace: argocd}
  syncPolicy:
    automated: {prune: true, selfHeal: true, allowEmpty: true}
    retry: {limit: -1}
`

// waiting is a chart with a Deployment that runs on labelled nodes, and a last ConfigMap that exists
// while a value asks for it.
func waiting(name string) fleet.Chart {
	c := fleet.Synthetic(name, 3)
	c.Files["values.yaml"] += "extra: true\n"
	c.Files["templates/deployment.yaml"] = strings.Replace(c.Files["templates/deployment.yaml"],
		"spec: {containers", "spec: {nodeSelector: {e2e/"+name+": here}, containers", 1)
	return c.With("templates/extra.yaml", "{{ if .Values.extra }}\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}-extra}\n{{ end }}\n")
}

// TestArgoCDReconciles runs Argo CD's controllers on EMCO's files in a private repository: Applications
// become Synced and Healthy in the order of their waves, objects that leave Git leave the cluster, Argo
// CD undoes manual changes, and a terminated deployment leaves nothing.
func TestArgoCDReconciles(t *testing.T) {
	if os.Getenv("EMCO_ARGOCD") == "" {
		t.Skip("Argo CD takes minutes to build: run.sh argocd")
	}
	do := steps{TB: t}
	do.next("a cluster with Argo CD, and an app that another one depends on")
	l, s := clustersOf(t), newStage(t)
	argo, err := argocd.Start(t.Context(), l.c1)
	s.must("start Argo CD", err)
	t.Cleanup(argo.Stop)
	f := s.fleet()
	s.must("register the fleet", f.Found(t.Context(), s.repository()))
	s.must("register", f.RegisterWith(t.Context(), "c1", v2.ArgoCD, s.repository(), map[string]v2.Scalar{"dependsOn": "native", "retryInterval": "1"}))
	s.must("open the cloud", f.OpenCloud(t.Context()))
	db := fleet.App{Chart: waiting("db")}
	web := fleet.App{Chart: fleet.Synthetic("web", 2), After: []v2.AppDependencySpec{{App: "db", OpStatus: "Deployed"}}}
	d := fleet.Deployment{Name: "till", Apps: []fleet.App{db, web}}
	s.must("onboard", f.Onboard(t.Context(), t.TempDir(), d))
	s.must("instantiate", f.Act(t.Context(), d.Path(), "instantiate"))
	s.wait(d.Path(), "instantiated")

	do.next("Argo CD is pointed at the folder: the second app waits for the first one")
	s.foreign(map[string]string{"clusters/edge+c1/README.md": "notes of the operator about c1\n"})
	s.must("point Argo CD at the folder", l.c1.Apply(t.Context(), fmt.Sprintf(argoEdge, s.git.URL(repoName), reader, s.readerToken)))
	id := "emco-" + s.status(d.Path()).States.StatusCtxID
	eventually(t, "the first app is on the cluster, and not healthy", func() error {
		return isApplication(t, l.c1, id+"-db", "Synced Progressing")
	})
	if there := applications(t, l.c1); slices.Contains(there, id+"-web") {
		t.Errorf("Applications are %v although the first app is not healthy", there)
	}
	kubectl(t, l.c1, "label", "nodes", "--all", "--overwrite", "e2e/db=here")
	eventually(t, "all Applications are in order", func() error {
		return errors.Join(
			isApplication(t, l.c1, id+"-db", "Synced Healthy"), isApplication(t, l.c1, id+"-web", "Synced Healthy"),
			isApplication(t, l.c1, "emco", "Synced Healthy"))
	})
	available(t, l.c1, d.Name+"-web")

	do.next("delete an object by hand; change a value that removes another")
	kubectl(t, l.c1, "delete", "configmap", "till-db-00")
	s.must("change a value", f.Revalue(t.Context(), d, db.Chart, "extra: false\n"))
	s.must("update", f.Act(t.Context(), d.Path(), "update"))
	eventually(t, "the deleted object is back, and the object that left Git is gone", func() error {
		out, err := l.c1.Kubectl(t.Context(), "get", "configmaps", "-l", deploymentLabel, "-o", "name")
		if got := strings.Fields(out); err == nil && !slices.Equal(got, []string{"configmap/till-db-00"}) {
			err = fmt.Errorf("there are %v", got)
		}
		return err
	})
	eventually(t, "all Applications are in order", func() error {
		return errors.Join(isApplication(t, l.c1, id+"-db", "Synced Healthy"), isApplication(t, l.c1, id+"-web", "Synced Healthy"))
	})

	do.next("terminate")
	s.terminate(d.Path(), l.c1)
	eventually(t, "no object of the deployment is left in Argo CD", func() error {
		projects := strings.Fields(kubectl(t, l.c1, "get", "-n", argocd.Namespace, "appprojects", "-o", "name"))
		if apps := applications(t, l.c1); len(apps) != 1 || len(projects) != 1 {
			return fmt.Errorf("there are %v and %v", apps, projects)
		}
		return nil
	})
	kubectl(t, l.c1, "delete", "-n", argocd.Namespace, "application/emco", "secret/emco-git")
	s.sound()
	s.must("read Argo CD's objects", argo.Check())
	do.next("done")
}

// isApplication checks the sync and health status of an Application.
func isApplication(t *testing.T, c *cluster.Cluster, name, want string) error {
	out, err := c.Kubectl(t.Context(), "get", "-n", argocd.Namespace, "application", name, "-o", "json")
	if err != nil {
		return err
	}
	var a struct {
		Status struct {
			Sync, Health   struct{ Status string }
			Conditions     []struct{ Type, Message string }
			OperationState struct{ Phase, Message string }
		}
	}
	if err := json.Unmarshal([]byte(out), &a); err != nil {
		return err
	}
	if got := a.Status.Sync.Status + " " + a.Status.Health.Status; got != want {
		return fmt.Errorf("%s is %s, want %s: %+v", name, got, want, a.Status)
	}
	return nil
}

// applications returns the names of all Applications.
func applications(t *testing.T, c *cluster.Cluster) []string {
	t.Helper()
	return strings.Fields(kubectl(t, c, "get", "-n", argocd.Namespace, "applications", "-o", `jsonpath={.items[*].metadata.name}`))
}
