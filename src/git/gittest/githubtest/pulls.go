package githubtest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/emco-orchestrator/emco/src/git"
)

// pullRequest is a pull request.
type pullRequest struct {
	Number  int        `json:"number"`
	HTMLURL string     `json:"html_url"`
	State   string     `json:"state"`
	Title   string     `json:"title"`
	Body    string     `json:"body"`
	Head    pullSide   `json:"head"`
	Base    pullSide   `json:"base"`
	Merged  *time.Time `json:"merged_at"`
	Commit  string     `json:"merge_commit_sha,omitempty"`
}

// pullSide is one of the branches of a pull request.
type pullSide struct {
	Ref string `json:"ref"`
	SHA string `json:"sha"`
}

// commitStatus is a commit status.
type commitStatus struct {
	SHA         string `json:"sha"`
	State       string `json:"state"`
	Context     string `json:"context"`
	Description string `json:"description"`
	TargetURL   string `json:"target_url"`
}

func (s *Server) postPull(c *apiCall) error {
	var ask struct{ Title, Body, Head, Base string }
	if err := c.read(&ask); err != nil {
		return err
	}
	c.repo.mu.Lock()
	defer c.repo.mu.Unlock()
	from, err := c.repo.at(ask.Head)
	into, err2 := c.repo.at(ask.Base)
	if err != nil || err2 != nil || from == "" || into == "" || ask.Title == "" {
		return refuse(http.StatusUnprocessableEntity, "Validation Failed: head or base is invalid")
	}
	if out, err := c.repo.store.Bare.Git(c.r.Context(), "", "rev-list", "--count", from, "^"+into); err != nil || out == "0" {
		return refuse(http.StatusUnprocessableEntity, "Validation Failed: No commits between "+ask.Base+" and "+ask.Head)
	}
	for _, p := range c.repo.pulls {
		if p.State == "open" && p.Head.Ref == ask.Head && p.Base.Ref == ask.Base {
			return refuse(http.StatusUnprocessableEntity, "Validation Failed: A pull request already exists for "+c.repo.owner+":"+ask.Head+".")
		}
	}
	n := len(c.repo.pulls) + 1
	p := &pullRequest{
		Number: n, HTMLURL: fmt.Sprintf("%s/%s/%s/pull/%d", s.base, c.repo.owner, c.repo.name, n), State: "open",
		Title: ask.Title, Body: ask.Body, Head: pullSide{ask.Head, from}, Base: pullSide{ask.Base, into},
	}
	c.repo.pulls = append(c.repo.pulls, p)
	return c.answer(http.StatusCreated, p)
}

// fresh brings the head of an open pull request up to date.
func (r *repository) fresh(p *pullRequest) *pullRequest {
	if id, err := r.at(p.Head.Ref); p.State == "open" && err == nil && id != "" {
		p.Head.SHA = id
	}
	return p
}

func (s *Server) listPulls(c *apiCall) error {
	q := c.r.URL.Query()
	c.repo.mu.Lock()
	defer c.repo.mu.Unlock()
	all := []*pullRequest{}
	for _, p := range slices.Backward(c.repo.pulls) {
		if head := q.Get("head"); head != "" && head != c.repo.owner+":"+p.Head.Ref {
			continue
		}
		if base := q.Get("base"); base != "" && base != p.Base.Ref {
			continue
		}
		if state := q.Get("state"); state != "all" && p.State != strings.ToLower(state) && (state != "" || p.State != "open") {
			continue
		}
		all = append(all, c.repo.fresh(p))
	}
	return c.answer(http.StatusOK, page(c, all, 30))
}

// pull returns the pull request of a call. The repository's lock is held.
func (c *apiCall) pull() (*pullRequest, error) {
	n, err := strconv.Atoi(c.r.PathValue("number"))
	if err != nil || n < 1 || n > len(c.repo.pulls) {
		return nil, refuse(http.StatusNotFound, "Not Found")
	}
	return c.repo.fresh(c.repo.pulls[n-1]), nil
}

func (s *Server) getPull(c *apiCall) error {
	c.repo.mu.Lock()
	defer c.repo.mu.Unlock()
	p, err := c.pull()
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, p)
}

func (s *Server) patchPull(c *apiCall) error {
	var ask struct{ Title, Body, State *string }
	if err := c.read(&ask); err != nil {
		return err
	}
	c.repo.mu.Lock()
	defer c.repo.mu.Unlock()
	p, err := c.pull()
	if err != nil {
		return err
	}
	for _, set := range []struct{ to, from *string }{{&p.Title, ask.Title}, {&p.Body, ask.Body}, {&p.State, ask.State}} {
		if set.from != nil {
			*set.to = *set.from
		}
	}
	return c.answer(http.StatusOK, p)
}

func (s *Server) mergePull(c *apiCall) error {
	c.repo.mu.Lock()
	defer c.repo.mu.Unlock()
	p, err := c.pull()
	if err != nil {
		return err
	}
	if p.State != "open" {
		return refuse(http.StatusMethodNotAllowed, "Pull Request is not mergeable")
	}
	id, err := c.merge(p)
	if err != nil {
		return err
	}
	now := s.now()
	p.State, p.Merged, p.Commit = "closed", &now, id
	return c.answer(http.StatusOK, map[string]any{"sha": id, "merged": true})
}

// merge takes what the head of a pull request holds into its base.
func (c *apiCall) merge(p *pullRequest) (string, error) {
	into, err := c.repo.at(p.Base.Ref)
	if err != nil {
		return "", err
	}
	tree, err := c.repo.store.Bare.Git(c.r.Context(), "", "merge-tree", "--write-tree", into, p.Head.SHA)
	if err != nil {
		return "", refuse(http.StatusMethodNotAllowed, "Merge conflict")
	}
	id, err := c.s.commit(c, newCommit{tree: tree, parents: []string{into, p.Head.SHA}, message: fmt.Sprintf("Merge pull request #%d\n", p.Number)})
	if err != nil {
		return "", err
	}
	return id, c.moveRef(p.Base.Ref, id, into)
}

// Merge merges a pull request, as its keepers would.
func (s *Server) Merge(owner, name string, number int) error {
	return s.keeper(owner, name, number, s.mergePull)
}

// Refuse closes a pull request unmerged.
func (s *Server) Refuse(owner, name string, number int) error {
	return s.keeper(owner, name, number, func(c *apiCall) error {
		c.repo.mu.Lock()
		defer c.repo.mu.Unlock()
		p, err := c.pull()
		if err == nil {
			p.State = "closed"
		}
		return err
	})
}

// Statuses returns the newest state of a commit under each name.
func (s *Server) Statuses(owner, name string, commit git.Hash) map[string]git.CommitStatus {
	s.mu.Lock()
	r := s.repos[owner+"/"+name]
	s.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	out := map[string]git.CommitStatus{}
	for _, one := range r.statuses {
		if one.SHA == string(commit) {
			out[one.Context] = git.CommitStatus{Name: one.Context, State: git.StatusState(one.State), Text: one.Description, URL: one.TargetURL}
		}
	}
	return out
}

func (s *Server) postStatus(c *apiCall) error {
	one := commitStatus{SHA: c.r.PathValue("sha")}
	if err := c.read(&one); err != nil {
		return err
	}
	one.SHA = c.r.PathValue("sha")
	switch {
	case !slices.Contains([]string{"error", "failure", "pending", "success"}, one.State):
		return refuse(http.StatusUnprocessableEntity, "Validation Failed: state is not included in the list")
	case len([]rune(one.Description)) > 140:
		return refuse(http.StatusUnprocessableEntity, "Validation Failed: description is too long (maximum is 140 characters)")
	}
	if o, ok, err := c.repo.store.get(one.SHA); err != nil || !ok || o.kind != "commit" {
		return refuse(http.StatusUnprocessableEntity, "No commit found for SHA: "+one.SHA)
	}
	c.repo.mu.Lock()
	defer c.repo.mu.Unlock()
	c.repo.statuses = append(c.repo.statuses, one)
	return c.answer(http.StatusCreated, one)
}

func (s *Server) listStatuses(c *apiCall) error {
	c.repo.mu.Lock()
	defer c.repo.mu.Unlock()
	all := []commitStatus{}
	for _, one := range slices.Backward(c.repo.statuses) {
		if one.SHA == c.r.PathValue("sha") {
			all = append(all, one)
		}
	}
	return c.answer(http.StatusOK, page(c, all, 30))
}

// keeper does what someone who keeps the repository does to a pull request.
func (s *Server) keeper(owner, name string, number int, do func(*apiCall) error) error {
	s.mu.Lock()
	repo := s.repos[owner+"/"+name]
	s.mu.Unlock()
	r, err := http.NewRequest(http.MethodPut, "/", nil)
	if err != nil {
		return err
	}
	r.SetPathValue("number", strconv.Itoa(number))
	return do(&apiCall{s: s, w: httptest.NewRecorder(), r: r, user: User{Name: "keeper"}, repo: repo})
}
