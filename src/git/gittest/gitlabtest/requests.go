package gitlabtest

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// mergeRequest is one from a branch into another. Its head is that of its branch for as
// long as it is open.
type mergeRequest struct {
	iid                int64
	fork               int64 // id of the project that it comes from; 0: the same
	source, target     string
	title, description string
	state              string // opened, merged, closed
	sha, merged        string
	created            time.Time
}

// ForkRequest lets someone open a merge request from a branch of a fork.
func (s *Server) ForkRequest(project, source, target string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.find(project)
	if p == nil {
		return fmt.Errorf("no project %s", project)
	}
	p.add(&mergeRequest{fork: 1, source: source, target: target, title: "from a fork", state: "opened"})
	return nil
}

func (p *gitlabProject) add(m *mergeRequest) {
	m.iid, m.created = int64(len(p.requests)+1), time.Now().UTC()
	p.requests = append(p.requests, m)
}

// show is a merge request as the API represents it.
func (p *gitlabProject) show(ctx context.Context, m *mergeRequest) jsonObject {
	if m.state == "opened" && m.fork == 0 {
		m.sha = p.head(m.source)
	}
	from := p.id
	if m.fork != 0 {
		from = m.fork
	}
	return jsonObject{
		"id": p.id*1000 + m.iid, "iid": m.iid, "project_id": p.id, "source_project_id": from, "target_project_id": p.id,
		"title": m.title, "description": m.description, "state": m.state, "created_at": m.created,
		"source_branch": m.source, "target_branch": m.target, "sha": m.sha, "merge_commit_sha": orNull(m.merged),
		"squash_commit_sha": nil, "web_url": fmt.Sprintf("%s/-/merge_requests/%d", p.url, m.iid),
	}
}

func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// listRequests lists the newest first.
func listRequests(q apiQuery) (int, any) {
	want := q.URL.Query()
	matches := func(param, value string) bool { return want.Get(param) == "" || want.Get(param) == value }
	found := []jsonObject{}
	for _, m := range slices.Backward(q.project.requests) {
		if matches("source_branch", m.source) && matches("target_branch", m.target) && (want.Get("state") == "all" || matches("state", m.state)) {
			found = append(found, q.project.show(q.Context(), m))
		}
	}
	return http.StatusOK, page(q, found)
}

func createRequest(q apiQuery) (int, any) {
	var in struct {
		Source      string `json:"source_branch"`
		Target      string `json:"target_branch"`
		Title       string `json:"title"`
		Description string `json:"description"`
	}
	if !q.decode(&in) || in.Source == "" || in.Target == "" || in.Title == "" {
		return http.StatusBadRequest, jsonObject{"error": "source_branch is missing, target_branch is missing, title is missing"}
	}
	p := q.project
	for _, m := range p.requests {
		if m.state == "opened" && m.fork == 0 && m.source == in.Source && m.target == in.Target {
			return http.StatusConflict, jsonObject{"message": []string{fmt.Sprintf("Another open merge request already exists for this source branch: !%d", m.iid)}}
		}
	}
	switch {
	case q.level < Developer:
		return http.StatusForbidden, message("403 Forbidden")
	case in.Source == in.Target:
		return http.StatusUnprocessableEntity, jsonObject{"message": []string{"You can't use same project/branch for source and target"}}
	case p.head(in.Source) == "":
		return http.StatusBadRequest, jsonObject{"message": jsonObject{"source_branch": []string{"does not exist"}}}
	}
	m := &mergeRequest{source: in.Source, target: in.Target, title: in.Title, description: in.Description, state: "opened"}
	p.add(m)
	return http.StatusCreated, p.show(q.Context(), m)
}

// request returns the merge request that a path names.
func (q apiQuery) request() *mergeRequest {
	n, err := strconv.Atoi(q.PathValue("iid"))
	if err != nil || n < 1 || n > len(q.project.requests) {
		return nil
	}
	return q.project.requests[n-1]
}

// updateRequest changes texts, and closes.
func updateRequest(q apiQuery) (int, any) {
	m := q.request()
	var in struct {
		Title       *string `json:"title"`
		Description *string `json:"description"`
		Event       string  `json:"state_event"`
	}
	switch {
	case m == nil:
		return http.StatusNotFound, message("404 Not found")
	case q.level < Developer:
		return http.StatusForbidden, message("403 Forbidden")
	case !q.decode(&in):
		return http.StatusBadRequest, jsonObject{"error": "the body is not JSON"}
	}
	if in.Title != nil {
		m.title = *in.Title
	}
	if in.Description != nil {
		m.description = *in.Description
	}
	if in.Event == "close" && m.state == "opened" {
		m.sha = q.project.head(m.source)
		m.state = "closed"
	}
	return http.StatusOK, q.project.show(q.Context(), m)
}

// acceptRequest merges, with a commit that has both heads as parents.
func acceptRequest(q apiQuery) (int, any) {
	m := q.request()
	if m == nil {
		return http.StatusNotFound, message("404 Not found")
	}
	var in struct {
		SHA string `json:"sha"`
	}
	rule, _ := q.project.ruleOf(m.target)
	head := q.project.head(m.source)
	switch {
	case q.level < max(Developer, rule.merge):
		return http.StatusUnauthorized, message("401 Unauthorized")
	case m.state != "opened" || m.fork != 0 || head == "":
		return http.StatusMethodNotAllowed, message("405 Method Not Allowed")
	case q.ContentLength > 0 && !q.decode(&in):
		return http.StatusBadRequest, jsonObject{"error": "the body is not JSON"}
	case in.SHA != "" && in.SHA != head:
		return http.StatusConflict, message("SHA does not match HEAD of source branch: " + head)
	}
	merged, err := q.project.merge(q.Context(), m, head)
	if err != nil {
		return http.StatusUnprocessableEntity, message("Branch cannot be merged")
	}
	m.state, m.sha, m.merged = "merged", head, merged
	return http.StatusOK, q.project.show(q.Context(), m)
}

// merge moves the target branch to a commit that holds both, only if it is where it was. It
// returns that commit if it is one of the merge's own.
func (p *gitlabProject) merge(ctx context.Context, m *mergeRequest, head string) (string, error) {
	into := p.head(m.target)
	if p.forward {
		if _, err := p.bare.Git(ctx, "", "merge-base", "--is-ancestor", into, head); err != nil {
			return "", err
		}
		_, err := p.bare.Git(ctx, "", "update-ref", "refs/heads/"+m.target, head, into)
		return "", err
	}
	tree, err := p.bare.Git(ctx, "", "merge-tree", "--write-tree", into, head)
	if err != nil {
		return "", err
	}
	commit, err := p.bare.Git(ctx, "Merge branch '"+m.source+"' into '"+m.target+"'\n", "commit-tree", "-p", into, "-p", head, tree)
	if err != nil {
		return "", err
	}
	_, err = p.bare.Git(ctx, "", "update-ref", "refs/heads/"+m.target, commit, into)
	return commit, err
}
