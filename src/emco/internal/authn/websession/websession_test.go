package websession_test

import (
	"context"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/authn"
	"github.com/emco-orchestrator/emco/src/emco/internal/authn/oidc"
	"github.com/emco-orchestrator/emco/src/emco/internal/authn/websession"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/seal"
)

// ids are sessions that have not ended, and the number of looks.
type ids struct {
	live  []string
	looks int
	err   error
}

func (i *ids) LiveSession(_ context.Context, _, id string) (bool, error) {
	i.looks++
	return slices.Contains(i.live, id), i.err
}

// stage is a keeper with a clock.
type stage struct {
	*testing.T
	*websession.Keeper
	known *ids
	now   time.Time
}

func newStage(t *testing.T, key seal.Key) *stage {
	t.Helper()
	s := &stage{T: t, known: &ids{}, now: time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC)}
	s.Keeper = &websession.Keeper{
		Sealer: seal.New(key), Live: s.known, Prefixes: map[string]string{"corp": "corp:"}, Life: 8 * time.Hour, Idle: time.Hour,
		Now: func() time.Time { return s.now },
	}
	return s
}

// signIn returns the cookie of a new session of ann.
func (s *stage) signIn(groups ...string) *http.Cookie {
	s.Helper()
	session := s.New("corp", authn.User("corp:", "ann", groups, authn.ViaOIDC))
	s.known.live = append(s.known.live, session.ID)
	c, err := s.Cookie(session)
	if err != nil {
		s.Fatal(err)
	}
	return c
}

// send returns a request with cookies.
func send(method, path string, cookies ...*http.Cookie) *http.Request {
	r := httptest.NewRequest(method, path, nil)
	for _, c := range cookies {
		r.AddCookie(c)
	}
	return r
}

// who returns the subject that a request's session names.
func (s *stage) who(r *http.Request) string {
	s.Helper()
	c, given, err := s.Session(r)
	if err != nil || !given {
		s.Fatalf("%s: given %v, %v", r.URL.Path, given, err)
	}
	return c.Subject
}

const ann = "user:corp:ann"

func TestACookieNamesItsPerson(t *testing.T) {
	t.Parallel()
	s := newStage(t, seal.NewKey())
	c := s.signIn("shop")
	caller, given, err := s.Session(send("GET", "/v2/projects", c))
	if err != nil || !given || caller.Subject != ann || !slices.Equal(caller.Groups, []string{"group:corp:shop"}) || caller.Via != authn.ViaSession || !caller.Until.Equal(s.now.Add(8*time.Hour)) {
		t.Errorf("caller = %+v, %v, %v", caller, given, err)
	}
	if c.Name != "__Host-emco" || !c.HttpOnly || !c.Secure || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || c.Domain != "" || c.MaxAge != 3600 {
		t.Errorf("the cookie: %s", c)
	}
	if strings.Contains(c.Value, "ann") {
		t.Errorf("the cookie is not sealed: %s", c)
	}
	if _, given, err := s.Session(send("GET", "/v2/projects")); given || err != nil {
		t.Errorf("without a cookie: %v, %v", given, err)
	}
	for _, path := range []string{websession.LoginPath, websession.CallbackPath, websession.LogoutPath} {
		if _, given, _ := s.Session(send("GET", path, c)); given {
			t.Errorf("%s needs no session", path)
		}
	}
}

func TestCookiesThatNameNobody(t *testing.T) {
	t.Parallel()
	key := seal.NewKey()
	s := newStage(t, key)
	good := s.signIn()
	elsewhere := newStage(t, seal.NewKey())
	foreign := elsewhere.signIn()
	s.known.live = append(s.known.live, elsewhere.known.live...)
	value := func(v string) *http.Cookie { return &http.Cookie{Name: good.Name, Value: v} }
	changed := []byte(good.Value)
	changed[len(changed)/2] ^= 1
	w := httptest.NewRecorder()
	if err := s.Begin(w, send("GET", websession.LoginPath), websession.SignIn{Challenge: oidc.NewChallenge(), Issuer: "corp"}); err != nil {
		t.Fatal(err)
	}
	other := s.New("corp", authn.User("other:", "ann", nil, authn.ViaOIDC))
	unknown := s.New("gone", authn.User("corp:", "ann", nil, authn.ViaOIDC))
	s.known.live = append(s.known.live, other.ID, unknown.ID)
	sealed := func(session websession.Session) *http.Cookie {
		c, err := s.Cookie(session)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	for name, cookies := range map[string][]*http.Cookie{
		"of another deployment":              {foreign},
		"with a changed byte":                {value(string(changed))},
		"empty":                              {value("")},
		"of no form":                         {value("x")},
		"very long":                          {value(strings.Repeat("A", 60_000))},
		"twice":                              {good, good},
		"of a sign-in":                       {value(w.Result().Cookies()[0].Value)},
		"of an issuer that is gone":          {sealed(unknown)},
		"of an issuer with another prefix":   {sealed(other)},
		"of a session that nobody has begun": {sealed(s.New("corp", authn.User("corp:", "ann", nil, authn.ViaOIDC)))},
	} {
		if got := s.who(send("GET", "/v2/projects", cookies...)); got != "" {
			t.Errorf("a cookie %s names %s", name, got)
		}
	}
	if got := s.who(send("GET", "/v2/projects", good)); got != ann {
		t.Errorf("the good one names %q", got)
	}
}

func TestPagesOfOtherOriginsHaveNoSession(t *testing.T) {
	t.Parallel()
	s := newStage(t, seal.NewKey())
	c := s.signIn()
	for headers, want := range map[string]string{
		"":            ann, // a program
		"same-origin": ann, "none": ann,
		"same-site navigate document": ann, // a link
		"same-site":                   "", "cross-site": "", "cross-site navigate iframe": "", "same-site no-cors script": "", "unheard-of": "",
	} {
		r := send("GET", "/v2/projects", c)
		for i, value := range strings.Fields(headers) {
			r.Header.Set([]string{"Sec-Fetch-Site", "Sec-Fetch-Mode", "Sec-Fetch-Dest"}[i], value)
		}
		if got := s.who(r); got != want {
			t.Errorf("%s: %q, want %q", headers, got, want)
		}
	}
	r := send("POST", "/v2/projects", c)
	for name, value := range map[string]string{"Site": "same-site", "Mode": "navigate", "Dest": "document"} {
		r.Header.Set("Sec-Fetch-"+name, value)
	}
	if got := s.who(r); got != "" {
		t.Errorf("a form of a sibling is sent as %s", got)
	}
}

// A session ends without requests after the idle time, and with them after its life.
func TestSessionsEnd(t *testing.T) {
	t.Parallel()
	s := newStage(t, seal.NewKey())
	begin, c := s.now, s.signIn()
	renewed := s.Renew(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	use := func() (fresh *http.Cookie) {
		r := send("GET", "/v2/projects", c)
		caller, _, err := s.Session(r)
		if err != nil {
			t.Fatal(err)
		}
		w := httptest.NewRecorder()
		renewed.ServeHTTP(w, r.WithContext(authn.With(r.Context(), caller)))
		for _, fresh = range w.Result().Cookies() {
			c = fresh
		}
		return fresh
	}
	s.now = begin.Add(5 * time.Minute)
	if use() != nil {
		t.Error("a cookie of five minutes is written again")
	}
	idle := c
	for s.now.Sub(begin) < 8*time.Hour-time.Minute {
		if got := s.who(send("GET", "/v2/projects", c)); got != ann {
			t.Fatalf("after %s in use: %q", s.now.Sub(begin), got)
		}
		use()
		s.now = s.now.Add(50 * time.Minute)
	}
	if s.now = begin.Add(time.Hour); s.who(send("GET", "/v2/projects", idle)) != "" {
		t.Error("an idle session goes on")
	}
	if s.now = begin.Add(8 * time.Hour); s.who(send("GET", "/v2/projects", c)) != "" {
		t.Error("a session goes on after its life")
	}
	if use() != nil {
		t.Error("the cookie of a session that has ended is written again")
	}
}

// An answer that is being given for some time, such as a stream, ends with the session's life or in the store, not when
// its cookie has become idle: the person works in the same page.
func TestAStreamIsNotIdle(t *testing.T) {
	t.Parallel()
	s := newStage(t, seal.NewKey())
	r := send("GET", "/v2/views/stream", s.signIn())
	again := func() string {
		c, given, err := s.Again(r)
		if err != nil || !given {
			t.Fatalf("given %v, %v", given, err)
		}
		return c.Subject
	}
	s.now = s.now.Add(2 * time.Hour)
	if got := again(); got != ann || s.who(r) != "" {
		t.Errorf("after two hours the stream is of %q, and a new request of %q", got, s.who(r))
	}
	live := s.known.live
	if s.known.live = nil; again() != "" {
		t.Error("the stream goes on after a sign-out")
	}
	s.known.live = live
	if s.now = s.now.Add(6 * time.Hour); again() != "" {
		t.Error("the stream goes on after the session's life")
	}
}

// An answer that was long in preparation does not bring back a session that has ended meanwhile.
func TestASlowAnswerKeepsNoEndedSession(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(w http.ResponseWriter) error{
		"nothing":  func(http.ResponseWriter) error { return nil },
		"a status": func(w http.ResponseWriter) error { w.WriteHeader(http.StatusNoContent); return nil },
		"a text":   func(w http.ResponseWriter) error { _, err := w.Write([]byte("x")); return err },
		"a stream": func(w http.ResponseWriter) error { return http.NewResponseController(w).Flush() },
	} {
		s := newStage(t, seal.NewKey())
		c := s.signIn()
		s.now = s.now.Add(30 * time.Minute)
		get := func(during func()) []*http.Cookie {
			handler := s.Renew(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				during()
				if err := answer(w); err != nil {
					t.Error(err)
				}
				w.Header().Set("Late", "x")
			}))
			r := send("GET", "/v2/projects", c)
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r.WithContext(authn.With(r.Context(), authn.Caller{Subject: ann, Via: authn.ViaSession})))
			return w.Result().Cookies()
		}
		if got := get(func() {}); len(got) != 1 || got[0].Name != c.Name {
			t.Errorf("%s: the cookie is not written again: %v", name, got)
		}
		if got := get(func() { s.known.live = nil }); len(got) > 0 {
			t.Errorf("%s: the session has ended, and its cookie comes back: %v", name, got)
		}
	}
}

// jar is the cookies of a browser.
type jar map[string]*http.Cookie

func (j jar) take(w *httptest.ResponseRecorder) {
	for _, c := range w.Result().Cookies() {
		if j[c.Name] = c; c.MaxAge < 0 {
			delete(j, c.Name)
		}
	}
}

func (j jar) send(path string) *http.Request {
	return send("GET", path, slices.Collect(maps.Values(j))...)
}

// Tabs of one browser sign in concurrently, and a request that does not know the state of a sign-in does not cancel it. The
// oldest sign-ins go when there are too many.
func TestSignInsBesideEachOther(t *testing.T) {
	t.Parallel()
	s, browser := newStage(t, seal.NewKey()), jar{}
	begin := func() (state string) {
		w, c := httptest.NewRecorder(), oidc.NewChallenge()
		if err := s.Begin(w, browser.send(websession.LoginPath), websession.SignIn{Challenge: c, Issuer: "corp"}); err != nil {
			t.Fatal(err)
		}
		browser.take(w)
		s.now = s.now.Add(time.Second)
		return c.State
	}
	end := func(state string) bool {
		w := httptest.NewRecorder()
		got, ok := s.Take(w, browser.send(websession.CallbackPath), state)
		browser.take(w)
		return ok && got.Challenge.State == state
	}
	first, second := begin(), begin()
	for _, forged := range []string{"", "x", oidc.NewChallenge().State} {
		if end(forged) || len(browser) != 2 {
			t.Errorf("with the state %q the browser keeps %d sign-ins", forged, len(browser))
		}
	}
	if !end(second) || !end(first) || end(first) || len(browser) > 0 {
		t.Errorf("two tabs do not sign in, each once; %d sign-ins are left", len(browser))
	}
	var states []string
	for range 10 {
		states = append(states, begin())
	}
	if len(browser) != 4 || end(states[5]) || !end(states[6]) || !end(states[9]) {
		t.Errorf("after ten sign-ins the browser keeps %d", len(browser))
	}
	browser["__Host-emco-signin-0123456789abcdef"] = &http.Cookie{Name: "__Host-emco-signin-0123456789abcdef", Value: "x"}
	if last := begin(); len(browser) != 3 || !end(last) {
		t.Errorf("what is no sign-in stays: %v", browser)
	}
}

func TestASessionOfAnotherProcessIsLookedFor(t *testing.T) {
	t.Parallel()
	key := seal.NewKey()
	a, b := newStage(t, key), newStage(t, key)
	c := a.signIn()
	b.known.live = a.known.live
	if got := b.who(send("GET", "/v2/projects", c)); got != ann || b.known.looks != 1 {
		t.Errorf("%q after %d looks", got, b.known.looks)
	}
	if b.who(send("GET", "/v2/projects", &http.Cookie{Name: c.Name, Value: "x"})); b.known.looks != 1 {
		t.Error("a forged cookie makes a process look")
	}
	b.known.err = errs.New(errs.Unavailable, "the store is down")
	if _, given, err := b.Session(send("GET", "/v2/projects", c)); !given || !errs.Is(err, errs.Unavailable) {
		t.Errorf("while the store is down: %v, %v", given, err)
	}
}

// A key that seals no more opens what it sealed; one that is gone opens nothing.
func TestSessionsAfterAKeyRotation(t *testing.T) {
	t.Parallel()
	first, second := seal.NewKey(), seal.NewKey()
	s := newStage(t, first)
	c := s.signIn()
	s.Sealer.Use(second, first)
	if got := s.who(send("GET", "/v2/projects", c)); got != ann {
		t.Errorf("after a rotation: %q", got)
	}
	s.Sealer.Use(second)
	if got := s.who(send("GET", "/v2/projects", c)); got != "" {
		t.Errorf("without the key: %q", got)
	}
}

func TestGroupsThatFitNoCookie(t *testing.T) {
	t.Parallel()
	s := newStage(t, seal.NewKey())
	var groups []string
	for range 160 {
		groups = append(groups, "a-group-of-twenty-characters"+seal.NewKey().ID())
	}
	s.signIn(groups[:40]...)
	if _, err := s.Cookie(s.New("corp", authn.User("corp:", "ann", groups, authn.ViaOIDC))); !errs.Is(err, errs.Forbidden) || !strings.Contains(err.Error(), "160 groups") {
		t.Errorf("error = %v", err)
	}
}

// A sign-in is taken once by the browser that began it, within ten minutes.
func TestASignInIsTakenOnce(t *testing.T) {
	t.Parallel()
	s := newStage(t, seal.NewKey())
	w := httptest.NewRecorder()
	want := websession.SignIn{Challenge: oidc.NewChallenge(), Issuer: "corp", Return: "/v2/projects", Former: &websession.Former{Subject: ann, ID: "x"}}
	if err := s.Begin(w, send("GET", websession.LoginPath), want); err != nil {
		t.Fatal(err)
	}
	c := w.Result().Cookies()[0]
	if !strings.HasPrefix(c.Name, "__Host-emco-signin-") || strings.Contains(c.String(), want.Challenge.State) || !c.HttpOnly || !c.Secure || c.SameSite != http.SameSiteLaxMode || c.Path != "/" || c.Domain != "" || c.MaxAge != 600 {
		t.Errorf("the cookie: %s", c)
	}
	w = httptest.NewRecorder()
	got, ok := s.Take(w, send("GET", websession.CallbackPath, c), want.Challenge.State)
	if !ok || got.Challenge != want.Challenge || got.Issuer != "corp" || got.Return != want.Return || *got.Former != *want.Former {
		t.Errorf("taken: %+v, %v", got, ok)
	}
	if gone := w.Result().Cookies(); len(gone) != 1 || gone[0].Name != c.Name || gone[0].MaxAge >= 0 {
		t.Errorf("the browser keeps %v", gone)
	}
	s.now = s.now.Add(10 * time.Minute)
	if _, ok := s.Take(httptest.NewRecorder(), send("GET", websession.CallbackPath, c), want.Challenge.State); ok {
		t.Error("a sign-in is taken after ten minutes")
	}
	if _, ok := s.Take(httptest.NewRecorder(), send("GET", websession.CallbackPath), want.Challenge.State); ok {
		t.Error("a sign-in without a beginning is taken")
	}
	if err := s.Begin(httptest.NewRecorder(), send("GET", websession.LoginPath), websession.SignIn{Return: "/" + strings.Repeat("x", 5000)}); !errs.Is(err, errs.Invalid) {
		t.Errorf("a path of 5000 characters: %v", err)
	}
}

// The ID token of a sign-in goes to the route that ends sessions only, for its own session.
func TestTheTokenOfASignIn(t *testing.T) {
	t.Parallel()
	s := newStage(t, seal.NewKey())
	mine, other := s.New("corp", authn.User("corp:", "ann", nil, authn.ViaOIDC)), s.New("corp", authn.User("corp:", "ann", nil, authn.ViaOIDC))
	keep := func(token string) *http.Cookie {
		w := httptest.NewRecorder()
		s.KeepToken(w, mine, token)
		return w.Result().Cookies()[0]
	}
	c := keep("secret-token")
	if !c.HttpOnly || !c.Secure || c.SameSite != http.SameSiteStrictMode || c.Path != websession.LogoutPath || c.Domain != "" || c.MaxAge != 8*3600 || strings.Contains(c.Value, "secret") {
		t.Errorf("the cookie: %s", c)
	}
	r := send("POST", websession.LogoutPath, c)
	if got := s.Token(r, mine); got != "secret-token" {
		t.Errorf("the token is %q", got)
	}
	if got := s.Token(r, other); got != "" {
		t.Errorf("the token of another session is %q", got)
	}
	if got := newStage(t, seal.NewKey()).Token(r, mine); got != "" {
		t.Errorf("with another key the token is %q", got)
	}
	if long := keep(strings.Repeat("x", 4000)); long.Value != "" || long.MaxAge >= 0 {
		t.Errorf("a token that does not fit: %s", long)
	}
}
