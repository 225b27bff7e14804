package app_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/app"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
)

// plan asks what an action would do.
func (g testGroup) plan(action, query, body string) (p v2.Plan) {
	g.Helper()
	text := g.expect(200, "POST", g.path+"/"+action+"?dryRun=true"+query, body)
	g.must("read the plan", json.Unmarshal([]byte(text), &p))
	return p
}

// inShort is a plan as lines: "app change cluster: reason" and "app change Kind name".
func inShort(p v2.Plan) (out []string) {
	for _, a := range p.Apps {
		if a.Failure != nil {
			out = append(out, a.Name+" fails: "+a.Failure.File)
		}
		for _, c := range a.Classes {
			for _, at := range c.Clusters {
				out = append(out, fmt.Sprintf("%s %s %s: %s", a.Name, c.Change, at.Cluster, at.Reason))
			}
			for _, o := range c.Objects {
				out = append(out, fmt.Sprintf("%s %s %s %s", a.Name, o.Change, o.GVK.Kind, o.Name))
			}
		}
	}
	return out
}

func TestADryRunReportsWhatTheActionDoes(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.fleet("a", "b", "c")
	s.onboard("cache", "web")
	g := s.group("autumn", appPlaces{"web": nil, "cache": {"a"}})
	p := g.plan("instantiate", "", "")
	wantEqual(s, "the first plan", inShort(p), []string{
		"cache add edge+a: allOf: by name", "cache add ConfigMap r1-cache",
		"web add edge+a: allOf: label all", "web add edge+b: allOf: label all", "web add edge+c: allOf: label all", "web add ConfigMap r1-web",
	})
	if p.Revision != 1 || p.From != 0 || p.Action != "instantiate" || p.Name != "autumn" || p.Summary != (v2.PlanSummary{Add: 4}) {
		t.Errorf("the first plan is %+v", p)
	}
	if st := g.query(""); len(st.States.Actions) != 2 {
		t.Errorf("the dry run left a trace: %+v", st.States)
	}
	g.act("instantiate")
	g.becomes("Instantiated")

	s.repack("cache", strings.Replace(configMap, "greeting:", "salute:", 1))
	g.moveTo("web", "b", "c")
	p = g.plan("update", "", "")
	wantEqual(s, "the second plan", inShort(p), []string{
		"cache change edge+a: allOf: by name", "cache change ConfigMap r1-cache",
		"web remove edge+a: the intent no longer selects it", "web remove ConfigMap r1-web",
		"web keep edge+b: allOf: by name", "web keep edge+c: allOf: by name", "web keep ConfigMap r1-web",
	})
	o := p.Apps[0].Classes[0].Objects[0]
	if !strings.Contains(string(o.Before), `"greeting":"profile"`) || !strings.Contains(string(o.After), `"salute":"profile"`) || strings.Contains(string(o.After), "emco/content") {
		t.Errorf("the changed object: before %s, after %s", o.Before, o.After)
	}
	if p.Revision != 2 || p.From != 1 || p.Summary != (v2.PlanSummary{Change: 1, Remove: 1, Keep: 2}) {
		t.Errorf("the second plan is %+v", p)
	}
	short := g.plan("update", "&output=summary", "")
	if short.Summary != p.Summary || len(short.Apps[0].Classes[0].Objects) > 0 || len(short.Apps[0].Classes[0].Clusters) != 1 {
		t.Errorf("the summary is %+v", short)
	}
	g.expect(202, "POST", g.path+"/update", "")
	st := g.becomes("Instantiated")
	id := st.States.StatusCtxID
	s.wantTree(object("a", id, "cache"), object("b", id, "web"), object("c", id, "web"))
	if p := g.plan("update", "", ""); !p.Summary.Empty() || p.Summary.Keep != 3 || p.Revision != 3 {
		t.Errorf("after the update there is nothing to do, but the plan is %+v", p.Summary)
	}

	p = g.plan("rollback", "", `{"metadata":{},"spec":{"revision":"1"}}`)
	wantEqual(s, "the plan back", inShort(p), []string{
		"cache change edge+a: revision 1 has it there", "cache change ConfigMap r1-cache",
		"web add edge+a: revision 1 has it there", "web add ConfigMap r1-web",
		"web keep edge+b: revision 1 has it there", "web keep edge+c: revision 1 has it there", "web keep ConfigMap r1-web",
	})
}

func TestDryRunsAreRefusedAsTheActionsAre(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.fleet("a")
	s.onboard("web")
	g := s.group("autumn", appPlaces{"web": nil})
	s.refuses([]refusedRequest{
		{"nothing runs", "POST", g.path + "/update?dryRun=true", 409, []string{"not allowed in state Approved"}},
		{"no group", "POST", till + "/deployment-intent-groups/none/update?dryRun=true", 404, []string{"DeploymentIntentGroup not found"}},
		{"an odd value", "POST", g.path + "/instantiate?dryRun=perhaps", 400, []string{"dryRun"}},
		{"an odd amount", "POST", g.path + "/instantiate?dryRun=true&output=much", 400, []string{"Invalid query output"}},
		{"nothing to terminate", "POST", g.path + "/terminate?dryRun=true", 409, []string{"not allowed in state Approved"}},
		{"a rollback without a body", "POST", g.path + "/rollback?dryRun=true", 400, []string{"Empty body"}},
	})
	g.act("instantiate")
	g.becomes("Instantiated")
	a := s.do("POST", g.path+"/rollback?dryRun=true", `{"spec":{"revision":"9"}}`)
	if a.Status != 404 || !strings.Contains(a.Body, "revision 9 not found") {
		t.Errorf("a rollback to nowhere: got %d %s", a.Status, a.Body)
	}
	g.moveTo("web", "nowhere")
	a, act := s.do("POST", g.path+"/update?dryRun=true", ""), s.do("POST", g.path+"/update", "")
	if a.Status != 400 || a.Body != act.Body {
		t.Errorf("an update that cannot be placed: got %d %s, want the answer of the action: %s", a.Status, a.Body, act.Body)
	}
}

// The plan reports an app that cannot be rendered; the app stays unchanged and the others
// are planned.
func TestADryRunNamesWhatFails(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.fleet("a", "b")
	s.onboard("cache", "web")
	g := s.group("autumn", appPlaces{"web": nil, "cache": nil})
	g.act("instantiate")
	g.becomes("Instantiated")
	s.repack("cache", nameless)
	g.moveTo("cache", "b")
	g.moveTo("web", "b")
	p := g.plan("update", "&output=summary", "")
	wantEqual(s, "the plan", inShort(p), []string{
		"cache fails: cache/templates/object.yaml:1", "cache keep edge+a: stays as it is, because the app fails", "cache keep edge+b: stays as it is, because the app fails",
		"web remove edge+a: the intent no longer selects it", "web keep edge+b: allOf: by name",
	})
	if p.Summary != (v2.PlanSummary{Remove: 1, Keep: 3, Failed: 1}) {
		t.Errorf("the summary is %+v", p.Summary)
	}
}

// A change that needs confirmation is planned too, and the plan contains the request for it.
func TestADryRunReportsThatConfirmationIsNeeded(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	var names []string
	for i := range 20 {
		names = append(names, fmt.Sprintf("c%02d", i))
	}
	g := s.running(names...)
	g.moveTo("web", names[:17]...)
	p, act := g.plan("update", "", ""), s.do("POST", g.path+"/update", "")
	if p.Confirm == "" || act.Status != 409 || act.Body != p.Confirm || p.Summary.Remove != 3 {
		t.Errorf("the plan asks %q and counts %+v; the action answers %d %q", p.Confirm, p.Summary, act.Status, act.Body)
	}
}

// contents lists what the program keeps of deployments and documents: keys of etcd with
// their versions, files with their digests.
func (s *testStage) contents(c *clientv3.Client) []string {
	s.Helper()
	var out []string
	for _, space := range []string{"head/", "dep/", "op/", "blob/", "pair/", "event/", "use/", "git/", "move/", "heard/"} {
		r, err := c.Get(s.Context(), s.config.Etcd.Prefix+"/"+space, clientv3.WithPrefix(), clientv3.WithKeysOnly())
		s.must("list etcd", err)
		for _, kv := range r.Kvs {
			out = append(out, fmt.Sprint(string(kv.Key), " ", kv.ModRevision))
		}
	}
	s.must("list files", filepath.WalkDir(s.config.Data, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || strings.HasSuffix(path, "-shm") { // locks of SQLite's readers, and the socket
			return err
		}
		text, err := os.ReadFile(path)
		out = append(out, fmt.Sprintf("%s %x", path, sha256.Sum256(text)))
		return err
	}))
	return out
}

// newOpenStage returns a stage, and its etcd and AppContext while the program runs.
func newOpenStage(t *testing.T) (*testStage, *clientv3.Client, *appcontext.Store) {
	t.Helper()
	etcd := distantEtcd(t, 0)
	s := newStageOn(t, etcd)
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{etcd}})
	s.must("reach etcd", err)
	t.Cleanup(func() { _ = client.Close() })
	contexts, err := app.OpenContexts(s.Context(), s.config, client)
	s.must("open the AppContext", err)
	return s, client, contexts
}

// placements are a revision's, as the orchestrator has published them.
func placements(s *testStage, contexts *appcontext.Store, uid appcontext.HeadID, rev int64) map[string]string {
	s.Helper()
	out := map[string]string{}
	all, err := contexts.Placements(s.Context(), uid, rev)
	s.must("read placements", err)
	for _, p := range all {
		for app, bundle := range p.Apps {
			out[app+" "+string(p.Cluster)] = string(bundle)
		}
	}
	return out
}

// A dry run writes nothing, and the action makes the planned changes: the plan has every
// placement, and the placements of a class get the same bundle, with the objects that the
// plan shows.
func TestWhatIsPlannedIsWhatIsDone(t *testing.T) {
	t.Parallel()
	s, client, contexts := newOpenStage(t)
	s.fleet("a", "b", "c")
	s.onboard("cache", "db", "web")
	g := s.group("autumn", appPlaces{"web": nil, "cache": {"a", "b"}, "db": {"c"}})
	uid, before := "", map[string]string{}
	for rev, step := range []struct {
		action, body string
		change       func()
	}{
		{"instantiate", "", func() {}},
		{"update", "", func() {
			s.repack("cache", strings.Replace(configMap, "greeting:", "salute:", 1))
			s.repack("db", nameless) // fails, and stays where it was
			g.moveTo("web", "b")
			g.moveTo("db", "a")
		}},
		{"rollback", `{"metadata":{},"spec":{"revision":"1"}}`, func() {}},
	} {
		step.change()
		was := s.contents(client)
		p := g.plan(step.action, "", step.body)
		if now := s.contents(client); !slices.Equal(was, now) {
			t.Fatalf("the dry run of %s wrote: there was\n%s\nthere is\n%s", step.action, strings.Join(was, "\n"), strings.Join(now, "\n"))
		}
		g.expect(202, "POST", g.path+"/"+step.action, step.body)
		g.eventually("the revision is published", func() string {
			uid = g.status().States.StatusCtxID
			head, err := contexts.Head(s.Context(), appcontext.HeadID(uid))
			s.must("read the head", err)
			return unless(head.Rev, p.Revision)
		})
		after := placements(s, contexts, appcontext.HeadID(uid), int64(rev+1))
		checkDone(s, p, before, after, contexts)
		before = after
		g.becomes([]string{"Instantiated", "InstantiateFailed", "Instantiated"}[rev])
	}
}

// checkDone compares a plan with the placements before and after the action.
func checkDone(s *testStage, p v2.Plan, before, after map[string]string, contexts *appcontext.Store) {
	s.Helper()
	rest := len(before) + len(after)
	for _, a := range p.Apps {
		for _, c := range a.Classes {
			first := a.Name + " " + c.Clusters[0].Cluster
			for _, at := range c.Clusters {
				key := a.Name + " " + at.Cluster
				was, is := before[key], after[key]
				if got := changeOf(was, is); got != c.Change || was != before[first] || is != after[first] {
					s.Errorf("%s of %s: planned to %s with %s, but it was %q and is %q", p.Action, key, c.Change, first, was, is)
				}
				rest -= min(len(was), 1) + min(len(is), 1)
			}
			wantEqual(s, "objects of "+first, planned(c), held(s, contexts, after[first]))
		}
	}
	if rest != 0 {
		s.Errorf("%s: %d placements are not in the plan %q; before %v, after %v", p.Action, rest, inShort(p), before, after)
	}
}

func changeOf(was, is string) string {
	switch {
	case was == is:
		return v2.ChangeKeep
	case was == "":
		return v2.ChangeAdd
	case is == "":
		return v2.ChangeRemove
	}
	return v2.ChangeChange
}

// planned are the objects that a class is to hold.
func planned(c v2.PlanClass) (out []string) {
	for _, o := range c.Objects {
		if o.Change != v2.ChangeRemove {
			out = append(out, o.GVK.Kind+" "+o.Namespace+" "+o.Name)
		}
	}
	return out
}

// held are the objects of a bundle.
func held(s *testStage, contexts *appcontext.Store, bundle string) (out []string) {
	if bundle == "" {
		return nil
	}
	b, err := contexts.GetBundle(s.Context(), appcontext.Digest(bundle))
	s.must("read a bundle", err)
	for _, o := range b.Objects {
		out = append(out, o.Kind+" "+o.Namespace+" "+o.Name)
	}
	return out
}

// The plan of a migration is that of the target group, compared with what the source runs.
func TestADryRunOfAMigration(t *testing.T) {
	t.Parallel()
	s, client, contexts := newOpenStage(t)
	s.fleet("a", "b")
	s.onboard("cache", "web")
	from := s.group("autumn", appPlaces{"web": nil, "cache": {"a"}})
	from.act("instantiate")
	id := from.becomes("Instantiated").States.StatusCtxID
	to := s.group("winter", appPlaces{"web": {"b"}, "cache": {"a", "b"}})
	before := placements(s, contexts, appcontext.HeadID(id), 1)

	const body = `{"metadata":{},"spec":{"targetCompositeAppVersion":"v1","targetDeploymentIntentGroup":"winter"}}`
	was := s.contents(client)
	p := from.plan("migrate", "", body)
	if now := s.contents(client); !slices.Equal(was, now) {
		t.Fatalf("the dry run wrote: there was\n%s\nthere is\n%s", strings.Join(was, "\n"), strings.Join(now, "\n"))
	}
	if p.Name != "winter" || p.Action != "migrate" || p.Revision != 1 || p.Summary != (v2.PlanSummary{Add: 1, Remove: 1, Keep: 2}) {
		t.Errorf("the plan is %+v: %q", p, inShort(p))
	}
	from.expect(202, "POST", from.path+"/migrate", body)
	to.becomes("Instantiated")
	doc := ""
	for head, err := range contexts.Heads(s.Context()) {
		s.must("list heads", err)
		if strings.HasSuffix(head.Document, "/winter") {
			doc = string(head.UID)
		}
	}
	checkDone(s, p, before, placements(s, contexts, appcontext.HeadID(doc), 1), contexts)
	s.refuses([]refusedRequest{{"it has moved", "POST", from.path + "/update?dryRun=true", 409, []string{"not allowed in state Updated"}}})
	from.act("approve")
	again := from.plan("instantiate", "", "")
	if again.Revision != 2 || again.Summary != (v2.PlanSummary{Add: 3}) || len(again.Notes) != 1 || !strings.Contains(again.Notes[0], "new deployment") {
		t.Errorf("the plan of a new deployment is %+v: %q", again, inShort(again))
	}
}

// Plans show hooks with their events, keep CRDs, and hide the values of Secrets but not
// that they differ.
func TestADryRunOfSpecialObjects(t *testing.T) {
	t.Parallel()
	const (
		object = "---\napiVersion: v1\nkind: %s\nmetadata:\n  name: %s\n%s"
		crd    = "---\napiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  name: things.example.com\nspec: {group: example.com, scope: Namespaced, names: {kind: Thing, plural: things}}\n"
		hook   = "  annotations: {helm.sh/hook: \"pre-install,pre-upgrade\"}\n"
	)
	secret := func(value string) string {
		return fmt.Sprintf(object, "Secret", "keys", "stringData: {same: planted-a, other: "+value+"}\n")
	}
	s := newStage(t)
	s.fleet("a")
	s.onboard("web")
	s.repack("web", secret("planted-b")+crd+fmt.Sprintf(object, "ConfigMap", "prepare", hook))
	g := s.group("autumn", appPlaces{"web": nil})
	g.act("instantiate")
	g.becomes("Instantiated")
	s.repack("web", secret("planted-c"))
	text := g.expect(200, "POST", g.path+"/update?dryRun=server", "")
	var p v2.Plan
	g.must("read the plan", json.Unmarshal([]byte(text), &p))
	wantEqual(s, "the plan", inShort(p), []string{
		"web change edge+a: allOf: label all",
		"web keep CustomResourceDefinition things.example.com", "web change Secret keys", "web remove ConfigMap prepare",
	})
	if strings.Contains(text, "planted") || !strings.Contains(text, `"other":"*** (before)","same":"***"`) || !strings.Contains(text, `"other":"*** (after)","same":"***"`) {
		t.Errorf("the Secret is shown as %s", text)
	}
	if objects := p.Apps[0].Classes[0].Objects; objects[2].Hook != "pre-install,pre-upgrade" || objects[0].Hook+objects[1].Hook != "" {
		t.Errorf("the hooks are shown as %+v", objects)
	}
}

// A plan of a fleet is read in parts: classes first, then the clusters and the differences of one.
func TestAPlanIsReadInParts(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.fleet("a", "b", "c")
	s.onboard("web")
	g := s.group("autumn", appPlaces{"web": nil})
	var p v2.PlanClasses
	s.must("read the plan", json.Unmarshal([]byte(g.expect(200, "POST", g.path+"/instantiate?dryRun=true&output=classes", "")), &p))
	if len(p.Apps) != 1 || len(p.Apps[0].Classes) != 1 || p.Until.IsZero() || p.Summary.Add != 3 {
		t.Fatalf("the plan is %+v", p)
	}
	c := p.Apps[0].Classes[0]
	if c.Change != v2.ChangeAdd || c.Count != 3 || len(c.Sample) != 3 || c.Reason != "allOf: label all" || len(c.Objects) != 1 || c.Objects[0].Name != "r1-web" {
		t.Errorf("the class is %+v", c)
	}
	class := "views/" + g.path + "/plans/" + strings.TrimPrefix(p.Digest, "sha256:") + "/classes/" + c.ID
	var page v2.PlanClusters
	s.must("read a page", json.Unmarshal([]byte(g.expect(200, "GET", class+"/clusters?limit=2", "")), &page))
	if page.Total != 3 || len(page.Items) != 2 || page.Items[1].Cluster != "edge+b" || page.Continue == "" {
		t.Errorf("the first page is %+v", page)
	}
	next := g.expect(200, "GET", class+"/clusters?limit=2&continue="+page.Continue, "")
	if !strings.Contains(next, "edge+c") || strings.Contains(next, "edge+a") {
		t.Errorf("the second page is %s", next)
	}
	diff := g.expect(200, "GET", class+"/diff?object="+c.Objects[0].ID, "")
	if !strings.Contains(diff, "+++ web/ConfigMap/") || !strings.Contains(diff, "\n+  greeting: profile\n") || diff != g.expect(200, "GET", class+"/diff", "") {
		t.Errorf("the difference is\n%s", diff)
	}
	g.expect(404, "GET", class+"/diff?object=2", "")
	g.expect(404, "GET", class+"0/clusters", "")
	g.expect(404, "GET", strings.Replace(class, p.Digest[7:9], "zz", 1)+"/clusters", "")
	g.expect(400, "GET", class+"/clusters?page=2", "")
}
