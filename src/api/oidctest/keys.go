package oidctest

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"math/big"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

type signingKey struct {
	id  string
	key *rsa.PrivateKey
}

// newKey takes a tenth of a second of processor time.
func newKey() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) }

// firstKey makes the key with which each provider of a test program begins. A test knows one provider.
var firstKey = sync.OnceValues(newKey)

// Rotate makes a new signing key, and publishes only the newest keys, keep of them.
func (p *Provider) Rotate(t testing.TB, keep int) {
	t.Helper()
	p.rotate(t, keep, newKey)
}

func (p *Provider) rotate(t testing.TB, keep int, from func() (*rsa.PrivateKey, error)) {
	t.Helper()
	key, err := from()
	if err != nil {
		t.Fatal(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keys = append(p.keys, signingKey{rand.Text()[:8], key})
	p.keys = p.keys[max(0, len(p.keys)-keep):]
}

// Verify returns the claims of a token that the provider signed with its newest key, and that has not ended.
func (p *Provider) Verify(token string) (claims map[string]any, ok bool) {
	text, signature, _ := cutLast(token)
	_, payload, _ := strings.Cut(text, ".")
	given, err := base64.RawURLEncoding.DecodeString(signature)
	if err != nil {
		return nil, false
	}
	digest := sha256.Sum256([]byte(text))
	if rsa.VerifyPKCS1v15(p.PublicKey(), crypto.SHA256, digest[:], given) != nil {
		return nil, false
	}
	data, err := base64.RawURLEncoding.DecodeString(payload)
	if err != nil || json.Unmarshal(data, &claims) != nil {
		return nil, false
	}
	end, _ := claims["exp"].(float64)
	return claims, time.Now().Unix() < int64(end)
}

func cutLast(token string) (before, after string, ok bool) {
	i := strings.LastIndex(token, ".")
	if i < 0 {
		return "", "", false
	}
	return token[:i], token[i+1:], true
}

// Token signs claims. Without others, it is issued now by the provider and ends in an hour.
func (p *Provider) Token(t testing.TB, claims map[string]any) string {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	key := p.keys[len(p.keys)-1]
	return p.sign(map[string]any{"alg": "RS256", "typ": "JWT", "kid": key.id}, claims, func(text []byte) []byte {
		return signRSA(key.key, text)
	})
}

// Forge encodes claims with a header and a signature of the caller's choice.
func (p *Provider) Forge(header, claims map[string]any, signature func(text []byte) []byte) string {
	return p.sign(header, claims, signature)
}

// KeyID returns the id of the newest key.
func (p *Provider) KeyID() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.keys[len(p.keys)-1].id
}

// PublicKey returns the newest public key.
func (p *Provider) PublicKey() *rsa.PublicKey {
	p.mu.Lock()
	defer p.mu.Unlock()
	return &p.keys[len(p.keys)-1].key.PublicKey
}

func (p *Provider) sign(header, claims map[string]any, signature func(text []byte) []byte) string {
	now := time.Now()
	full := map[string]any{"iss": p.URL, "iat": now.Unix(), "exp": now.Add(time.Hour).Unix()}
	for name, value := range claims {
		full[name] = value
		if value == nil {
			delete(full, name)
		}
	}
	text := encode(header) + "." + encode(full)
	return text + "." + base64.RawURLEncoding.EncodeToString(signature([]byte(text)))
}

func encode(part map[string]any) string {
	data, err := json.Marshal(part)
	if err != nil {
		panic(err) // claims of tests are JSON
	}
	return base64.RawURLEncoding.EncodeToString(data)
}

func signRSA(key *rsa.PrivateKey, text []byte) []byte {
	digest := sha256.Sum256(text)
	signature, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, digest[:])
	if err != nil {
		panic(err) // the key is good
	}
	return signature
}

// Fetches returns how often the key set was read.
func (p *Provider) Fetches() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fetches
}

func (p *Provider) keySet(w http.ResponseWriter, _ *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fetches++
	keys := []map[string]string{}
	for _, k := range p.keys {
		keys = append(keys, map[string]string{
			"kty": "RSA", "use": "sig", "alg": "RS256", "kid": k.id,
			"n": base64.RawURLEncoding.EncodeToString(k.key.N.Bytes()),
			"e": base64.RawURLEncoding.EncodeToString(big.NewInt(int64(k.key.E)).Bytes()),
		})
	}
	write(w, http.StatusOK, map[string]any{"keys": keys})
}
