package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"

	"github.com/emco-orchestrator/emco/scripts/e2e/fleet"
	"github.com/emco-orchestrator/emco/scripts/testbed/flux"
)

// TestTIABrokenFileStopsItsAppAlone commits a file that is no YAML to the folder of one app, past all
// of EMCO's checks. Flux stops with that app; the other one stays ready and takes its next change. EMCO
// reports the edit and overwrites it.
func TestTIABrokenFileStopsItsAppAlone(t *testing.T) {
	do := steps{TB: t}
	do.next("two apps on a cluster with Flux")
	l, s := clustersOf(t), newStage(t)
	f := s.fleet()
	s.must("register the fleet", f.Found(t.Context(), s.repository()))
	s.must("register", f.RegisterFlux(t.Context(), "c2", s.repository(), map[string]v2.Scalar{
		"syncInterval": "1", "retryInterval": "1", "secretRef": flux.Namespace,
	}))
	s.must("open the cloud", f.OpenCloud(t.Context()))
	db, web := fleet.Synthetic("db", 3), fleet.Synthetic("web", 3)
	d := fleet.Deployment{Name: "till", Apps: []fleet.App{{Chart: db}, {Chart: web}}}
	s.must("onboard", f.Onboard(t.Context(), t.TempDir(), d))
	s.must("instantiate", f.Act(t.Context(), d.Path(), "instantiate"))
	s.wait(d.Path(), "instantiated")
	l.follow(s)
	available(t, l.c2, "till-db")
	available(t, l.c2, "till-web")
	id := s.status(d.Path()).States.StatusCtxID

	do.next("someone breaks a file of one app")
	file := "clusters/edge+c2/context/" + id + "/app/db/till-db-00+ConfigMap.yaml"
	if s.tree()[file] == "" {
		t.Fatalf("no %s to break", file)
	}
	s.foreign(map[string]string{file: "kind: ConfigMap\ndata: [\n"})
	eventually(t, "Flux stops with that app", func() error { return l.notReady(t, id, "db", "yaml") })
	l.becomesReady(t, id, "web") // it may be checking the new commit
	if now := l.ready(t, id, "db"); now != "False" {
		t.Errorf("the broken app's Kustomization is ready: %s, want False", now)
	}

	do.next("the other app takes its next change")
	s.must("change a value", f.Revalue(t.Context(), d, web, "replicas: 1\ncolour: green\n"))
	s.must("update", f.Act(t.Context(), d.Path(), "update"))
	s.wait(d.Path(), "instantiated")
	eventually(t, "the change is on the cluster", func() error {
		if colour := kubectl(t, l.c2, "get", "configmap", "till-web-00", "-o", "jsonpath={.data.colour}"); colour != "green" {
			return errors.New("the colour is " + colour)
		}
		return nil
	})

	do.next("EMCO reports the edit and overwrites it")
	if told := s.ctl("events", d.Path(), "-o", "json"); !strings.Contains(told, "db") || !strings.Contains(strings.ToLower(told), "foreign") {
		t.Errorf("the events do not contain the edit:\n%s", told)
	}
	l.becomesReady(t, id, "db")

	do.next("terminate")
	s.terminate(d.Path(), l.c2)
	s.must("git fsck --strict", s.bare.Fsck(t.Context())) // the history contains a file that is no YAML, by someone else
	do.next("done")
}

func (l *sharedClusters) becomesReady(t *testing.T, id, app string) {
	t.Helper()
	eventually(t, "Flux is done with "+app, func() error {
		if now := l.ready(t, id, app); now != "True" {
			return fmt.Errorf("it is ready: %s", now)
		}
		return nil
	})
}

// ready returns the Ready condition of an app's Kustomization.
func (l *sharedClusters) ready(t *testing.T, id, app string) string {
	t.Helper()
	return kubectl(t, l.c2, "get", "-n", flux.Namespace, "kustomization", "emco-"+id+"-"+app,
		"-o", `jsonpath={.status.conditions[?(@.type=="Ready")].status}`)
}
