package app_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
)

// Two to eight concurrent instantiates of one group, fifty times: one creates a context and
// the others are refused.
func TestConformance09TwoInstantiatesMakeOneContext(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.fleet("a")
	s.onboard("web")
	g := s.group("autumn", appPlaces{"web": nil})
	want := []string{"Created 0", "Approved 0"}
	for round := 1; round <= 50; round++ {
		g.race(2 + round%7)
		g.act("terminate")
		want = append(want, fmt.Sprintf("Instantiated %d", round), "Terminated 0")
	}
	st := g.becomes("Terminated")
	instances := map[string]bool{}
	var states []string
	for _, a := range st.States.Actions {
		states = append(states, fmt.Sprintf("%s %d", a.State, a.Revision))
		if a.State == "Instantiated" {
			instances[a.Instance] = true
		}
	}
	wantEqual(s, "history", states, want)
	if len(instances) != 50 {
		t.Errorf("%d contexts, want 50", len(instances))
	}
	s.wantTree()
}

// A whole migration: clusters that pull from Git see files change in place, and nothing
// else.
func TestMigrationKeepsThePathsInGit(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.fleet("a", "b")
	s.onboard("cache", "web")
	from, to := s.group("autumn", appPlaces{"web": nil, "cache": nil}), s.group("winter", appPlaces{"web": nil, "cache": {"a"}})
	from.act("instantiate")
	id := from.becomes("Instantiated").States.StatusCtxID
	web := s.file(object("a", id, "web"))
	s.repack("cache", strings.Replace(configMap, "greeting:", "salute:", 1))

	s.expect(202, "POST", from.path+"/migrate", `{"spec":{"targetCompositeAppVersion":"v1","targetDeploymentIntentGroup":"winter"}}`)
	st := to.becomes("Instantiated")
	if st.States.StatusCtxID != id {
		t.Errorf("the target's id is %s, want the source's %s", st.States.StatusCtxID, id)
	}
	s.wantTree(object("a", id, "cache"), object("a", id, "web"), object("b", id, "web"))
	if now := s.file(object("a", id, "web")); now != web {
		t.Errorf("what is equal was touched:\n%s", now)
	}
	if now := s.file(object("a", id, "cache")); !strings.Contains(now, "salute:") {
		t.Errorf("what differs was not changed:\n%s", now)
	}

	from.act("approve")
	from.act("instantiate")
	fresh := from.becomes("Instantiated").States.StatusCtxID
	s.stop()
	s.start() // what belongs to whom is known from the stores alone
	s.wantTree(object("a", id, "cache"), object("a", id, "web"), object("b", id, "web"),
		object("a", fresh, "cache"), object("a", fresh, "web"), object("b", fresh, "cache"), object("b", fresh, "web"))
	from.act("terminate")
	from.becomes("Terminated")
	for _, below := range []string{"/intents/all", "/generic-placement-intents/places/app-intents/web", "/generic-placement-intents/places/app-intents/cache", "/generic-placement-intents/places", ""} {
		s.expect(204, "DELETE", from.path+below, "")
	}
	s.repack("web", strings.Replace(configMap, "greeting:", "salute:", 1))
	s.expect(202, "POST", to.path+"/update", "")
	to.becomes("Instantiated")
	s.wantTree(object("a", id, "cache"), object("a", id, "web"), object("b", id, "web"))
	to.act("terminate")
	to.becomes("Terminated")
	s.wantTree()
}

// A revision names its commits, also if it only removes something. The commits of a
// termination belong to no revision.
func TestRevisionsNameTheirCommits(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.fleet("a", "b")
	s.onboard("web")
	g := s.group("autumn", appPlaces{"web": nil})
	commits := func(revision int) []v2.RevisionCommit {
		t.Helper()
		var r v2.Revision
		s.must("read a revision", json.Unmarshal([]byte(s.expect(200, "GET", fmt.Sprintf("%s/revisions/%d", g.path, revision), "")), &r))
		return r.Commits
	}
	g.act("instantiate")
	st := g.becomes("Instantiated")
	want := v2.RevisionCommit{Repository: s.git.URL("fleet"), Branch: branch, Commit: pair(st, "web", "a").Commit, Clusters: 2}
	if got := commits(1); len(got) != 1 || got[0] != want {
		t.Errorf("commits of revision 1: %+v, want %+v", got, want)
	}
	g.moveTo("web", "a")
	g.expect(202, "POST", g.path+"/update", "")
	g.becomes("Instantiated")
	s.wantTree(object("a", st.States.StatusCtxID, "web"))
	removal := commits(2)
	if len(removal) != 1 || removal[0].Clusters != 1 || removal[0].Commit == want.Commit {
		t.Errorf("commits of revision 2: %+v, want the removal from b", removal)
	}
	g.act("terminate")
	g.becomes("Terminated")
	if got := commits(2); len(got) != 1 || got[0] != removal[0] {
		t.Errorf("commits of revision 2 after the termination: %+v, want %+v", got, removal)
	}
}
