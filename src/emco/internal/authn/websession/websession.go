// Package websession writes and reads the sealed cookies of browsers: their sessions, and their sign-ins that are under
// way. Package access/grants decides which sessions have not ended.
package websession

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/authn"
	"github.com/emco-orchestrator/emco/src/emco/internal/authn/oidc"
	"github.com/emco-orchestrator/emco/src/emco/internal/config"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/seal"
)

// The cookies. A browser takes a cookie with the prefix __Host- only over TLS and from the host itself, so no
// other host can set it.
const (
	sessionCookie = "__Host-emco"
	signInPrefix  = "__Host-emco-signin-" // a digest of the state follows, so each sign-in has a cookie of its own
	tokenCookie   = "__Secure-emco-token" // only for LogoutPath, which __Host- does not allow
)

// The routes of sign-ins. Their handlers read the cookies themselves.
const (
	LoginPath    = "/v2/auth/login"
	CallbackPath = config.CallbackPath
	LogoutPath   = "/v2/auth/logout"

	// BackChannelPath is where providers report sign-outs. Their requests have no cookies.
	BackChannelPath = "/v2/auth/backchannel-logout"
)

const (
	maxCookie  = 4000             // bytes of a value; browsers drop cookies of more than 4096 with their name
	signInLife = 10 * time.Minute // of a sign-in that is under way
	maxSignIns = 4                // that are under way in one browser: proxies limit the length of headers
	renewals   = 10               // how often a session is written again within its idle time, at most
)

// Session is the content of a session's cookie.
type Session struct {
	ID      string    `json:"id"`
	Issuer  string    `json:"issuer"`
	Subject string    `json:"subject"`
	Groups  []string  `json:"groups,omitempty"`
	Made    time.Time `json:"made"`
	Used    time.Time `json:"used"` // last time that the cookie was written
}

// SignIn is the content of the cookie of a sign-in that is under way.
type SignIn struct {
	Challenge oidc.Challenge `json:"challenge"`
	Issuer    string         `json:"issuer"`
	Return    string         `json:"return"` // path that the browser opens in the end
	Former    *Former        `json:"former,omitempty"`
	Begun     time.Time      `json:"begun"`
}

// Former is the session that a browser had when it began to sign in.
type Former struct {
	Subject string `json:"subject"`
	ID      string `json:"id"`
}

// Live knows which sessions have not ended.
type Live interface {
	// LiveSession reports whether a session of a person has not ended, at any process. It is Unavailable if that cannot be decided.
	LiveSession(ctx context.Context, subject, id string) (bool, error)
}

// Keeper writes and reads the cookies. All processes with the same data keys read the same.
type Keeper struct {
	Sealer   *seal.Sealer
	Live     Live
	Prefixes map[string]string // of people in subjects, by issuer at which browsers sign in
	Life     time.Duration     // of a session
	Idle     time.Duration     // without a request, after which a session ends
	Now      func() time.Time
}

// New returns a new session of a caller.
func (k *Keeper) New(issuer string, c authn.Caller) Session {
	now := k.Now().UTC().Truncate(time.Second)
	return Session{ID: rand.Text(), Issuer: issuer, Subject: c.Subject, Groups: c.Groups, Made: now, Used: now}
}

// Ends returns when a session ends at the latest.
func (k *Keeper) Ends(s Session) time.Time { return s.Made.Add(k.Life) }

// Session implements authn.Sessions.
func (k *Keeper) Session(r *http.Request) (c authn.Caller, given bool, err error) {
	return k.session(r, k.Read)
}

// Again implements authn.Sessions.
func (k *Keeper) Again(r *http.Request) (c authn.Caller, given bool, err error) {
	return k.session(r, func(r *http.Request) (Session, error) { return k.living(r, k.read) })
}

func (k *Keeper) session(r *http.Request, read func(*http.Request) (Session, error)) (c authn.Caller, given bool, err error) {
	if len(r.CookiesNamed(sessionCookie)) == 0 || slices.Contains([]string{LoginPath, CallbackPath, LogoutPath}, r.URL.Path) {
		return authn.Caller{}, false, nil
	}
	s, err := read(r)
	if err != nil || s.ID == "" {
		return authn.Caller{}, true, err
	}
	return authn.Caller{Subject: s.Subject, Groups: s.Groups, Via: authn.ViaSession, Until: k.Ends(s)}, true, nil
}

// Read returns the session that a request has a cookie of; the zero Session if there is none, or if it is no
// longer valid. It is Unavailable if that cannot be decided.
func (k *Keeper) Read(r *http.Request) (Session, error) { return k.living(r, k.inUse) }

// living is Read for the session that read returns.
func (k *Keeper) living(r *http.Request, read func(*http.Request) (Session, bool)) (Session, error) {
	s, ok := read(r)
	if !ok {
		return Session{}, nil
	}
	live, err := k.Live.LiveSession(r.Context(), s.Subject, s.ID)
	if err != nil || !live {
		return Session{}, err
	}
	return s, nil
}

// inUse is read without sessions that have ended as idle.
func (k *Keeper) inUse(r *http.Request) (s Session, ok bool) {
	s, ok = k.read(r)
	return s, ok && k.Now().Before(s.Used.Add(k.Idle))
}

// read returns the session in the cookie of a request, which may have ended in the store, or as idle.
func (k *Keeper) read(r *http.Request) (s Session, ok bool) {
	if foreign(r) || !k.open(r, sessionCookie, &s) {
		return Session{}, false
	}
	now, prefix := k.Now(), k.Prefixes[s.Issuer]
	return s, prefix != "" && strings.HasPrefix(s.Subject, "user:"+prefix) && now.Before(k.Ends(s))
}

// foreign reports whether a page of another origin had the browser send the request, other than by going there. A page of a
// sibling host could, because SameSite is about sites.
func foreign(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	if site == "" || site == "same-origin" || site == "none" {
		return false
	}
	return r.Method != http.MethodGet || r.Header.Get("Sec-Fetch-Mode") != "navigate" || r.Header.Get("Sec-Fetch-Dest") != "document"
}

// Cookie returns the cookie of a session; Forbidden if it does not fit into one.
func (k *Keeper) Cookie(s Session) (*http.Cookie, error) {
	rest := min(s.Used.Add(k.Idle).Sub(k.Now()), k.Ends(s).Sub(k.Now()))
	value, err := k.seal(sessionCookie, s)
	if err != nil {
		return nil, errs.New(errs.Forbidden, s.Subject+" is in "+strconv.Itoa(len(s.Groups))+" groups, whose names do not fit into a cookie: have the issuer "+s.Issuer+" send only the groups that bindings name, or sign in with emcoctl")
	}
	return cookie(sessionCookie, value, rest, http.SameSiteStrictMode), nil
}

// Renew returns a handler that writes the cookies of sessions in use again, so that they do not end as idle.
func (k *Keeper) Renew(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if authn.From(r.Context()).Via != authn.ViaSession {
			next.ServeHTTP(w, r)
			return
		}
		s, ok := k.inUse(r)
		if !ok || k.Now().Sub(s.Used) < k.Idle/renewals {
			next.ServeHTTP(w, r)
			return
		}
		answer := &renewal{ResponseWriter: w, write: func() { k.renew(w, r, s) }}
		next.ServeHTTP(answer, r)
		answer.begin()
	})
}

// renew writes the cookie of a session again, unless the session has ended while the answer was prepared: the browser
// may have another one already.
func (k *Keeper) renew(w http.ResponseWriter, r *http.Request, s Session) {
	if live, err := k.Live.LiveSession(r.Context(), s.Subject, s.ID); err != nil || !live {
		return
	}
	s.Used = k.Now().UTC().Truncate(time.Second)
	if c, err := k.Cookie(s); err == nil {
		http.SetCookie(w, c)
	}
}

// End removes the session from the browser.
func (k *Keeper) End(w http.ResponseWriter) {
	http.SetCookie(w, cookie(sessionCookie, "", 0, http.SameSiteStrictMode))
	http.SetCookie(w, forLogout(cookie(tokenCookie, "", 0, http.SameSiteStrictMode)))
}

// proof is the content of the cookie that a browser shows when it signs out.
type proof struct {
	Session string `json:"session"` // its id
	Token   string `json:"token"`   // the ID token of the sign-in
}

// KeepToken gives the browser the ID token of a session's sign-in, sealed, for its sign-out at the issuer. One that does not fit into a
// cookie is not kept, and a former one goes.
func (k *Keeper) KeepToken(w http.ResponseWriter, s Session, token string) {
	value, err := k.seal(tokenCookie, proof{s.ID, token})
	if err != nil {
		value = ""
	}
	http.SetCookie(w, forLogout(cookie(tokenCookie, value, k.Ends(s).Sub(k.Now()), http.SameSiteStrictMode)))
}

// Token returns the ID token of a session's sign-in that the browser keeps; empty if it keeps none.
func (k *Keeper) Token(r *http.Request, s Session) string {
	var p proof
	if !k.open(r, tokenCookie, &p) || p.Session != s.ID {
		return ""
	}
	return p.Token
}

// forLogout keeps a cookie to the route that ends sessions.
func forLogout(c *http.Cookie) *http.Cookie {
	c.Path = LogoutPath
	return c
}

// signInCookie returns the name of the cookie of the sign-in with a state.
func signInCookie(state string) string {
	sum := sha256.Sum256([]byte(state))
	return signInPrefix + hex.EncodeToString(sum[:8])
}

// Begin gives the browser a sign-in. Of those that the browser has, it removes the oldest beyond the limit.
func (k *Keeper) Begin(w http.ResponseWriter, r *http.Request, s SignIn) error {
	s.Begun = k.Now().UTC()
	name := signInCookie(s.Challenge.State)
	value, err := k.seal(name, s)
	if err != nil {
		return errs.New(errs.Invalid, "the sign-in does not fit into a cookie: the path in return is too long")
	}
	under := k.underWay(w, r)
	for _, old := range under[:max(len(under)-maxSignIns+1, 0)] {
		http.SetCookie(w, cookie(signInCookie(old.Challenge.State), "", 0, http.SameSiteLaxMode))
	}
	http.SetCookie(w, cookie(name, value, signInLife, http.SameSiteLaxMode)) // the issuer's page sends the browser back
	return nil
}

// underWay returns the sign-ins that a browser has begun, oldest first. It removes cookies that are of no use.
func (k *Keeper) underWay(w http.ResponseWriter, r *http.Request) (all []SignIn) {
	for _, c := range r.Cookies() {
		if !strings.HasPrefix(c.Name, signInPrefix) {
			continue
		}
		if s, ok := k.signIn(r, c.Name); ok {
			all = append(all, s)
		} else {
			http.SetCookie(w, cookie(c.Name, "", 0, http.SameSiteLaxMode))
		}
	}
	slices.SortFunc(all, func(a, b SignIn) int { return a.Begun.Compare(b.Begun) })
	return all
}

// Take takes the sign-in with a state from the browser; false if it has begun none in the last ten minutes. Others of the
// browser stay.
func (k *Keeper) Take(w http.ResponseWriter, r *http.Request, state string) (SignIn, bool) {
	name := signInCookie(state)
	s, ok := k.signIn(r, name)
	if ok {
		http.SetCookie(w, cookie(name, "", 0, http.SameSiteLaxMode))
	}
	return s, ok
}

// signIn reads the sign-in in the cookie of a name.
func (k *Keeper) signIn(r *http.Request, name string) (s SignIn, ok bool) {
	ok = k.open(r, name, &s) && k.Now().Before(s.Begun.Add(signInLife))
	return s, ok
}

// cookie returns a cookie for this host only, out of reach of scripts. Without a value it removes the cookie.
func cookie(name, value string, life time.Duration, site http.SameSite) *http.Cookie {
	age := max(int(life.Seconds()), 1)
	if value == "" {
		age = -1
	}
	return &http.Cookie{Name: name, Value: value, Path: "/", MaxAge: age, Secure: true, HttpOnly: true, SameSite: site}
}

// errTooLong means that a value does not fit into a cookie.
var errTooLong = errs.New(errs.Invalid, "the value does not fit into a cookie")

// seal returns the value of a cookie. It opens as a cookie of that name only.
func (k *Keeper) seal(name string, content any) (string, error) {
	text, err := json.Marshal(content)
	if err != nil {
		return "", err
	}
	value := base64.RawURLEncoding.EncodeToString(k.Sealer.Seal(text, "cookie", name))
	if len(value) > maxCookie {
		return "", errTooLong
	}
	return value, nil
}

// open reads the cookie of a name; false if there is not exactly one, or if it was not sealed here.
func (k *Keeper) open(r *http.Request, name string, content any) bool {
	all := r.CookiesNamed(name)
	if len(all) != 1 || len(all[0].Value) > maxCookie {
		return false
	}
	sealed, err := base64.RawURLEncoding.DecodeString(all[0].Value)
	if err != nil {
		return false
	}
	text, err := k.Sealer.OpenForeign(sealed, "cookie", name)
	return err == nil && json.Unmarshal(text, content) == nil
}
