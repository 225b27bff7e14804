package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"

	"github.com/emco-orchestrator/emco/scripts/e2e/fleet"
	"github.com/emco-orchestrator/emco/scripts/testbed/cluster"
)

// TestFaultSweepWhole runs every fault of the program on Git clusters; make test runs a few of them.
func TestFaultSweepWhole(t *testing.T) {
	onRequest(t)
	t.Parallel() // after all others, together with the test below, which needs a cluster
	cmd := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-v", "-timeout", "10m",
		"-run", "^(TestFaultSweep|TestConformance04.*|TestConformance07.*)$", "./internal/app")
	cmd.Dir = "../../src/emco"
	cmd.Env = append(os.Environ(), "EMCO_SWEEP=all", "GOWORK=off")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if n := strings.Count(string(out), " struck in "); n < 90 {
		t.Errorf("only %d faults struck:\n%s", n, out)
	}
}

// onRequest skips a test that takes many minutes, unless its variable is set.
func onRequest(t *testing.T) {
	t.Helper()
	if os.Getenv("EMCO_SWEEP") != "all" {
		t.Skip("takes many minutes: scripts/e2e/run.sh sweep")
	}
}

// faultPoint is a point of the program, and the fault there, once in each phase.
type faultPoint struct{ point, action string }

func (m faultPoint) String() string { return m.point + " " + m.action }

// mishaps are the faults around a direct cluster: at each kind of request to it, and at the writes of
// its reports.
func mishaps() (out []faultPoint) {
	for _, point := range []string{
		"kube.read", "kube.define.before", "kube.define.after", "kube.apply.before", "kube.apply.after",
		"kube.prune.before", "kube.prune.after", "etcd.report.before", "etcd.report.after", "etcd.settle.before",
	} {
		for _, action := range []string{"error(once)", "delay(300ms, once)", "kill(once)"} {
			out = append(out, faultPoint{point, action})
		}
	}
	return out
}

// TestFaultSweepOnARealCluster triggers each fault in each phase of a deployment on a real API server.
// After each phase the cluster holds exactly the desired objects and reports them, and the neighbouring
// deployment is unchanged. Meanwhile the status never reports anything as applied too early.
func TestFaultSweepOnARealCluster(t *testing.T) {
	onRequest(t)
	t.Parallel()
	do := steps{TB: t}
	do.next("a program with failpoints, a cluster, and a neighbouring deployment")
	r := newRig(t)
	for i, m := range mishaps() {
		r.runDeployment(fmt.Sprint("d", i), m)
	}
	if now := r.neighbour(); now != r.untouched {
		t.Errorf("the neighbouring deployment is now\n%s\nand was\n%s", now, r.untouched)
	}
	do.next("done")
}

// faultStage is a stage with a program with failpoints, and one cluster.
type faultStage struct {
	*testStage
	c         *cluster.Cluster
	untouched string
	deaths    int
}

func newRig(t *testing.T) *faultStage {
	t.Helper()
	l, s := clustersOf(t), newStage(t, "-retry.first=100ms", "-retry.longest=1s")
	s.must("stop emco", s.emco.Stop())
	s.options.Bin = breakable(t)
	s.start()
	r := &faultStage{testStage: s, c: l.c1}
	f := s.fleet()
	s.must("register the fleet", f.Found(t.Context(), s.repository()))
	s.must("register c1", f.RegisterDirect(t.Context(), "c1", l.c1.Kubeconfig()))
	s.must("open the logical cloud", f.OpenCloud(t.Context()))
	d := subject("bystander")
	s.must("onboard", f.Onboard(t.Context(), s.dir, d))
	s.must("instantiate", f.Act(t.Context(), d.Path(), "instantiate"))
	s.wait(d.Path(), "instantiated")
	r.untouched = r.neighbour()
	return r
}

// breakable builds the program with failpoints and returns its folder.
func breakable(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "go", "build", "-tags", "failpoints", "-o", dir, "./cmd/emco")
	cmd.Dir = "../../src/emco"
	cmd.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build emco with failpoints: %v\n%s", err, out)
	}
	if err := os.Symlink(filepath.Join(binaries(), "emcoctl"), filepath.Join(dir, "emcoctl")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// subject is a deployment of one app: a definition of a kind, an object of that kind, and ConfigMaps,
// one of them in the first edition only.
func subject(name string) fleet.Deployment {
	return fleet.Deployment{Name: name, Apps: []fleet.App{{Intent: on("c1"), Chart: fleet.Chart{Name: "core", Files: map[string]string{
		"Chart.yaml":          "apiVersion: v2\nname: core\nversion: 1.0.0\n",
		"values.yaml":         "edition: 1\n",
		"crds/widget.yaml":    widgetDefinition,
		"templates/all.yaml":  configEdition + "---\n" + widgetEdition,
		"templates/once.yaml": "{{ if eq (int .Values.edition) 1 }}\n" + strings.Replace(configEdition, "-config", "-once", 1) + "{{ end }}\n",
	}}}}}
}

const (
	widgetDefinition = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.sweep.example.org}
spec:
  group: sweep.example.org
  names: {kind: Widget, plural: widgets, singular: widget, listKind: WidgetList}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`
	configEdition = `apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}-config}
data: {edition: {{ .Values.edition | quote }}}
`
	widgetEdition = `apiVersion: sweep.example.org/v1
kind: Widget
metadata: {name: {{ .Release.Name }}-widget}
data: {edition: {{ .Values.edition | quote }}}
`
)

// objectsOf lists the desired objects of a deployment on the cluster in an edition, in order; 0 means
// none.
func objectsOf(name string, edition int) (out []string) {
	switch edition {
	case 0:
		return nil
	case 1:
		out = append(out, "ConfigMap "+name+"-once 1")
	}
	out = append(out, fmt.Sprintf("ConfigMap %s-config %d", name, edition), fmt.Sprintf("Widget %s-widget %d", name, edition))
	slices.Sort(out)
	return out
}

// objects lists the objects of a deployment on the cluster: kind, name and edition, in order.
func (r *faultStage) objects(name string) (out []string) {
	r.Helper()
	list, err := objects(r.Context(), r.c, "configmaps,widgets.sweep.example.org", "-A", "-l", deploymentLabel)
	r.must("list the cluster's objects", err)
	for _, o := range list {
		if strings.HasPrefix(o.Metadata.Name, name+"-") {
			out = append(out, fmt.Sprintf("%s %s %s", o.Kind, o.Metadata.Name, o.Data["edition"]))
		}
	}
	slices.Sort(out)
	return out
}

// neighbour lists the objects of the neighbouring deployment with their versions.
func (r *faultStage) neighbour() string {
	r.Helper()
	list, err := objects(r.Context(), r.c, "configmaps,widgets.sweep.example.org", "-A", "-l", deploymentLabel)
	r.must("list the cluster's objects", err)
	var out []string
	for _, o := range list {
		if strings.HasPrefix(o.Metadata.Name, "bystander-") {
			out = append(out, fmt.Sprintf("%s %s %d %s", o, o.Metadata.UID, o.Metadata.Generation, o.Data["edition"]))
		}
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

// faultRun is the life of one deployment, with one fault in each phase.
type faultRun struct {
	*faultStage
	fault    faultPoint
	d        fleet.Deployment
	editions []int    // the requested editions by revision; revision 0 has none
	wanted   int      // edition
	history  []string // "State revision"
	struck   []string // phases
}

func (r *faultStage) runDeployment(name string, m faultPoint) {
	r.Helper()
	l := &faultRun{faultStage: r, fault: m, d: subject(name), editions: []int{0}, history: []string{"Created 0", "Approved 0"}}
	r.must("onboard", r.fleet().Onboard(r.Context(), r.dir, l.d))
	l.step("instantiate", "", 1, "Instantiated 1")
	r.must("change values", r.fleet().Revalue(r.Context(), l.d, l.d.Apps[0].Chart, "edition: 2\n"))
	l.step("update", "", 2, "Updated 1", "Instantiated 2")
	l.step("rollback", `{"spec":{"revision":"1"}}`, 1, "Updated 2", "Instantiated 3")
	l.step("terminate", "", 0, "Terminated 0")
	r.Logf("%v struck in %s", m, strings.Join(l.struck, ", "))
	if len(l.struck) == 0 {
		r.Errorf("%v: it never struck", m)
	}
}

// step sends a request while the fault may strike, and waits for the result.
func (l *faultRun) step(action, body string, edition int, history ...string) {
	l.Helper()
	l.wanted, l.history = edition, append(l.history, history...)
	if edition > 0 {
		l.editions = append(l.editions, edition)
	}
	l.arm(l.fault.point + "=" + l.fault.action)
	l.retryWithRestarts(action+" is accepted", func() error {
		if st, err := l.checkStatus(); err == nil && slices.Equal(statesOf(st), l.history) {
			return nil // although it was not answered
		} else if err != nil {
			return err
		}
		return l.post("/v2/"+l.d.Path()+"/"+action, body)
	})
	l.retryWithRestarts(action+" is done", l.missing)
	if l.disarm() {
		l.struck = append(l.struck, action)
	}
}

// retryWithRestarts retries until there is no error, and restarts the program whenever it dies.
func (l *faultRun) retryWithRestarts(what string, try func() error) {
	l.Helper()
	eventually(l, fmt.Sprintf("%v: %s", l.fault, what), func() error {
		if l.emco.Exited() != nil {
			l.deaths++
			l.start()
		}
		return try()
	})
}

// checkStatus reads the status and compares it with the cluster a moment later.
func (l *faultRun) checkStatus() (st v2.Status, err error) {
	l.Helper()
	text, err := l.emco.Get(l.Context(), "/v2/"+l.d.Path()+"/status?status=deployed")
	if err == nil {
		err = json.Unmarshal(text, &st)
	}
	if err != nil {
		return st, err
	}
	for _, app := range st.Apps {
		for _, c := range app.Clusters {
			if have := l.objects(l.d.Name); c.Phase == "Applied" && !l.mayHold(int(c.Revision), have) {
				l.Errorf("%v: the status reports revision %d as applied, but the cluster holds %v", l.fault, c.Revision, have)
			}
		}
	}
	return st, nil
}

// mayHold reports whether the cluster may hold an object after the status reported a revision a moment ago:
// an object of that revision, or of a later request.
func (l *faultRun) mayHold(revision int, have []string) bool {
	if revision < 1 || revision >= len(l.editions) {
		return false
	}
	if slices.Equal(have, objectsOf(l.d.Name, l.editions[revision])) {
		return true
	}
	var since []string
	for _, edition := range l.editions[revision:] {
		since = append(since, objectsOf(l.d.Name, edition)...)
	}
	overtaken := revision < len(l.editions)-1 || l.wanted == 0
	return overtaken && !slices.ContainsFunc(have, func(o string) bool { return !slices.Contains(since, o) })
}

// missing lists what does not have its desired state yet.
func (l *faultRun) missing() error {
	l.Helper()
	st, err := l.checkStatus()
	if err != nil {
		return err
	}
	want := v2.StatusInstantiated
	if l.wanted == 0 {
		want = v2.StatusTerminated
	}
	have := l.objects(l.d.Name)
	switch {
	case st.DeployedStatus != want || !slices.Equal(statesOf(st), l.history):
		return fmt.Errorf("it is %s, with the history %v", st.DeployedStatus, statesOf(st))
	case !slices.Equal(have, objectsOf(l.d.Name, l.wanted)):
		return fmt.Errorf("the cluster holds %v", have)
	case l.wanted == 0:
		return nil
	}
	return l.ready()
}

// ready lists objects that the cluster has not reported as ready yet. Definitions are shared, and rsync
// does not watch them.
func (l *faultRun) ready() error {
	l.Helper()
	var st v2.Status
	text, err := l.emco.Get(l.Context(), "/v2/"+l.d.Path()+"/status?status=ready")
	if err == nil {
		err = json.Unmarshal(text, &st)
	}
	if err != nil {
		return err
	}
	n := 0
	for _, app := range st.Apps {
		for _, c := range app.Clusters {
			for _, o := range c.Resources {
				if o.GVK.Kind == "CustomResourceDefinition" {
					continue
				}
				if n++; o.ReadyStatus != v2.Ready {
					return fmt.Errorf("%s %s is %s: %s", o.GVK.Kind, o.Name, o.ReadyStatus, o.Reason)
				}
			}
		}
	}
	if want := len(objectsOf(l.d.Name, l.wanted)); n != want {
		return fmt.Errorf("the status lists %d objects, want %d", n, want)
	}
	return nil
}

func statesOf(st v2.Status) (out []string) {
	for _, a := range st.States.Actions {
		out = append(out, fmt.Sprintf("%s %d", a.State, a.Revision))
	}
	return out
}

// arm sets failpoint rules in the program.
func (r *faultStage) arm(rules string) {
	r.Helper()
	r.deaths = 0
	if _, err := r.send(http.MethodPut, "/failpoints", rules); err != nil {
		r.Fatalf("arm %s: %v", rules, err)
	}
}

// disarm removes the rules, and reports whether one has struck.
func (r *faultStage) disarm() bool {
	r.Helper()
	var counts struct{ Fired int }
	eventually(r, "the rules are gone", func() error {
		if r.emco.Exited() != nil {
			r.deaths++
			r.start()
		}
		text, err := r.send(http.MethodPut, "/failpoints", ";")
		if err == nil {
			err = json.Unmarshal(text, &counts)
		}
		return err
	})
	return counts.Fired+r.deaths > 0
}

func (r *faultStage) post(path, body string) error {
	_, err := r.send(http.MethodPost, path, body)
	return err
}

// send sends a request; an answer other than success is an error.
func (r *faultStage) send(method, path, body string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(r.Context(), 20*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, r.emco.URL()+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode/100 != 2 {
		err = errors.New(res.Status + " " + string(bytes.TrimSpace(text)))
	}
	return text, err
}
