package syncobjects

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/emco-orchestrator/emco/src/git"
)

// A GitHub App that acts instead of a user; not in upstream EMCO.
const (
	keyAppID           = "appID"             // its number, or client id
	keyAppInstallation = "appInstallationID" // in the repository's account
	keyAppKey          = "appKey"            // its private key in PEM
)

// actsAsApp reports whether an object names a GitHub App.
func actsAsApp(p keyValues) bool {
	return strings.EqualFold(p.kv[keyGitType], "github") && p.kv[keyAppID]+p.kv[keyAppInstallation]+p.kv[keyAppKey] != ""
}

// readApp reads the App that an object names.
func readApp(p keyValues) (git.App, error) {
	if !actsAsApp(p) {
		return git.App{}, nil
	}
	installation, err := strconv.ParseInt(p.kv[keyAppInstallation], 10, 64)
	if err != nil || installation <= 0 {
		return git.App{}, fmt.Errorf("%s is not a positive number", keyAppInstallation)
	}
	if strings.ContainsFunc(p.kv[keyAppID], control) || !strings.Contains(p.kv[keyAppKey], "PRIVATE KEY") {
		return git.App{}, fmt.Errorf("%s holds a control character, or %s no private key in PEM", keyAppID, keyAppKey)
	}
	return git.App{ID: p.kv[keyAppID], Installation: installation, Key: git.Secret(p.kv[keyAppKey])}, nil
}

// checkAPI keeps the rules of a repository's URL for that of an interface, whose path may
// be empty.
func (r Rules) checkAPI(text string) (string, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Opaque != "" {
		return "", errors.New("is not an address by https or http")
	}
	if u.RawQuery != "" || u.ForceQuery || u.Fragment != "" {
		return "", errors.New("has a query or a fragment")
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/api"
		_, err := r.remote(u)
		return strings.TrimSuffix(text, "/"), err
	}
	at, err := r.check(text)
	return strings.TrimSuffix(at.text, "/"), err
}
