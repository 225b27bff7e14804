package githubtest

import (
	"encoding/base64"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// Rule is why a branch may not be moved, but by a pull request.
type Rule struct {
	Status  int    // 422, or 403
	Message string // such as "Changes must be made through a pull request."
}

// Protect sets the rule of a branch, for the interface and for pushes; the zero Rule ends it.
func (s *Server) Protect(owner, name, branch string, rule Rule) error {
	s.mu.Lock()
	r := s.repos[owner+"/"+name]
	s.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	if rule == (Rule{}) {
		delete(r.rules, branch)
		return r.store.Bare.Hook("pre-receive", "")
	}
	r.rules[branch] = rule
	return r.store.Bare.Hook("pre-receive", `while read -r old new ref; do if [ "$ref" = "refs/heads/`+branch+`" ]; then echo "GH006: Protected branch update failed" >&2; exit 1; fi; done`)
}

// refAnswer is a reference in GitHub's form.
type refAnswer struct {
	Ref    string `json:"ref"`
	Object struct {
		Type string `json:"type"`
		SHA  string `json:"sha"`
	} `json:"object"`
}

func (c *apiCall) showRef(status int, ref, id string) error {
	out := refAnswer{Ref: ref}
	out.Object.Type, out.Object.SHA = "commit", id
	return c.answer(status, out)
}

// at returns where a branch is, "" if there is none.
func (r *repository) at(branch string) (string, error) {
	return r.store.Bare.Ref("refs/heads/" + branch)
}

func (s *Server) getRef(c *apiCall) error {
	branch, ok := strings.CutPrefix(c.r.PathValue("ref"), "heads/")
	id, err := c.repo.at(branch)
	if err != nil {
		return err
	}
	if !ok || id == "" {
		if empty, err := c.repo.empty(); err != nil || empty {
			return refuse(http.StatusConflict, "Git Repository is empty.")
		}
		return refuse(http.StatusNotFound, "Not Found")
	}
	return c.showRef(http.StatusOK, "refs/heads/"+branch, id)
}

// matchingRefs lists the references whose names begin like one.
func (s *Server) matchingRefs(c *apiCall) error {
	refs, err := c.repo.store.Bare.Refs()
	if err != nil {
		return err
	}
	all := []refAnswer{}
	for _, ref := range slices.Sorted(maps.Keys(refs)) {
		if strings.HasPrefix(ref, "refs/"+c.r.PathValue("ref")) {
			one := refAnswer{Ref: ref}
			one.Object.Type, one.Object.SHA = "commit", refs[ref]
			all = append(all, one)
		}
	}
	return c.answer(http.StatusOK, page(c, all, 30))
}

func (s *Server) postRef(c *apiCall) error {
	var ask struct{ Ref, SHA string }
	if err := c.read(&ask); err != nil {
		return err
	}
	branch, ok := strings.CutPrefix(ask.Ref, "refs/heads/")
	if !ok {
		return refuse(http.StatusUnprocessableEntity, "Reference name must start with 'refs/'")
	}
	c.repo.mu.Lock()
	defer c.repo.mu.Unlock()
	if err := c.allowed(branch, ask.SHA); err != nil {
		return err
	}
	if at, err := c.repo.at(branch); err != nil || at != "" {
		return refuse(http.StatusUnprocessableEntity, "Reference already exists")
	}
	if err := c.moveRef(branch, ask.SHA, strings.Repeat("0", 40)); err != nil {
		return err
	}
	return c.showRef(http.StatusCreated, ask.Ref, ask.SHA)
}

func (s *Server) patchRef(c *apiCall) error {
	var ask struct {
		SHA   string
		Force bool
	}
	if err := c.read(&ask); err != nil {
		return err
	}
	branch := strings.TrimPrefix(c.r.PathValue("ref"), "heads/")
	c.repo.mu.Lock()
	defer c.repo.mu.Unlock()
	at, err := c.repo.at(branch)
	if err != nil {
		return err
	}
	if at == "" {
		return refuse(http.StatusUnprocessableEntity, "Reference does not exist")
	}
	if err := c.allowed(branch, ask.SHA); err != nil {
		return err
	}
	if ask.Force && !strings.HasPrefix(branch, "emco/") { // branches of proposals may leave their history
		return refuse(http.StatusUnprocessableEntity, "Cannot force-push to this branch")
	}
	if ask.Force {
		if err := c.moveRef(branch, ask.SHA, at); err != nil {
			return err
		}
		return c.showRef(http.StatusOK, "refs/heads/"+branch, ask.SHA)
	}
	if history, err := c.repo.store.ancestors(ask.SHA); err != nil || !history[at] {
		return refuse(http.StatusUnprocessableEntity, "Update is not a fast forward")
	}
	if err := c.moveRef(branch, ask.SHA, at); err != nil {
		return err
	}
	return c.showRef(http.StatusOK, "refs/heads/"+branch, ask.SHA)
}

// allowed reports whether a branch may be moved to an object.
func (c *apiCall) allowed(branch, id string) error {
	if rule, ok := c.repo.rules[branch]; ok {
		return refuse(rule.Status, rule.Message)
	}
	if o, ok, err := c.repo.store.get(id); err != nil || !ok || o.kind != "commit" {
		return refuse(http.StatusUnprocessableEntity, "Object does not exist")
	}
	return nil
}

// moveRef moves a branch, which a push may have moved meanwhile.
func (c *apiCall) moveRef(branch, to, from string) error {
	if err := c.repo.store.Bare.UpdateRef("refs/heads/"+branch, to, strings.TrimPrefix(from, strings.Repeat("0", 40))); err != nil {
		return refuse(http.StatusUnprocessableEntity, "Reference cannot be updated: cannot lock ref")
	}
	return nil
}

// putContents makes a file by a commit of its own; in an empty repository the first one.
func (s *Server) putContents(c *apiCall) error {
	var ask struct {
		Message, Content, Branch, SHA string
		Author, Committer             *commitPerson
	}
	if err := c.read(&ask); err != nil {
		return err
	}
	content, err := base64.StdEncoding.DecodeString(ask.Content)
	if err != nil {
		return refuse(http.StatusUnprocessableEntity, "content is not valid Base64")
	}
	c.repo.mu.Lock()
	defer c.repo.mu.Unlock()
	empty, err := c.repo.empty()
	if err != nil {
		return err
	}
	branch := ask.Branch
	if branch == "" {
		branch = c.repo.main
	}
	at, err := c.repo.at(branch)
	if err != nil {
		return err
	}
	if at == "" && (!empty || branch != c.repo.main) {
		return refuse(http.StatusNotFound, "Branch "+branch+" not found")
	}
	if rule, ok := c.repo.rules[branch]; ok {
		return refuse(rule.Status, rule.Message)
	}
	path := c.r.PathValue("path")
	if _, there, err := c.repo.store.get("refs/heads/" + branch + ":" + path); err != nil || there && ask.SHA == "" {
		return refuse(http.StatusUnprocessableEntity, `Invalid request. "sha" wasn't supplied.`)
	}
	id, err := c.putFile(at, path, string(content), ask.Message, ask.Author, ask.Committer)
	if err != nil {
		return err
	}
	from := at
	if at == "" {
		from = strings.Repeat("0", 40)
	}
	if err := c.moveRef(branch, id, from); err != nil {
		return err
	}
	return c.answer(http.StatusCreated, map[string]any{"commit": shaRef{id}})
}

// putFile makes a commit that adds a file.
func (c *apiCall) putFile(parent, path, content, message string, author, committer *commitPerson) (string, error) {
	e, tree, parents := &treeEditor{s: c.repo.store, found: map[string]string{}}, "", []string(nil)
	if parent != "" {
		o, _, err := c.repo.store.get(parent)
		if err != nil {
			return "", err
		}
		tree, parents = parseCommit(o).Tree.SHA, []string{parent}
	}
	top, err := e.load(tree)
	if err == nil {
		err = e.apply(top, treeLine{Path: path, Mode: "100644", Content: &content})
	}
	if err != nil {
		return "", err
	}
	if tree, err = e.save(top, true); err != nil {
		return "", err
	}
	return c.s.commit(c, newCommit{tree: tree, parents: parents, author: author, committer: committer, message: message})
}
