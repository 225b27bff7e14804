package gitlabtest

import (
	"crypto/subtle"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Level is a role in a project.
type Level int

// The roles used here. No user has the last one.
const (
	Reporter   Level = 20
	Developer  Level = 30
	Maintainer Level = 40
	Nobody     Level = 100
)

// Token is a credential. It is a user's if it holds everywhere, and else that of a group
// or a project.
type Token struct {
	Value   string
	Under   string   // path of the group or project that it is for; empty: all
	Scopes  []string // api, read_api, read_repository, write_repository
	Level   Level
	Expires time.Time // never when zero
	Revoked bool
}

// AddToken lets a token in.
func (s *Server) AddToken(t Token) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokens = append(s.tokens, &t)
}

// Expire ends a token.
func (s *Server) Expire(value string) {
	s.change(value, func(t *Token) { t.Expires = time.Unix(1, 0) })
}

// Revoke takes a token back.
func (s *Server) Revoke(value string) { s.change(value, func(t *Token) { t.Revoked = true }) }

func (s *Server) change(value string, f func(*Token)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.token(value); t != nil {
		f(t)
	}
}

func (s *Server) token(value string) *Token {
	for _, t := range s.tokens {
		if subtle.ConstantTimeCompare([]byte(t.Value), []byte(value)) == 1 {
			return t
		}
	}
	return nil
}

// reaches reports whether a token is for a project.
func (t *Token) reaches(p *gitlabProject) bool {
	return t.Under == "" || p.path == t.Under || strings.HasPrefix(p.path, t.Under+"/")
}

func (t *Token) has(scopes ...string) bool {
	return slices.ContainsFunc(scopes, func(s string) bool { return slices.Contains(t.Scopes, s) })
}

// over returns GitLab's words for why a token is no longer valid; "" if it is valid.
func (t *Token) over() string {
	switch {
	case t.Revoked:
		return "Token was revoked. You have to re-authorize from the user."
	case !t.Expires.IsZero() && !t.Expires.After(time.Now()):
		return "Token is expired. You can either do re-authorization or token refresh."
	}
	return ""
}

// authenticate returns the token of a call of the API, nil without one, and false if it
// has answered.
func (s *Server) authenticate(w http.ResponseWriter, r *http.Request) (*Token, bool) {
	value := r.Header.Get("PRIVATE-TOKEN")
	if bearer, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		value = bearer
	}
	if value == "" {
		return nil, true
	}
	t := s.token(value)
	if t == nil {
		answer(w, http.StatusUnauthorized, message("401 Unauthorized"))
		return nil, false
	}
	if why := t.over(); why != "" {
		answer(w, http.StatusUnauthorized, jsonObject{"error": "invalid_token", "error_description": why})
		return nil, false
	}
	scopes := []string{"api"}
	if r.Method == http.MethodGet {
		scopes = append(scopes, "read_api")
	}
	if !t.has(scopes...) {
		answer(w, http.StatusForbidden, jsonObject{
			"error": "insufficient_scope", "error_description": "The request requires higher privileges than provided by the access token.",
			"scope": strings.Join(scopes, " "),
		})
		return nil, false
	}
	return t, true
}
