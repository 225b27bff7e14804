package app_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/mux"

	"github.com/emco-orchestrator/emco/src/api/client"
	"github.com/emco-orchestrator/emco/src/api/oidctest"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/app"
	"github.com/emco-orchestrator/emco/src/emco/internal/authz"
	"github.com/emco-orchestrator/emco/src/emco/internal/config"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// guardedStage is a program with authentication, and a provider of tokens.
type guardedStage struct {
	*testStage
	op        *oidctest.Provider
	bootstrap string
}

func newGuardedStage(t *testing.T) *guardedStage {
	t.Helper()
	return newGuardedStageWith(t, func(*config.Config) {})
}

// newGuardedStageWith changes the configuration first.
func newGuardedStageWith(t *testing.T, change func(*config.Config), options ...app.Option) *guardedStage {
	t.Helper()
	g := &guardedStage{op: oidctest.New(t)}
	g.testStage = newStageWith(t, func(c *config.Config) {
		c.Auth.Issuers = []config.Issuer{{Name: "corp", URL: g.op.URL, Audience: "emco-api", Client: "emcoctl"}}
		change(c)
	}, append(options, app.WithBootstrapTo(func(token string) { g.bootstrap = token }))...)
	return g
}

// user returns the API as a user of the provider sees it.
func (g *guardedStage) user(name string, groups ...string) *testStage {
	g.Helper()
	return g.with(g.op.Token(g.T, map[string]any{"aud": "emco-api", "sub": name, "groups": groups}))
}

// with returns the API as the holder of a token sees it, or as a caller without a credential if the token is empty.
func (g *guardedStage) with(token string) *testStage {
	g.Helper()
	as := *g.testStage
	var err error
	as.api, err = client.New(client.Options{BaseURL: g.address, Token: client.Token(token)})
	g.must("make a client", err)
	return &as
}

func binding(name, role string, subjects ...string) string {
	text, err := json.Marshal(map[string]any{"metadata": map[string]string{"name": name}, "spec": map[string]any{"role": role, "subjects": subjects}})
	if err != nil {
		panic(err) // strings are JSON
	}
	return string(text)
}

// tokenDocument is the document of a token that ends in a month.
func tokenDocument(name string) string {
	return `{"metadata":{"name":"` + name + `"},"spec":{"role":"viewer","expires":"` + time.Now().Add(30*24*time.Hour).UTC().Format(time.RFC3339) + `"}}`
}

// company binds an administrator, and the teams of two projects.
func (g *guardedStage) company() (root *testStage) {
	g.Helper()
	first := g.with(g.bootstrap)
	first.expect(201, "POST", "role-bindings", binding("admins", "platform-admin", "user:corp:root"))
	root = g.user("root")
	for _, p := range []string{"shop", "bank"} {
		root.expect(201, "POST", "projects", named(p))
		root.expect(201, "POST", "projects/"+p+"/role-bindings", binding("team", "deployer", "group:corp:"+p))
		root.expect(201, "POST", "projects/"+p+"/role-bindings", binding("lead", "project-admin", "user:corp:lead-"+p))
		root.expect(201, "POST", "projects/"+p+"/composite-apps", `{"metadata":{"name":"till"},"spec":{"compositeAppVersion":"v1"}}`)
	}
	root.expect(201, "POST", "cluster-providers", named("edge"))
	return root
}

func TestTheFirstAdministrator(t *testing.T) {
	t.Parallel()
	g := newGuardedStage(t)
	if a := g.with("").do("GET", "projects", ""); a.Status != 401 {
		t.Fatalf("nobody: %d %s", a.Status, a.Body)
	}
	if strings.Contains(g.log.String(), g.bootstrap) || g.bootstrap == "" {
		t.Fatal("the bootstrap token is in the log, or there is none")
	}
	first := g.with(g.bootstrap)
	if got := first.expect(200, "GET", "auth/whoami", ""); !strings.Contains(got, `"via":"bootstrap"`) {
		t.Errorf("whoami: %s", got)
	}
	first.expect(201, "POST", "role-bindings", binding("admins", "platform-admin", "user:corp:root"))
	if a := first.do("GET", "projects", ""); a.Status != 401 {
		t.Errorf("the bootstrap token after the first administrator: %d %s", a.Status, a.Body)
	}
	g.user("root").expect(201, "POST", "projects", named("shop"))
	g.stop()
	g.bootstrap = ""
	g.start()
	if g.bootstrap != "" {
		t.Error("a start with an administrator makes a bootstrap token")
	}
}

// S-15: the bootstrap token ends with the first administrator, and does not come back with the last one's end. A
// start after that makes a new one.
func TestTheBootstrapTokenEndsForGood(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*guardedStage, *testStage){
		"deleted": func(_ *guardedStage, root *testStage) { root.expect(204, "DELETE", "role-bindings/admins", "") },
		"changed": func(_ *guardedStage, root *testStage) {
			root.expect(200, "PUT", "role-bindings/admins", binding("admins", "viewer", "user:corp:root"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGuardedStage(t)
			former := g.bootstrap
			g.with(former).expect(201, "POST", "role-bindings", binding("admins", "platform-admin", "user:corp:root"))
			end(g, g.user("root"))
			if a := g.with(former).do("GET", "projects", ""); a.Status != 401 {
				t.Errorf("the bootstrap token after the last administrator: %d %s", a.Status, a.Body)
			}
			g.stop()
			g.bootstrap = ""
			g.start()
			if g.bootstrap == "" || g.bootstrap == former {
				t.Error("a start without an administrator makes no new token")
			}
			g.with(former).expect(401, "GET", "projects", "")
			g.with(g.bootstrap).expect(200, "GET", "projects", "")
		})
	}
}

// S-14, S-15: what belongs to another project is as if it did not exist, and no caller takes more than it was given.
func TestProjectsAreApart(t *testing.T) {
	t.Parallel()
	g := newGuardedStage(t)
	root := g.company()
	dev, lead := g.user("dev", "shop"), g.user("lead-shop")

	dev.expect(200, "GET", "projects/shop/composite-apps/till/v1", "")
	dev.expect(201, "POST", "projects/shop/composite-apps", `{"metadata":{"name":"scan"},"spec":{"compositeAppVersion":"v1"}}`)
	if got := dev.expect(200, "GET", "projects", ""); !strings.Contains(got, `"shop"`) || strings.Contains(got, `"bank"`) {
		t.Errorf("projects of dev: %s", got)
	}
	if got := g.user("root").expect(200, "GET", "projects?limit=1", ""); !strings.Contains(got, `"bank"`) {
		t.Errorf("first page of root: %s", got)
	}
	if got := dev.expect(200, "GET", "projects?limit=1", ""); !strings.Contains(got, `"shop"`) {
		t.Errorf("first page of dev: %s", got)
	}
	for _, path := range []string{
		"projects/%s", "projects/%s/composite-apps", "projects/%s/composite-apps/till/v1", "projects/%s/role-bindings", "projects/%s/logical-clouds",
		"views/projects/%s/composite-apps/till/v1/deployment-intent-groups/x/matrix",
	} {
		hidden, missing := dev.do("GET", strings.ReplaceAll(path, "%s", "bank"), ""), dev.do("GET", strings.ReplaceAll(path, "%s", "none"), "")
		missing.Body = strings.ReplaceAll(missing.Body, "none", "bank")
		if hidden != missing || hidden.Status != 404 {
			t.Errorf("%s: hidden %d %s, missing %d %s", path, hidden.Status, hidden.Body, missing.Status, missing.Body)
		}
	}
	for _, write := range [][2]string{
		{"PUT", "projects/bank"},
		{"DELETE", "projects/bank"},
		{"POST", "projects/bank/composite-apps"},
		{"DELETE", "projects/bank/composite-apps/till/v1"},
		{"POST", "projects/bank/composite-apps/till/v1/deployment-intent-groups/x/migrate"},
		{"PUT", "projects/%62ank"},
	} {
		if a := dev.do(write[0], write[1], named("bank")); a.Status != 404 {
			t.Errorf("%s %s: %d %s", write[0], write[1], a.Status, a.Body)
		}
	}
	root.expect(200, "GET", "projects/bank/composite-apps/till/v1", "")

	// Readable, not writable: the answer names what is missing, and who gives it.
	if a := dev.do("POST", "projects/shop/logical-clouds", named("x")); a.Status != 403 ||
		!strings.Contains(a.Body, "user:corp:dev may not create logical-clouds in projects/shop") || !strings.Contains(a.Body, "user:corp:lead-shop") {
		t.Errorf("create a cloud: %d %s", a.Status, a.Body)
	}
	if a := dev.do("POST", "projects", named("mine")); a.Status != 403 {
		t.Errorf("create a project: %d %s", a.Status, a.Body)
	}
	dev.expect(403, "GET", "git/branches", "")
	dev.expect(403, "GET", "tokens", "")
	if a := dev.do("GET", "/metrics", ""); a.Status != 403 {
		t.Errorf("metrics: %d", a.Status)
	}

	// Escalation.
	for name, ask := range map[string]struct {
		who        *testStage
		path, body string
	}{
		"binding by a deployer":    {dev, "projects/shop/role-bindings", binding("up", "deployer", "user:corp:dev")},
		"binding elsewhere":        {lead, "role-bindings", binding("up", "viewer", "user:corp:lead-shop")},
		"a role above one's own":   {lead, "projects/shop/role-bindings", binding("up", "cluster-registrar", "user:corp:lead-shop")},
		"a token above one's own":  {lead, "tokens", strings.Replace(tokenDocument("up"), "viewer", "platform-admin", 1)},
		"a role of one's own make": {lead, "roles", `{"metadata":{"name":"up"},"spec":{"rules":[{"verbs":["*"],"types":["*"]}]}}`},
	} {
		if a := ask.who.do("POST", ask.path, ask.body); a.Status != 403 {
			t.Errorf("%s: %d %s", name, a.Status, a.Body)
		}
	}
	lead.expect(201, "POST", "projects/shop/role-bindings", binding("guest", "viewer", "user:corp:guest"))
	g.user("guest").expect(200, "GET", "projects/shop", "")

	// A denial wins, and no caller ends its own.
	root.expect(201, "POST", "projects/shop/role-bindings", `{"metadata":{"name":"freeze"},"spec":{"role":"deployer","subjects":["user:corp:lead-shop"],"deny":true}}`)
	lead.expect(404, "GET", "projects/shop/composite-apps", "")
	if a := lead.do("DELETE", "projects/shop/role-bindings/freeze", ""); a.Status == 204 {
		t.Error("the lead ends its own denial")
	}
	root.expect(204, "DELETE", "projects/shop/role-bindings/freeze", "")
	lead.expect(200, "GET", "projects/shop/composite-apps", "")

	// What ends, ends.
	ended := `{"metadata":{"name":"past"},"spec":{"role":"viewer","subjects":["user:corp:past"],"expires":"2020-01-01T00:00:00Z"}}`
	for method, path := range map[string]string{"POST": "projects/shop/role-bindings", "PUT": "projects/shop/role-bindings/past"} {
		if a := root.do(method, path, ended); a.Status != 400 || !strings.Contains(a.Body, "spec.expires: 2020-01-01T00:00:00Z is in the past") {
			t.Errorf("%s of a new binding that has ended: %d %s", method, a.Status, a.Body)
		}
	}
	root.expect(201, "POST", "projects/shop/role-bindings", strings.Replace(ended, "2020", "2999", 1))
	g.user("past").expect(200, "GET", "projects/shop", "")
	root.expect(200, "PUT", "projects/shop/role-bindings/past", ended)
	g.user("past").expect(404, "GET", "projects/shop", "")
}

func TestQuestionsAboutPermissions(t *testing.T) {
	t.Parallel()
	g := newGuardedStage(t)
	root := g.company()
	dev := g.user("dev", "shop")
	for question, want := range map[string]string{
		`{"method":"DELETE","path":"/v2/projects/shop/composite-apps/till/v1"}`:            `"allowed":true,"because":"role deployer by projects/shop/role-bindings/team"`,
		`{"method":"PUT","path":"/v2/projects/%73hop"}`:                                    `"allowed":false`,
		`{"path":"/v2/projects/bank"}`:                                                     `"allowed":false,"because":"no binding allows it"`,
		`{"verb":"act:approve","type":"deployment-intent-groups","place":"projects/shop"}`: `"allowed":false`,
		`{"path":"/v2/auth/whoami"}`:                                                       `"allowed":true`,
	} {
		if got := dev.expect(200, "POST", "auth/can-i", question); !strings.Contains(got, want) {
			t.Errorf("%s: %s", question, got)
		}
	}
	dev.expect(404, "POST", "auth/can-i", `{"path":"/v2/nowhere"}`)
	dev.expect(400, "POST", "auth/can-i", `{}`)
	var holders v2.Holders
	g.must("read", json.Unmarshal([]byte(root.expect(200, "POST", "auth/who-can", `{"method":"DELETE","path":"/v2/projects/shop/composite-apps/till/v1"}`)), &holders))
	var who []string
	for _, h := range holders.Items {
		who = append(who, h.Subject)
	}
	if !slices.Equal(who, []string{"group:corp:shop", "user:corp:lead-shop", "user:corp:root"}) {
		t.Errorf("who = %v", who)
	}
	g.user("stranger").expect(403, "POST", "auth/who-can", `{"path":"/v2/projects/shop"}`)
	if got := g.with("").expect(200, "GET", "auth/issuers", ""); !strings.Contains(got, g.op.URL) {
		t.Errorf("issuers: %s", got)
	}
}

// S-17: a token works until it is revoked, and is shown once.
func TestAPITokens(t *testing.T) {
	t.Parallel()
	g := newGuardedStage(t)
	root := g.company()
	wanted := strings.Replace(tokenDocument("ci"), `"role":"viewer"`, `"role":"deployer","place":"projects/shop"`, 1)
	var made v2.NewAPIToken
	g.must("read", json.Unmarshal([]byte(root.expect(201, "POST", "tokens?dryRun=true", wanted)), &made))
	if made.Token != "" {
		t.Error("a dry run makes a token")
	}
	g.must("read", json.Unmarshal([]byte(root.expect(201, "POST", "tokens", wanted)), &made))
	if made.Actor != "user:corp:root" {
		t.Errorf("made by %s", made.Actor)
	}
	root.expect(409, "POST", "tokens", wanted)
	root.expect(400, "POST", "tokens", `{"metadata":{"name":"long"},"spec":{"role":"viewer","expires":"2999-01-01T00:00:00Z"}}`)
	if got := root.expect(200, "GET", "tokens", ""); strings.Contains(got, made.Token) || strings.Contains(got, "digest") || !strings.Contains(got, `"ci"`) {
		t.Errorf("list: %s", got)
	}
	ci := g.with(made.Token)
	ci.expect(200, "GET", "projects/shop", "")
	ci.expect(404, "GET", "projects/bank", "")
	root.expect(204, "DELETE", "tokens/ci", "")
	ci.expect(401, "GET", "projects/shop", "")
	if strings.Contains(g.log.String(), made.Token) {
		t.Error("the log holds the token")
	}
}

// A token is another one than those before it with its name: intents that they wrote do not act for it, and the audit log keeps them apart.
func TestATokenInheritsNothingByItsName(t *testing.T) {
	t.Parallel()
	g := newGuardedStage(t)
	root := g.company()
	root.prepareAlarms()
	issue := func() (made v2.NewAPIToken) {
		t.Helper()
		wanted := strings.Replace(tokenDocument("ci"), `"role":"viewer"`, `"uid":"4711","role":"deployer","place":"projects/shop"`, 1)
		g.must("read", json.Unmarshal([]byte(root.expect(201, "POST", "tokens", wanted)), &made))
		if got := root.expect(200, "GET", "tokens", ""); made.UID == "" || made.UID == "4711" || !strings.Contains(got, `"uid":"`+made.UID+`"`) {
			t.Errorf("made %+v, listed are %s", made.APIToken, got)
		}
		return made
	}
	alarm := func() string { return root.expect(200, "POST", watcherEvents, `{"id":"alarm"}`) }
	first := issue()
	if got := g.with(first.Token).expect(201, "POST", alarmedGroup+"/policy-intents/end", alarmIntent); !strings.Contains(got, `"author":"token:ci","authorUid":"`+first.UID+`"`) {
		t.Errorf("the author of the intent: %s", got)
	}
	if got := alarm(); !strings.Contains(got, `"outcome":"refused"`) || strings.Contains(got, "revoked") {
		t.Errorf("an event for a deployment that is not instantiated: %s", got) // by its state
	}
	root.expect(201, "POST", "projects/shop/role-bindings", binding("ci", "deployer", "token:ci"))
	root.expect(204, "DELETE", "tokens/ci", "")
	if got := alarm(); !strings.Contains(got, "token:ci, which made the intent, was revoked") {
		t.Errorf("an event after the end of the token: %s", got)
	}
	second := issue()
	if got := alarm(); first.UID == second.UID || !strings.Contains(got, "a later token of that name is another") {
		t.Errorf("an event with a later token of the name: %s", got)
	}
	if got := g.with(second.Token).expect(200, "GET", "auth/whoami", ""); !strings.Contains(got, `"subject":"token:ci","uid":"`+second.UID+`"`) {
		t.Errorf("whoami: %s", got)
	}
	log := root.expect(200, "GET", "audit?subject=token:ci", "")
	for what, uid := range map[string]string{"first": first.UID, "second": second.UID} {
		if !strings.Contains(log, `"subject":"token:ci","subjectUid":"`+uid+`"`) {
			t.Errorf("the audit log does not know the %s token: %s", what, log)
		}
	}
}

// Who may make tokens gets nothing by the name of one that bindings know already.
func TestATokensNameGivesItsMakerNothing(t *testing.T) {
	t.Parallel()
	g := newGuardedStage(t)
	root := g.company()
	root.expect(201, "POST", "roles", `{"metadata":{"name":"token-maker"},"spec":{"rules":[{"verbs":["create"],"types":["tokens"]}]}}`)
	root.expect(201, "POST", "role-bindings", binding("makers", "token-maker", "user:corp:lead-shop"))
	root.expect(201, "POST", "projects/bank/role-bindings", binding("robot", "deployer", "token:robot"))
	wanted := strings.Replace(tokenDocument("robot"), `"role":"viewer"`, `"role":"viewer","place":"projects/shop"`, 1)
	if got := g.user("lead-shop").do("POST", "tokens", wanted); got.Status != 403 || !strings.Contains(got.Body, "projects/bank/role-bindings/robot gives token:robot what you do not have") {
		t.Errorf("a token that a binding of another project names: %d %s", got.Status, got.Body)
	}
	g.user("lead-shop").expect(201, "POST", "tokens", strings.Replace(wanted, "robot", "mine", 1))
	root.expect(201, "POST", "tokens", wanted)
}

// S-14: views, search and events show what the caller may read, and a project takes no clusters that it was not given.
func TestViewsAreConfined(t *testing.T) {
	t.Parallel()
	g := newGuardedStage(t)
	root := g.company()
	root.expect(201, "POST", "cluster-providers", named("core"))
	root.expect(201, "POST", "cluster-providers/edge/role-bindings", binding("look", "viewer", "user:corp:lead-shop"))
	root.expect(201, "POST", "cluster-providers/edge/cluster-sync-objects", g.syncObject("repo", g.git.URL("fleet"), g.token))
	root.expect(201, "POST", "cluster-providers/core/cluster-sync-objects", g.syncObject("repo", g.git.URL("fleet"), g.token))
	for _, p := range []string{"edge", "core"} {
		root.expect(201, "POST", "cluster-providers/"+p+"/clusters",
			`{"metadata":{"name":"store"},"spec":{"gitOps":{"gitOpsType":"fluxcd","gitOpsReferenceObject":"repo","gitOpsResourceObject":"repo"}}}`)
	}
	for _, p := range []string{"shop", "bank"} {
		till := "projects/" + p + "/composite-apps/till/v1"
		root.expect(201, "POST", till+"/composite-profiles", named("small"))
		root.expect(201, "POST", till+"/deployment-intent-groups", `{"metadata":{"name":"autumn"},"spec":{"compositeProfile":"small","version":"r1","logicalCloud":"stores"}}`)
		root.expect(202, "POST", till+"/deployment-intent-groups/autumn/approve", "")
	}
	lead, all := g.user("lead-shop"), ""
	root.eventually("the views know both deployments", func() string {
		all = root.expect(200, "GET", "views/events", "")
		if !strings.Contains(all, "projects/bank/") || !strings.Contains(all, "projects/shop/") {
			return all
		}
		return ""
	})
	for path, hidden := range map[string]string{
		"views/deployments": "bank", "views/events": "bank", "views/search?q=autumn": "bank", "views/clusters": "core", "views/fleet": "core",
		"views/search?q=store": "core", "cluster-providers": "core",
	} {
		if got := root.expect(200, "GET", path, ""); !strings.Contains(got, hidden) {
			t.Errorf("%s shows root nothing of %s: %s", path, hidden, got)
		}
		if got := lead.expect(200, "GET", path, ""); strings.Contains(got, hidden) {
			t.Errorf("%s shows lead-shop %s: %s", path, hidden, got)
		}
	}
	if got := lead.expect(200, "GET", "views/deployments", ""); !strings.Contains(got, "projects/shop/") {
		t.Errorf("views/deployments shows lead-shop nothing of its own: %s", got)
	}
	for _, topic := range []string{"cluster:core%2Bstore", "group:projects/bank/composite-apps/till/v1/deployment-intent-groups/autumn"} {
		lead.expect(404, "GET", "views/stream?topics="+topic, "")
	}
	for _, topic := range []string{"fleet", "events", "git"} {
		lead.expect(403, "GET", "views/stream?topics="+topic, "")
	}

	lead.expect(201, "POST", "projects/shop/logical-clouds", `{"metadata":{"name":"stores"},"spec":{"level":"0"}}`)
	reference := func(provider string) string {
		return `{"metadata":{"name":"` + provider + `"},"spec":{"clusterProvider":"` + provider + `","cluster":"store"}}`
	}
	lead.expect(201, "POST", "projects/shop/logical-clouds/stores/cluster-references", reference("edge"))
	lead.expect(403, "POST", "projects/shop/logical-clouds/stores/cluster-references", reference("core"))
	lead.expect(403, "POST", "projects/shop/logical-clouds/stores/cluster-references", reference("none"))
}

// Reports of monitors and probes keep their own ways in.
func TestWhatNeedsNoCaller(t *testing.T) {
	t.Parallel()
	g := newGuardedStage(t)
	g.company()
	nobody := g.with("")
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 200, "/version": 200, "/metrics": 401, "auth/issuers": 200, "auth/whoami": 401, "projects": 401, "views/fleet": 401, "nowhere": 404} {
		if a := nobody.do("GET", path, ""); a.Status != want {
			t.Errorf("GET %s: %d %s, want %d", path, a.Status, a.Body, want)
		}
	}
	if a := nobody.do("POST", "cluster-providers/edge/clusters/a/monitor/report", `{}`); a.Status != 401 || !strings.Contains(a.Body, "cluster") {
		t.Errorf("a report without the cluster's token: %d %s", a.Status, a.Body)
	}
	if a := nobody.do("POST", "webhooks/git", `{}`); a.Status != 403 {
		t.Errorf("a webhook: %d %s", a.Status, a.Body)
	}
	r, err := http.NewRequestWithContext(t.Context(), "GET", g.address+"/v2/projects", nil)
	g.must("make a request", err)
	r.Header.Set("X-Forwarded-User", "root")
	res, err := http.DefaultClient.Do(r)
	g.must("ask", err)
	_ = res.Body.Close()
	if res.StatusCode != 401 || !strings.HasPrefix(res.Header.Get("WWW-Authenticate"), "Bearer") {
		t.Errorf("with a header of a gateway: %d %v", res.StatusCode, res.Header)
	}
}

// S-16: each route declares what it needs, of types that a role can name.
func TestEveryRouteNeedsAPermission(t *testing.T) {
	t.Parallel()
	verbs := []string{authz.Get, authz.List, authz.Create, authz.Update, authz.Delete, authz.Reveal}
	open := map[string]bool{}
	known := map[string]bool{"report-tokens": true, "tokens": true}
	for _, rules := range authz.BuiltIn() {
		for _, r := range rules {
			for _, typ := range r.Types {
				known[typ] = true
			}
		}
	}
	routes := 0
	err := declaredRoutes().Walk(func(route *mux.Route, _ *mux.Router, _ []*mux.Route) error {
		template := web.Template(route)
		methods, err := route.GetMethods()
		if err != nil {
			return err
		}
		routes++
		key := methods[0] + " " + template
		declared, ok := route.GetHandler().(web.Declared)
		if !ok {
			t.Errorf("%s declares no permission", key)
			return nil
		}
		need := declared.Permission()
		switch {
		case need.Verb == authz.Public || need.Verb == authz.SignedIn:
			open[key+" "+need.Verb] = true
		case !slices.Contains(verbs, need.Verb) && !strings.HasPrefix(need.Verb, "act:"):
			t.Errorf("%s needs the verb %q", key, need.Verb)
		case !known[need.Type]:
			t.Errorf("%s needs %q, which no role that is built in names but platform-admin", key, need.Type)
		case methods[0] == "GET" && !slices.Contains([]string{authz.Get, authz.List, authz.Reveal}, need.Verb),
			methods[0] != "GET" && slices.Contains([]string{authz.Get, authz.List}, need.Verb):
			t.Errorf("%s needs %s", key, need)
		}
		return nil
	})
	if err != nil || routes < 130 {
		t.Fatalf("%d routes, %v", routes, err)
	}
	want := []string{
		"GET /v2/auth/callback public", "GET /v2/auth/issuers public", "GET /v2/auth/login public", "GET /v2/auth/whoami signed-in", "GET /v2/health public", "GET /v2/views/search signed-in", "GET /v2/views/stream signed-in",
		"POST /v2/auth/backchannel-logout public", "POST /v2/auth/can-i signed-in", "POST /v2/auth/logout public", "POST /v2/auth/who-can signed-in",
		"POST /v2/cluster-providers/{clusterProvider}/clusters/{cluster}/monitor/report public", "POST /v2/webhooks/git public",
	}
	if got := sortedNames(open); !slices.Equal(got, want) {
		t.Errorf("without a role:\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func sortedNames(m map[string]bool) (names []string) {
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
