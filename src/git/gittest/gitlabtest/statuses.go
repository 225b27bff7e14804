package gitlabtest

import (
	"fmt"
	"net/http"
	"slices"
)

// commitStatus is one state of a commit under a name.
type commitStatus struct {
	ID          int64  `json:"id"`
	SHA         string `json:"sha"`
	Name        string `json:"name"`
	Status      string `json:"status"`
	Description string `json:"description"`
	TargetURL   string `json:"target_url"`
}

// events are GitLab's names of the transitions to a state; a refusal quotes them.
var events = map[string]string{"pending": "enqueue", "running": "run", "success": "success", "failed": "drop"}

func setStatus(q apiQuery) (int, any) {
	var in struct {
		State       string `json:"state"`
		Name        string `json:"name"`
		Description string `json:"description"`
		TargetURL   string `json:"target_url"`
	}
	sha := q.PathValue("sha")
	switch {
	case q.level < Developer:
		return http.StatusForbidden, message("403 Forbidden")
	case !q.decode(&in) || events[in.State] == "" || len([]rune(in.Description)) > 255:
		return http.StatusBadRequest, jsonObject{"error": "state does not have a valid value"}
	case !q.project.hasCommit(q.Context(), sha):
		return http.StatusNotFound, message("404 Commit Not Found")
	}
	all := q.project.statuses[sha]
	if newest := q.project.newestStatus(sha, in.Name); newest != nil && newest.Status == in.State {
		return http.StatusBadRequest, message(fmt.Sprintf(
			"Cannot transition status via :%s from :%s (Reason(s): Status cannot transition via \"%s\")", events[in.State], in.State, events[in.State]))
	}
	s := commitStatus{ID: int64(len(all) + 1), SHA: sha, Name: in.Name, Status: in.State, Description: in.Description, TargetURL: in.TargetURL}
	q.project.statuses[sha] = append(all, s)
	return http.StatusCreated, s
}

func (p *gitlabProject) newestStatus(sha, name string) *commitStatus {
	for _, s := range slices.Backward(p.statuses[sha]) {
		if s.Name == name {
			return &s
		}
	}
	return nil
}

// listStatuses lists the newest of each name.
func listStatuses(q apiQuery) (int, any) {
	sha, name := q.PathValue("sha"), q.URL.Query().Get("name")
	found := []commitStatus{}
	for i, s := range q.project.statuses[sha] {
		later := slices.ContainsFunc(q.project.statuses[sha][i+1:], func(t commitStatus) bool { return t.Name == s.Name })
		if !later && (name == "" || name == s.Name) {
			found = append(found, s)
		}
	}
	return http.StatusOK, page(q, found)
}
