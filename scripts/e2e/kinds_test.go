package e2e

import (
	"fmt"
	"testing"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"

	"github.com/emco-orchestrator/emco/scripts/e2e/fleet"
	"github.com/emco-orchestrator/emco/scripts/testbed/flux"
)

const (
	definition = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: lamps.e2e.example.org}
spec:
  group: e2e.example.org
  scope: Namespaced
  names: {kind: Lamp, plural: lamps, singular: lamp}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
`
	defined = "apiVersion: e2e.example.org/v1\nkind: Lamp\nmetadata: {name: red}\n"
)

// Both apps are in one commit, and Flux may try the object before its definition. It tries again
// within seconds, although the cluster's retryInterval is an hour. Another object of the app that
// defines the kind is refused, which must not stop the app that uses it.
func TestF03AKindThatAnotherAppDefinesWithFlux(t *testing.T) {
	do := steps{TB: t}
	do.next("a cluster with Flux, an app with an object, and one that defines its kind")
	l, s := clustersOf(t), newStage(t)
	f, keys := s.fleet(), map[string]v2.Scalar{"syncInterval": "2", "retryInterval": "3600", "secretRef": flux.Namespace}
	s.must("register the fleet", f.Found(t.Context(), s.repository()))
	s.must("register", f.RegisterFlux(t.Context(), "c2", s.repository(), keys))
	s.must("open the cloud", f.OpenCloud(t.Context()))
	d := fleet.Deployment{Name: "till", Apps: []fleet.App{
		{Chart: fleet.Synthetic("a-uses", 3).With("templates/lamp.yaml", defined)},
		{Chart: fleet.Synthetic("b-defines", 3).With("templates/lamps.yaml", definition).
			With("templates/refused.yaml", "apiVersion: v1\nkind: Service\nmetadata: {name: refused}\nspec: {ports: [{port: 99999}]}\n")},
	}}
	s.must("onboard", f.Onboard(t.Context(), t.TempDir(), d))
	t.Cleanup(func() {
		_, _ = l.c2.Kubectl(t.Context(), "delete", "crd", "lamps.e2e.example.org", "--ignore-not-found")
	})
	s.must("instantiate", f.Act(t.Context(), d.Path(), "instantiate"))
	s.wait(d.Path(), "instantiated")

	do.next("Flux is pointed at the folder, which never becomes empty")
	s.foreign(map[string]string{
		"clusters/edge+c2/own.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: own, namespace: flux-system}\n",
	})
	err := l.flux.Bootstrap(t.Context(), flux.Sync{
		URL: s.git.URL(repoName), Branch: "main", Path: "clusters/edge+c2", User: reader, Password: s.readerToken,
	})
	s.must("point Flux at the folder", err)
	eventually(t, "the object of the defined kind is there", func() error {
		out, err := l.c2.Kubectl(t.Context(), "get", "lamps.e2e.example.org", "red", "-o", "name")
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})

	do.next("terminate")
	s.terminate(d.Path(), l.c2)
	do.next("done")
}
