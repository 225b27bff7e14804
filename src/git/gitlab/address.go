package gitlab

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"

	api "gitlab.com/gitlab-org/api/client-go"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
)

const (
	apiPath   = "/api/v4"
	maxPrefix = 3   // names of a path prefix of an instance
	maxPlaces = 256 // cached addresses
)

// apiAddress is the base URL of a repository's API, and the name of the project there.
type apiAddress struct {
	base    string // without apiPath
	project string // group/sub/project
}

// addressCache caches the API addresses of repositories. The zero value is empty.
type addressCache struct {
	mu     sync.Mutex
	byRepo map[[2]string]apiAddress // by URL and API; guarded by mu
}

func (p *addressCache) get(r git.Repo) (apiAddress, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at, ok := p.byRepo[[2]string{r.URL, r.API}]
	return at, ok
}

func (p *addressCache) put(r git.Repo, at apiAddress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.byRepo == nil || len(p.byRepo) >= maxPlaces {
		p.byRepo = map[[2]string]apiAddress{}
	}
	p.byRepo[[2]string{r.URL, r.API}] = at
}

// addressOf finds the API of a repository. In https://host/a/b/c, a may be a group or a path prefix
// of the instance; so the server is probed, without a credential, since other programs may answer
// there. The answer is cached.
func (h *Host) addressOf(ctx context.Context, r git.Repo) (apiAddress, error) {
	if at, ok := h.addresses.get(r); ok {
		return at, nil
	}
	maybe, err := candidates(r)
	if err != nil {
		return apiAddress{}, err
	}
	at := maybe[0]
	if len(maybe) > 1 {
		if at, err = h.probe(ctx, r, maybe); err != nil {
			return apiAddress{}, err
		}
	}
	h.addresses.put(r, at)
	return at, nil
}

// candidates returns the possible addresses of the API, the likeliest first.
func candidates(r git.Repo) ([]apiAddress, error) {
	a, err := git.ParseURL(r.URL)
	if err != nil {
		return nil, err
	}
	if a.Scheme == "file" {
		return nil, errs.E(errs.Invalid, "", "", errors.New("a repository on this machine has no GitLab"))
	}
	names := strings.Split(strings.TrimSuffix(strings.Trim(a.Path, "/"), ".git"), "/")
	if len(names) < 2 {
		return nil, errs.E(errs.Invalid, "", "", errors.New("the URL of a project names its group or user, too: https://host/group/project"))
	}
	if r.API != "" {
		return override(r.API, a, names)
	}
	root := "https://" + a.Host // for ssh, whose port means nothing for https
	if a.Scheme != "ssh" {
		root = a.Scheme + "://" + authority(a)
	}
	maybe := []apiAddress{{root, strings.Join(names, "/")}}
	for n := 1; n <= min(maxPrefix, len(names)-2) && a.Scheme != "ssh"; n++ {
		maybe = append(maybe, apiAddress{root + "/" + strings.Join(names[:n], "/"), strings.Join(names[n:], "/")})
	}
	return maybe, nil
}

// override returns the address for a given URL of the API. Its path before apiPath is not part of
// the project's name.
func override(given string, a git.Address, names []string) ([]apiAddress, error) {
	base := strings.TrimSuffix(strings.TrimRight(given, "/"), apiPath)
	at, err := git.ParseURL(base + apiPath)
	if err != nil || at.Scheme != "http" && at.Scheme != "https" {
		return nil, errs.E(errs.Invalid, "", "", errors.New("the address of the API is not of the form https://host/path"))
	}
	project, prefix := strings.Join(names, "/"), strings.Trim(strings.TrimSuffix(at.Path, apiPath), "/")
	if rest, ok := strings.CutPrefix(project, prefix+"/"); ok && a.Scheme != "ssh" && strings.Contains(rest, "/") {
		project = rest
	}
	return []apiAddress{{base, project}}, nil
}

func authority(a git.Address) string {
	host := a.Host
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if a.Port != "" {
		host += ":" + a.Port
	}
	return host
}

// probe returns the first address where GitLab answers. If none does, the error is that of the
// first; a failing or unreachable server is not asked again.
func (h *Host) probe(ctx context.Context, r git.Repo, maybe []apiAddress) (apiAddress, error) {
	var first error
	for _, at := range maybe {
		err := h.answers(ctx, r, at)
		if err == nil {
			return at, nil
		}
		if !errors.Is(err, errNotAPI) {
			return apiAddress{}, err
		}
		if first == nil {
			first = err
		}
	}
	return apiAddress{}, first
}

// answers returns nil if GitLab serves its API at an address: it reports its version only to
// users. If another program answers there, the error wraps errNotAPI. The request carries no
// credential, so limits in the answer do not apply to one.
func (h *Host) answers(ctx context.Context, r git.Repo, at apiAddress) error {
	client, err := h.apiClient(r, at.base, anonymousAuth{})
	if err != nil {
		return err
	}
	if err := h.opt.Budget.Spend(ctx, r, readCost()); err != nil {
		return err
	}
	_, resp, err := client.Version.GetVersion(api.WithContext(ctx))
	switch {
	case err == nil, resp != nil && resp.StatusCode == http.StatusUnauthorized && isJSON(resp.Response):
		return nil
	case resp == nil && !errors.Is(err, errNotAPI):
		return err
	}
	err = answerError(resp, err)
	if resp != nil && (errs.Is(err, errs.Unavailable) || errs.Is(err, errs.Throttled)) {
		return err
	}
	return errs.E(errs.NotFound, "", "", fmt.Errorf("no GitLab at %s%s: %w", at.base, apiPath, errNotAPI))
}
