package app_test

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/config"
)

// fourEyed is a program in whose project shop callers cannot approve their own changes: its team changes, and its lead
// and two approvers approve.
func fourEyed(t *testing.T) (g *guardedStage, root *testStage) {
	t.Helper()
	g = newGuardedStageWith(t, func(c *config.Config) { c.Auth.FourEyes = []string{"shop"} })
	root = g.company()
	root.expect(201, "POST", "projects/shop/role-bindings", binding("approvers", "approver", "user:corp:ann", "user:corp:bob", "token:robot"))
	for _, p := range []string{"shop", "bank"} {
		dev, till := g.user("dev", p), "projects/"+p+"/composite-apps/till/v1"
		dev.expect(201, "POST", till+"/composite-profiles", named("small"))
		dev.expect(201, "POST", till+"/deployment-intent-groups", `{"metadata":{"name":"autumn"},"spec":{"compositeProfile":"small","version":"r1","logicalCloud":"stores"}}`)
	}
	return g, root
}

const canApprove = `{"method":"POST","path":"/v2/` + autumn + `/approve"}`

// mayNotApprove checks that approve and can-i both refuse a caller, with reasons that contain the texts.
func (s *testStage) mayNotApprove(texts ...string) {
	s.Helper()
	var said v2.AccessAnswer
	s.must("read can-i", json.Unmarshal([]byte(s.expect(200, "POST", "auth/can-i", canApprove)), &said))
	answer := s.expect(403, "POST", autumn+"/approve", "")
	s.expect(403, "POST", autumn+"/approve?dryRun=true", "")
	for _, text := range append(texts, "in this project another caller must review changes (auth.fourEyes)") {
		if !strings.Contains(answer, text) || !strings.Contains(said.Because, text) || said.Allowed {
			s.Errorf("approve: %s\ncan-i: %+v\nwant %q in both", answer, said, text)
		}
	}
}

func TestNobodyApprovesItsOwn(t *testing.T) {
	t.Parallel()
	g, root := fourEyed(t)
	ann, lead := g.user("ann", "shop"), g.user("lead-shop")
	ann.expect(201, "POST", autumn+"/generic-placement-intents", named("places"))
	ann.mayNotApprove("user:corp:ann may not approve: user:corp:ann changed "+autumn+"/generic-placement-intents/places at 20", "token:robot, user:corp:bob, user:corp:lead-shop may")
	lead.expect(201, "PUT", till, `{"metadata":{"name":"till","description":"new"},"spec":{"compositeAppVersion":"v1"}}`)
	lead.mayNotApprove("user:corp:lead-shop changed " + till + " at 20")
	if line := find(root.audited("phase=outcome"), "outcome", "act:approve", "/v2/"+autumn+"/approve"); line.Code != 403 || line.Subject != "user:corp:lead-shop" {
		t.Errorf("the audit log has %+v", line)
	}

	// Who sends what is there already changes nothing.
	bob := g.user("bob", "shop")
	bob.expect(201, "PUT", till, `{"metadata":{"name":"till","description":"new"},"spec":{"compositeAppVersion":"v1"}}`)
	if got := bob.expect(200, "POST", "auth/can-i", canApprove); !strings.Contains(got, `"allowed":true`) {
		t.Errorf("bob: %s", got)
	}
	bob.expect(202, "POST", autumn+"/approve", "")
	ann.expect(202, "POST", autumn+"/approve", "") // there is nothing of her own left

	// What is changed after the approval needs another one, and survives the program.
	g.stop()
	g.start()
	ann = g.user("ann", "shop")
	ann.expect(204, "DELETE", autumn+"/generic-placement-intents/places", "")
	ann.mayNotApprove("user:corp:ann changed " + autumn + "/generic-placement-intents/places")
	g.user("dev", "shop").expect(409, "POST", autumn+"/instantiate", "")

	bank := "projects/bank/composite-apps/till/v1/deployment-intent-groups/autumn"
	g.user("lead-bank").expect(201, "POST", bank+"/generic-placement-intents", named("places"))
	g.user("lead-bank").expect(202, "POST", bank+"/approve", "")
}

// A token is its own caller, and its maker's.
func TestTokensApproveWhatOthersChanged(t *testing.T) {
	t.Parallel()
	g, root := fourEyed(t)
	token := func(name, role string) *testStage {
		var made v2.NewAPIToken
		text := root.expect(201, "POST", "tokens", strings.Replace(tokenDocument(name), `"role":"viewer"`, `"role":"`+role+`","place":"projects/shop"`, 1))
		g.must("read the token", json.Unmarshal([]byte(text), &made))
		return g.with(made.Token)
	}
	ci, robot := token("ci", "deployer"), token("robot", "approver")
	robot.mayNotApprove("token:robot may not approve: user:corp:root changed "+till, "; user:corp:ann, user:corp:bob, user:corp:lead-shop may")
	g.user("ann", "shop").expect(202, "POST", autumn+"/approve", "")
	ci.expect(201, "POST", autumn+"/generic-placement-intents", named("places"))
	root.mayNotApprove("user:corp:root may not approve: token:ci (a token of user:corp:root) changed " + autumn)
	robot.expect(202, "POST", autumn+"/approve", "")
	root.expect(201, "PUT", till, `{"metadata":{"name":"till","description":"new"},"spec":{"compositeAppVersion":"v1"}}`)
	robot.mayNotApprove("token:robot may not approve: user:corp:root changed " + till)
	g.user("ann", "shop").expect(202, "POST", autumn+"/approve", "")
}

// The command line prints the refusal and has an exit code for it.
func TestTheCommandLineSaysWhoMayApprove(t *testing.T) {
	t.Parallel()
	g, _ := fourEyed(t)
	ann := g.user("ann", "shop")
	ann.expect(201, "POST", autumn+"/generic-placement-intents", named("places"))
	token := g.op.Token(t, map[string]any{"aud": "emco-api", "sub": "ann", "groups": []string{"shop"}})
	for _, args := range [][]string{{"apply", autumn + "/approve"}, {"auth", "can-i", "approve", "shop/till/v1/autumn"}} {
		run := exec.Command(filepath.Join(emcoctl(t), "emcoctl"), args...)
		run.Env = []string{"HOME=" + t.TempDir(), "EMCO_URL=" + g.address, "EMCO_TOKEN=" + token}
		out, _ := run.CombinedOutput()
		if run.ProcessState.ExitCode() != 5 || !strings.Contains(string(out), "user:corp:ann changed "+autumn) {
			t.Errorf("emcoctl %s: exit %d, %s", strings.Join(args, " "), run.ProcessState.ExitCode(), out)
		}
	}
}
