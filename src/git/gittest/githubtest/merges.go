package githubtest

import (
	"net/http"
	"strings"
)

// deleteRef removes a branch.
func (s *Server) deleteRef(c *apiCall) error {
	branch := strings.TrimPrefix(c.r.PathValue("ref"), "heads/")
	c.repo.mu.Lock()
	defer c.repo.mu.Unlock()
	at, err := c.repo.at(branch)
	if err != nil {
		return err
	}
	if rule, ok := c.repo.rules[branch]; ok {
		return refuse(rule.Status, rule.Message)
	}
	if at == "" {
		return refuse(http.StatusUnprocessableEntity, "Reference does not exist")
	}
	if _, err := c.repo.store.Bare.Git(c.r.Context(), "", "update-ref", "-d", "refs/heads/"+branch, at); err != nil {
		return err
	}
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}

// merge merges a branch into another one, by a commit of its own as GitHub does it.
func (s *Server) merge(c *apiCall) error {
	var ask struct {
		Base, Head    string
		CommitMessage string `json:"commit_message"`
	}
	if err := c.read(&ask); err != nil {
		return err
	}
	c.repo.mu.Lock()
	defer c.repo.mu.Unlock()
	base, err := c.repo.at(ask.Base)
	if err != nil {
		return err
	}
	head, err := c.repo.at(ask.Head)
	if err != nil {
		return err
	}
	if base == "" || head == "" {
		return refuse(http.StatusNotFound, "Base or head does not exist")
	}
	bare := c.repo.store.Bare
	if _, err := bare.Git(c.r.Context(), "", "merge-base", "--is-ancestor", head, base); err == nil {
		c.w.WriteHeader(http.StatusNoContent) // nothing to merge
		return nil
	}
	tree, err := bare.Git(c.r.Context(), "", "merge-tree", "--write-tree", base, head)
	if err != nil {
		return refuse(http.StatusConflict, "Merge conflict")
	}
	if err := c.allowed(ask.Base, head); err != nil {
		return err
	}
	id, err := s.commit(c, newCommit{tree: tree, parents: []string{base, head}, message: ask.CommitMessage})
	if err != nil {
		return err
	}
	if err := c.moveRef(ask.Base, id, base); err != nil {
		return err
	}
	return c.answer(http.StatusCreated, shaRef{id})
}
