package app_test

import (
	"fmt"
	"strings"
	"testing"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
)

// template is a chart's template: objects by "Kind name", with annotations behind a "|".
// Every object holds the greeting, so that a changed chart changes them all.
func template(greeting string, objects ...string) string {
	var out strings.Builder
	for _, o := range objects {
		name, notes, _ := strings.Cut(o, "|")
		kind, name, _ := strings.Cut(name, " ")
		version, body := "v1", "data: {greeting: "+greeting+"}"
		switch kind {
		case "Job":
			version, body = "batch/v1", "spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i, args: ["+greeting+"]}]}}}"
		case "CustomResourceDefinition":
			version, body = "apiextensions.k8s.io/v1", "spec: {group: example.org, scope: Namespaced, names: {kind: Widget, plural: widgets}}"
		case "Widget":
			version, body = "example.org/v1", "spec: {greeting: "+greeting+"}"
		case "Namespace", "ServiceAccount":
			body = ""
		}
		fmt.Fprintf(&out, "---\napiVersion: %s\nkind: %s\nmetadata:\n  name: %s\n", version, kind, name)
		if notes != "" {
			fmt.Fprintf(&out, "  annotations: {%s}\n", notes)
		}
		out.WriteString(body + "\n")
	}
	return out.String()
}

// on is the annotation of a hook.
func on(events string) string { return `helm.sh/hook: "` + events + `"` }

// depends makes an app wait for another one.
func (s *testStage) depends(app, other, status string, wait int) {
	s.Helper()
	s.expect(201, "POST", till+"/apps/"+app+"/dependency",
		fmt.Sprintf(`{"metadata":{"name":"on-%s"},"spec":{"app":%q,"opStatus":%q,"wait":%d}}`, other, other, status, wait))
}

// spec gives an app a spec of its own.
func (s *testStage) spec(app, spec, text string) {
	s.Helper()
	s.upload("PUT", till+"/apps/"+app, `{"metadata":{"name":"`+app+`"},"spec":`+spec+`}`, s.chart(app, text))
}

// waitsFor waits until an app on a cluster is blocked for a reason.
func (g testGroup) waitsFor(app, cluster, reason string) {
	g.Helper()
	g.eventually(app+" on "+cluster+" reports what it waits for", func() string {
		c := pair(g.status(), app, cluster)
		if strings.Contains(c.Blocked, reason) {
			return ""
		}
		return fmt.Sprintf("got phase %s, blocked %q, error %q", c.Phase, c.Blocked, c.Error)
	})
}

// The order applies across clusters, at every installation, update, rollback and removal.
func TestAnAppWaitsForWhatItDependsOn(t *testing.T) {
	t.Parallel()
	s, e := newEdgeStage(t)
	s.fleet("a", "b")
	s.onboard("db", "web")
	s.depends("web", "db", "ready", 0)
	g := s.group("autumn", appPlaces{"web": {"a"}, "db": {"a", "b"}})
	const db, web = "ConfigMap r1-db", "ConfigMap r1-web"
	e.setState("b "+db, "InProgress 0 of 1 available")
	g.act("instantiate")
	g.waitsFor("web", "a", "waits for app db on edge+b: not ready: "+db+": InProgress: 0 of 1 available")
	e.wantHistory("what is there", "a db +"+db, "b db +"+db)
	e.setState("b "+db, "")
	g.becomes("Instantiated")
	e.wantHistory("what came", "a web +"+web)

	for _, app := range []string{"db", "web"} {
		s.repack(app, strings.Replace(configMap, "greeting:", "salute:", 1))
	}
	e.setState("a "+db, "Failed it crashes")
	g.expect(202, "POST", g.path+"/update", "")
	g.waitsFor("web", "a", "waits for app db on edge+a: not ready: "+db+": Failed: it crashes")
	e.wantHistory("what changed", "a db ~"+db, "b db ~"+db)
	e.setState("a "+db, "")
	g.becomes("Instantiated")
	e.wantHistory("what changed then", "a web ~"+web)

	e.setState("a "+db, "InProgress again")
	g.expect(202, "POST", g.path+"/rollback", `{"metadata":{"description":"back"},"spec":{"revision":"1"}}`)
	g.waitsFor("web", "a", "InProgress: again")
	e.setState("a "+db, "")
	g.becomes("Instantiated")
	e.wantOrder("a db ~"+db, "a web ~"+web)

	g.act("terminate")
	g.becomes("Terminated")
	e.wantOrder("a web -"+web, "a db -"+db)
	s.wantTree()
	g.act("instantiate")
	g.becomes("Instantiated")
	e.wantOrder("a db +"+db, "b db +"+db, "a web +"+web)
}

// A cluster without an agent proves nothing: an app that needs proof waits, and its status
// names what the user can do.
func TestReadyNeedsAReport(t *testing.T) {
	t.Parallel()
	s, e := newEdgeStage(t, "a")
	s.fleet("a")
	s.onboard("db", "web", "also")
	s.depends("web", "db", "ready", 0)
	s.depends("also", "db", "deployed", 1)
	g := s.group("autumn", appPlaces{"web": nil, "db": nil, "also": nil})
	g.act("instantiate")
	g.waitsFor("web", "a", "waits for app db on edge+a: the cluster has never reported; if it pulls from Git, install the monitor there")
	s.eventually("the other one waits a second only", func() string { return unless(pair(g.status(), "also", "a").Phase, "Applied") })
	e.install("a")
	g.becomes("Instantiated")
}

func TestHooksRunOneAfterTheOtherOnGit(t *testing.T) {
	t.Parallel()
	s, e := newEdgeStage(t)
	s.fleet("a")
	s.onboard("web")
	objects := []string{
		"ConfigMap web", "ServiceAccount account|" + on("pre-install"), "Job first|" + on("pre-install,pre-upgrade") + `, helm.sh/hook-weight: "1"`,
		"Job last|" + on("post-install,post-upgrade"), "Job save|" + on("pre-delete"), "Job sweep|" + on("post-delete"), "Pod check|" + on("test"),
	}
	s.repack("web", template("one", objects...))
	g := s.group("autumn", appPlaces{"web": nil})
	e.setState("Job first", "InProgress 1 active")
	g.act("instantiate")
	g.waitsFor("web", "a", "waits for pre-install hook Job first: InProgress: 1 active")
	e.wantHistory("what is there", "a web +Job first", "a web +ServiceAccount account")
	e.setState("Job first", "")
	g.becomes("Instantiated")
	e.wantHistory("what came", "a web +ConfigMap web", "a web -Job first", "a web +Job last", "a web -Job last")

	s.repack("web", template("two", objects...))
	e.setState("Job last", "InProgress 1 active")
	g.expect(202, "POST", g.path+"/update", "")
	g.waitsFor("web", "a", "waits for post-upgrade hook Job last")
	if text := s.file(fileOf("a", g, "web", "web+ConfigMap")); !strings.Contains(text, "two") {
		t.Errorf("the app is not there although its last hook runs:\n%s", text)
	}
	e.setState("Job last", "")
	g.becomes("Instantiated")
	e.wantHistory("what changed", "a web +Job first", "a web ~ConfigMap web", "a web -Job first", "a web +Job last", "a web -Job last")

	g.act("terminate")
	g.becomes("Terminated")
	e.wantHistory("what went", "a web +Job save", "a web -ConfigMap web", "a web -Job save", "a web +Job sweep", "a web -Job sweep", "a web -ServiceAccount account")
	s.wantTree()
}

// fileOf is the path of an object's file.
func fileOf(cluster string, g testGroup, app, object string) string {
	return "clusters/edge+" + cluster + "/context/" + g.status().States.StatusCtxID + "/app/" + app + "/" + object + ".yaml"
}

// A failed hook is not a success. The old version stays, nothing is retried, and the next
// revision starts from the beginning.
func TestAFailedHookEndsTheWay(t *testing.T) {
	t.Parallel()
	s, e := newEdgeStage(t)
	s.fleet("a")
	s.onboard("web")
	s.repack("web", template("one", "ConfigMap web"))
	g := s.group("autumn", appPlaces{"web": nil})
	g.act("instantiate")
	g.becomes("Instantiated")
	e.setState("Job migrate", "Failed back-off limit reached")
	s.repack("web", template("two", "ConfigMap web", "Job migrate|"+on("pre-upgrade")))
	g.expect(202, "POST", g.path+"/update", "")
	st := g.becomes("InstantiateFailed")
	if c := pair(st, "web", "a"); c.Phase != "Failed" || c.Error != "pre-upgrade hook Job migrate failed: back-off limit reached" {
		t.Errorf("got phase %s, error %q", c.Phase, c.Error)
	}
	if text := s.file(fileOf("a", g, "web", "web+ConfigMap")); !strings.Contains(text, "one") {
		t.Errorf("the app was changed although its hook failed:\n%s", text)
	}
	e.wantHistory("what happened", "a web +ConfigMap web", "a web +Job migrate")

	s.stop()
	s.start() // the hook is not run again
	e.setState("Job migrate", "")
	commits := s.metric("emco_git_commits_total")
	g.becomes("InstantiateFailed")
	if now := s.metric("emco_git_commits_total"); now != commits || len(e.history()) > 0 {
		t.Errorf("after a restart there are %s commits, before %s", now, commits)
	}
	s.repack("web", template("three", "ConfigMap web", "Job migrate|"+on("pre-upgrade")+", helm.sh/hook-delete-policy: hook-failed"))
	g.expect(202, "POST", g.path+"/update", "")
	g.becomes("Instantiated")
	e.wantHistory("what the next revision did", "a web -Job migrate", "a web +Job migrate", "a web ~ConfigMap web", "a web -Job migrate")

	e.setState("Job migrate", "Failed again")
	s.repack("web", template("four", "ConfigMap web", "Job migrate|"+on("pre-upgrade")+", helm.sh/hook-delete-policy: hook-failed"))
	g.expect(202, "POST", g.path+"/update", "")
	g.becomes("InstantiateFailed")
	s.eventually("the failed hook is cleaned up", func() string {
		return unless(strings.Join(s.tree(), " "), "README.md "+fileOf("a", g, "web", "web+ConfigMap"))
	})
	g.act("terminate")
	g.becomes("Terminated")
	s.wantTree()
}

// After a crash the interrupted step continues: nothing is delivered twice, and a hook that
// ran meanwhile does not run again.
func TestACrashInTheMiddleOfSteps(t *testing.T) {
	t.Parallel()
	s, e := newEdgeStage(t)
	s.fleet("a")
	s.onboard("web")
	s.repack("web", template("one", "ConfigMap web", "Job one|"+on("pre-install"), "Job two|"+on("pre-install")))
	g := s.group("autumn", appPlaces{"web": nil})
	e.setState("Job one", "InProgress 1 active")
	g.act("instantiate")
	g.waitsFor("web", "a", "waits for pre-install hook Job one")
	s.stop()
	e.setState("Job one", "")
	e.setState("Job two", "InProgress 1 active")
	s.start()
	g.waitsFor("web", "a", "waits for pre-install hook Job two")
	s.stop()
	s.start()
	g.waitsFor("web", "a", "waits for pre-install hook Job two")
	e.setState("Job two", "")
	g.becomes("Instantiated")
	e.wantHistory("what happened", "a web +Job one", "a web +Job two", "a web -Job one", "a web +ConfigMap web", "a web -Job two")
}

// A stopped deployment does not continue when its dependency becomes ready. Afterwards it
// can continue, or be removed without applying anything.
func TestStopEndsASeriesOfSteps(t *testing.T) {
	t.Parallel()
	for _, then := range []string{"update", "terminate"} {
		t.Run(then, func(t *testing.T) {
			t.Parallel()
			s, e := newEdgeStage(t)
			s.fleet("a")
			s.onboard("db", "web")
			s.depends("web", "db", "Ready", 0)
			s.repack("db", template("one", "ConfigMap db", "Job migrate|"+on("pre-install")))
			g := s.group("autumn", appPlaces{"web": nil, "db": nil})
			e.setState("Job migrate", "InProgress 1 active")
			g.act("instantiate")
			g.waitsFor("db", "a", "waits for pre-install hook Job migrate")
			g.waitsFor("web", "a", "waits for app db")
			g.act("stop")
			g.waitsFor("db", "a", "stopped")
			g.waitsFor("web", "a", "stopped")
			commits := s.metric("emco_git_commits_total")
			e.setState("Job migrate", "")
			s.stop()
			s.start()
			g.waitsFor("db", "a", "stopped")
			if now := s.metric("emco_git_commits_total"); now != "0" {
				t.Errorf("%s commits after the stop and a restart (%s before)", now, commits)
			}
			e.wantHistory("what is there", "a db +Job migrate")
			g.expect(202, "POST", g.path+"/"+then, "")
			if then == "terminate" {
				g.becomes("Terminated")
				e.wantHistory("what happened", "a db -Job migrate")
				return
			}
			g.becomes("Instantiated")
			e.wantOrder("a db +ConfigMap db", "a web +ConfigMap r1-web")
		})
	}
}

// A change reaches one cluster, then half of them, then all. While the canary is not
// healthy the other clusters keep their content, even if the orchestrator restarts.
func TestH64RolloutPausesOnAFailedCanaryAndResumes(t *testing.T) {
	t.Parallel()
	s, e := newEdgeStage(t)
	s.fleet("a", "b", "c", "d")
	s.onboard("web")
	const waves = `{"rollout":{"waves":[{"clusters":1},{"percent":25}]}}`
	s.spec("web", waves, template("one", "ConfigMap web"))
	g := s.group("autumn", appPlaces{"web": nil})
	g.act("instantiate")
	g.becomes("Instantiated")
	e.wantOrder("a web +ConfigMap web", "b web +ConfigMap web", "d web +ConfigMap web")

	e.setState("a ConfigMap web", "Failed it crashes")
	s.spec("web", waves, template("two", "ConfigMap web"))
	g.expect(202, "POST", g.path+"/update", "")
	g.waitsFor("web", "b", "waits for the rollout's wave 1: app web on edge+a: not ready: ConfigMap web: Failed: it crashes")
	s.stop()
	s.start()
	g.waitsFor("web", "d", "waits for the rollout's wave 1: app web on edge+a: not ready: ConfigMap web: Failed: it crashes")
	e.wantHistory("what changed", "a web ~ConfigMap web")
	for _, c := range []string{"b", "c", "d"} {
		if text := s.file(fileOf(c, g, "web", "web+ConfigMap")); !strings.Contains(text, "one") {
			t.Errorf("%s has lost the old version:\n%s", c, text)
		}
	}
	e.setState("b ConfigMap web", "InProgress slow")
	e.setState("a ConfigMap web", "")
	g.waitsFor("web", "c", "waits for the rollout's wave 2: app web on edge+b: not ready: ConfigMap web: InProgress: slow")
	e.wantHistory("what changed then", "b web ~ConfigMap web")
	e.setState("b ConfigMap web", "")
	g.becomes("Instantiated")
	e.wantHistory("what changed at last", "c web ~ConfigMap web", "d web ~ConfigMap web")
}

// The clusters of a wave are named by a label. After the wave the rollout waits for a person, also over a restart; a promotion is of one
// revision. A rollback does not pause, and a full promotion ends all waiting for waves.
func TestARolloutByLabelGoesOnWhenItIsPromoted(t *testing.T) {
	t.Parallel()
	s, e := newEdgeStage(t)
	s.fleet("a", "b", "c", "d")
	s.expect(201, "POST", "/v2/cluster-providers/edge/clusters/c/labels", `{"clusterLabel":"canary"}`)
	s.onboard("web")
	const waves = `{"rollout":{"waves":[{"clusterLabel":"canary","pause":true},{"clusters":1,"bakeSeconds":0,"pause":true}]}}`
	s.spec("web", waves, template("one", "ConfigMap web"))
	g := s.group("autumn", appPlaces{"web": nil})
	g.expect(409, "POST", g.path+"/promote", "")
	g.act("instantiate")
	const first, second = "waits until somebody promotes revision 1: the rollout pauses after wave 1", "waits until somebody promotes revision 1: the rollout pauses after wave 2"
	g.waitsFor("web", "a", first)
	s.stop()
	s.start()
	g.waitsFor("web", "a", first)
	e.wantHistory("what is there", "c web +ConfigMap web")
	s.expect(409, "POST", g.path+"/promote", `{"spec":{"revision":2}}`)
	s.expect(409, "POST", g.path+"/promote", `{"spec":{"wave":3}}`)
	s.expect(400, "POST", g.path+"/promote", `{"spec":{"all":true}}`)
	g.waitsFor("web", "a", first)
	s.expect(202, "POST", g.path+"/promote", `{"metadata":{"description":"looks good"},"spec":{"revision":1,"wave":1}}`)
	s.expect(409, "POST", g.path+"/promote", `{"spec":{"revision":1,"wave":1}}`)
	g.waitsFor("web", "b", second)
	e.wantHistory("what the promotion brought", "a web +ConfigMap web")
	s.expect(409, "POST", g.path+"/promote", "")
	s.expect(202, "POST", g.path+"/promote", `{"spec":{"wave":2}}`)
	g.becomes("Instantiated")
	e.wantHistory("what the last one brought", "b web +ConfigMap web", "d web +ConfigMap web")
	g.expect(409, "POST", g.path+"/promote", "")
	if events := g.expect(200, "GET", g.path+"/events", ""); !strings.Contains(events, "revision 1 goes on after wave 1 of its rollouts: looks good") {
		t.Errorf("the event log does not name the promotion:\n%s", events)
	} else if !strings.Contains(events, "app web on edge+a (and 2 more clusters): "+first) {
		t.Errorf("the event log does not name the pause:\n%s", events)
	}
	if revisions := g.expect(200, "GET", g.path+"/revisions", ""); strings.Count(revisions, `"revision":`) != 1 {
		t.Errorf("promotions make no revisions:\n%s", revisions)
	}

	s.spec("web", waves, template("two", "ConfigMap web"))
	g.expect(202, "POST", g.path+"/update", "")
	g.waitsFor("web", "a", "waits until somebody promotes revision 2")
	e.wantHistory("what changed", "c web ~ConfigMap web")
	e.setState("c ConfigMap web", "InProgress slow")
	s.expect(202, "POST", g.path+"/promote", `{"spec":{"full":true}}`)
	e.wantHistory("what a full promotion changes", "a web ~ConfigMap web", "b web ~ConfigMap web", "d web ~ConfigMap web")
	e.setState("c ConfigMap web", "")
	g.becomes("Instantiated")

	if plan := g.expect(200, "POST", g.path+"/rollback?dryRun=true", `{"spec":{"revision":"1"}}`); strings.Contains(plan, `"pause"`) || !strings.Contains(plan, `"clusterLabel":"canary"`) {
		t.Errorf("a rollback does not pause:\n%s", plan)
	}
	g.expect(202, "POST", g.path+"/rollback", `{"spec":{"revision":"1"}}`)
	g.becomes("Instantiated")
	e.wantOrder("c web ~ConfigMap web", "a web ~ConfigMap web", "b web ~ConfigMap web", "d web ~ConfigMap web")
}

// CRDs and namespaces are delivered one step before what needs them, on clusters that
// report. An update that does not change them is a single step.
func TestDefinitionsAreAStepOnReportingClusters(t *testing.T) {
	t.Parallel()
	s, e := newEdgeStage(t, "mute")
	s.fleet("a", "mute")
	s.onboard("other", "web")
	const crd = "CustomResourceDefinition widgets.example.org"
	s.repack("web", template("one", crd, "Widget w", "Namespace default"))
	g := s.group("autumn", appPlaces{"other": nil, "web": {"mute"}})
	g.act("instantiate")
	st := g.becomes("Instantiated")
	if c := pair(st, "web", "mute"); len(c.Findings) != 1 || !strings.Contains(c.Findings[0], "definitions and namespaces was not waited for: the cluster has never reported") {
		t.Errorf("findings on a silent cluster: %q", c.Findings)
	}
	e.setState(crd, "InProgress not established")
	g.moveTo("web", "a", "mute")
	e.wantAll("what is there at first", "a other +ConfigMap r1-other", "mute other +ConfigMap r1-other",
		"mute web +"+crd, "mute web +Namespace default", "mute web +Widget w")
	s.eventually("a has reported", func() string {
		for _, r := range pair(g.query("?status=ready"), "other", "a").Resources {
			return unless(r.ReadyStatus, "Ready")
		}
		return "no resources"
	})
	g.expect(202, "POST", g.path+"/update", "")
	g.waitsFor("web", "a", "waits for definitions and namespaces: "+crd+": InProgress: not established")
	e.wantHistory("what is there", "a web +"+crd, "a web +Namespace default")
	e.setState(crd, "")
	g.becomes("Instantiated")
	e.wantHistory("what came", "a web +Widget w")

	s.repack("web", template("two", crd, "Widget w", "Namespace default"))
	commits := s.metric("emco_git_commits_total")
	g.expect(202, "POST", g.path+"/update", "")
	g.becomes("Instantiated")
	if now := s.metric("emco_git_commits_total"); now != plusOne(commits) {
		t.Errorf("%s commits before the update, %s after; want one more", commits, now)
	}
}

func plusOne(number string) string {
	var n int
	if _, err := fmt.Sscan(number, &n); err != nil {
		return err.Error()
	}
	return fmt.Sprint(n + 1)
}

// An app that moves is removed from its old place when it is ready in the new one.
func TestLeaveLastKeepsTheOldPlaceUntilTheNewOneIsReady(t *testing.T) {
	t.Parallel()
	s, e := newEdgeStage(t)
	s.fleet("a", "b")
	s.onboard("web")
	s.spec("web", `{"leaveLast":true}`, configMap)
	g := s.group("autumn", appPlaces{"web": {"a"}})
	g.act("instantiate")
	id := g.becomes("Instantiated").States.StatusCtxID
	e.wantHistory("what is there at first", "a web +ConfigMap r1-web")
	e.setState("b ConfigMap r1-web", "InProgress slow")
	g.moveTo("web", "b")
	g.expect(202, "POST", g.path+"/update", "")
	e.wantHistory("what came", "b web +ConfigMap r1-web")
	s.stop()
	s.start()
	s.wantTree(object("a", id, "web"), object("b", id, "web"))
	e.setState("b ConfigMap r1-web", "")
	g.becomes("Instantiated")
	s.eventually("the old place is cleared", func() string {
		return unless(strings.Join(s.tree(), " "), "README.md "+object("b", id, "web"))
	})
	e.wantHistory("what went", "a web -ConfigMap r1-web")
}

// If some clusters of a deployment are unreachable, the others do not wait for them. They
// catch up when they are reachable again.
func TestH58UnreachableClustersSlowNobody(t *testing.T) {
	t.Parallel()
	s, e := newEdgeStage(t)
	s.fleet("a", "b", "c")
	dead := s.repository(true)
	s.expect(201, "POST", provider+"/cluster-sync-objects", s.syncObject("dead", dead, s.token))
	for _, name := range []string{"w", "x", "y", "z"} {
		s.cluster(name, "dead")
		s.member(name)
	}
	s.onboard("cache", "web")
	g := s.group("autumn", appPlaces{"web": nil, "cache": nil})
	g.act("instantiate")
	s.waitsInPhase(g, "x", "Retrying", "connection refused")
	s.eventually("the other clusters have all apps", func() string {
		st, phases := g.status(), map[string]int{}
		for _, c := range []string{"a", "b", "c"} {
			phases[pair(st, "web", c).Phase]++
			phases[pair(st, "cache", c).Phase]++
		}
		return unless(fmt.Sprint(phases), "map[Applied:6]")
	})
	if got := s.metric("emco_git_commits_total"); got != "1" {
		t.Errorf("%s commits for those that can be reached, want one", got)
	}
	s.eventually("the others are ready", func() string { return unless(unready(g, "a", "b", "c"), "") })
	e.wantHistory("what came to the others", "a cache +ConfigMap r1-cache", "a web +ConfigMap r1-web", "b cache +ConfigMap r1-cache",
		"b web +ConfigMap r1-web", "c cache +ConfigMap r1-cache", "c web +ConfigMap r1-web")
	s.expect(201, "PUT", provider+"/cluster-sync-objects/dead", s.syncObject("dead", s.git.URL("fleet"), s.token))
	g.becomes("Instantiated")
	if got := s.metric("emco_git_commits_total"); got != "2" && got != "3" {
		t.Errorf("%s commits in all, want one more for the first that came back, and one for those that it brought along", got)
	}
}

// unready names the first of some clusters on which the app "web" is not ready.
func unready(g testGroup, clusters ...string) string {
	st := g.query("?status=ready")
	for _, c := range clusters {
		for _, r := range pair(st, "web", c).Resources {
			if r.ReadyStatus != v2.Ready {
				return c + ": " + r.ReadyStatus
			}
		}
	}
	return ""
}
