package oidc_test

import (
	"crypto"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"math/big"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/api/oidctest"
	"github.com/emco-orchestrator/emco/src/emco/internal/authn"
	"github.com/emco-orchestrator/emco/src/emco/internal/authn/oidc"
)

// clock is a clock that tests move.
type clock struct {
	mu    sync.Mutex
	ahead time.Duration // guarded by mu
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.ahead)
}

func (c *clock) forward(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead += d
}

func verifier(t *testing.T, p *oidctest.Provider, c *clock) *oidc.Verifier {
	t.Helper()
	v, err := oidc.New([]oidc.Issuer{{Name: "corp", URL: p.URL, Audience: "emco-api"}}, c.now)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// mustAccept fails the test if v refuses the token.
func mustAccept(t *testing.T, v *oidc.Verifier, token string) {
	t.Helper()
	if _, err := v.Verify(t.Context(), token); err != nil {
		t.Fatal(err)
	}
}

// alice returns claims of a good token, changed.
func alice(changes map[string]any) map[string]any {
	claims := map[string]any{"aud": "emco-api", "sub": "alice", "groups": []string{"shop", "ops"}}
	for name, value := range changes {
		claims[name] = value
	}
	return claims
}

func TestAGoodTokenNamesUserAndGroups(t *testing.T) {
	t.Parallel()
	p := oidctest.New(t)
	c, err := verifier(t, p, new(clock)).Verify(t.Context(), p.Token(t, alice(map[string]any{"aud": []string{"x", "emco-api"}})))
	if err != nil {
		t.Fatal(err)
	}
	if c.Subject != "user:corp:alice" || !slices.Equal(c.Groups, []string{"group:corp:ops", "group:corp:shop"}) || c.Via != authn.ViaOIDC {
		t.Errorf("caller = %+v", c)
	}
}

func TestForgeriesAreRefused(t *testing.T) {
	t.Parallel()
	p := oidctest.New(t)
	v := verifier(t, p, new(clock))
	foreign, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	withForeign := func(text []byte) []byte {
		digest := sha256.Sum256(text)
		out, err := rsa.SignPKCS1v15(rand.Reader, foreign, crypto.SHA256, digest[:])
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	embedded := map[string]string{
		"kty": "RSA", "n": base64.RawURLEncoding.EncodeToString(foreign.N.Bytes()),
		"e": base64.RawURLEncoding.EncodeToString(big.NewInt(int64(foreign.E)).Bytes()),
	}
	now := time.Now()
	for name, token := range map[string]string{
		"alg none":     p.Forge(map[string]any{"alg": "none"}, alice(nil), func([]byte) []byte { return nil }),
		"foreign key":  p.Forge(map[string]any{"alg": "RS256", "kid": p.KeyID()}, alice(nil), withForeign),
		"embedded jwk": p.Forge(map[string]any{"alg": "RS256", "jwk": embedded}, alice(nil), withForeign),
		"HS256 with the public key": p.Forge(map[string]any{"alg": "HS256", "kid": p.KeyID()}, alice(nil), func(text []byte) []byte {
			h := hmac.New(sha256.New, x509.MarshalPKCS1PublicKey(p.PublicKey()))
			h.Write(text)
			return h.Sum(nil)
		}),
		"wrong audience":    p.Token(t, alice(map[string]any{"aud": "other"})),
		"no audience":       p.Token(t, alice(map[string]any{"aud": nil})),
		"other issuer":      p.Token(t, alice(map[string]any{"iss": "https://id.example.org"})),
		"expired":           p.Token(t, alice(map[string]any{"exp": now.Add(-time.Minute).Unix(), "iat": now.Add(-time.Hour).Unix()})),
		"no exp":            p.Token(t, alice(map[string]any{"exp": nil})),
		"from later":        p.Token(t, alice(map[string]any{"iat": now.Add(10 * time.Minute).Unix()})),
		"two days":          p.Token(t, alice(map[string]any{"exp": now.Add(48 * time.Hour).Unix()})),
		"empty sub":         p.Token(t, alice(map[string]any{"sub": ""})),
		"no sub":            p.Token(t, alice(map[string]any{"sub": nil})),
		"sub with space":    p.Token(t, alice(map[string]any{"sub": "al ice"})),
		"long sub":          p.Token(t, alice(map[string]any{"sub": strings.Repeat("a", 257)})),
		"groups of numbers": p.Token(t, alice(map[string]any{"groups": []int{1}})),
		"no token":          "garbage",
		"dots":              "a.b.c",
	} {
		if c, err := v.Verify(t.Context(), token); !errs.Is(err, errs.Unauthorized) {
			t.Errorf("%s: caller %+v, error %v; want it refused as unauthorized", name, c, err)
		}
	}
}

func TestClocksMayDifferByHalfAMinute(t *testing.T) {
	t.Parallel()
	p := oidctest.New(t)
	v := verifier(t, p, new(clock))
	now := time.Now()
	for name, times := range map[string][2]time.Time{
		"just ended": {now.Add(-time.Hour), now.Add(-10 * time.Second)},
		"just ahead": {now.Add(10 * time.Second), now.Add(time.Hour)},
	} {
		if _, err := v.Verify(t.Context(), p.Token(t, alice(map[string]any{"iat": times[0].Unix(), "exp": times[1].Unix()}))); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAKeptTokenEndsInTime(t *testing.T) {
	t.Parallel()
	p, c := oidctest.New(t), new(clock)
	v := verifier(t, p, c)
	token := p.Token(t, alice(map[string]any{"exp": time.Now().Add(2 * time.Minute).Unix()}))
	mustAccept(t, v, token)
	c.forward(3 * time.Minute)
	if _, err := v.Verify(t.Context(), token); !errs.Is(err, errs.Unauthorized) {
		t.Errorf("the token after its end: %v", err)
	}
}

func TestRotatedKeysAreFollowed(t *testing.T) {
	t.Parallel()
	p, c := oidctest.New(t), new(clock)
	v := verifier(t, p, c)
	old := p.Token(t, alice(map[string]any{"exp": time.Now().Add(3 * time.Hour).Unix()}))
	mustAccept(t, v, old)
	p.Rotate(t, 1) // withdraws the old key
	c.forward(11 * time.Second)
	if _, err := v.Verify(t.Context(), p.Token(t, alice(nil))); err != nil {
		t.Errorf("a token of the new key: %v", err)
	}
	c.forward(6 * time.Minute) // it is no longer kept
	if _, err := v.Verify(t.Context(), old); !errs.Is(err, errs.Unauthorized) {
		t.Errorf("a token of a withdrawn key: %v", err)
	}
}

func TestAWithdrawnKeyIsForgottenWithoutANewOne(t *testing.T) {
	t.Parallel()
	p, c := oidctest.New(t), new(clock)
	v := verifier(t, p, c)
	old := p.Token(t, alice(map[string]any{"exp": time.Now().Add(3 * time.Hour).Unix()}))
	mustAccept(t, v, old)
	p.Rotate(t, 1)
	c.forward(61 * time.Minute)
	if _, err := v.Verify(t.Context(), old); !errs.Is(err, errs.Unauthorized) {
		t.Errorf("a token of a withdrawn key, an hour later: %v", err)
	}
}

func TestUnknownKeysDoNotMakeUsAskAgainAndAgain(t *testing.T) {
	t.Parallel()
	p := oidctest.New(t)
	v := verifier(t, p, new(clock))
	mustAccept(t, v, p.Token(t, alice(nil)))
	before := p.Fetches()
	for range 1000 {
		token := p.Forge(map[string]any{"alg": "RS256", "kid": rand.Text()}, alice(nil), func([]byte) []byte { return make([]byte, 256) })
		if _, err := v.Verify(t.Context(), token); !errs.Is(err, errs.Unauthorized) {
			t.Fatalf("error = %v", err)
		}
	}
	if n := p.Fetches() - before; n > 1 {
		t.Errorf("1,000 unknown keys cost %d questions, want at most 1", n)
	}
}

func TestAnOutageOfTheProvider(t *testing.T) {
	t.Parallel()
	p, c := oidctest.New(t), new(clock)
	v := verifier(t, p, c)
	p.SetDown(true)
	token := p.Token(t, alice(map[string]any{"exp": time.Now().Add(20 * time.Hour).Unix()}))
	if _, err := v.Verify(t.Context(), token); !errs.Is(err, errs.Unavailable) {
		t.Errorf("before the keys are known: %v, want unavailable", err)
	}
	p.SetDown(false)
	c.forward(11 * time.Second)
	if _, err := v.Verify(t.Context(), token); err != nil {
		t.Fatalf("after the outage: %v", err)
	}
	p.SetDown(true)
	c.forward(2 * time.Hour) // kept tokens and the age of keys are over
	if _, err := v.Verify(t.Context(), token); err != nil {
		t.Errorf("with known keys: %v", err)
	}
	c.forward(23 * time.Hour)
	if _, err := v.Verify(t.Context(), token); !errs.Is(err, errs.Unavailable) {
		t.Errorf("with keys of more than a day: %v, want unavailable", err)
	}
}

// slowly returns a handler that uses up the time limit of a question, and then fails. It counts questions.
func slowly(c *clock, count *atomic.Int64) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		count.Add(1)
		c.forward(10 * time.Second)
		http.Error(w, "overloaded", http.StatusGatewayTimeout)
	}
}

// A provider that is too slow is left alone for a while. Otherwise each request would wait for a question of its own.
func TestASlowProviderIsLeftAlone(t *testing.T) {
	t.Parallel()
	c, asked := new(clock), new(atomic.Int64)
	slow := httptest.NewServer(slowly(c, asked))
	t.Cleanup(slow.Close)
	v, err := oidc.New([]oidc.Issuer{{Name: "corp", URL: slow.URL, Audience: "emco-api"}}, c.now)
	if err != nil {
		t.Fatal(err)
	}
	refused := func(token string) {
		t.Helper()
		if _, err := v.Verify(t.Context(), token); !errs.Is(err, errs.Unavailable) || !strings.Contains(err.Error(), "504") {
			t.Errorf("error = %v, want unavailable with the reason", err)
		}
	}
	p := oidctest.New(t)
	for range 5 {
		refused(p.Token(t, alice(map[string]any{"iss": slow.URL})))
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("five tokens cost %d questions for the discovery document, want 1", n)
	}

	p.Describe(map[string]any{"jwks_uri": slow.URL + "/keys"})
	v = verifier(t, p, c)
	for range 5 {
		refused(p.Token(t, alice(nil)))
	}
	if n := asked.Load(); n != 2 {
		t.Errorf("five tokens cost %d questions for the keys, want 1", n-1)
	}
}

// While the keys cannot be read, it is unknown whether an unknown key is one of the provider's.
func TestANewKeyDuringAnOutageIsNotRefused(t *testing.T) {
	t.Parallel()
	p, c := oidctest.New(t), new(clock)
	v := verifier(t, p, c)
	mustAccept(t, v, p.Token(t, alice(nil)))
	p.Rotate(t, 2)
	p.SetDown(true)
	c.forward(11 * time.Second)
	token := p.Token(t, alice(nil))
	for range 2 { // the second time without a question
		if _, err := v.Verify(t.Context(), token); !errs.Is(err, errs.Unavailable) || !strings.Contains(err.Error(), "503") {
			t.Errorf("error = %v, want unavailable with the reason", err)
		}
	}
	p.SetDown(false)
	c.forward(11 * time.Second)
	mustAccept(t, v, token)
}

func TestIssuersNeedHTTPS(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"http://id.example.org", "id.example.org", "", "ftp://127.0.0.1"} {
		if _, err := oidc.New([]oidc.Issuer{{Name: "corp", URL: url, Audience: "a"}}, nil); err == nil {
			t.Errorf("%q is taken for an issuer", url)
		}
	}
}

func BenchmarkVerifyKept(b *testing.B) {
	p := oidctest.New(b)
	v, err := oidc.New([]oidc.Issuer{{Name: "corp", URL: p.URL, Audience: "emco-api"}}, nil)
	if err != nil {
		b.Fatal(err)
	}
	token := p.Token(b, alice(nil))
	for b.Loop() {
		if _, err := v.Verify(b.Context(), token); err != nil {
			b.Fatal(err)
		}
	}
}
