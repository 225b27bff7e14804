package e2e

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"

	"github.com/emco-orchestrator/emco/scripts/e2e/fleet"
	"github.com/emco-orchestrator/emco/scripts/testbed/cluster"
)

// nameless is a template that renders an object without a name.
const nameless = `apiVersion: v1
kind: ConfigMap
metadata:
  labels: {app: telemetry}
data:
  answer: "42"
`

func TestAcceptance2OneInvalidApp(t *testing.T) {
	do := steps{TB: t}
	do.next("two clusters; the app telemetry has a template that renders an object without a name")
	l, s := clustersOf(t), newStage(t)
	l.follow(s)
	values := loopValues(s, l)
	chart, err := fleet.FromFolder(example("charts", "telemetry"))
	s.must("read the chart", err)
	repack(s, chart.With("templates/broken.yaml", nameless))
	s.apply(values, append(loopFiles("00-clusters.yaml", "01-app.yaml"), local("testdata", "everywhere.yaml"))...)
	s.apply(values, loopFiles(loopStart)...)

	do.next("the deployment fails and names the app, the file and the reason")
	r := s.emco.Emcoctl(t.Context(), "wait", group, "--for=instantiated", "--timeout=60s")
	if r.Code != 7 {
		t.Fatalf("emcoctl wait: exit code %d, want 7 (failed)\n%s%s", r.Code, r.Out, r.Err)
	}
	blames(t, "emcoctl wait", r.Err)
	blames(t, "emcoctl status", s.ctl("status", group))
	failedApp(t, s)

	do.next("the other two apps arrive on both clusters")
	for _, c := range []*cluster.Cluster{l.c1, l.c2} {
		available(t, c, "r1-web")
		available(t, c, "r1-cache")
		if got := kubectl(t, c, "get", "deployment,configmap", "-l", "app.kubernetes.io/name=telemetry", "-o", "name"); got != "" {
			t.Errorf("%s has objects of the invalid app: %s", c.Name(), got)
		}
	}
	on1, on2 := identities(t, l.c1), identities(t, l.c2)

	do.next("fix the app, instantiate again")
	repack(s, chart)
	out := s.apply(values, loopFiles("01-app.yaml")...)
	if n := strings.Count(out, " configured"); n != 1 || !strings.Contains(out, "apps/telemetry configured") {
		t.Errorf("the corrected chart is one change; emcoctl printed\n%s", out)
	}
	s.ctl("apply", group+"/instantiate")
	s.wait(group, "instantiated")
	for _, c := range []*cluster.Cluster{l.c1, l.c2} {
		available(t, c, "r1-telemetry")
		if got := kubectl(t, c, "get", "probes.telemetry.example.com", "r1-telemetry-links", "-o", "jsonpath={.spec.interval}"); got != "10" {
			t.Errorf("%s: interval of the custom resource: %q, want 10", c.Name(), got)
		}
	}
	for c, before := range map[*cluster.Cluster]string{l.c1: on1, l.c2: on2} {
		for line := range strings.Lines(before) {
			if !strings.Contains(identities(t, c), line) {
				t.Errorf("%s: the repair of one app touched %s", c.Name(), line)
			}
		}
	}

	do.next("terminate")
	s.terminate(group, l.c1, l.c2)
	s.sound()
	do.next("done")
}

// repack replaces the packed chart of the same name.
func repack(s *testStage, c fleet.Chart) {
	s.Helper()
	archive, err := c.Archive()
	s.must("pack the chart", err)
	s.must("pack the chart", os.WriteFile(filepath.Join(s.dir, "packages", c.Name+".tgz"), archive, 0o600))
}

// blames checks that a text names app, file and reason.
func blames(t *testing.T, what, text string) {
	t.Helper()
	for _, want := range []string{"telemetry", "templates/broken.yaml", "name"} {
		if !strings.Contains(text, want) {
			t.Errorf("%s does not contain %q:\n%s", what, want, text)
		}
	}
}

// failedApp checks the status in the API.
func failedApp(t *testing.T, s *testStage) {
	t.Helper()
	st := s.status(group)
	if st.DeployedStatus != "InstantiateFailed" {
		t.Errorf("deployedStatus is %q, want InstantiateFailed", st.DeployedStatus)
	}
	for _, app := range st.Apps {
		switch {
		case app.Name != "telemetry" && (app.Failure != nil || len(app.Clusters) != 2):
			t.Errorf("app %s: failure %+v, on %d clusters, want none, on 2", app.Name, app.Failure, len(app.Clusters))
		case app.Name == "telemetry" && app.Failure == nil:
			t.Errorf("app telemetry has no failure")
		case app.Name == "telemetry":
			t.Logf("telemetry: %s: %s: %s", app.Failure.Stage, app.Failure.File, app.Failure.Reason)
			if !strings.HasSuffix(strings.TrimRight(app.Failure.File, ":0123456789"), "templates/broken.yaml") || app.Failure.Reason == "" {
				t.Errorf("its failure is %+v, want the file templates/broken.yaml and a reason", *app.Failure)
			}
		}
	}
	if len(st.Apps) != 3 {
		t.Errorf("the status lists %d apps, want 3", len(st.Apps))
	}
}

// Text that does not parse reaches no commit, from a template that renders no YAML, or from a value
// that breaks a valid template.
func TestTWfNothingUnreadableIsCommitted(t *testing.T) {
	do := steps{TB: t}
	do.next("three Git clusters, three apps; a template of one renders no YAML")
	s := newStage(t)
	s.found(3)
	d := apps("mixed", 3, 3)
	d.Apps[0].Chart = d.Apps[0].Chart.With("templates/broken.yaml", "kind: ConfigMap\n  metadata: {name: x\n")
	d.Apps[1].Chart = d.Apps[1].Chart.With("templates/fragile.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: fragile}\ndata: {colour: {{ .Values.colour }}}\n")
	s.must("onboard", s.fleet().Onboard(t.Context(), s.dir, d))
	s.must("instantiate", s.fleet().Act(t.Context(), d.Path(), "instantiate"))
	s.reaches(d, v2.StatusInstantiateFailed)
	s.held(d, "app00", 0)
	s.held(d, "app01", 3*4)
	do.next("a value breaks another app, which keeps its version")
	s.must("change a value", s.fleet().Revalue(t.Context(), d, d.Apps[1].Chart, "colour: '{ [ \"'\n"))
	s.must("update", s.fleet().Act(t.Context(), d.Path(), "update"))
	eventually(t, "the app reports the error", func() error {
		st, err := s.fleet().Status(t.Context(), d.Path(), true)
		for _, app := range st.Apps {
			if app.Name == "app01" && app.Failure == nil {
				err = errors.New("app01 has no failure")
			}
		}
		return err
	})
	s.held(d, "app01", 3*4)
	s.held(d, "app02", 3*3)
	s.sound()
	do.next("done")
}

// held checks the number of an app's files on the branch.
func (s *testStage) held(d fleet.Deployment, app string, want int) {
	s.Helper()
	n := 0
	for path := range s.tree() {
		if strings.Contains(path, "/app/"+app+"/") {
			n++
		}
	}
	if n != want {
		s.Errorf("the branch contains %d files of app %s of %s, want %d", n, app, d.Name, want)
	}
}
