package app_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// moveTo changes where an app goes.
func (g testGroup) moveTo(app string, clusters ...string) {
	g.Helper()
	var all []string
	for _, c := range clusters {
		all = append(all, fmt.Sprintf(`{"clusterProvider":"edge","cluster":%q}`, c))
	}
	g.expect(200, "PUT", g.path+"/generic-placement-intents/places/app-intents/"+app,
		fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"app":%q,"intent":{"allOf":[%s]}}}`, app, app, strings.Join(all, ",")))
}

// An update applies what changed and removes what is gone; a rollback restores content and
// places without rendering.
func TestUpdateAndRollback(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.fleet("a", "b")
	s.onboard("cache", "web")
	g := s.group("autumn", appPlaces{"web": nil, "cache": {"a"}})
	g.act("instantiate")
	id := g.becomes("Instantiated").States.StatusCtxID
	first := s.tree()
	before := s.file(object("a", id, "cache"))

	s.repack("cache", strings.Replace(configMap, "greeting:", "salute:", 1))
	g.moveTo("web", "b")
	if body := g.expect(202, "POST", g.path+"/update", `{"metadata":{"name":""}}`); strings.TrimSpace(body) != "2" {
		t.Errorf("update answers %q, want the bare number 2", body)
	}
	st := g.becomes("Instantiated")
	s.wantTree(object("a", id, "cache"), object("b", id, "web"))
	if text := s.file(object("a", id, "cache")); !strings.Contains(text, "salute:") {
		t.Errorf("the changed app was not applied:\n%s", text)
	}
	if st.States.StatusCtxID != id {
		t.Errorf("the deployment's id changed from %s to %s", id, st.States.StatusCtxID)
	}
	wantEqual(s, "pairs", pairs(st), []string{"cache a Applied", "web b Applied"})
	for _, a := range st.Apps {
		for _, c := range a.Clusters {
			if c.Revision != 2 {
				t.Errorf("%s on %s is shown at revision %d, want 2", a.Name, c.Cluster, c.Revision)
			}
		}
	}

	renders := s.metric("emco_renders_total")
	g.expect(202, "POST", g.path+"/rollback", `{"metadata":{"description":"as before"},"spec":{"revision":"1"}}`)
	st = g.becomes("Instantiated")
	if got := s.tree(); !slices.Equal(got, first) || s.file(object("a", id, "cache")) != before {
		t.Errorf("after the rollback the branch holds\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(first, "\n"))
	}
	if now := s.metric("emco_renders_total"); now != renders {
		t.Errorf("the rollback rendered: %s, before %s", now, renders)
	}
	var states []string
	for _, a := range st.States.Actions {
		states = append(states, fmt.Sprintf("%s %d", a.State, a.Revision))
	}
	wantEqual(s, "actions", states, []string{
		"Created 0", "Approved 0", "Instantiated 1", "Updated 1", "Instantiated 2", "Updated 2", "Instantiated 3",
	})

	g.act("terminate")
	g.becomes("Terminated")
	s.wantTree()
}

func TestRevisionsAreRefused(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.fleet("a")
	s.onboard("web")
	g := s.group("autumn", appPlaces{"web": nil})
	s.refuses([]refusedRequest{
		{"nothing is instantiated", "POST", g.path + "/update", 409, []string{"not allowed in state Approved"}},
		{"no body", "POST", g.path + "/rollback", 400, []string{"Empty body"}},
	})
	g.act("instantiate")
	g.becomes("Instantiated")
	for body, want := range map[string]string{
		`{"spec":{"revision":"9"}}`:   "404 revision 9 not found",
		`{"spec":{"revision":"one"}}`: `400 Invalid Input:`,
		`{"spec":{}}`:                 `400 Invalid Input:`,
		`{"spec":{"revision":1}}`:     `422 json: cannot unmarshal number`,
		`{`:                           "422 ",
	} {
		a := s.do("POST", g.path+"/rollback", body)
		if got := fmt.Sprintf("%d %s", a.Status, a.Body); !strings.HasPrefix(got, want) {
			t.Errorf("rollback %s: got %s, want %s", body, got, want)
		}
	}
	g.moveTo("web", "nowhere")
	a := s.do("POST", g.path+"/update", "")
	if a.Status != 400 || !strings.Contains(a.Body, "nowhere") {
		t.Errorf("an update that cannot be placed: got %d %s", a.Status, a.Body)
	}
	g.becomes("Instantiated")
}

// A label with a typing error must not empty a fleet.
func TestLargeRemovalsHaveToBeConfirmed(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	var names []string
	for i := range 22 {
		names = append(names, fmt.Sprintf("c%02d", i))
	}
	g := s.running(names...)

	g.moveTo("web", names[:20]...) // 2 of 22 are 9 percent
	g.expect(202, "POST", g.path+"/update", "")
	g.becomes("Instantiated")

	g.moveTo("web", names[:17]...)
	a := s.do("POST", g.path+"/update", "")
	if a.Status != 409 || !strings.Contains(a.Body, "would remove 3 of 20 placements") {
		t.Errorf("got %d %s, want to be asked", a.Status, a.Body)
	}
	if n := len(s.tree()); n != 21 {
		t.Errorf("the branch holds %d files, want 20 and a README", n)
	}
	g.expect(202, "POST", g.path+"/update?force=true", "")
	g.becomes("Instantiated")
	if n := len(s.tree()); n != 18 {
		t.Errorf("the branch holds %d files, want 17 and a README", n)
	}
}
