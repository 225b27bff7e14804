package peers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/batch"
	"github.com/emco-orchestrator/emco/src/git/github"
	"github.com/emco-orchestrator/emco/src/git/gittest/githubtest"

	"github.com/emco-orchestrator/emco/scripts/bench/figures"
	"github.com/emco-orchestrator/emco/scripts/bench/site"
	"github.com/emco-orchestrator/emco/scripts/bench/world"
)

// The limits of a GitHub token. Its limits on calls that create content, 80 per minute and 500 per
// hour, are left out: GitHub does not document which calls count.
var githubLimits = githubtest.Limits{Calls: 5000, Points: 900, RetryAfter: time.Minute}

const (
	owner       = "acme"
	githubToken = "ghp_of_the_benchmark"
)

// githubSite is a GitHub with one repository, and a clock that advances instead of waiting.
type githubSite struct {
	dir   string
	srv   *githubtest.Server
	site  site.Site // the repository alone
	mu    sync.Mutex
	moved time.Duration // advance of the clock
}

func (h *githubSite) Prepare(ctx context.Context, _ world.Spec, base *world.World) (err error) {
	h.srv, err = githubtest.Serve(h.dir, githubtest.Options{Limits: githubLimits, Now: h.now}, githubtest.User{Name: "emco", Token: githubToken, Write: true})
	if err != nil {
		return err
	}
	h.site.Dir = h.dir
	if h.site.Bare, err = h.srv.Seed(ctx, owner, site.Repository, site.Branch); err != nil || base == nil {
		return err
	}
	return h.site.Seed(ctx, base.All(), func(string) string { return site.Branch })
}

func (h *githubSite) now() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return time.Now().Add(h.moved)
}

// wait advances the clock to at least a time.
func (h *githubSite) wait(until time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.moved = max(h.moved, time.Until(until))
}

// begin resets the counted calls, and returns the start values for the cost of the next calls.
func (h *githubSite) begin() (began time.Time, moved time.Duration) {
	h.srv.Calls()
	h.mu.Lock()
	defer h.mu.Unlock()
	return time.Now(), h.moved
}

// Probe reads the branch.
func (h *githubSite) Probe(ctx context.Context) (world.State, error) {
	return h.site.State(ctx, site.Branch)
}

// Close checks for damage and ends the server.
func (h *githubSite) Close(ctx context.Context) error {
	if h.srv == nil {
		return nil
	}
	return errors.Join(h.site.Bare.Fsck(ctx), h.srv.Close())
}

// Site is the repository.
func (h *githubSite) Site() *site.Site { return &h.site }

// cost is the cost since the clock and the counter had these values.
func (h *githubSite) cost(began time.Time, moved time.Duration) Cost {
	calls := githubtest.Total(h.srv.Calls())
	return Cost{Calls: calls, Renders: -1, Virtual: h.now().Sub(began) - moved}
}

// EmcoGitHub is EMCO's algorithm for GitHub: for each app on each cluster a status branch and three
// commits (configuration, resources, the object of the monitor), each with nine calls: a branch for it,
// its commit, and a merge. EMCO itself never waits; here it waits for each limit on the virtual clock.
func EmcoGitHub() Maker {
	return Maker{Name: "EMCO, GitHub", New: func(dir string) Peer { return &emcoGitHub{githubSite: githubSite{dir: filepath.Join(dir, "hub")}} }}
}

type emcoGitHub struct {
	githubSite
	branches atomic.Int64 // made so far
}

func (p *emcoGitHub) Apply(ctx context.Context, t Turn) (Cost, error) {
	began, moved := p.begin()
	for _, pair := range t.Pairs {
		if err := p.pair(ctx, pair, t.Kind == world.Install); err != nil {
			return Cost{}, err
		}
	}
	return p.cost(began, moved), nil
}

func (p *emcoGitHub) pair(ctx context.Context, pair world.Pair, first bool) error {
	files := map[string]string{}
	for name, text := range pair.Files {
		files[pair.Dir()+"/"+name] = string(text)
	}
	if !first {
		return p.commitFiles(ctx, pair.App, files)
	}
	beside := func(kind string) map[string]string {
		return map[string]string{fmt.Sprintf("clusters/%s/%s-%s.yaml", pair.Cluster, kind, pair.App): kind + " of " + pair.App + "\n"}
	}
	if err := p.statusBranch(ctx, pair.Cluster); err != nil {
		return err
	}
	for _, f := range []map[string]string{beside("kust"), files, beside("monitor")} {
		if err := p.commitFiles(ctx, pair.App, f); err != nil {
			return err
		}
	}
	return nil
}

// statusBranch creates the branch of a cluster if it does not exist.
func (p *emcoGitHub) statusBranch(ctx context.Context, cluster string) error {
	err := p.call(ctx, http.MethodGet, "/git/ref/heads/"+cluster, nil, nil)
	if err == nil {
		return nil
	}
	head, err := p.head(ctx, site.Branch)
	if err != nil {
		return err
	}
	return p.call(ctx, http.MethodPost, "/git/refs", jsonBody{"ref": "refs/heads/" + cluster, "sha": head.SHA}, nil)
}

// jsonBody is a request in JSON.
type jsonBody map[string]any

// commitFiles is one CommitFiles of EMCO: nine calls.
func (p *emcoGitHub) commitFiles(ctx context.Context, app string, files map[string]string) error {
	temporary := fmt.Sprintf("%s-%d", app, p.branches.Add(1))
	head, err := p.head(ctx, site.Branch) // 1
	if err != nil {
		return err
	}
	var tree, commit struct{ SHA string }
	var entries []jsonBody
	for path, text := range files {
		entries = append(entries, jsonBody{"path": path, "mode": "100644", "type": "blob", "content": text})
	}
	steps := []func() error{
		func() error {
			return p.call(ctx, http.MethodPost, "/git/refs", jsonBody{"ref": "refs/heads/" + temporary, "sha": head.SHA}, nil)
		}, // 2
		func() error { return p.call(ctx, http.MethodGet, "", nil, nil) }, // 3
		func() error { _, err := p.head(ctx, temporary); return err },     // 4
		func() error {
			return p.call(ctx, http.MethodPost, "/git/trees", jsonBody{"base_tree": head.Commit.Tree.SHA, "tree": entries}, &tree)
		}, // 5
		func() error { // 6
			return p.call(ctx, http.MethodPost, "/git/commits", jsonBody{"message": "commit for " + app, "tree": tree.SHA, "parents": []string{head.SHA}}, &commit)
		},
		func() error {
			return p.call(ctx, http.MethodPatch, "/git/refs/heads/"+temporary, jsonBody{"sha": commit.SHA}, nil)
		}, // 7
		func() error {
			return p.call(ctx, http.MethodPost, "/merges", jsonBody{"base": site.Branch, "head": temporary, "commit_message": "merge"}, nil)
		}, // 8
		func() error { return p.call(ctx, http.MethodDelete, "/git/refs/heads/"+temporary, nil, nil) }, // 9
	}
	for _, do := range steps {
		if err := do(); err != nil {
			return err
		}
	}
	return nil
}

// branchHead is the newest commit of a branch.
type branchHead struct {
	SHA    string
	Commit struct{ Tree struct{ SHA string } }
}

// head lists the newest commit of a branch, in EMCO's way.
func (p *emcoGitHub) head(ctx context.Context, branch string) (branchHead, error) {
	var commits []branchHead
	err := p.call(ctx, http.MethodGet, "/commits?per_page=1&sha="+branch, nil, &commits)
	if err == nil && len(commits) == 0 {
		err = errors.New("no commits on " + branch)
	}
	if err != nil {
		return branchHead{}, err
	}
	return commits[0], nil
}

// call makes a call, repeatedly until the limits allow it.
func (p *emcoGitHub) call(ctx context.Context, method, path string, ask jsonBody, into any) error {
	for {
		res, text, err := p.once(ctx, method, path, ask)
		switch {
		case err != nil:
			return err
		case res.StatusCode == http.StatusForbidden || res.StatusCode == http.StatusTooManyRequests:
			now := p.now()
			p.wait(now.Add(untilAllowed(res.Header, now)))
		case res.StatusCode >= 300:
			return fmt.Errorf("%s %s: %s: %.200s", method, path, res.Status, text)
		case into != nil:
			return json.Unmarshal(text, into)
		default:
			return nil
		}
	}
}

func (p *emcoGitHub) once(ctx context.Context, method, path string, ask jsonBody) (*http.Response, []byte, error) {
	text, err := json.Marshal(ask)
	if err != nil {
		return nil, nil, err
	}
	url := p.srv.URL() + "/api/v3/repos/" + owner + "/" + site.Repository + path
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(text))
	if err != nil {
		return nil, nil, err
	}
	req.Header.Set("Authorization", "Bearer "+githubToken)
	res, err := p.srv.Transport().RoundTrip(req)
	if err != nil {
		return nil, nil, err
	}
	defer res.Body.Close()
	out, err := io.ReadAll(res.Body)
	return res, out, err
}

// untilAllowed is the retry time of a refusal.
func untilAllowed(h http.Header, now time.Time) time.Duration {
	if seconds, err := strconv.Atoi(h.Get("Retry-After")); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if reset, err := strconv.ParseInt(h.Get("X-RateLimit-Reset"), 10, 64); err == nil && h.Get("X-RateLimit-Remaining") == "0" {
		return max(time.Second, time.Unix(reset, 0).Sub(now)+time.Second)
	}
	return time.Minute
}

// Put commits a file, as EMCO does for one of many callers.
func (p *emcoGitHub) Put(ctx context.Context, path string, text []byte) error {
	return p.commitFiles(ctx, "change", map[string]string{path: string(text)})
}

// WriterGitHub is our writer over GitHub's REST API.
func WriterGitHub() Maker {
	return Maker{Name: figures.WriterGitHub, New: func(dir string) Peer { return &writerGitHub{githubSite: githubSite{dir: filepath.Join(dir, "hub")}} }}
}

type writerGitHub struct {
	githubSite
	host    *github.Host
	commits *batch.Writers
}

func (p *writerGitHub) Prepare(ctx context.Context, s world.Spec, base *world.World) error {
	if err := p.githubSite.Prepare(ctx, s, base); err != nil {
		return err
	}
	p.host = github.New(github.Options{})
	p.commits = batch.New(p.host, batch.Options{})
	return nil
}

func (p *writerGitHub) Apply(ctx context.Context, t Turn) (Cost, error) {
	began, moved := p.begin()
	groups := byCluster(t.Pairs)
	failures := make([]error, len(groups))
	var all sync.WaitGroup
	for i, of := range groups {
		all.Go(func() {
			var edits []git.Edit
			for _, pair := range of {
				edits = append(edits, git.Edit{Path: pair.Dir(), Dir: pair.Files})
			}
			repo := p.srv.Repo(owner, site.Repository, githubToken)
			_, failures[i] = p.commits.Submit(ctx, batch.Job{Repo: repo, Branch: site.Branch, Title: "change", Edits: edits})
		})
	}
	all.Wait()
	return p.cost(began, moved), errors.Join(slices.Compact(failures)...)
}

func (p *writerGitHub) Close(ctx context.Context) error {
	if p.commits != nil {
		p.commits.Close()
		_ = p.host.Close()
	}
	return p.githubSite.Close(ctx)
}

// Put passes a file to the writer.
func (p *writerGitHub) Put(ctx context.Context, path string, text []byte) error {
	repo := p.srv.Repo(owner, site.Repository, githubToken)
	_, err := p.commits.Submit(ctx, batch.Job{Repo: repo, Branch: site.Branch, Title: "change", Edits: []git.Edit{{Path: path, File: text}}})
	return err
}

// Measure returns a function that returns the cost of the calls since Measure.
func (h *githubSite) Measure() (spent func() Cost) {
	began, moved := h.begin()
	return func() Cost { return h.cost(began, moved) }
}

// CallsPerHour is the limit of a token.
func (h *githubSite) CallsPerHour() int { return githubLimits.Calls }
