package app_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/audit"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/app"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdtest"
	"github.com/emco-orchestrator/emco/src/emco/internal/config"
)

const sessionCookie = "__Host-emco"

// signsBrowsersIn makes the provider of a stage one at which browsers sign in.
func signsBrowsersIn(c *config.Config) {
	c.Auth.Issuers[0].Web = config.IssuerWeb{Client: "emco-web", Redirect: "http://127.0.0.1/v2/auth/callback"}
}

// browser keeps cookies, and does not follow redirects.
type browser struct {
	*guardedStage
	cookies map[string]string
}

func (g *guardedStage) browser() *browser { return &browser{g, map[string]string{}} }

// page is what a browser gets.
type page struct {
	status int
	header http.Header
	body   string
}

// send sends a request to the API, or to a whole URL.
func (b *browser) send(method, to, body string, headers ...string) page {
	b.Helper()
	if !strings.HasPrefix(to, "http") {
		to = b.address + to
	}
	r, err := http.NewRequestWithContext(b.Context(), method, to, strings.NewReader(body))
	b.must("make a request", err)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if strings.HasPrefix(to, b.address) {
		for name, value := range b.cookies {
			r.AddCookie(&http.Cookie{Name: name, Value: value})
		}
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Do(r)
	b.must(method+" "+to, err)
	text, err := io.ReadAll(res.Body)
	b.must("read", err)
	b.must("close", res.Body.Close())
	for _, c := range res.Cookies() {
		if b.cookies[c.Name] = c.Value; c.MaxAge < 0 {
			delete(b.cookies, c.Name)
		}
	}
	return page{res.StatusCode, res.Header, string(text)}
}

// wants sends a request and wants a status.
func (b *browser) wants(status int, method, to, body string, headers ...string) page {
	b.Helper()
	p := b.send(method, to, body, headers...)
	if p.status != status {
		b.Fatalf("%s %s: %d %s, want %d", method, to, p.status, p.body, status)
	}
	return p
}

// begin begins to sign in as a person, and returns the callback path that the provider redirects the browser to.
func (b *browser) begin(claims map[string]any, query string) (back string) {
	b.Helper()
	b.op.SetPerson(claims)
	to := b.wants(303, "GET", "/v2/auth/login"+query, "").header.Get("Location")
	u, err := url.Parse(b.wants(302, "GET", to, "").header.Get("Location"))
	b.must("read the way back", err)
	if u.Path != "/v2/auth/callback" {
		b.Fatalf("the provider sends the browser to %s", u)
	}
	return u.RequestURI()
}

func (b *browser) signIn(name string, groups ...string) page {
	b.Helper()
	return b.wants(200, "GET", b.begin(map[string]any{"sub": name, "groups": groups}, "?return=/v2/projects"), "")
}

// copied returns another browser with the same cookies.
func (b *browser) copied() *browser { return &browser{b.guardedStage, maps.Clone(b.cookies)} }

// A person signs in with a browser at one process, may do in all what a token of the same person may, and signs out.
func TestBrowsersSignIn(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.Start(t, 1, etcdtest.Options{})
	key := config.Secret(base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32))))
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("planted-secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	a := newGuardedStageWith(t, func(c *config.Config) {
		c.Etcd.Endpoints, c.Store.Key = etcd.Endpoints(), key
		signsBrowsersIn(c)
		c.Auth.Issuers[0].Web.SecretFile = secret
	})
	a.op.SetSecret("emco-web", "planted-secret")
	root := a.company()
	other := &guardedStage{op: a.op, testStage: a.beside(func(*config.Config) {})}
	other.start()
	t.Cleanup(other.stop)

	b := a.browser()
	landing := b.signIn("dev", "shop")
	if !strings.Contains(landing.body, `url=/v2/projects"`) || landing.header.Get("Referrer-Policy") != "no-referrer" || !strings.Contains(landing.header.Get("Content-Security-Policy"), "default-src 'none'") {
		t.Errorf("after the sign-in: %v\n%s", landing.header, landing.body)
	}
	if b.cookies[sessionCookie] == "" || len(b.cookies) != 1 {
		t.Fatalf("the browser has %v", slices.Collect(maps.Keys(b.cookies)))
	}
	at := &browser{other, b.cookies}
	if got := at.wants(200, "GET", "/v2/auth/whoami", ""); !strings.Contains(got.body, `"subject":"user:corp:dev"`) || !strings.Contains(got.body, `"groups":["group:corp:shop"]`) || !strings.Contains(got.body, `"via":"session"`) {
		t.Errorf("whoami at the other process: %s", got.body)
	}
	dev := a.user("dev", "shop")
	for _, path := range []string{"projects", "projects/shop", "projects/bank", "tokens", "projects/shop/composite-apps"} {
		byToken := dev.do("GET", path, "")
		if got := at.send("GET", "/v2/"+path, ""); got.status != byToken.Status || strings.TrimSpace(got.body) != byToken.Body {
			t.Errorf("%s: %d %s, by token %d %s", path, got.status, got.body, byToken.Status, byToken.Body)
		}
	}
	at.wants(201, "POST", "/v2/projects/shop/composite-apps", `{"metadata":{"name":"desk"},"spec":{"compositeAppVersion":"v1"}}`)
	at.wants(404, "POST", "/v2/projects/bank/composite-apps", `{"metadata":{"name":"desk"},"spec":{"compositeAppVersion":"v1"}}`)

	kept := b.copied()
	b.wants(204, "POST", "/v2/auth/logout?dryRun=true", "")
	b.wants(200, "GET", "/v2/projects/shop", "")
	b.wants(204, "POST", "/v2/auth/logout", "")
	if len(b.cookies) > 0 {
		t.Errorf("the browser keeps %v", slices.Collect(maps.Keys(b.cookies)))
	}
	kept.wants(401, "GET", "/v2/projects/shop", "") // at once in the process that took the request
	there := &browser{other, kept.cookies}
	there.wants(401, "GET", "/v2/projects/shop", "") // and in the other one
	kept.wants(200, "GET", "/v2/auth/issuers", "")   // what needs no caller

	admin := a.browser()
	admin.signIn("root")
	ended := (&browser{other, admin.cookies}).follows("/v2/views/stream?topics=fleet")
	admin.wants(204, "POST", "/v2/auth/logout", "")
	<-ended

	in, out := root.audited("phase=sign-in&subject=user:corp:dev"), root.audited("phase=sign-out&subject=user:corp:dev")
	if i := slices.IndexFunc(in, func(l audit.Line) bool { return l.Via == "session" && l.Reason == "group:corp:shop" }); i < 0 || len(out) != 1 || out[0].Via != "session" {
		t.Errorf("the audit log: %+v\n%+v", in, out)
	}
	if log := a.log.String(); strings.Contains(log, "planted-secret") || strings.Contains(log, kept.cookies[sessionCookie]) {
		t.Error("the log has the client's secret or a cookie")
	}
}

func unlessStatus(p page, want int) string {
	if p.status != want {
		return p.body
	}
	return ""
}

// follows opens a stream; the channel is closed at its end.
func (b *browser) follows(path string) (ended <-chan struct{}) {
	b.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(b.Context()), patience)
	b.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, b.address+path, nil)
	b.must("make a request", err)
	r.AddCookie(&http.Cookie{Name: sessionCookie, Value: b.cookies[sessionCookie]})
	return b.drain(r)
}

// A sign-in ends only in the browser that began it, once, and leads to a path of this server.
func TestSignInsThatAreRefused(t *testing.T) {
	t.Parallel()
	g := newGuardedStageWith(t, signsBrowsersIn)
	root := g.company()
	dev := map[string]any{"sub": "dev"}
	b := g.browser()
	back := b.begin(dev, "")
	g.browser().wants(401, "GET", back, "") // a link to another's sign-in
	other := g.browser()
	other.begin(dev, "")
	if p := other.wants(401, "GET", back, ""); !strings.Contains(p.body, "has not begun this sign-in") || len(other.cookies) != 1 {
		t.Errorf("with the state of another browser: %s, %v", p.body, other.cookies)
	}
	kept, mixed := b.copied(), b.copied()
	b.wants(200, "GET", back, "")
	b.wants(401, "GET", back, "")    // the browser has ended it
	kept.wants(401, "GET", back, "") // the issuer takes the code once
	if kept.cookies[sessionCookie] != "" {
		t.Error("a code that was used gives a session")
	}
	for name := range mixed.cookies { // of the sign-in
		mixed.cookies[name] = b.cookies[sessionCookie]
	}
	mixed.wants(401, "GET", back, "")
	many := map[string]any{"sub": "dev", "groups": strings.Split(strings.Repeat("x", 200), "")}
	for i := range 200 {
		many["groups"].([]string)[i] = "a-group-of-a-large-company-" + strings.Repeat("x", i%50) + string(rune('a'+i%26))
	}
	if p := b.send("GET", b.begin(many, ""), ""); p.status != 403 || !strings.Contains(p.body, "do not fit into a cookie") {
		t.Errorf("very many groups: %d %s", p.status, p.body)
	}

	for _, to := range []string{
		"https://evil.example", "//evil.example", "///evil.example", `/\evil.example`, "/%09/evil.example", "evil.example", "javascript:alert(1)", "/a/../b", "/a//b", "/%2e%2e/a", "/" + strings.Repeat("x", 2000), "/\x01",
	} {
		p := g.browser().send("GET", "/v2/auth/login?return="+url.QueryEscape(to), "")
		if to == "/%09/evil.example" && p.status == 303 {
			continue // stays a path of this server: browsers do not decode it
		}
		if p.status != 400 {
			t.Errorf("return=%s: %d", to, p.status)
		}
	}
	b.wants(400, "GET", "/v2/auth/login?issuer=nowhere", "")
	b.wants(400, "GET", "/v2/auth/login?next=/", "")
	quoted := g.browser()
	landing := quoted.wants(200, "GET", quoted.begin(dev, "?return="+url.QueryEscape(`/v2/projects?q="><script>'`)), "")
	if strings.Contains(landing.body, "<script") || strings.Contains(landing.body, `q="`) {
		t.Errorf("the page has what the URL had:\n%s", landing.body)
	}
	g.op.SetDown(true)
	waiting := g.browser()
	waiting.cookies = quoted.copied().cookies
	g.op.SetDown(false)
	back = waiting.begin(dev, "")
	g.op.SetDown(true)
	waiting.wants(503, "GET", back, "")

	refused := root.audited("phase=refused&path=/v2/auth/callback")
	if len(refused) != 6 || refused[0].Code != 403 || refused[0].Subject != "user:corp:dev" || refused[1].Code != 401 || refused[1].Subject != "" {
		t.Errorf("the audit log: %+v", refused)
	}
}

// timeOf is a clock that stands still until a test moves it.
type timeOf struct{ ahead atomic.Int64 }

func (c *timeOf) option() app.Option {
	start := time.Now()
	return app.WithClock(func() time.Time { return start.Add(time.Duration(c.ahead.Load())) })
}

// Requests without anything that EMCO issued are limited for each address. Users at that address who have begun to sign in, or
// have a session, are not.
func TestOthersAtAnAddressBlockNoSignIn(t *testing.T) {
	t.Parallel()
	clock := new(timeOf)
	g := newGuardedStageWith(t, signsBrowsersIn, clock.option())
	g.company()
	dev := map[string]any{"sub": "dev", "groups": []string{"shop"}}
	b, second := g.browser(), g.browser()
	b.signIn("dev", "shop")
	back := second.begin(dev, "?return=/v2/projects")
	nobody := g.browser()
	answers := map[int]int{}
	for range 30 {
		answers[nobody.copied().send("GET", "/v2/auth/login", "").status]++
	}
	if want := map[int]int{303: 18, 429: 12}; !maps.Equal(answers, want) { // of 20 steps two were taken
		t.Errorf("answers to sign-ins that begin: %v, want %v", answers, want)
	}
	for _, r := range [][2]string{{"GET", "/v2/auth/login"}, {"GET", "/v2/auth/callback?state=x&code=y"}, {"POST", "/v2/auth/logout"}} {
		if p := nobody.wants(429, r[0], r[1], ""); p.header.Get("Retry-After") == "" {
			t.Errorf("%s does not say when to come again", r[1])
		}
	}
	kept := second.copied()
	second.wants(200, "GET", back, "")
	second.wants(200, "GET", "/v2/projects/shop", "")
	for _, want := range []int{401, 401, 429} { // of three answers to one sign-in, one was taken
		kept.copied().wants(want, "GET", back, "")
	}
	b.wants(204, "POST", "/v2/auth/logout", "")
	second.wants(204, "POST", "/v2/auth/logout?everywhere=true", "")
	clock.ahead.Add(int64(time.Second))
	nobody.wants(204, "POST", "/v2/auth/logout", "")
	nobody.wants(303, "GET", "/v2/auth/login", "")
}

// While nothing may be stored, people sign out, and do not sign in.
func TestSigningOutNeedsNoSpace(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.Start(t, 1, etcdtest.Options{})
	a := newGuardedStageWith(t, func(c *config.Config) {
		c.Etcd.Endpoints = etcd.Endpoints()
		c.Store.Key = config.Secret(base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32))))
		signsBrowsersIn(c)
	})
	a.company()
	full := &guardedStage{op: a.op, testStage: a.beside(func(c *config.Config) { c.Disk = 1 << 60 })}
	full.launch()
	t.Cleanup(full.stop)
	b, other := a.browser(), full.browser()
	b.signIn("dev", "shop")
	there := &browser{full, b.cookies}
	a.eventually("it decides", func() string { return unlessStatus(there.send("GET", "/v2/projects/shop", ""), 200) })
	there.wants(507, "POST", "/v2/projects/shop/composite-apps", `{"metadata":{"name":"desk"},"spec":{"compositeAppVersion":"v1"}}`)
	other.wants(507, "GET", other.begin(map[string]any{"sub": "dev", "groups": []string{"shop"}}, ""), "")
	there.wants(200, "GET", "/v2/projects/shop", "")
	there.wants(200, "POST", "/v2/auth/can-i", `{"path":"/v2/projects/shop"}`)
	there.wants(200, "POST", "/v2/auth/who-can", `{"path":"/v2/projects/shop"}`)
	there.wants(204, "POST", "/v2/auth/logout", "")
	b.wants(401, "GET", "/v2/projects/shop", "")
}

// Whoever signs out may sign out at the provider, too, which learns from the ID token which sign-in is meant.
func TestBrowsersSignOutAtTheProvider(t *testing.T) {
	t.Parallel()
	const page = "http://127.0.0.1/signed-out"
	g := newGuardedStageWith(t, func(c *config.Config) {
		signsBrowsersIn(c)
		c.Auth.Issuers[0].Web.SignedOut = page
	})
	g.op.Describe(map[string]any{"end_session_endpoint": g.op.URL + "/end?realm=corp"})
	g.company()
	const leave = "/v2/auth/logout?provider=true"
	b := g.browser()
	b.wants(204, "POST", leave, "") // there is no session
	b.signIn("dev", "shop")
	b.wants(400, "POST", "/v2/auth/logout?provider=yes", "")
	b.wants(204, "POST", leave+"&dryRun=true", "")
	plain := b.copied()
	stolen := b.cookies["__Secure-emco-token"]
	var out v2.SignOut
	b.must("read the answer", json.Unmarshal([]byte(b.wants(200, "POST", leave, "").body), &out))
	u, err := url.Parse(out.Page)
	b.must("read the page", err)
	q := u.Query()
	claims, good := g.op.Verify(q.Get("id_token_hint"))
	if u.Path != "/end" || q.Get("realm") != "corp" || q.Get("client_id") != "emco-web" || q.Get("post_logout_redirect_uri") != page || !good || claims["sub"] != "dev" {
		t.Errorf("the page is %s, of the person %v", out.Page, claims)
	}
	if len(b.cookies) > 0 {
		t.Errorf("the browser keeps %v", slices.Collect(maps.Keys(b.cookies)))
	}
	plain.wants(401, "GET", "/v2/projects/shop", "")

	b.signIn("dev", "shop")
	b.cookies["__Secure-emco-token"] = stolen // of another session
	b.must("read the answer", json.Unmarshal([]byte(b.wants(200, "POST", leave+"&everywhere=true", "").body), &out))
	if strings.Contains(out.Page, "id_token_hint") {
		t.Errorf("the page names the sign-in of another session: %s", out.Page)
	}
	b.signIn("dev", "shop")
	b.wants(204, "POST", "/v2/auth/logout", "") // the sign-in at the provider goes on
}

// EMCO asks a provider for no refresh token, so its settings bound the life of a session, whatever tokens the provider issues.
func TestSessionsOutliveTheTokensOfTheProvider(t *testing.T) {
	t.Parallel()
	clock := new(timeOf)
	g := newGuardedStageWith(t, signsBrowsersIn, clock.option())
	g.company()
	g.op.SetLife(time.Minute)
	b := g.browser()
	b.signIn("dev", "shop")
	if n := g.op.Sessions(); n != 0 {
		t.Errorf("the provider gave %d refresh tokens", n)
	}
	clock.ahead.Add(int64(30 * time.Minute))
	b.wants(200, "GET", "/v2/projects/shop", "")
	b.wants(204, "POST", "/v2/auth/logout?provider=true", "") // it has no page for that
}

// Behind a proxy that is trusted, each client has its own limit of sign-ins, and the audit log its address.
func TestClientsBehindAProxyAreLimitedApart(t *testing.T) {
	t.Parallel()
	g := newGuardedStageWith(t, func(c *config.Config) {
		signsBrowsersIn(c)
		c.HTTP.Proxies = []string{"127.0.0.0/8"}
	}, new(timeOf).option()) // With time, an address may sign in again.
	root := g.company()
	from := func(ip string) (status int) {
		return g.browser().send("GET", "/v2/auth/login", "", "X-Forwarded-For", ip).status
	}
	answers := map[int]int{}
	for range 40 {
		answers[from("192.0.2.1")]++
	}
	if want := map[int]int{303: 20, 429: 20}; !maps.Equal(answers, want) {
		t.Errorf("answers to one client: %v, want %v", answers, want)
	}
	for i := range 5 {
		if got := from("192.0.2.2"); got != 303 {
			t.Errorf("sign-in %d of another client: %d", i, got)
		}
	}
	if got := from("192.0.2.2, 192.0.2.1"); got != 429 {
		t.Errorf("a client that says that it is another one: %d", got)
	}
	b := g.browser()
	b.wants(200, "GET", b.begin(map[string]any{"sub": "dev"}, ""), "", "X-Forwarded-For", "192.0.2.3")
	if lines := root.audited("phase=sign-in&subject=user:corp:dev"); len(lines) != 1 || lines[0].Address != "192.0.2.3" {
		t.Errorf("the audit log has %+v", lines)
	}
}

// Who asks to end all sessions without having one learns that none has ended.
func TestSigningOutEverywhereNeedsASession(t *testing.T) {
	t.Parallel()
	g := newGuardedStageWith(t, signsBrowsersIn)
	g.company()
	b := g.browser()
	b.signIn("dev", "shop")
	for name, refused := range map[string]page{
		"nobody":                   g.browser().wants(401, "POST", "/v2/auth/logout?everywhere=true", ""),
		"a dry run":                g.browser().wants(401, "POST", "/v2/auth/logout?everywhere=true&dryRun=true", ""),
		"a page of another origin": b.copied().wants(403, "POST", "/v2/auth/logout?everywhere=true", "", "Sec-Fetch-Site", "same-site"),
	} {
		if refused.status == 401 && (!strings.Contains(refused.body, "sign in first") || refused.header.Get("WWW-Authenticate") == "") {
			t.Errorf("%s: %s", name, refused.body)
		}
	}
	b.wants(200, "GET", "/v2/projects/shop", "")
	g.browser().wants(204, "POST", "/v2/auth/logout?everywhere=false", "")
	b.wants(204, "POST", "/v2/auth/logout?everywhere=true", "")
	b.wants(401, "POST", "/v2/auth/logout?everywhere=true", "")
}

// Who is known by other means does not sign in: the session would not count.
func TestKnownCallersDoNotSignIn(t *testing.T) {
	t.Parallel()
	g := newGuardedStageWith(t, signsBrowsersIn)
	b := g.browser()
	token := g.op.Token(t, map[string]any{"aud": "emco-api", "sub": "dev"})
	if p := b.wants(400, "GET", "/v2/auth/login", "", "Authorization", "Bearer "+token); !strings.Contains(p.body, "user:corp:dev (by oidc)") || len(b.cookies) > 0 {
		t.Errorf("a sign-in beside a token: %s, %v", p.body, b.cookies)
	}
}

// A session in use does not end as idle: the program writes its cookie again.
func TestSessionsInUseGoOn(t *testing.T) {
	t.Parallel()
	clock := new(timeOf)
	g := newGuardedStageWith(t, signsBrowsersIn, clock.option())
	g.company()
	b := g.browser()
	b.signIn("dev", "shop")
	idle := b.copied()
	for range 5 {
		clock.ahead.Add(int64(40 * time.Minute))
		b.wants(200, "GET", "/v2/projects/shop", "")
	}
	idle.wants(401, "GET", "/v2/projects/shop", "")
}

// S-18: the session of a browser is believed of its own origin, alone, where it was sealed, and until it ends.
func TestS18SessionsAreBelievedOfTheirOwnBrowser(t *testing.T) {
	t.Parallel()
	g := newGuardedStageWith(t, func(c *config.Config) { signsBrowsersIn(c); c.Auth.Sessions.Person = 2 })
	root := g.company()
	b := g.browser()
	b.signIn("dev", "shop")
	b.wants(200, "GET", "/v2/projects/shop", "")
	if p := b.wants(400, "GET", "/v2/projects/shop", "", "Authorization", "Bearer "+g.op.Token(t, map[string]any{"aud": "emco-api", "sub": "dev", "groups": []string{"shop"}})); !strings.Contains(p.body, "send one of them") {
		t.Errorf("with two credentials: %s", p.body)
	}
	const app = `{"metadata":{"name":"desk"},"spec":{"compositeAppVersion":"v1"}}`
	for _, c := range []struct {
		method string
		want   int
		header [2]string
	}{
		{"POST", 403, [2]string{"Sec-Fetch-Site", "cross-site"}},
		{"POST", 403, [2]string{"Sec-Fetch-Site", "same-site"}},
		{"POST", 403, [2]string{"Origin", "http://evil.example"}},
		{"POST", 403, [2]string{"Origin", "null"}},
		{"POST", 415, [2]string{"Content-Type", "text/plain"}},
		{"GET", 401, [2]string{"Sec-Fetch-Site", "same-site"}},
		{"POST", 201, [2]string{"Sec-Fetch-Site", "same-origin"}},
	} {
		body := app
		if c.method == "GET" {
			body = ""
		}
		if c.header[0] == "Content-Type" { // as a form sends it
			r, err := http.NewRequestWithContext(t.Context(), c.method, g.address+"/v2/projects/shop/composite-apps", strings.NewReader(body))
			g.must("make a request", err)
			r.Header.Set("Content-Type", "text/plain")
			r.AddCookie(&http.Cookie{Name: sessionCookie, Value: b.cookies[sessionCookie]})
			res, err := http.DefaultClient.Do(r)
			g.must("send a form", err)
			g.must("close", res.Body.Close())
			if res.StatusCode != c.want {
				t.Errorf("a form: %d, want %d", res.StatusCode, c.want)
			}
			continue
		}
		if p := b.send(c.method, "/v2/projects/shop/composite-apps", body, c.header[0], c.header[1]); p.status != c.want {
			t.Errorf("%s with %v: %d %s, want %d", c.method, c.header, p.status, p.body, c.want)
		}
	}

	elsewhere := newGuardedStageWith(t, signsBrowsersIn)
	elsewhere.company()
	foreign := elsewhere.browser()
	foreign.cookies = b.cookies
	foreign.wants(401, "GET", "/v2/projects/shop", "")

	before := b.copied()
	b.signIn("dev", "shop") // again: the former session ends
	before.wants(401, "GET", "/v2/projects/shop", "")
	second, third := g.browser(), g.browser()
	second.signIn("dev", "shop")
	third.signIn("dev", "shop")
	b.wants(401, "GET", "/v2/projects/shop", "") // the oldest of three
	root.expect(204, "DELETE", "projects/shop/role-bindings/team", "")
	second.wants(404, "GET", "/v2/projects/shop", "")
	root.expect(201, "POST", "projects/shop/role-bindings", binding("team", "viewer", "group:corp:shop"))
	second.wants(200, "GET", "/v2/projects/shop", "")
	second.wants(204, "POST", "/v2/auth/logout?everywhere=true", "")
	third.wants(401, "GET", "/v2/projects/shop", "")
}
