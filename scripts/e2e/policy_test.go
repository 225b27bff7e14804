package e2e

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"

	"github.com/emco-orchestrator/emco/scripts/testbed/flux"
	"github.com/emco-orchestrator/emco/scripts/testbed/opa"
)

// TestPolicyIntents runs the suite examples/emco/policy with a real OPA server: c1 is a direct cluster, c2 has Flux.
// Events update the deployment and end it.
func TestPolicyIntents(t *testing.T) {
	do := steps{TB: t}
	do.next("two clusters and an OPA server")
	engine, err := opa.Start(t.Context(), opa.Options{Dir: filepath.Join(t.TempDir(), "opa"), Progress: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(engine.Stop)
	rules, err := os.ReadFile(example("emco", "policy", "rules", "shop.rego"))
	if err == nil {
		err = engine.Put(t.Context(), "shop", string(rules))
	}
	if err != nil {
		t.Fatal(err)
	}
	l, s := clustersOf(t), newStage(t, "-outbound.engines", engine.URL()+"/v1/data/shop/")
	l.follow(s)
	file := func(name string) string { return example("emco", "policy", name) }
	values := s.values(map[string]any{
		"GitURL": s.git.URL(repoName), "GitUser": writer, "GitToken": s.writeToken, "Kubeconfig": l.c1.Kubeconfig(),
		"FluxSecret": flux.Namespace, "SyncInterval": "1", "Packages": s.packages("web", "cache"), "EngineURL": engine.URL(),
	})
	s.apply(values, file("00-clusters.yaml"), file("01-app.yaml"), file("02-deployment.yaml"), file("03-policy.yaml"), file("05-engine.yaml"))
	s.apply(values, file("04-instantiate.yaml"))
	s.wait(group, "instantiated")
	available(t, l.c1, "r1-web")
	available(t, l.c2, "r1-cache")

	// event delivers an event, and expects one intent to name it.
	event := func(id, data, outcome, why string) {
		t.Helper()
		res, err := http.Post(s.emco.URL()+"/v2/policy/agents/watcher/events", "application/json", strings.NewReader(`{"id":"`+id+`","data":`+data+`}`))
		s.must("deliver an event", err)
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		s.must("read the answer", err)
		var out []v2.EventOutcome
		if err := json.Unmarshal(text, &out); err != nil || len(out) != 1 || out[0].Outcome != outcome || !strings.Contains(out[0].Error, why) {
			t.Errorf("event %s %s: %s %s, want %s %q", id, data, res.Status, text, outcome, why)
		}
	}
	do.next("a rule of the OPA server decides about an update")
	s.apply(values, file("06-places.yaml"))
	before := identities(t, l.c2)
	event("release", `{"channel":"beta"}`, v2.EventUnmet, "")
	if now := identities(t, l.c2); now != before {
		t.Errorf("an event that asks for nothing changes c2 to\n%s\nfrom\n%s", now, before)
	}
	event("release", `{"channel":"stable"}`, v2.EventActed, "")
	s.wait(group, "instantiated")
	available(t, l.c2, "r1-web")

	do.next("a rule that is gone, and a server that is gone")
	s.must("change the rules", engine.Put(t.Context(), "shop", "package shop\n"))
	event("release", `{"channel":"stable"}`, v2.EventRefused, "has no such rule")
	engine.Stop()
	event("release", `{"channel":"stable"}`, v2.EventFailed, "connection refused")
	log := s.ctl("events", group)
	for _, part := range []string{"policy intent refresh, event release of agent watcher", "has no such rule", "connection refused"} {
		if !strings.Contains(log, part) {
			t.Errorf("the event log lacks %q:\n%s", part, log)
		}
	}
	s.wait(group, "instantiated")

	do.next("an expression ends the deployment, also without the OPA server")
	event("errors", `{"rate":0.1}`, v2.EventUnmet, "")
	available(t, l.c1, "r1-web")
	event("errors", `{"rate":0.9}`, v2.EventActed, "")
	s.wait(group, "terminated")
	empty(t, l.c1)
	empty(t, l.c2)
	s.sound()
	s.clear(values, file("00-clusters.yaml"), file("01-app.yaml"), file("02-deployment.yaml"), file("03-policy.yaml"), file("05-engine.yaml"))
	do.next("done")
}
