package oidc

import (
	"context"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// Ages of a key set.
const (
	renewAfter = time.Hour      // so that keys that the provider has withdrawn are forgotten
	forgetKeys = 24 * time.Hour // keys that could not be renewed for so long are not believed
	maxKeySet  = 1 << 20        // bytes
	minRSA     = 2048           // bits
)

// algorithms are the signatures that are accepted: those with a public key that is hard to forge.
func algorithms() []string { return []string{"RS256", "ES256", "EdDSA"} }

// keySet is the keys that a provider publishes. An unknown key makes it ask the provider, at most every ten seconds
// however many tokens name one.
type keySet struct {
	url     string
	client  *http.Client
	now     func() time.Time
	renewal question

	mu   sync.Mutex
	keys []jose.JSONWebKey // guarded by mu
	read time.Time         // when keys were read; guarded by mu
}

func newKeySet(url string, client *http.Client, now func() time.Time) *keySet {
	s := &keySet{url: url, client: client, now: now}
	s.renewal = question{ask: s.renew, now: now}
	return s
}

// signatures verifies the signature of one token.
type signatures struct {
	keys   *keySet
	outage error // why the keys cannot be read, so that nothing is known of the token; go-oidc would hide it
}

// VerifySignature returns the payload of a token whose signature is right.
func (s *signatures) VerifySignature(ctx context.Context, token string) ([]byte, error) {
	accepted := make([]jose.SignatureAlgorithm, 0, len(algorithms()))
	for _, a := range algorithms() {
		accepted = append(accepted, jose.SignatureAlgorithm(a))
	}
	signed, err := jose.ParseSigned(token, accepted)
	if err != nil {
		return nil, err
	}
	if len(signed.Signatures) != 1 {
		return nil, errors.New("it has not exactly one signature")
	}
	id := signed.Signatures[0].Header.KeyID
	keys, err := s.keys.find(ctx, id)
	if s.outage = err; err != nil {
		return nil, err
	}
	for _, k := range keys {
		if payload, err := signed.Verify(k); err == nil {
			return payload, nil
		}
	}
	return nil, errors.New("no key of the issuer made its signature")
}

// find returns the keys with an id, all for a token that names none. It asks the provider if there is none,
// or if what is known is old. The error is that of the provider.
func (s *keySet) find(ctx context.Context, id string) ([]jose.JSONWebKey, error) {
	found, old := s.known(id)
	switch {
	case len(found) == 0:
		if err := s.renewal.wait(ctx); err != nil {
			return nil, err
		}
	case old:
		s.renewal.try(ctx, retryPause)
	default:
		return found, nil
	}
	found, _ = s.known(id)
	return found, nil
}

// known returns the keys with an id, and whether it is time to read them again.
func (s *keySet) known(id string) (found []jose.JSONWebKey, old bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	age := s.now().Sub(s.read)
	if age > forgetKeys {
		return nil, true
	}
	for _, k := range s.keys {
		if id == "" || k.KeyID == id {
			found = append(found, k)
		}
	}
	return found, age > renewAfter
}

// renew reads the keys.
func (s *keySet) renew(ctx context.Context) error {
	keys, err := s.fetch(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys, s.read = keys, s.now()
	return nil
}

// fetch reads the key set, without keys that are not for signatures or too weak.
func (s *keySet) fetch(ctx context.Context) ([]jose.JSONWebKey, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url, nil)
	if err != nil {
		return nil, err
	}
	answer, err := s.client.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %s", s.url, answer.Status)
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxKeySet))
	if err != nil {
		return nil, err
	}
	var set jose.JSONWebKeySet
	if err := json.Unmarshal(text, &set); err != nil {
		return nil, err
	}
	var good []jose.JSONWebKey
	for _, k := range set.Keys {
		public, isRSA := k.Key.(*rsa.PublicKey)
		if (k.Use == "" || k.Use == "sig") && k.IsPublic() && (!isRSA || public.N.BitLen() >= minRSA) {
			good = append(good, k)
		}
	}
	return good, nil
}
