package arctest

import (
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"
)

// authority issues tokens to clients that prove their identity.
func (s *Server) authority(w http.ResponseWriter, r *http.Request) {
	base := s.URL + "/" + Tenant
	switch {
	case strings.HasSuffix(r.URL.Path, "/.well-known/openid-configuration"):
		write(w, http.StatusOK, map[string]string{
			"token_endpoint": base + "/oauth2/v2.0/token", "authorization_endpoint": base + "/oauth2/v2.0/authorize", "issuer": base + "/v2.0",
		})
	case r.Method == http.MethodPost && r.URL.Path == "/"+Tenant+"/oauth2/v2.0/token":
		s.token(w, r)
	default:
		refuse(w, http.StatusNotFound, "NotFound", "there is no such page")
	}
}

func (s *Server) token(w http.ResponseWriter, r *http.Request) {
	if err := s.prove(r); err != nil {
		write(w, http.StatusUnauthorized, map[string]any{
			"error": "invalid_client", "error_description": err.Error(), "error_codes": []int{7000215}, "correlation_id": random(),
		})
		return
	}
	token := random()
	s.tokens[token] = true
	write(w, http.StatusOK, map[string]any{"token_type": "Bearer", "expires_in": 3600, "access_token": token})
}

// prove checks the proof of a client.
func (s *Server) prove(r *http.Request) error {
	if err := r.ParseForm(); err != nil {
		return err
	}
	switch {
	case r.PostForm.Get("grant_type") != "client_credentials" || r.PostForm.Get("client_id") != Client:
		return errors.New("AADSTS700016: the application is not known")
	case r.PostForm.Get("scope") == "" || !strings.Contains(r.PostForm.Get("scope"), s.URL+"/.default"):
		return errors.New("AADSTS500011: the resource is not known: " + r.PostForm.Get("scope"))
	case r.PostForm.Get("client_secret") == Secret:
		return nil
	case r.PostForm.Get("client_assertion_type") != "urn:ietf:params:oauth:client-assertion-type:jwt-bearer":
		return errors.New("AADSTS7000215: Invalid client secret provided")
	}
	assertion := r.PostForm.Get("client_assertion")
	if s.federated != "" && assertion == s.federated {
		return nil
	}
	return s.signed(assertion)
}

// signed checks an assertion: the signature with one of the trusted keys, and its claims.
func (s *Server) signed(assertion string) error {
	bad := errors.New("AADSTS700027: the assertion is not valid")
	parts := strings.Split(assertion, ".")
	if len(parts) != 3 {
		return bad
	}
	var header struct{ Alg string }
	var claims struct {
		Aud, Iss, Sub string
		Exp, Nbf      float64
	}
	if decode(parts[0], &header) != nil || decode(parts[1], &claims) != nil {
		return bad
	}
	now := float64(time.Now().Unix())
	if claims.Iss != Client || claims.Sub != Client || !strings.HasPrefix(claims.Aud, s.URL+"/"+Tenant) || claims.Exp < now || claims.Nbf > now+5 {
		return bad
	}
	signature, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil {
		return bad
	}
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	for _, key := range s.keys {
		if header.Alg == "RS256" && rsa.VerifyPKCS1v15(key, crypto.SHA256, sum[:], signature) == nil {
			return nil
		}
		if header.Alg == "PS256" && rsa.VerifyPSS(key, crypto.SHA256, sum[:], signature, nil) == nil {
			return nil
		}
	}
	return bad
}

func decode(part string, into any) error {
	text, err := base64.RawURLEncoding.DecodeString(part)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}
