// Package oidctest is an OpenID Connect provider for tests. It signs real tokens, serves discovery and
// keys, and keeps the state of logins in browsers and on devices; it refuses what a provider must refuse.
package oidctest

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Provider is a running provider.
type Provider struct {
	URL string // of the issuer

	mu      sync.Mutex
	keys    []signingKey            // newest last; guarded by mu
	down    bool                    // answers 503; guarded by mu
	fetches int                     // of the key set; guarded by mu
	person  map[string]any          // claims of who is at the browser; nil: no user; guarded by mu
	life    time.Duration           // of tokens that clients get; guarded by mu
	logins  map[string]*deviceLogin // by device code; guarded by mu
	codes   map[string]codeLogin    // by authorization code; guarded by mu
	refresh map[string]session      // by refresh token; guarded by mu
	secrets map[string]string       // of confidential clients, by id; guarded by mu
	method  string                  // how confidential clients show their secret; guarded by mu
	changes map[string]any          // members of the discovery document that differ; guarded by mu
	granted []string                // tokens that clients got; guarded by mu

	signIn  string              // at the browser now; guarded by mu
	signIns map[string]*signIn  // that have not ended, by their names; guarded by mu
	reports map[string]Reporter // of clients that want to know of sign-outs, by client; guarded by mu
}

// session is who signed in, with its client and audience.
type session struct {
	client, audience string
	scopes           []string
	nonce            string
	signIn           string         // name of the sign-in; empty: it was not in a browser
	claims           map[string]any // nil: no user yet
}

// deviceLogin is a login that waits for a person.
type deviceLogin struct {
	session
	user   string // code
	denied bool
	asked  time.Time // the client's last question
}

// codeLogin is a login in a browser that the client has not fetched yet.
type codeLogin struct {
	session
	redirect, challenge string
}

// pollInterval is how long a client must wait between two questions.
const pollInterval = time.Second

// New starts a provider that ends with the test. All providers of a program begin with the same signing key.
func New(t testing.TB) *Provider {
	t.Helper()
	p := &Provider{
		logins: map[string]*deviceLogin{}, codes: map[string]codeLogin{}, refresh: map[string]session{}, secrets: map[string]string{},
		method: Basic, life: time.Hour, signIns: map[string]*signIn{}, reports: map[string]Reporter{},
	}
	p.rotate(t, 1, firstKey)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", p.discovery)
	mux.HandleFunc("GET /keys", p.keySet)
	mux.HandleFunc("GET /authorize", p.authorize)
	mux.HandleFunc("POST /device", p.device)
	mux.HandleFunc("GET /activate", p.activate)
	mux.HandleFunc("POST /revoke", p.revoke)
	mux.HandleFunc("POST /token", p.token)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		down := p.down
		p.mu.Unlock()
		if down {
			http.Error(w, "down", http.StatusServiceUnavailable)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	p.URL = server.URL
	return p
}

// SetDown makes the provider refuse everything, or answer again.
func (p *Provider) SetDown(down bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = down
}

// SetPerson sets the person at each browser, by the claims of its tokens; nil: a person who does not sign in. It begins another sign-in at
// the provider.
func (p *Provider) SetPerson(claims map[string]any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.person, p.signIn = claims, ""
	if claims != nil {
		p.signIn = rand.Text()
		sub, _ := claims["sub"].(string)
		p.signIns[p.signIn] = &signIn{person: sub, clients: map[string]bool{}}
	}
}

// SetSecret makes a client confidential: it gets tokens with its secret only.
func (p *Provider) SetSecret(client, secret string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.secrets[client] = secret
}

// How a confidential client shows its secret at the token endpoint.
const (
	Basic = "client_secret_basic"
	Post  = "client_secret_post"
)

// SetMethod changes the only method that confidential clients may use; Basic at first.
func (p *Provider) SetMethod(method string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.method = method
}

// Describe changes members of the discovery document; nil removes one. It replaces former changes.
func (p *Provider) Describe(changes map[string]any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.changes = changes
}

// SetLife changes how long the tokens live that clients get; an hour at first.
func (p *Provider) SetLife(life time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.life = life
}

// Sessions returns how many refresh tokens are valid.
func (p *Provider) Sessions() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.refresh)
}

// Granted returns all tokens that clients got so far.
func (p *Provider) Granted() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.granted)
}

// EndSessions makes all refresh tokens invalid.
func (p *Provider) EndSessions() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.refresh)
}

func (p *Provider) discovery(w http.ResponseWriter, _ *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	document := map[string]any{
		"issuer": p.URL, "jwks_uri": p.URL + "/keys", "token_endpoint": p.URL + "/token",
		"authorization_endpoint": p.URL + "/authorize", "device_authorization_endpoint": p.URL + "/device",
		"revocation_endpoint": p.URL + "/revoke", "scopes_supported": []string{"openid", "offline_access", "groups"},
		"code_challenge_methods_supported":      []string{"S256"},
		"id_token_signing_alg_values_supported": []string{"RS256"},
		"response_types_supported":              []string{"code"}, "subject_types_supported": []string{"public"},
		"token_endpoint_auth_methods_supported":          []string{"none", p.method},
		"authorization_response_iss_parameter_supported": true,
	}
	for name, value := range p.changes {
		document[name] = value
		if value == nil {
			delete(document, name)
		}
	}
	write(w, http.StatusOK, document)
}

// Approve lets the login of a user code through, with the claims of who did; false if no such login waits.
func (p *Provider) Approve(userCode string, claims map[string]any) bool {
	return p.decide(userCode, func(l *deviceLogin) { l.claims = claims })
}

// Deny refuses the login of a user code; false if no such login waits.
func (p *Provider) Deny(userCode string) bool {
	return p.decide(userCode, func(l *deviceLogin) { l.denied = true })
}

func (p *Provider) decide(userCode string, how func(*deviceLogin)) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.logins {
		if l.user == userCode && l.claims == nil && !l.denied {
			how(l)
			return true
		}
	}
	return false
}

// authorize is the page where the person at the browser signs in. It sends the browser back to the client, on
// this machine, with a code that works once and with the verifier of its challenge only (RFC 7636, RFC 8252).
func (p *Provider) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	back, err := url.Parse(q.Get("redirect_uri"))
	if err != nil || back.Scheme != "http" && back.Scheme != "https" || back.Hostname() != "127.0.0.1" || q.Get("client_id") == "" {
		http.Error(w, "the client, or the address to go back to, is not known", http.StatusBadRequest)
		return
	}
	answer := url.Values{"state": {q.Get("state")}, "iss": {p.URL}}
	scopes := strings.Fields(q.Get("scope"))
	p.mu.Lock()
	switch {
	case q.Get("response_type") != "code":
		answer.Set("error", "unsupported_response_type")
	case q.Get("code_challenge_method") != "S256" || q.Get("code_challenge") == "" || !slices.Contains(scopes, "openid"):
		answer.Set("error", "invalid_request")
	case p.person == nil:
		answer.Set("error", "access_denied")
	default:
		code := rand.Text()
		p.codes[code] = codeLogin{session{q.Get("client_id"), q.Get("audience"), scopes, q.Get("nonce"), p.signIn, p.person}, back.String(), q.Get("code_challenge")}
		answer.Set("code", code)
	}
	p.mu.Unlock()
	back.RawQuery = answer.Encode()
	http.Redirect(w, r, back.String(), http.StatusFound)
}

// activate is the page where the person at the browser enters the code of a device.
func (p *Provider) activate(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	person := p.person
	p.mu.Unlock()
	if person == nil || !p.Approve(r.FormValue("user_code"), person) {
		http.Error(w, "no device waits with this code, or no user is signed in", http.StatusNotFound)
	}
}

// revoke ends a refresh token (RFC 7009).
func (p *Provider) revoke(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s, ok := p.refresh[r.PostFormValue("token")]; ok && s.client == r.PostFormValue("client_id") {
		delete(p.refresh, r.PostFormValue("token"))
	}
	w.WriteHeader(http.StatusOK)
}

// device begins a login (RFC 8628).
func (p *Provider) device(w http.ResponseWriter, r *http.Request) {
	client := r.PostFormValue("client_id")
	if client == "" {
		write(w, http.StatusBadRequest, map[string]any{"error": "invalid_client"})
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	code, user := rand.Text(), rand.Text()[:8]
	p.logins[code] = &deviceLogin{session: session{client: client, audience: r.PostFormValue("audience"), scopes: strings.Fields(r.PostFormValue("scope"))}, user: user}
	write(w, http.StatusOK, map[string]any{
		"device_code": code, "user_code": user, "verification_uri": p.URL + "/activate",
		"verification_uri_complete": p.URL + "/activate?user_code=" + user,
		"expires_in":                600, "interval": int(pollInterval / time.Second),
	})
}

// token answers logins and refreshes. A code, or a refresh token, works once.
func (p *Provider) token(w http.ResponseWriter, r *http.Request) {
	refuse := func(why string) { write(w, http.StatusBadRequest, map[string]any{"error": why}) }
	client, secret, basic := r.BasicAuth()
	if !basic {
		client, secret = r.PostFormValue("client_id"), r.PostFormValue("client_secret")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.secrets[client] != secret || secret != "" && basic != (p.method == Basic) {
		write(w, http.StatusUnauthorized, map[string]any{"error": "invalid_client"})
		return
	}
	switch r.PostFormValue("grant_type") {
	case "authorization_code":
		code := r.PostFormValue("code")
		l, ok := p.codes[code]
		delete(p.codes, code)
		challenge := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
		if !ok || p.signIns[l.signIn] == nil || l.client != client || l.redirect != r.PostFormValue("redirect_uri") || l.challenge != base64.RawURLEncoding.EncodeToString(challenge[:]) {
			refuse("invalid_grant")
			return
		}
		p.signIns[l.signIn].clients[client] = true
		p.grant(w, l.session)
	case "urn:ietf:params:oauth:grant-type:device_code":
		code := r.PostFormValue("device_code")
		l := p.logins[code]
		switch {
		case l == nil || l.client != client:
			refuse("invalid_grant")
		case l.denied:
			refuse("access_denied")
		case l.claims == nil && time.Since(l.asked) < pollInterval:
			refuse("slow_down")
		case l.claims == nil:
			l.asked = time.Now()
			refuse("authorization_pending")
		default:
			delete(p.logins, code)
			p.grant(w, l.session)
		}
	case "refresh_token":
		given := r.PostFormValue("refresh_token")
		known, ok := p.refresh[given]
		if !ok || known.client != client || known.signIn != "" && p.signIns[known.signIn] == nil {
			refuse("invalid_grant")
			return
		}
		delete(p.refresh, given)
		p.grant(w, known)
	default:
		refuse("unsupported_grant_type")
	}
}

// grant answers with tokens. The access token is for the audience that the client asked for; without one
// it is no token that others can read. The claim groups needs the scope groups, a refresh token offline_access. The
// caller holds mu.
func (p *Provider) grant(w http.ResponseWriter, s session) {
	key := p.keys[len(p.keys)-1]
	sign := func(audience string) string {
		full := map[string]any{"aud": audience, "exp": time.Now().Add(p.life).Unix()}
		if s.nonce != "" {
			full["nonce"] = s.nonce
		}
		if r, told := p.reports[s.client]; told && r.Names {
			full["sid"] = s.signIn
		}
		for name, value := range s.claims {
			if name != "groups" || slices.Contains(s.scopes, "groups") {
				full[name] = value
			}
		}
		return p.sign(map[string]any{"alg": "RS256", "kid": key.id}, full, func(text []byte) []byte { return signRSA(key.key, text) })
	}
	access := rand.Text()
	if s.audience != "" {
		access = sign(s.audience)
	}
	id := sign(s.client)
	p.granted = append(p.granted, access, id)
	answer := map[string]any{"access_token": access, "token_type": "Bearer", "id_token": id, "expires_in": int(p.life / time.Second)}
	if slices.Contains(s.scopes, "offline_access") {
		again := rand.Text()
		p.refresh[again], answer["refresh_token"] = s, again
		p.granted = append(p.granted, again)
	}
	write(w, http.StatusOK, answer)
}

func write(w http.ResponseWriter, status int, value map[string]any) {
	data, err := json.Marshal(value)
	if err != nil {
		status, data = http.StatusInternalServerError, nil
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	w.WriteHeader(status)
	_, _ = w.Write(data)
}
