package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/embedded"
	"github.com/emco-orchestrator/emco/src/emco/internal/render"
	"github.com/emco-orchestrator/emco/src/emco/internal/render/rendertest"
	"github.com/emco-orchestrator/emco/src/emco/internal/resource/resourcetest"
)

// modelTime bounds what the model test spends on new sequences. One that failed is
// always run to its end, so that it can be made smaller.
const modelTime = 4 * time.Second

// publishedRevision is a published revision in the model: its content and its id.
type publishedRevision struct{ id, content string }

// groupModel is a group in the model. It is written from docs/lifecycle.md, not from the code.
type groupModel struct {
	testGroup
	exists    bool
	state     string
	last, now int64 // revision numbers: the last one given, and the one that is desired
	asked     bool  // an operation waits
	from      int64 // of that operation
	gone      bool
	stopped   bool
	moved     bool
	inherited bool
	id        string
	history   []string
	releases  map[int64]publishedRevision
}

func (l *groupModel) live() bool { return l.state == "Instantiated" || l.state == "InstantiateStopped" }

func (l *groupModel) note(states ...string) { l.history = append(l.history, states...) }

// modelState is the control plane with its model. What the groups stand on is made once.
type modelState struct {
	*controlPlane
	t        *rapid.T
	lives    []*groupModel
	edition  map[string]int    // of each version's chart
	clusters map[string]string // deployment id -> content on all clusters; empty for none
}

func newModelState(p *controlPlane) *modelState {
	w := &modelState{controlPlane: p, edition: map[string]int{}}
	p.fleet("edge", "a", "b")
	for _, v := range []string{"v1", "v2"} {
		p.onboard(v)
		w.edit(v)
	}
	return w
}

// begin makes new groups, and forgets those before.
func (w *modelState) begin(t *rapid.T, n int) {
	w.testingT, w.t, w.lives, w.clusters = t, t, nil, map[string]string{}
	var gone []appcontext.PairKey
	for pair, err := range w.contexts.Pairs(t.Context()) {
		w.must(err)
		gone = append(gone, pair.Key)
	}
	w.must(w.contexts.PutPairs(t.Context(), appcontext.Fence{}, nil, gone))
	for h, err := range w.contexts.Heads(t.Context()) {
		if w.must(err); strings.Contains(h.Document, "/deployment-intent-groups/") {
			w.must(w.contexts.Delete(t.Context(), h.UID))
		}
	}
	for _, g := range []testGroup{w.group("v1", fmt.Sprint("one", n)), w.group("v1", fmt.Sprint("two", n)), w.group("v2", fmt.Sprint("three", n))} {
		l := &groupModel{testGroup: g}
		w.lives = append(w.lives, l)
		w.create(l)
	}
}

func (w *modelState) edit(version string) {
	w.edition[version]++
	w.upload("PUT projects/"+w.project+"/composite-apps/till/"+version+"/apps/web", name("web"), w.chart(w.content(version)))
}

// content is what the chart of a version holds now.
func (w *modelState) content(version string) string {
	return fmt.Sprint(version, ".", w.edition[version])
}

// answers wants a status, and that a request that is repeated under the same key has the
// same answer and no other effect.
func (w *modelState) answers(l *groupModel, want int, action string, body ...string) apiAnswer {
	w.Helper()
	r := apiRequest{do: "POST " + l.path() + "/" + action, body: strings.Join(body, "")}
	keyed := rapid.Bool().Draw(w.t, "keyed")
	if keyed {
		r.header = fmt.Sprintf("Idempotency-Key: %s-%d", action, time.Now().UnixNano())
	}
	got := w.send(r)
	if got.status != want {
		w.Fatalf("%s of %s in %s: got %d %s, want %d", action, l.name, l.state, got.status, got.body, want)
	}
	if keyed && want == 202 {
		if again := w.send(r); again != got {
			w.Fatalf("%s of %s, repeated: got %v, want %v", action, l.name, again, got)
		}
	}
	if keyed && want == 202 && action == "approve" && l.state == "Approved" {
		l.note("Approved 0") // the key has to be remembered
	}
	return got
}

// may is 202 if the group exists and the state is one of those, and 404 or 409 if not.
func (l *groupModel) may(states ...string) int {
	switch {
	case !l.exists:
		return 404
	case slices.Contains(states, l.state):
		return 202
	}
	return 409
}

// leading are the steps that lead on from a state; the first ones are drawn more often.
// The others are tried as well, but seldom.
var leading = map[string][]string{
	"Created":            {"approve"},
	"Approved":           {"instantiate", "settle", "remove"},
	"Instantiated":       {"work", "settle", "migrate", "terminate", "stop", "update", "rollback", "edit", "crash"},
	"Updated":            {"approve", "settle", "work", "remove"},
	"Terminated":         {"settle", "approve", "stop", "instantiate", "remove"},
	"InstantiateStopped": {"migrate", "update", "terminate", "rollback", "settle"},
	"TerminateStopped":   {"approve", "terminate", "instantiate", "remove", "settle"},
	"":                   {"create"},
}

// pick draws a step and the group that it is about.
func (w *modelState) pick() (step string, l *groupModel) {
	l = rapid.SampledFrom(w.lives).Draw(w.t, "group")
	some := leading[l.state]
	if !l.exists {
		some = leading[""]
	}
	if rapid.IntRange(0, 9).Draw(w.t, "any") == 9 {
		some = []string{
			"approve", "instantiate", "update", "rollback", "stop", "terminate", "migrate", "remove", "create",
			"work", "settle", "crash", "restart", "remove others", "edit",
		}
	}
	return rapid.SampledFrom(some).Draw(w.t, "step"), l
}

func (w *modelState) approve(l *groupModel) {
	want := l.may("Created", "Approved", "Updated", "Terminated", "TerminateStopped")
	w.answers(l, want, "approve")
	if want == 202 && l.state != "Approved" {
		l.state, l.stopped = "Approved", false
		l.note("Approved 0")
	}
}

// next is what all actions that make a revision do to the model.
func (l *groupModel) next(from int64) {
	l.last++
	l.state, l.asked, l.from, l.stopped = "Instantiated", true, from, false
	l.note(fmt.Sprintf("Instantiated %d", l.last))
}

func (w *modelState) instantiate(l *groupModel) {
	want := l.may("Approved", "Terminated", "TerminateStopped")
	w.answers(l, want, "instantiate")
	if want != 202 {
		return
	}
	if l.moved {
		l.moved, l.inherited, l.id = false, true, l.status().States.StatusCtxID
		for _, other := range w.lives {
			if other != l && other.exists && other.id == l.id {
				w.Fatalf("%s starts again with the id of %s", l.name, other.name)
			}
		}
	}
	l.next(0)
}

func (w *modelState) update(l *groupModel) {
	want := l.may("Instantiated", "InstantiateStopped")
	got := w.answers(l, want, "update")
	if want != 202 {
		return
	}
	l.note(fmt.Sprintf("Updated %d", l.last))
	l.next(0)
	if got.body != fmt.Sprint(l.last) {
		w.Fatalf("update of %s: got %q, want %d", l.name, got.body, l.last)
	}
}

func (w *modelState) rollback(l *groupModel) {
	n := rapid.Int64Range(1, l.last+1).Draw(w.t, "revision")
	want := l.may("Instantiated", "InstantiateStopped")
	if back, published := l.releases[n]; want == 202 && !published {
		want = 404
	} else if want == 202 && back.id != l.id {
		want = 409
	}
	w.answers(l, want, "rollback", fmt.Sprintf(`{"spec":{"revision":"%d"}}`, n))
	if want == 202 {
		l.note(fmt.Sprintf("Updated %d", l.last))
		l.next(n)
	}
}

// deployed is the deployedStatus of a group that is wanted, or was.
func (w *modelState) deployed(l *groupModel) string {
	there := w.clusters[l.id]
	switch {
	case l.state == "InstantiateStopped":
		return v2.StatusInstantiateFailed
	case l.state == "TerminateStopped":
		return v2.StatusTerminateFailed
	case l.state == "Terminated" && there == "":
		return v2.StatusTerminated
	case l.state == "Terminated":
		return v2.StatusTerminating
	case l.asked || there != l.releases[l.now].content:
		return v2.StatusInstantiating
	}
	return v2.StatusInstantiated
}

func (w *modelState) stop(l *groupModel) {
	want := l.may("Instantiated", "Terminated")
	if status := w.deployed(l); want == 202 && status != v2.StatusInstantiating && status != v2.StatusTerminating {
		want = 409
	}
	w.answers(l, want, "stop")
	if want == 202 {
		l.state = map[string]string{"Instantiated": "InstantiateStopped", "Terminated": "TerminateStopped"}[l.state]
		l.stopped, l.asked = true, false
		l.note(l.state + " 0")
	}
}

func (w *modelState) terminate(l *groupModel) {
	want := l.may("Instantiated", "InstantiateStopped", "TerminateStopped")
	w.answers(l, want, "terminate")
	if want == 202 {
		l.state, l.gone, l.asked, l.stopped = "Terminated", true, false, false
		l.note("Terminated 0")
	}
}

func (w *modelState) migrate(l *groupModel) {
	var ready []*groupModel
	for _, to := range w.lives {
		if to.exists && to.state == "Approved" {
			ready = append(ready, to)
		}
	}
	if len(ready) == 0 || rapid.IntRange(0, 9).Draw(w.t, "any") == 9 {
		ready = w.lives
	}
	to := rapid.SampledFrom(ready).Draw(w.t, "target")
	want := l.may("Instantiated", "InstantiateStopped")
	switch {
	case want != 202:
	case to == l:
		want = 400
	case !to.exists:
		want = 404
	case to.state != "Approved", to.last > 0 && !to.moved && w.clusters[to.id] != "":
		want = 409
	}
	w.answers(l, want, "migrate", fmt.Sprintf(`{"spec":{"targetCompositeAppVersion":%q,"targetDeploymentIntentGroup":%q}}`, to.version, to.name))
	if want != 202 {
		return
	}
	l.note(fmt.Sprintf("Updated %d", l.last))
	to.id, to.inherited, to.moved, to.now, to.gone = l.id, true, false, 0, false
	to.next(0)
	l.state, l.moved, l.now, l.asked, l.gone, l.stopped = "Updated", true, 0, false, false, false
}

func (w *modelState) create(l *groupModel) {
	if l.exists {
		w.want(409, "POST "+strings.TrimSuffix(l.path(), "/"+l.name), `{"metadata":{"name":"`+l.name+`"},"spec":{"compositeProfile":"small","version":"r1","logicalCloud":"stores"}}`)
		return
	}
	l.make("edge")
	*l = groupModel{testGroup: l.testGroup, exists: true, state: "Created", id: l.doc().UID, history: []string{"Created 0"}, releases: map[int64]publishedRevision{}}
}

// remove deletes a group with what is below it; if it must stay, that is made again.
func (w *modelState) remove(l *groupModel) {
	if !l.exists {
		w.want(404, "DELETE "+l.path(), "")
		return
	}
	l.clear()
	if l.live() || !l.moved && !l.stopped && l.gone && w.clusters[l.id] != "" {
		w.want(409, "DELETE "+l.path(), "")
		l.intend("edge")
		return
	}
	w.want(204, "DELETE "+l.path(), "")
	l.exists = false
}

// removeOthers tries to delete what deployments stand on, which is refused always.
func (w *modelState) removeOthers() {
	for _, key := range []string{"projects/" + w.project, "cluster-providers/edge/clusters/a", w.clouds() + "/stores"} {
		w.want(409, "DELETE "+key, "")
	}
	w.want(204, "DELETE cluster-providers/edge/clusters/a/labels/all", "") // the label alone may go
	w.want(201, "POST cluster-providers/edge/clusters/a/labels", `{"clusterLabel":"all"}`)
	for _, l := range w.lives {
		if l.exists && l.live() {
			w.want(409, "POST "+w.clouds()+"/stores/terminate", "")
			w.want(409, "DELETE cluster-providers/edge/clusters/a", "")
		}
	}
}

// workAll carries operations out, in the model and in truth.
func (w *modelState) workAll() {
	w.work()
	for _, l := range w.lives {
		if !l.exists || !l.asked {
			continue
		}
		back, published := l.releases[l.from]
		if !published {
			back = publishedRevision{l.id, w.content(l.version)}
		}
		l.releases[l.last], l.now, l.asked, l.gone = back, l.last, false, false
	}
}

// crashingRenderer kills its process while it renders.
type crashingRenderer struct{ kill context.CancelFunc }

func (crashingRenderer) Edition() string { return "dying" }

func (d crashingRenderer) Render(context.Context, render.Request) (render.Result, error) {
	d.kill()
	return render.Result{}, errors.New("killed")
}

// crash has the process be killed in the middle of its operations, and start again. What
// needs no rendering may have been done.
func (w *modelState) crash() {
	for _, l := range w.lives {
		if l.exists && l.asked && l.from > 0 {
			w.boot()
			return
		}
	}
	ctx, cancel := context.WithCancel(w.Context())
	defer cancel()
	w.workWith(ctx, crashingRenderer{cancel})
	w.boot()
}

// settleAll has clusters hold what is wanted, in the model and in truth.
func (w *modelState) settleAll() {
	w.settle()
	next := map[string]string{}
	for _, l := range w.lives {
		switch {
		case !l.exists || l.moved:
		case l.stopped || l.now == 0 && l.inherited && !l.gone:
			next[l.id] = w.clusters[l.id]
		case l.now > 0 && !l.gone:
			next[l.id] = l.releases[l.now].content
		}
	}
	w.clusters = next
}

// check compares the API's view of groups with the model.
func (w *modelState) check(lives ...*groupModel) {
	w.Helper()
	for _, l := range lives {
		if !l.exists {
			w.want(404, "GET "+l.path()+"/status", "")
			continue
		}
		st := l.status()
		var history []string
		for _, a := range st.States.Actions {
			history = append(history, fmt.Sprint(a.State, " ", a.Revision))
		}
		if !slices.Equal(history, l.history) {
			w.Fatalf("history of %s\ngot  %q\nwant %q", l.name, history, l.history)
		}
		if l.last > 0 && st.States.StatusCtxID != l.id {
			w.Fatalf("%s has the id %s, want %s", l.name, st.States.StatusCtxID, l.id)
		}
		if l.state != "Created" && l.state != "Approved" && l.state != "Updated" && st.DeployedStatus != w.deployed(l) {
			w.Fatalf("%s is %s in state %s, want %s", l.name, st.DeployedStatus, l.state, w.deployed(l))
		}
	}
}

// conclude compares what clusters hold, and the revisions, with the model.
func (w *modelState) conclude() {
	w.workAll()
	w.settleAll()
	w.check(w.lives...)
	for id, content := range w.clusters {
		want := ""
		if content != "" {
			want = "a " + content + ", b " + content
		}
		if got := w.holds(id); got != want {
			w.Fatalf("clusters hold %q of %s, want %q", got, id, want)
		}
	}
	for pair, err := range w.contexts.Pairs(w.Context()) {
		w.must(err)
		if w.clusters[string(pair.Key.Deployment)] == "" {
			w.Fatalf("%s is left of %s, which no group desires", pair.Key.Cluster, pair.Key.Deployment)
		}
	}
	for _, l := range w.lives {
		if !l.exists {
			continue
		}
		next := l.last
		for _, r := range get[v2.RevisionsAnswer](w.controlPlane, l.path()+"/revisions").Revisions {
			if _, published := l.releases[r.Number]; r.Number != next || r.Kept != (published && l.releases[r.Number].id == l.id) {
				w.Fatalf("revisions of %s: %d kept %v, want %d", l.name, r.Number, r.Kept, next)
			}
			next--
		}
		if next != 0 {
			w.Fatalf("%d revisions of %s are missing", next, l.name)
		}
	}
}

// For any sequence of actions on a few groups, with restarts and kills between them, the
// answers, states, histories and the content of clusters equal those of the model.
func TestH65LifecycleModel(t *testing.T) {
	t.Parallel()
	renderer := rendertest.Plain{}
	server, err := embedded.Start(t.Context(), embedded.Options{Dir: t.TempDir(), NoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Close() }()
	contexts := appcontext.New(server.Client(), "/model")
	w := newModelState(newControlPlaneOn(t, resourcetest.DB(t), contexts, renderer))
	ofGroups := map[string]func(*groupModel){
		"approve": w.approve, "instantiate": w.instantiate, "update": w.update, "rollback": w.rollback, "stop": w.stop,
		"terminate": w.terminate, "migrate": w.migrate, "remove": w.remove, "create": w.create,
	}
	ofAll := map[string]func(){
		"work": w.workAll, "settle": w.settleAll, "crash": w.crash, "restart": w.boot, "remove others": w.removeOthers,
		"edit": func() { w.edit(rapid.SampledFrom([]string{"v1", "v2"}).Draw(w.t, "version")) },
	}
	began, checks, failed := time.Now(), 0, false
	rapid.Check(t, func(t *rapid.T) {
		if !failed && time.Since(began) > modelTime {
			return
		}
		passed := false
		defer func() { failed = failed || !passed }()
		checks++
		w.begin(t, checks)
		for range 80 {
			step, l := w.pick()
			if do, ok := ofAll[step]; ok {
				do()
			} else {
				ofGroups[step](l)
			}
			w.check(l)
		}
		w.conclude()
		passed = true
	})
	t.Logf("%d sequences", checks)
}
