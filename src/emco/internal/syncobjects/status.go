package syncobjects

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/emco-orchestrator/emco/src/git"
)

// Not in upstream EMCO: where the agent of a cluster reports, if not into the repository of
// what is desired.
const (
	keyStatusURL    = "statusUrl"
	keyStatusUser   = "statusUserName"
	keyStatusToken  = "statusToken"
	keyStatusBranch = "statusBranch"
	keyStatusMode   = "statusMode"
)

// How agents report.
const (
	StatusRef   = "ref"   // each cluster to a branch of its own
	StatusPath  = "path"  // into upstream's path on a branch that they share
	StatusHTTPS = "https" // to the control plane itself
)

// DefaultStatusPrefix is where the branches of clusters are that report by StatusRef.
const DefaultStatusPrefix = "status/"

// Status is where and how the agent of a cluster reports.
type Status struct {
	Repo   git.Repo // with the credential to read it; none for StatusHTTPS
	Mode   string
	Branch string // for StatusRef the prefix of the branches, for StatusPath the branch
	URL    string // for StatusHTTPS: the address of the control plane as clusters see it, if given
}

// readStatus reads where reports go, given where desired state is.
func readStatus(p keyValues, s Settings, rules Rules) (Status, error) {
	out := Status{Repo: s.Repo, Mode: p.kv[keyStatusMode], Branch: p.kv[keyStatusBranch]}
	switch out.Mode {
	case "":
		out.Mode = StatusRef
	case StatusRef, StatusPath:
	case StatusHTTPS:
		return readHTTPS(p)
	default:
		return out, fmt.Errorf("%s: %q is none of %s, %s and %s", keyStatusMode, out.Mode, StatusRef, StatusPath, StatusHTTPS)
	}
	if address := p.kv[keyStatusURL]; address != "" {
		repo, err := statusRepo(p, s.Repo, address, rules)
		if err != nil {
			return out, err
		}
		out.Repo = repo
	}
	if out.Branch == "" {
		out.Branch = defaultStatusBranch(out, s)
	}
	if err := checkBranch(strings.TrimSuffix(out.Branch, "/")); err != nil {
		return out, fmt.Errorf("%s: %w", keyStatusBranch, err)
	}
	return out, nil
}

// readHTTPS reads the settings of clusters that report to the control plane. Their tokens
// are the control plane's own to make.
func readHTTPS(p keyValues) (Status, error) {
	for _, key := range []string{keyStatusUser, keyStatusToken, keyStatusBranch} {
		if p.kv[key] != "" {
			return Status{}, fmt.Errorf("%s has no meaning with %s: %s", key, keyStatusMode, StatusHTTPS)
		}
	}
	out := Status{Mode: StatusHTTPS, URL: strings.TrimSuffix(p.kv[keyStatusURL], "/")}
	if out.URL == "" {
		return out, nil
	}
	u, err := url.Parse(out.URL)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || strings.ContainsFunc(out.URL, control) {
		return Status{}, fmt.Errorf("%s: give the address of the control plane as clusters see it, such as https://emco.example.org", keyStatusURL)
	}
	return out, nil
}

func defaultStatusBranch(out Status, s Settings) string {
	switch {
	case out.Mode == StatusRef:
		return DefaultStatusPrefix
	case out.Repo.URL == s.Repo.URL:
		return s.Branch
	}
	return DefaultBranch
}

// statusRepo reads a repository of its own. The credential of the other one is used
// only on the same server: it must not be shown to another.
func statusRepo(p keyValues, desired git.Repo, address string, rules Rules) (git.Repo, error) {
	u, err := rules.check(address)
	if err != nil {
		return git.Repo{}, fmt.Errorf("%s: %w", keyStatusURL, err)
	}
	r := desired
	r.URL = u.text
	if !sameServer(u.text, desired.URL) {
		r.ClientCert, r.ClientKey = "", ""
	}
	if u.scheme == "ssh" {
		r.User, err = login(u.user, p.kv[keyStatusUser])
		if err == nil && !sameServer(u.text, desired.URL) {
			err = fmt.Errorf("%s: over ssh only a repository on the server of %s can be read", keyStatusURL, keyURL)
		}
		return r, err
	}
	if token := p.kv[keyStatusToken]; token != "" {
		r.User, r.Token = p.kv[keyStatusUser], git.Secret(token)
		if strings.ContainsFunc(r.User+token, control) {
			return r, fmt.Errorf("%s or %s holds a control character", keyStatusUser, keyStatusToken)
		}
		return r, nil
	}
	if u.scheme != "file" && !sameServer(u.text, desired.URL) {
		return r, fmt.Errorf("%s is missing: %s is on another server than %s", keyStatusToken, keyStatusURL, keyURL)
	}
	return r, nil
}

func sameServer(a, b string) bool {
	x, err := url.Parse(a)
	y, err2 := url.Parse(b)
	return err == nil && err2 == nil && x.Scheme == y.Scheme && x.Host == y.Host
}
