package app_test

import (
	"strings"
	"testing"
)

const watcherEvents = "policy/agents/watcher/events"

// The suite examples/emco/policy with emcoctl: an event that does not meet the condition changes nothing, a dry run
// neither, and one that meets it terminates the deployment.
func TestAnEventTerminatesADeployment(t *testing.T) {
	t.Parallel()
	s := newExampleSuite(t, "policy", "web", "cache")
	s.apply("00-clusters.yaml", "01-app.yaml", "02-deployment.yaml", "03-policy.yaml")
	s.apply("04-instantiate.yaml")
	s.ctl("wait", suiteGroup, "--for=instantiated")
	before := s.tree()
	for body, want := range map[string]string{`{"id":"errors","data":{"rate":0.1}}`: "unmet", `{"id":"errors","data":{}}`: "refused"} {
		if got := s.expect(200, "POST", watcherEvents, body); !strings.Contains(got, `"outcome":"`+want+`"`) {
			t.Errorf("%s: %s", body, got)
		}
	}
	const met = `{"id":"errors","data":{"rate":0.9}}`
	if got := s.expect(200, "POST", watcherEvents+"?dryRun=true", met); !strings.Contains(got, `"outcome":"acted"`) {
		t.Errorf("a dry run: %s", got)
	}
	s.ctl("wait", suiteGroup, "--for=instantiated")
	if now := s.tree(); len(now) == 0 || strings.Join(now, " ") != strings.Join(before, " ") {
		t.Errorf("events that ask for nothing change %v to %v", before, now)
	}
	if got := s.expect(200, "POST", watcherEvents, met); !strings.Contains(got, `"outcome":"acted"`) {
		t.Errorf("the event: %s", got)
	}
	s.ctl("wait", suiteGroup, "--for=terminated")
	s.wantTree()
	if got := s.expect(200, "POST", watcherEvents, met); !strings.Contains(got, `"outcome":"refused"`) {
		t.Errorf("an event for a deployment that is terminated: %s", got)
	}
	if got := s.expect(200, "GET", suiteGroup+"/events", ""); !strings.Contains(got, "policy intent halt, event errors of agent watcher") {
		t.Errorf("the event log does not name the intent: %s", got)
	}
	s.clear("00-clusters.yaml", "01-app.yaml", "02-deployment.yaml", "03-policy.yaml")
}

const (
	alarmedGroup = "projects/shop/composite-apps/till/v1/deployment-intent-groups/autumn"
	alarmIntent  = `{"spec":{"event":{"id":"alarm","agent":"watcher"},"policy":{"expression":"true"},"actor":"terminate","author":"user:corp:root"}}`
)

// prepareAlarms makes a group for intents, and an agent that delivers events.
func (s *testStage) prepareAlarms() {
	s.Helper()
	s.expect(201, "POST", "projects/shop/composite-apps/till/v1/composite-profiles", named("small"))
	s.expect(201, "POST", "projects/shop/logical-clouds", `{"metadata":{"name":"stores"},"spec":{"level":"0"}}`)
	s.expect(201, "POST", "projects/shop/composite-apps/till/v1/deployment-intent-groups", `{"metadata":{"name":"autumn"},"spec":{"compositeProfile":"small","version":"r1","logicalCloud":"stores"}}`)
	s.expect(201, "POST", "policy/agents/watcher", `{}`)
}

// With authentication an intent acts for its author, and ends with the author's permission.
func TestPolicyIntentsActForTheirAuthors(t *testing.T) {
	t.Parallel()
	g := newGuardedStage(t)
	root := g.company()
	const path, intent = alarmedGroup, alarmIntent
	root.prepareAlarms()
	bob := g.user("bob", "shop")
	if got := bob.do("POST", path+"/policy-intents/end", intent); got.Status != 403 || !strings.Contains(string(got.Body), "not with those of its groups") {
		t.Errorf("an intent by the permission of a group: %d %s", got.Status, got.Body)
	}
	lead := g.user("lead-shop")
	if got := lead.expect(201, "POST", path+"/policy-intents/end", intent); !strings.Contains(got, `"author":"user:corp:lead-shop"`) {
		t.Errorf("the author of the intent: %s", got)
	}
	for name, who := range map[string]*testStage{"bob": bob, "the lead": lead, "the lead of another project": g.user("lead-bank")} {
		if got := who.do("POST", watcherEvents, `{"id":"alarm"}`); got.Status != 403 {
			t.Errorf("%s delivers an event: %d %s", name, got.Status, got.Body)
		}
	}
	if got := root.expect(200, "POST", watcherEvents, `{"id":"alarm"}`); !strings.Contains(got, `"outcome":"refused"`) || strings.Contains(got, "may not") {
		t.Errorf("an event for a deployment that is not instantiated: %s", got) // by its state
	}
	root.expect(204, "DELETE", "projects/shop/role-bindings/lead", "")
	if got := root.expect(200, "POST", watcherEvents, `{"id":"alarm"}`); !strings.Contains(got, "user:corp:lead-shop may not terminate") {
		t.Errorf("an event after the author has lost its role: %s", got)
	}
}
