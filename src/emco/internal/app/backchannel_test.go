package app_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/audit"
	"github.com/emco-orchestrator/emco/src/api/oidctest"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdtest"
	"github.com/emco-orchestrator/emco/src/emco/internal/config"
)

const backChannel = "/v2/auth/backchannel-logout"

// reports has the provider report sign-outs to EMCO.
func (g *guardedStage) reports(names, persons bool) {
	g.op.Report("emco-web", oidctest.Reporter{URL: g.address + backChannel, Names: names, Persons: persons})
}

// signedOut has a person sign out at the provider, and wants that EMCO takes the reports.
func (g *guardedStage) signedOut(person, signIn string) (tokens []string) {
	g.Helper()
	for _, a := range g.op.SignOut(g.T, person, signIn) {
		if a.Status != 200 || a.Body != "" || a.Header.Get("Cache-Control") != "no-store" {
			g.Fatalf("the report is answered %d %v %s", a.Status, a.Header, a.Body)
		}
		tokens = append(tokens, a.Token)
	}
	if len(tokens) == 0 {
		g.Fatal("the provider reports nothing")
	}
	return tokens
}

// Sessions end in all processes before the provider has its answer, also those of processes that start again.
func TestProvidersEndSessions(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.Start(t, 1, etcdtest.Options{})
	a := newGuardedStageWith(t, func(c *config.Config) {
		c.Etcd.Endpoints = etcd.Endpoints()
		c.Store.Key = config.Secret(base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32))))
		signsBrowsersIn(c)
	})
	root := a.company()
	other := &guardedStage{op: a.op, testStage: a.beside(func(*config.Config) {})}
	other.start()
	t.Cleanup(func() { other.stop() })
	works := func(status int, b *browser) {
		t.Helper()
		for name, at := range map[string]*guardedStage{"the first": a, "the second": other} {
			if got := (&browser{at, maps.Clone(b.cookies)}).send("GET", "/v2/projects/shop", "").status; got != status {
				t.Errorf("%s process: %d, want %d", name, got, status)
			}
		}
	}

	for _, says := range []struct{ names, persons bool }{{true, true}, {true, false}} {
		a.reports(says.names, says.persons)
		desk, phone, lead := a.browser(), a.browser(), a.browser()
		desk.signIn("dev", "shop")
		at := a.op.SignIn()
		phone.signIn("dev", "shop")
		lead.signIn("lead-shop")
		for range 3 {
			works(200, desk)
		}
		a.signedOut("dev", at)
		works(401, desk)
		works(200, phone)
		works(200, lead)
		a.signedOut("dev", "")
		works(401, phone)
		works(200, lead)
		a.signedOut("lead-shop", "")
		works(401, lead)
	}

	a.reports(false, true)
	desk, phone, lead, later, admin := a.browser(), a.browser(), a.browser(), a.browser(), a.browser()
	begin := func(b *browser, person string) { // a moment after the former sign-outs
		b.wants(200, "GET", b.begin(map[string]any{"sub": person, "groups": []string{"shop"}, "iat": time.Now().Add(2 * time.Second).Unix()}, ""), "")
	}
	begin(desk, "dev")
	begin(phone, "dev")
	begin(lead, "lead-shop")
	begin(admin, "root")
	ended := (&browser{other, admin.cookies}).follows("/v2/views/stream?topics=fleet")
	a.signedOut("root", "")
	<-ended
	reported := a.signedOut("dev", "")
	works(401, desk)
	works(401, phone)
	works(200, lead)

	other.stop()
	other.start()
	works(401, desk)
	works(200, lead)
	if again := oidctest.Deliver(t, other.address+backChannel, reported[0]); again.Status != 400 || !strings.Contains(again.Body, "taken before (jti)") {
		t.Errorf("another process takes the token again: %+v", again)
	}
	begin(later, "dev")
	works(200, later)

	lines := root.audited("phase=sign-out&subject=user:corp:dev")
	if !slices.ContainsFunc(lines, func(l audit.Line) bool {
		return l.Reason == "by the issuer corp" && l.Via == "oidc" && l.Address == "127.0.0.1"
	}) {
		t.Errorf("the audit log: %+v", lines)
	}
	a.eventually("the refusal is in the audit log", func() string {
		if lines := root.audited("phase=refused&path=" + backChannel); len(lines) != 1 || lines[0].Code != 400 {
			return fmt.Sprintf("%+v", lines)
		}
		return ""
	})
	if log := a.log.String() + other.log.String(); strings.Contains(log, reported[0]) {
		t.Error("the log has a logout token")
	}
}

// A sign-in that the provider ends between the two steps of the browser gives no session.
func TestProvidersEndSignInsThatAreUnderWay(t *testing.T) {
	t.Parallel()
	g := newGuardedStageWith(t, signsBrowsersIn)
	root := g.company()
	g.reports(true, true)
	b := g.browser()
	b.signIn("dev", "shop")
	back := b.begin(map[string]any{"sub": "dev"}, "")
	if answers := g.op.SignOut(t, "dev", g.op.SignIn()); answers != nil {
		t.Fatalf("EMCO has no token of this sign-in yet, and gets %v", answers)
	}
	b.wants(401, "GET", back, "") // the provider takes its code back
	b.wants(200, "GET", "/v2/projects/shop", "")

	claims := g.op.LogoutClaims("emco-web") // this provider's report is faster than its own answer
	claims["sid"] = "early"
	if a := oidctest.Deliver(t, g.address+backChannel, g.op.LogoutToken(t, claims)); a.Status != 200 {
		t.Fatal(a)
	}
	if lines := root.audited("phase=sign-out"); len(lines) != 1 || lines[0].Subject != "" || lines[0].Reason != "by the issuer corp" {
		t.Errorf("the audit log: %+v", lines) // the report names no person
	}
	late := g.browser()
	g.reports(false, false)
	if p := late.wants(401, "GET", late.begin(map[string]any{"sub": "dev", "sid": "early"}, ""), ""); !strings.Contains(p.body, "has signed user:corp:dev out") || late.cookies[sessionCookie] != "" {
		t.Errorf("the sign-in: %s", p.body)
	}
}

// What is no report of the provider ends nothing, and is answered as the specification says.
func TestReportsOfSignOutsThatAreRefused(t *testing.T) {
	t.Parallel()
	clock := new(timeOf)
	g := newGuardedStageWith(t, signsBrowsersIn, clock.option())
	root := g.company()
	g.reports(true, true)
	b := g.browser()
	b.signIn("dev", "shop")
	foreign := oidctest.New(t)
	token := func(p *oidctest.Provider, changes map[string]any) string {
		claims := p.LogoutClaims("emco-web")
		claims["sub"], claims["sid"] = "dev", g.op.SignIn()
		maps.Copy(claims, changes)
		return p.LogoutToken(t, claims)
	}
	form := func(pairs ...string) string {
		v := url.Values{}
		for i := 0; i+1 < len(pairs); i += 2 {
			v.Add(pairs[i], pairs[i+1])
		}
		return v.Encode()
	}
	const typ = "application/x-www-form-urlencoded"
	type refused struct{ name, typ, body, want string }
	for _, c := range []refused{
		{"of another issuer", typ, form("logout_token", token(foreign, nil)), "not of an issuer"},
		{"signed by another issuer", typ, form("logout_token", token(foreign, map[string]any{"iss": g.op.URL})), "signature"},
		{"for another audience", typ, form("logout_token", token(g.op, map[string]any{"aud": "emco-api"})), "audience"},
		{"with a nonce", typ, form("logout_token", token(g.op, map[string]any{"nonce": "x"})), "nonce"},
		{"without a token", typ, form("token", "x"), "one parameter logout_token"},
		{"with two", typ, form("logout_token", token(g.op, nil), "logout_token", "x"), "one parameter logout_token"},
		{"as JSON", "application/json", `{"logout_token":"` + token(g.op, nil) + `"}`, "is of the type"},
		{"too long", typ, form("logout_token", strings.Repeat("x", 40<<10)), "larger than"},
	} {
		p := g.browser().send("POST", backChannel, c.body, "Content-Type", c.typ)
		var said struct {
			Error       string `json:"error"`
			Description string `json:"error_description"`
		}
		if err := json.Unmarshal([]byte(p.body), &said); err != nil || p.status != 400 || said.Error != "invalid_request" || !strings.Contains(said.Description, c.want) {
			t.Errorf("%s: %d %s, %v", c.name, p.status, p.body, err)
		}
		if p.header.Get("Cache-Control") != "no-store" || p.header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: %v", c.name, p.header)
		}
	}
	g.browser().wants(403, "POST", backChannel, form("logout_token", token(g.op, nil)), "Content-Type", typ, "Sec-Fetch-Site", "cross-site")
	g.browser().wants(405, "GET", backChannel, "")
	b.wants(200, "GET", "/v2/projects/shop", "") // nothing has ended it

	answers := map[int]int{}
	for range 10 {
		answers[g.browser().send("POST", backChannel, form("logout_token", "x"), "Content-Type", typ).status]++
	}
	if answers[400] == 0 || answers[400] > 3 || answers[400]+answers[429] != 10 {
		t.Errorf("answers to many wrong reports: %v", answers)
	}
	if lines := root.audited("phase=refused&path=" + backChannel); !slices.ContainsFunc(lines, func(l audit.Line) bool { return l.Code == 400 }) {
		t.Errorf("the audit log: %+v", lines)
	}
	g.signedOut("dev", "") // those of others keep the provider from nothing
	if got := b.send("GET", "/v2/projects/shop", "").status; got != 401 && got != 429 {
		t.Errorf("after the report the session is answered %d", got)
	}
	if text := root.expect(200, "GET", "/metrics", ""); !strings.Contains(text, `route="`+backChannel+`",status="200"`) {
		t.Error("the metrics have no line of the route")
	}
}

// Where no browser signs in, while the keys of the provider are not known, and while the disk is low.
func TestReportsOfSignOutsElsewhere(t *testing.T) {
	t.Parallel()
	plain := newGuardedStage(t)
	if p := plain.browser().wants(404, "POST", backChannel, "", "Content-Type", "application/x-www-form-urlencoded"); !strings.Contains(p.body, "do not sign in here") {
		t.Error(p.body)
	}
	silent := newGuardedStageWith(t, signsBrowsersIn)
	silent.op.SetDown(true)
	claims := silent.op.LogoutClaims("emco-web")
	claims["sub"] = "dev"
	if a := oidctest.Deliver(t, silent.address+backChannel, silent.op.LogoutToken(t, claims)); a.Status != 400 || !strings.Contains(a.Body, `"temporarily_unavailable"`) {
		t.Errorf("while the keys of the provider cannot be read: %+v", a)
	}
	etcd := etcdtest.Start(t, 1, etcdtest.Options{})
	a := newGuardedStageWith(t, func(c *config.Config) {
		c.Etcd.Endpoints = etcd.Endpoints()
		c.Store.Key = config.Secret(base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32))))
		signsBrowsersIn(c)
	})
	a.company()
	full := &guardedStage{op: a.op, testStage: a.beside(func(c *config.Config) { c.Disk = 1 << 60 })}
	full.launch()
	t.Cleanup(func() { full.stop() })
	full.reports(true, true)
	b := a.browser()
	b.signIn("dev", "shop")
	there := &browser{full, b.cookies}
	a.eventually("it decides", func() string { return unlessStatus(there.send("GET", "/v2/projects/shop", ""), 200) })
	full.signedOut("dev", "")
	b.wants(401, "GET", "/v2/projects/shop", "")
}

// Whether a session lives is decided with the look at the store that a request takes anyway, and from memory.
func TestSessionsCostNoFurtherReads(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.Start(t, 1, etcdtest.Options{})
	a := newGuardedStageWith(t, func(c *config.Config) {
		c.Etcd.Endpoints = etcd.Endpoints()
		c.Store.Key = config.Secret(base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32))))
		signsBrowsersIn(c)
	})
	a.company()
	a.reports(true, true)
	other := &guardedStage{op: a.op, testStage: a.beside(func(*config.Config) {})}
	other.start()
	t.Cleanup(func() { other.stop() })
	b := a.browser()
	b.signIn("dev", "shop")
	there, root := &browser{other, b.cookies}, other.user("root")
	least := 1e9 // the process reads in between too
	for range 12 {
		before := root.reads()
		there.wants(200, "GET", "/v2/projects/shop", "")
		least = min(least, root.reads()-before)
	}
	if least > 1 {
		t.Errorf("a request with a session takes %v reads of etcd, want 1", least)
	}
}
