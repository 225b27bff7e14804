package githubtest

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/emco-orchestrator/emco/src/git"
)

// appOf is an app that is installed once.
type appOf struct {
	key          *rsa.PublicKey
	installation int64
	lasts        time.Duration
	rights       User
}

// AddApp registers an app, installed with the rights of a user, whose tokens last for some time.
func (s *Server) AddApp(id string, installation int64, lasts time.Duration, rights User) (git.App, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return git.App{}, err
	}
	s.set(func() {
		s.apps[id] = &appOf{key: &key.PublicKey, installation: installation, lasts: lasts, rights: rights}
	})
	text := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	return git.App{ID: id, Installation: installation, Key: git.Secret(text)}, nil
}

// RevokeTokens ends all tokens of installations.
func (s *Server) RevokeTokens() {
	s.set(func() {
		for token := range s.ends {
			delete(s.users, token)
		}
	})
}

// Tokens returns how many tokens were made for installations.
func (s *Server) Tokens() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tokens
}

// postToken makes a token for an installation if the caller proves to be the app.
func (s *Server) postToken(w http.ResponseWriter, r *http.Request) {
	c := &apiCall{s: s, w: w, r: r}
	app, err := s.proven(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
	if err != nil {
		c.fail(refuse(http.StatusUnauthorized, err.Error()))
		return
	}
	if r.PathValue("id") != strconv.FormatInt(app.installation, 10) {
		c.fail(refuse(http.StatusNotFound, "Not Found"))
		return
	}
	s.mu.Lock()
	s.tokens++
	token, ends := fmt.Sprintf("ghs_installation%d", s.tokens), s.now().Add(app.lasts)
	u := app.rights
	u.Token = token
	s.users[token], s.ends[token] = u, ends
	s.mu.Unlock()
	_ = c.answer(http.StatusCreated, map[string]string{"token": token, "expires_at": ends.UTC().Format(time.RFC3339)})
}

// proven returns the app that a JSON web token is of.
func (s *Server) proven(text string) (*appOf, error) {
	parts := strings.Split(text, ".")
	if len(parts) != 3 {
		return nil, fmt.Errorf("a JSON web token could not be decoded")
	}
	var head struct{ Alg string }
	var claims struct {
		Iat, Exp int64
		Iss      string
	}
	for i, into := range []any{&head, &claims} {
		raw, err := base64.RawURLEncoding.DecodeString(parts[i])
		if err == nil {
			err = json.Unmarshal(raw, into)
		}
		if err != nil {
			return nil, fmt.Errorf("a JSON web token could not be decoded")
		}
	}
	s.mu.Lock()
	app, now := s.apps[claims.Iss], s.now().Unix()
	s.mu.Unlock()
	switch {
	case head.Alg != "RS256" || app == nil:
		return nil, fmt.Errorf("'Issuer' claim ('iss') must be an Integer")
	case claims.Exp <= now || claims.Exp > now+600:
		return nil, fmt.Errorf("'Expiration time' claim ('exp') is too far in the future, or over")
	case claims.Iat > now:
		return nil, fmt.Errorf("'Issued at' claim ('iat') must be an Integer representing the time that the assertion was issued")
	}
	signature, err := base64.RawURLEncoding.DecodeString(parts[2])
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	if err != nil || rsa.VerifyPKCS1v15(app.key, crypto.SHA256, sum[:], signature) != nil {
		return nil, fmt.Errorf("a JSON web token could not be verified")
	}
	return app, nil
}
