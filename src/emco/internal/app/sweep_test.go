package app_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/emco-orchestrator/emco/src/api/client"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/failpoint/wrap"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/git/gittest"
)

// sweepVariable asks for all points and actions; without it a few are tried.
const sweepVariable = "EMCO_SWEEP"

// whole reports whether the sweep covers all points and actions.
func whole() bool { return os.Getenv(sweepVariable) == "all" }

// faultRule is a point, and what happens there in each phase: an action as such, or one with
// its arguments.
type faultRule struct{ point, action string }

func (f faultRule) String() string { return f.point + " " + f.action }

// rules are those of the fault in one phase. Writes are hit once; reads, which status
// queries make as well, more often.
func (f faultRule) rules(phase int) string {
	read := strings.HasSuffix(f.point, ".read")
	switch {
	case strings.Contains(f.action, "("):
		return f.point + "=" + f.action
	case f.action == "error" && read:
		return f.point + "=error(1 in 3, 20 times)"
	case f.action == "delay" && read:
		return f.point + "=delay(50ms, 10 times)"
	case f.action == "delay":
		return f.point + "=delay(300ms, once)"
	case read:
		return fmt.Sprintf("%s=%s(after %d, once)", f.point, f.action, 3*phase)
	}
	return f.point + "=" + f.action + "(once)"
}

// atStart reports whether the program reaches the point only at its start.
func (f faultRule) atStart() bool {
	return strings.HasPrefix(f.point, "etcd.own.") || strings.HasPrefix(f.point, "git.head.")
}

// unreached are points that a deployment on Git clusters without agents does not come by:
// those of directly reached clusters, which scripts/e2e sweeps on real ones, reports, and
// moves, which TestAMoveSurvivesFaults is about.
func unreached(point string) bool {
	return strings.HasPrefix(point, "kube.") || point == wrap.GitRead || strings.HasPrefix(point, "etcd.report.") || strings.HasPrefix(point, "etcd.move.")
}

// failpointWraps are all faults of the program on Git clusters.
func failpointWraps() (out []faultRule) {
	for _, action := range []string{"error", "delay", "kill"} {
		for _, point := range wrap.Points() {
			if !unreached(point) {
				out = append(out, faultRule{point, action})
			}
		}
	}
	return append(out, faultRule{wrap.GitCommitBefore, "error(8 times)"}) // more often than the writer retries
}

// some are faults that stand for the others when time is short: a write that is made and
// not known, on each side of each store, and deaths between them.
func some() []faultRule {
	return []faultRule{
		{"etcd.publish.after", "error"},
		{wrap.GitCommitAfter, "kill"},
		{wrap.GitCommitBefore, "delay"},
		{"etcd.intend.after", "error"},
	}
}

// TestFaultSweep runs the life of a deployment once per fault, which strikes in each phase.
// After each phase the state must be the model's.
func TestFaultSweep(t *testing.T) {
	t.Parallel()
	all, lanes := some(), 2
	if whole() {
		all, lanes = failpointWraps(), 5
	}
	for lane := range lanes {
		t.Run(fmt.Sprint("lane ", lane), func(t *testing.T) {
			t.Parallel()
			w := newFaultSweep(t)
			for i := lane; i < len(all); i += lanes {
				w.life(all[i])
			}
			w.wantOnlyBystander()
		})
	}
}

// faultSweep is a crash stage with four Git clusters and a deployment that no test changes.
// One of the clusters, d, pulls from another server with its own login.
type faultSweep struct {
	*crashStage
	bares       []gittest.Bare // the repository of a, b and c, and that of d
	branches    []*branchCache // of bares
	bystander   testGroup
	bystanderID string
	untouched   string         // its status, which must not change
	editions    map[string]int // of the content of blobs
	lives       int
}

func newFaultSweep(t *testing.T) *faultSweep {
	t.Helper()
	w := &faultSweep{editions: map[string]int{}}
	w.crashStage = newCrashStage(t, func(s *testStage) {
		s.fleet("a", "b", "c")
		w.bares = []gittest.Bare{s.bare, s.second("d")}
		w.branches = []*branchCache{s.read, newBranchCache(w.bares[1])}
		s.onboard("cache", "db", "web")
		for _, app := range []string{"cache", "db", "web"} {
			s.repack(app, edition(1))
		}
		w.bystander = s.group("bystander", appPlaces{"web": nil, "db": {"a"}, "cache": {"b"}})
		w.bystander.act("instantiate")
		w.bystander.becomes("Instantiated")
	})
	w.bystander.testStage = w.testStage
	st := w.bystander.status()
	w.bystanderID, w.untouched = st.States.StatusCtxID, summary(st)
	return w
}

// second registers a cluster that pulls from a server of its own. Neither server accepts the
// other one's login.
func (s *testStage) second(cluster string) gittest.Bare {
	s.Helper()
	token := "planted-second-" + rand.Text()
	server, err := gittest.Serve(filepath.Join(s.dir, "second"), gittest.User{Name: "other", Token: token, Write: true})
	s.must("serve Git", err)
	s.Cleanup(func() { _ = server.Close() })
	bare, err := server.Seed(s.Context(), "own", branch)
	s.must("make the repository", err)
	object := strings.Replace(s.syncObject("second", server.URL("own"), token), `"`+writer+`"`, `"other"`, 1)
	s.expect(201, "POST", provider+"/cluster-sync-objects", object)
	s.cluster(cluster, "second")
	s.member(cluster)
	return bare
}

// summary is what must not change in the deployment that no test changes.
func summary(st v2.Status) string {
	out := st.DeployedStatus + fmt.Sprint(states(st))
	for _, a := range st.Apps {
		for _, c := range a.Clusters {
			out += fmt.Sprintf("\n%s %s %s %d %s", a.Name, c.Cluster, c.Phase, c.Revision, c.Commit)
		}
	}
	return out
}

// states is a history in short: "State revision".
func states(st v2.Status) (out []string) {
	for _, a := range st.States.Actions {
		out = append(out, fmt.Sprintf("%s %d", a.State, a.Revision))
	}
	return out
}

// edition is a chart's template with a number in it.
func edition(n int) string { return configMap + "  edition: " + strconv.Quote(strconv.Itoa(n)) + "\n" }

// sweptDeployment is one deployment from its documents to their deletion, with a fault in each phase.
type sweptDeployment struct {
	*faultSweep
	fault faultRule
	group testGroup
	model *deploymentModel
	id    string // of the deployment, once it is known
	phase int
	quiet bool     // the status is read only when the branches are complete
	hit   []string // phases that the fault struck
}

// The releases of each life.
func releases() (first, second, third placedEditions) {
	first = placedEditions{}.with("web", 1, "a", "b", "c", "d").with("cache", 1, "a", "b").with("db", 1, "c")
	second = first.with("web", 2, "a", "b", "c", "d").with("cache", 1, "b", "c")
	third = second.with("db", 3, "c").with("web", 2, "b", "c", "d")
	return first, second, third
}

func (w *faultSweep) newLife(f faultRule) *sweptDeployment {
	w.lives++
	l := &sweptDeployment{faultSweep: w, fault: f, model: newModel()}
	l.group = testGroup{w.testStage, till + "/deployment-intent-groups/" + fmt.Sprint("g", w.lives)}
	return l
}

// life has a fault strike in every phase of a deployment.
func (w *faultSweep) life(f faultRule) {
	w.Helper()
	l := w.newLife(f)
	m := l.model
	first, second, third := releases()
	l.step("create", func() { m.approve(); l.repack("web", 1); l.repack("db", 1); l.create() })
	l.step("instantiate", func() { m.instantiate(first); l.act("instantiate", "") })
	l.step("update", func() { l.repack("web", 2); l.move("cache", "b", "c"); m.update(second); l.act("update", "") })
	l.step("update again", func() { l.repack("db", 3); l.move("web", "b", "c", "d"); m.update(third); l.act("update", "") })
	l.step("rollback", func() { m.rollback(1); l.act("rollback", `{"spec":{"revision":"1"}}`) })
	l.step("terminate", func() { m.terminate(); l.act("terminate", "") })
	l.step("delete", func() { l.remove() })
	w.Logf("%v struck in %s", f, strings.Join(l.hit, ", "))
	if len(l.hit) == 0 {
		w.Errorf("%v: it never struck", f)
	}
}

// step carries one phase out, while the fault may strike, and compares its end with the model.
func (l *sweptDeployment) step(name string, ask func()) {
	l.Helper()
	l.phase++
	from := l.heads()
	if l.fault.atStart() {
		l.restart(l.fault.rules(l.phase))
	} else {
		l.arm(l.fault.rules(l.phase))
	}
	ask()
	if l.quiet && l.id != "gone" {
		l.eventually(fmt.Sprintf("%v: %s: the branches", l.fault, name), l.differs)
	}
	l.eventually(fmt.Sprintf("%v: %s", l.fault, name), l.lacks)
	if l.fired() > 0 {
		l.hit = append(l.hit, name)
	}
	l.onceOnly(name, from)
	if got := summary(l.steady()); got != l.untouched {
		l.Fatalf("%v: %s: the other deployment is now %s\nand was %s", l.fault, name, got, l.untouched)
	}
}

// insist sends a request until it gets one of the fine answers, or until done reports that a
// request without an answer was carried out. It does not repeat a request before done knows.
// It retries only after transient errors.
func (l *sweptDeployment) insist(r client.Request, done func() (yes, known bool), fine ...int) {
	l.Helper()
	tries := 0
	l.eventually(fmt.Sprintf("%v: %s %s", l.fault, r.Method, r.Path), func() string {
		if tries > 0 && done != nil {
			switch yes, known := done(); {
			case yes:
				return ""
			case !known:
				return "no answer"
			}
		}
		tries++
		a, err := l.try(r)
		switch {
		case err != nil:
			return err.Error()
		case slices.Contains(fine, a.Status):
			return ""
		case a.Status < http.StatusInternalServerError && tries == 1:
			l.Fatalf("%v: %s %s: %d %s", l.fault, r.Method, r.Path, a.Status, a.Body)
		}
		return fmt.Sprintf("%d %s", a.Status, a.Body)
	})
}

func (l *sweptDeployment) send(method, path, body string, fine ...int) {
	l.Helper()
	l.insist(client.Request{Method: method, Path: path, Body: client.JSON([]byte(body))}, nil, fine...)
}

// post creates a document. That it exists is fine after an answer was lost, so it is fine.
func (l *sweptDeployment) post(path, body string) {
	l.Helper()
	l.send("POST", path, body, http.StatusCreated, http.StatusConflict)
}

func (l *sweptDeployment) repack(app string, n int) {
	l.Helper()
	body, err := client.Multipart([]byte(named(app)), client.File{Part: client.FilePart, Name: client.FileName, Data: l.chart(app, edition(n))})
	l.must("pack", err)
	l.insist(client.Request{Method: "PUT", Path: till + "/apps/" + app, Body: body}, nil, http.StatusOK, http.StatusCreated)
}

func (l *sweptDeployment) create() {
	l.Helper()
	g, name := l.group.path, fmt.Sprint("g", l.lives)
	l.post(till+"/deployment-intent-groups", `{"metadata":{"name":"`+name+`"},"spec":{"compositeProfile":"small","version":"r1","logicalCloud":"stores"}}`)
	l.post(g+"/generic-placement-intents", named("places"))
	for app, clusters := range map[string][]string{"web": {"a", "b", "c", "d"}, "cache": {"a", "b"}, "db": {"c"}} {
		l.post(g+"/generic-placement-intents/places/app-intents", placed(app, clusters))
	}
	l.post(g+"/intents", `{"metadata":{"name":"all"},"spec":{"intent":{"genericPlacementIntent":"places"}}}`)
	l.act("approve", "")
}

// placed is an app intent that names clusters.
func placed(app string, clusters []string) string {
	var all []v2.Selector
	for _, c := range clusters {
		all = append(all, v2.Selector{Provider: "edge", Cluster: c})
	}
	text, _ := json.Marshal(all)
	return fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"app":%q,"intent":{"allOf":%s}}}`, app, app, text)
}

func (l *sweptDeployment) move(app string, clusters ...string) {
	l.Helper()
	l.send("PUT", l.group.path+"/generic-placement-intents/places/app-intents/"+app, placed(app, clusters), http.StatusOK)
}

// act runs an action, until it is answered or the history shows it.
func (l *sweptDeployment) act(name, body string) {
	l.Helper()
	r := client.Request{Method: "POST", Path: l.group.path + "/" + name}
	if body != "" {
		r.Body = client.JSON([]byte(body))
	}
	l.insist(r, func() (yes, known bool) {
		st, ok := l.look()
		return slices.Equal(states(st), l.model.history), ok
	}, http.StatusAccepted)
}

// remove deletes the documents.
func (l *sweptDeployment) remove() {
	l.Helper()
	g := l.group.path
	for _, below := range []string{
		"/intents/all", "/generic-placement-intents/places/app-intents/web", "/generic-placement-intents/places/app-intents/cache",
		"/generic-placement-intents/places/app-intents/db", "/generic-placement-intents/places", "",
	} {
		l.insist(client.Request{Method: "DELETE", Path: g + below}, nil, http.StatusNoContent, http.StatusNotFound)
	}
	l.id = "gone"
}

// look reads the status, false if there is no answer. It then reads the branch and checks that
// the branch holds what the status claims.
func (l *sweptDeployment) look() (st v2.Status, ok bool) {
	l.Helper()
	a, err := l.try(client.Request{Method: "GET", Path: l.group.path + "/status?status=deployed"})
	if err != nil || a.Status != http.StatusOK {
		return st, false
	}
	l.must("read the status", json.Unmarshal([]byte(a.Body), &st))
	if l.id == "" {
		l.id = st.States.StatusCtxID
	}
	have := l.held()
	for _, app := range st.Apps {
		for _, c := range app.Clusters {
			if c.Phase == "Applied" {
				l.honest(fmt.Sprintf("%s on %s is reported as applied", app.Name, c.Cluster), int(c.Revision), app.Name, c.Cluster, have)
			}
		}
	}
	if st.DeployedStatus != "Instantiated" && st.DeployedStatus != "Terminated" {
		return st, true
	}
	for _, app := range []string{"cache", "db", "web"} {
		for _, c := range []string{"a", "b", "c", "d"} {
			l.honest("it is reported as "+st.DeployedStatus, claimed(st), app, c, have)
		}
	}
	return st, true
}

// claimed is the revision that a status as a whole is about; one beyond all for none.
func claimed(st v2.Status) int {
	if st.DeployedStatus == "Terminated" {
		return 1 << 30
	}
	last := 0
	for _, a := range st.States.Actions {
		last = max(last, int(a.Revision))
	}
	return last
}

func (l *sweptDeployment) honest(claim string, revision int, app, cluster string, have map[string]int) {
	l.Helper()
	edition := have[object(cluster, l.id, app)]
	if !l.model.may(revision, app, cluster, edition) {
		l.Errorf("%v: phase %d: %s at revision %d, but the branch holds edition %d of %s on %s", l.fault, l.phase, claim, revision, edition, app, cluster)
	}
}

// lacks describes the first difference from the model's expectation; "" if there is none.
func (l *sweptDeployment) lacks() string {
	l.Helper()
	m := l.model
	if l.id == "gone" {
		return ""
	}
	st, ok := l.look()
	if !ok {
		return "no answer"
	}
	if m.wanted == 0 && len(m.releases) == 1 { // only created yet
		return unless(fmt.Sprint(states(st)), fmt.Sprint(m.history))
	}
	for _, complaint := range []string{
		unless(st.DeployedStatus, m.deployed()),
		unless(fmt.Sprint(states(st)), fmt.Sprint(m.history)),
		l.differs(),
	} {
		if complaint != "" {
			return complaint
		}
	}
	if m.wanted == 0 {
		return ""
	}
	for _, a := range st.Apps {
		for _, c := range a.Clusters {
			if int(c.Revision) != m.wanted || c.Error != "" {
				return fmt.Sprintf("%s on %s: %+v", a.Name, c.Cluster, c)
			}
		}
	}
	return unless(fmt.Sprint(slices.Sorted(slices.Values(pairs(st)))), fmt.Sprint(m.pairs()))
}

// differs describes how the branches differ from the model.
func (l *sweptDeployment) differs() string {
	return unless(fmt.Sprint(l.held()), fmt.Sprint(l.model.files(l.id)))
}

// held reads which editions the branches hold of the deployment, by path. A file that its
// cluster does not read does not count.
func (l *sweptDeployment) held() map[string]int {
	l.Helper()
	out := map[string]int{}
	for i, read := range l.branches {
		files, err := read.files(l.Context(), branch)
		l.must("list the branch", err)
		for path, blob := range files {
			if strings.HasPrefix(path, "clusters/edge+d/") != (i == 1) && path != "README.md" {
				l.Errorf("%v: %s is in the repository of other clusters", l.fault, path)
			}
			if l.owns(path) {
				out[path] = l.editionOf(read, blob)
			}
		}
	}
	return out
}

// owns reports whether a path belongs to the deployment. Until its id is known, every path
// but the bystander's does: all earlier deployments have ended.
func (l *sweptDeployment) owns(path string) bool {
	part := strings.Split(path, "/") // clusters/CLUSTER/context/ID/...
	if len(part) < 4 || part[3] == l.bystanderID {
		return false
	}
	if l.id == "" {
		l.id = part[3]
	}
	return part[3] == l.id
}

// editionOf reads the edition of a blob; -1 if it has none.
func (w *faultSweep) editionOf(read *branchCache, blob string) int {
	w.Helper()
	if n, known := w.editions[blob]; known {
		return n
	}
	text, err := read.blob(w.Context(), blob)
	w.must("read a blob", err)
	n := -1
	if _, after, ok := strings.Cut(text, "edition:"); ok {
		n, _ = strconv.Atoi(strings.Trim(strings.Fields(after)[0], `"`))
	}
	w.editions[blob] = n
	return n
}

// heads are the tips of the branches.
func (w *faultSweep) heads() (out []string) {
	w.Helper()
	for _, bare := range w.bares {
		tip, err := bare.Tip(branch)
		w.must("read the head", err)
		out = append(out, tip)
	}
	return out
}

// onceOnly checks the commits of one phase: each is about this deployment alone, each
// changes something, and no file changes twice.
func (l *sweptDeployment) onceOnly(phase string, from []string) {
	l.Helper()
	changed := map[string]int{}
	for i, bare := range l.bares {
		text, err := bare.Git(l.Context(), "", "log", "--reverse", "-z", "--name-only", "--no-renames",
			"--format=%x01%H %(trailers:key=Emco-Deployment,valueonly,separator=%x2c)", from[i]+".."+branch)
		l.must("read the history", err)
		for _, commit := range strings.Split(text, "\x01")[1:] {
			title, rest, _ := strings.Cut(commit, "\x00")
			if _, about, _ := strings.Cut(strings.TrimSpace(title), " "); about != l.id {
				l.Errorf("%v: %s: a commit is about %s, and not only about %s", l.fault, phase, about, l.id)
			}
			files := strings.FieldsFunc(rest, func(r rune) bool { return r == 0 || r == '\n' })
			if len(files) == 0 {
				l.Errorf("%v: %s: a commit changes nothing", l.fault, phase)
			}
			for _, f := range files {
				if changed[f]++; changed[f] == 2 {
					l.Errorf("%v: %s: %s is changed twice", l.fault, phase, f)
				}
			}
		}
	}
}

// steady reads the status of the deployment that no test changes.
func (w *faultSweep) steady() (st v2.Status) {
	w.Helper()
	w.eventually("the status of the bystander", func() string {
		a, err := w.try(client.Request{Method: "GET", Path: w.bystander.path + "/status?status=deployed"})
		if err == nil && a.Status == http.StatusOK {
			err = json.Unmarshal([]byte(a.Body), &st)
		}
		if err != nil {
			return err.Error()
		}
		return unless(a.Status, http.StatusOK)
	})
	return st
}

// wantOnlyBystander checks that the lives left nothing behind.
func (w *faultSweep) wantOnlyBystander() {
	w.Helper()
	id := w.bystanderID
	want := []string{object("a", id, "db"), object("b", id, "cache")}
	for _, c := range []string{"a", "b", "c"} {
		want = append(want, object(c, id, "web"))
	}
	w.wantTree(want...)
	for _, bare := range w.bares {
		if err := bare.Fsck(w.Context()); err != nil {
			w.Error(err)
		}
	}
	w.end()
	left := map[string]bool{}
	w.inside(func(ctx context.Context, _ *store.DB, etcd *clientv3.Client) {
		for _, key := range w.keys(ctx, etcd) {
			part := strings.Split(key, "/")
			switch {
			case part[0] == "op":
				w.Errorf("%s is left", key)
			case part[0] == "pair":
				left[part[2]] = true
			case part[0] == "head":
				left[part[1]] = true
			}
		}
	})
	if len(left) != 2 { // the bystander, and the logical cloud
		w.Errorf("heads and pairs are left of %v", slices.Sorted(maps.Keys(left)))
	}
}
