package api

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"sync"
	"time"

	gh "github.com/google/go-github/v60/github"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
)

const (
	renewBefore = 5 * time.Minute // before the end of a token it is renewed
	proofLasts  = 9 * time.Minute // GitHub takes ten at most
	clockSkew   = time.Minute     // how far our clock may be ahead of the server's
	maxApps     = 256             // installations whose tokens are kept
)

// appTokens holds the tokens of installations.
type appTokens struct {
	mu  sync.Mutex
	all map[appInstallation]*appToken // guarded by mu
}

// appInstallation is an app in an account of a server.
type appInstallation struct {
	api string
	app git.App
}

// appToken is the token of an installation. The holder of the slot renews it; all others wait and
// share it.
type appToken struct {
	slot  chan struct{}
	token git.Secret // guarded by the slot
	ends  time.Time
}

func (a *appTokens) of(i appInstallation) *appToken {
	a.mu.Lock()
	defer a.mu.Unlock()
	if t, ok := a.all[i]; ok {
		return t
	}
	if a.all == nil || len(a.all) >= maxApps {
		a.all = map[appInstallation]*appToken{}
	}
	t := &appToken{slot: make(chan struct{}, 1)}
	a.all[i] = t
	return t
}

// token returns the token for calls: the repository's own, or one of its app other than refused.
func (r *Repo) token(ctx context.Context, refused git.Secret) (git.Secret, error) {
	if r.Repo.App.ID == "" {
		return r.Repo.Token, nil
	}
	t := r.server.apps.of(appInstallation{api: r.base.String(), app: r.Repo.App})
	select {
	case t.slot <- struct{}{}:
		defer func() { <-t.slot }()
	case <-ctx.Done():
		return "", errs.E(errs.Unavailable, "log in", r.Repo.URL, ctx.Err())
	}
	if t.token != "" && t.token != refused && time.Until(t.ends) > renewBefore {
		return t.token, nil
	}
	token, ends, err := r.logIn(ctx)
	if err != nil {
		return "", err
	}
	t.token, t.ends = token, ends
	return token, nil
}

// logIn gets a token for the app's installation.
func (r *Repo) logIn(ctx context.Context) (token git.Secret, ends time.Time, err error) {
	proof, err := signProof(r.Repo.App, time.Now())
	if err != nil {
		return "", ends, err
	}
	if err := r.Spend(ctx, "log in", git.Cost{Calls: 1, Points: 5}); err != nil {
		return "", ends, err
	}
	err = r.callOnce(ctx, "log in", proof, func(ctx context.Context, c *gh.Client) (*gh.Response, error) {
		t, resp, err := c.Apps.CreateInstallationToken(ctx, r.Repo.App.Installation, nil)
		token, ends = git.Secret(t.GetToken()), t.GetExpiresAt().Time
		return resp, err
	})
	if err == nil && token == "" {
		err = errs.E(errs.Unavailable, "log in", r.Repo.URL, errors.New("the server gives no token"))
	}
	if errs.Is(err, errs.NotFound) {
		err = errs.E(errs.Unauthorized, "log in", r.Repo.URL, errors.New("the app is not installed as the given installation"))
	}
	return token, ends, err
}

// signProof returns a JSON web token that proves the possession of the app's key.
func signProof(app git.App, now time.Time) (git.Secret, error) {
	key, err := parseKey(app.Key)
	if err != nil {
		return "", err
	}
	claims, err := json.Marshal(struct {
		IssuedAt int64  `json:"iat"`
		Expires  int64  `json:"exp"`
		Issuer   string `json:"iss"`
	}{now.Add(-clockSkew).Unix(), now.Add(proofLasts).Unix(), app.ID})
	if err != nil {
		return "", err
	}
	encode := base64.RawURLEncoding.EncodeToString
	text := encode([]byte(`{"alg":"RS256","typ":"JWT"}`)) + "." + encode(claims)
	sum := sha256.Sum256([]byte(text))
	signature, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:])
	if err != nil {
		return "", errs.E(errs.Invalid, "log in", "", errors.New("the app's key cannot sign"))
	}
	return git.Secret(text + "." + encode(signature)), nil
}

// parseKey reads a private RSA key in PEM. Its error is Invalid and shows nothing of the key.
func parseKey(secret git.Secret) (*rsa.PrivateKey, error) {
	bad := errs.E(errs.Invalid, "log in", "", errors.New("the app's key is not an unencrypted private RSA key in PEM"))
	block, _ := pem.Decode([]byte(secret.Reveal()))
	if block == nil {
		return nil, bad
	}
	if key, err := x509.ParsePKCS1PrivateKey(block.Bytes); err == nil {
		return key, nil
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	key, ok := parsed.(*rsa.PrivateKey)
	if err != nil || !ok {
		return nil, bad
	}
	return key, nil
}
