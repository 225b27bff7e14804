package githubtest

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

func (s *Server) routes() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /app/installations/{id}/access_tokens", s.postToken)
	for path, do := range map[string]func(*apiCall) error{
		"GET ":                            s.getRepo,
		"PUT /contents/{path...}":         s.putContents,
		"GET /git/ref/{ref...}":           s.getRef,
		"GET /git/matching-refs/{ref...}": s.matchingRefs,
		"POST /git/refs":                  s.postRef,
		"DELETE /git/refs/{ref...}":       s.deleteRef,
		"PATCH /git/refs/{ref...}":        s.patchRef,
		"POST /merges":                    s.merge,
		"GET /git/commits/{sha}":          s.getCommit,
		"POST /git/commits":               s.postCommit,
		"GET /git/trees/{sha}":            s.getTree,
		"POST /git/trees":                 s.writing(s.postTree),
		"GET /git/blobs/{sha}":            s.getBlob,
		"POST /git/blobs":                 s.writing(s.postBlob),
		"GET /commits":                    s.listCommits,
		"GET /compare/{range}":            s.compare,
		"GET /pulls":                      s.listPulls,
		"POST /pulls":                     s.postPull,
		"GET /pulls/{number}":             s.getPull,
		"PATCH /pulls/{number}":           s.patchPull,
		"PUT /pulls/{number}/merge":       s.mergePull,
		"POST /statuses/{sha}":            s.postStatus,
		"GET /commits/{sha}/statuses":     s.listStatuses,
	} {
		method, rest, _ := strings.Cut(path, " ")
		mux.HandleFunc(method+" /repos/{owner}/{name}"+rest, s.handle(do))
	}
	return mux
}

// writing refuses what an empty repository refuses.
func (s *Server) writing(do func(*apiCall) error) func(*apiCall) error {
	return func(c *apiCall) error {
		empty, err := c.repo.empty()
		if err != nil {
			return err
		}
		if empty {
			return refuse(http.StatusConflict, "Git Repository is empty.")
		}
		return do(c)
	}
}

func (r *repository) empty() (bool, error) {
	refs, err := r.store.Bare.Refs()
	for name := range refs {
		if strings.HasPrefix(name, "refs/heads/") {
			return false, err
		}
	}
	return true, err
}

func (s *Server) getRepo(c *apiCall) error {
	return c.answer(http.StatusOK, map[string]string{"full_name": c.repo.owner + "/" + c.repo.name, "default_branch": c.repo.main})
}

func (s *Server) getBlob(c *apiCall) error {
	o, ok, err := c.repo.store.get(c.r.PathValue("sha"))
	if err != nil {
		return err
	}
	if !ok || o.kind != "blob" {
		return refuse(http.StatusNotFound, "Not Found")
	}
	if strings.Contains(c.r.Header.Get("Accept"), "raw") {
		c.w.Header().Set("Content-Type", "application/vnd.github.raw; charset=utf-8")
		_, err = c.w.Write(o.content)
		return err
	}
	return c.answer(http.StatusOK, map[string]any{"sha": o.id, "size": len(o.content), "encoding": "base64", "content": base64.StdEncoding.EncodeToString(o.content)})
}

func (s *Server) postBlob(c *apiCall) error {
	var ask struct{ Content, Encoding string }
	if err := c.read(&ask); err != nil {
		return err
	}
	content := []byte(ask.Content)
	if ask.Encoding == "base64" {
		var err error
		if content, err = base64.StdEncoding.DecodeString(ask.Content); err != nil {
			return refuse(http.StatusUnprocessableEntity, "content is not valid Base64")
		}
	}
	id, err := c.repo.store.Put("blob", content)
	if err != nil {
		return err
	}
	return c.answer(http.StatusCreated, map[string]string{"sha": id})
}

// commitPerson is an author or a committer.
type commitPerson struct {
	Name  string    `json:"name"`
	Email string    `json:"email"`
	Date  time.Time `json:"date"`
}

// signature is a person as commits have it.
func (s *Server) signature(p *commitPerson, otherwise string) string {
	if p == nil {
		return fmt.Sprintf("%s <%s@localhost> %d +0000", otherwise, otherwise, s.now().Unix())
	}
	if p.Date.IsZero() {
		p.Date = s.now()
	}
	return fmt.Sprintf("%s <%s> %d +0000", p.Name, p.Email, p.Date.Unix())
}

func (s *Server) postCommit(c *apiCall) error {
	var ask struct {
		Message           string
		Tree              string
		Parents           []string
		Author, Committer *commitPerson
		Signature         string
	}
	if err := c.read(&ask); err != nil {
		return err
	}
	if empty, err := c.repo.empty(); err != nil || empty {
		if err == nil {
			err = refuse(http.StatusConflict, "Git Repository is empty.")
		}
		return err
	}
	if o, ok, err := c.repo.store.get(ask.Tree); err != nil || !ok || o.kind != "tree" {
		return refuse(http.StatusUnprocessableEntity, "Tree SHA does not exist")
	}
	for _, p := range ask.Parents {
		if o, ok, err := c.repo.store.get(p); err != nil || !ok || o.kind != "commit" {
			return refuse(http.StatusUnprocessableEntity, "Parent SHA does not exist or is not a commit object")
		}
	}
	if ask.Committer == nil {
		ask.Committer = ask.Author
	}
	id, err := s.commit(c, newCommit{tree: ask.Tree, parents: ask.Parents, author: ask.Author, committer: ask.Committer, message: ask.Message, signature: ask.Signature})
	if err != nil {
		return err
	}
	return c.answer(http.StatusCreated, map[string]string{"sha": id})
}

// newCommit is the content of a commit to make.
type newCommit struct {
	tree               string
	parents            []string
	author, committer  *commitPerson
	message, signature string
}

// commit makes a commit.
func (s *Server) commit(c *apiCall, n newCommit) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "tree %s\n", n.tree)
	for _, p := range n.parents {
		fmt.Fprintf(&b, "parent %s\n", p)
	}
	fmt.Fprintf(&b, "author %s\ncommitter %s\n", s.signature(n.author, c.user.Name), s.signature(n.committer, c.user.Name))
	if n.signature != "" {
		fmt.Fprintf(&b, "gpgsig %s\n", strings.ReplaceAll(strings.TrimSuffix(n.signature, "\n"), "\n", "\n "))
	}
	fmt.Fprintf(&b, "\n%s", n.message)
	return c.repo.store.Put("commit", []byte(b.String()))
}

// shaRef names an object.
type shaRef struct {
	SHA string `json:"sha"`
}

// commitOf is a commit in GitHub's form.
type commitOf struct {
	SHA          string       `json:"sha"`
	Message      string       `json:"message"`
	Tree         shaRef       `json:"tree"`
	Parents      []shaRef     `json:"parents"`
	Author       commitPerson `json:"author"`
	Committer    commitPerson `json:"committer"`
	Verification struct {
		Signature *string `json:"signature"` // null without one
	} `json:"verification"`
}

func parseCommit(o gitObject) commitOf {
	head, message, _ := strings.Cut(string(o.content), "\n\n")
	out := commitOf{SHA: o.id, Message: message}
	for l := range strings.SplitSeq(head, "\n") {
		if id, ok := strings.CutPrefix(l, "tree "); ok {
			out.Tree.SHA = id
		}
		if id, ok := strings.CutPrefix(l, "parent "); ok {
			out.Parents = append(out.Parents, shaRef{id})
		}
		if who, ok := strings.CutPrefix(l, "author "); ok {
			out.Author = parsePerson(who)
		}
		if who, ok := strings.CutPrefix(l, "committer "); ok {
			out.Committer = parsePerson(who)
		}
	}
	if _, signature, ok := strings.Cut(head, "\ngpgsig "); ok { // the last of the headers
		signature = strings.ReplaceAll(signature, "\n ", "\n")
		out.Verification.Signature = &signature
	}
	return out
}

// parsePerson reads "name <mail> seconds zone".
func parsePerson(who string) (p commitPerson) {
	name, rest, _ := strings.Cut(who, " <")
	mail, at, _ := strings.Cut(rest, "> ")
	seconds, _, _ := strings.Cut(at, " ")
	if n, err := strconv.ParseInt(seconds, 10, 64); err == nil {
		p.Date = time.Unix(n, 0).UTC()
	}
	p.Name, p.Email = name, mail
	return p
}

func (s *Server) getCommit(c *apiCall) error {
	o, ok, err := c.repo.store.get(c.r.PathValue("sha"))
	if err != nil {
		return err
	}
	if !ok || o.kind != "commit" {
		return refuse(http.StatusNotFound, "Not Found")
	}
	return c.answer(http.StatusOK, parseCommit(o))
}

// listedCommit is a commit as lists have it.
type listedCommit struct {
	SHA     string   `json:"sha"`
	Commit  commitOf `json:"commit"`
	Parents []shaRef `json:"parents"`
}

// log returns commits in the order of "git rev-list".
func (c *apiCall) log(args ...string) ([]listedCommit, error) {
	out, err := c.repo.store.Bare.Git(c.r.Context(), "", append([]string{"rev-list", "--topo-order"}, args...)...)
	if err != nil {
		return nil, err
	}
	var all []listedCommit
	for id := range strings.FieldsSeq(out) {
		o, _, err := c.repo.store.get(id)
		if err != nil {
			return nil, err
		}
		one := parseCommit(o)
		all = append(all, listedCommit{SHA: id, Commit: one, Parents: one.Parents})
	}
	return all, nil
}

func (s *Server) listCommits(c *apiCall) error {
	at := c.r.URL.Query().Get("sha")
	if o, ok, err := c.repo.store.get(at); err != nil || !ok || o.kind != "commit" {
		return refuse(http.StatusNotFound, "No commit found for SHA: "+at)
	}
	all, err := c.log(at)
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, page(c, all, 30))
}

func (s *Server) compare(c *apiCall) error {
	base, head, _ := strings.Cut(c.r.PathValue("range"), "...")
	ours, ok, err := c.repo.store.get(base)
	theirs, ok2, err2 := c.repo.store.get(head)
	if err != nil || err2 != nil || !ok || !ok2 {
		return refuse(http.StatusNotFound, "Not Found")
	}
	oldHistory, err := c.repo.store.ancestors(ours.id)
	newHistory, err2 := c.repo.store.ancestors(theirs.id)
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	common := false
	for id := range oldHistory {
		common = common || newHistory[id]
	}
	if !common {
		return refuse(http.StatusNotFound, fmt.Sprintf("No common ancestor between %s and %s.", base, head))
	}
	var ahead, behind []listedCommit
	if !oldHistory[theirs.id] {
		if ahead, err = c.log("--reverse", theirs.id, "^"+ours.id); err != nil {
			return err
		}
	}
	if !newHistory[ours.id] {
		if behind, err = c.log(ours.id, "^"+theirs.id); err != nil {
			return err
		}
	}
	state := "diverged"
	switch {
	case len(ahead) == 0 && len(behind) == 0:
		state = "identical"
	case len(behind) == 0:
		state = "ahead"
	case len(ahead) == 0:
		state = "behind"
	}
	return c.answer(http.StatusOK, map[string]any{
		"status": state, "ahead_by": len(ahead), "behind_by": len(behind), "total_commits": len(ahead), "commits": page(c, ahead, 250),
	})
}
