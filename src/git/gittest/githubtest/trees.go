package githubtest

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// treeLine is an entry of a tree, in GitHub's form.
type treeLine struct {
	Path    string  `json:"path"`
	Mode    string  `json:"mode"`
	Type    string  `json:"type,omitempty"`
	SHA     *string `json:"sha"`
	Content *string `json:"content,omitempty"`
	Size    int     `json:"size,omitempty"`
}

// kinds are the modes that GitHub takes, and what they are of.
var kinds = map[string]string{"100644": "blob", "100755": "blob", "120000": "blob", "040000": "tree", "160000": "commit"}

// parse splits a tree object.
func parse(raw []byte) ([]treeLine, error) {
	var lines []treeLine
	for len(raw) > 0 {
		mode, rest, ok := bytes.Cut(raw, []byte{' '})
		name, tail, ok2 := bytes.Cut(rest, []byte{0})
		if !ok || !ok2 || len(tail) < 20 {
			return nil, errors.New("a broken tree")
		}
		m, sha := fmt.Sprintf("%06s", mode), hex.EncodeToString(tail[:20])
		lines = append(lines, treeLine{Path: string(name), Mode: m, Type: cmp.Or(kinds[m], "blob"), SHA: &sha})
		raw = tail[20:]
	}
	return lines, nil
}

// treeFolder is a directory that is being edited.
type treeFolder struct {
	entries map[string]treeLine
	open    map[string]*treeFolder // directories of it that are edited
}

// treeEditor changes a tree as a request asks for.
type treeEditor struct {
	s     *objectStore
	found map[string]string // kinds of objects that were asked for
}

// load opens a tree; "" is the empty one.
func (e *treeEditor) load(id string) (*treeFolder, error) {
	f := &treeFolder{entries: map[string]treeLine{}, open: map[string]*treeFolder{}}
	if id == "" {
		return f, nil
	}
	o, ok, err := e.s.get(id)
	if err != nil {
		return nil, err
	}
	if !ok || o.kind != "tree" {
		return nil, refuse(http.StatusUnprocessableEntity, "base_tree is not a valid tree oid")
	}
	lines, err := parse(o.content)
	for _, l := range lines {
		f.entries[l.Path] = l
	}
	return f, err
}

// apply carries out one entry of a request.
func (e *treeEditor) apply(top *treeFolder, l treeLine) error {
	if err := e.check(l); err != nil {
		return err
	}
	names := strings.Split(l.Path, "/")
	f, last := top, names[len(names)-1]
	for _, name := range names[:len(names)-1] {
		next, err := e.enter(f, name, l)
		if err != nil {
			return err
		}
		f = next
	}
	if l.SHA == nil && l.Content == nil {
		if _, ok := f.entries[last]; !ok {
			return refuse(http.StatusUnprocessableEntity, "GitRPC::BadObjectState")
		}
		delete(f.entries, last)
		delete(f.open, last)
		return nil
	}
	if l.Content != nil {
		id, err := e.s.Put("blob", []byte(*l.Content))
		if err != nil {
			return err
		}
		l.SHA = &id
	}
	l.Path = last
	f.entries[last] = l
	delete(f.open, last)
	return nil
}

// enter opens a directory on the way to an entry.
func (e *treeEditor) enter(f *treeFolder, name string, l treeLine) (*treeFolder, error) {
	if next, ok := f.open[name]; ok {
		return next, nil
	}
	id := ""
	if here, ok := f.entries[name]; ok {
		if here.Mode != "040000" {
			return nil, refuse(http.StatusUnprocessableEntity, "tree.path "+l.Path+" is below a file")
		}
		id = *here.SHA
	} else if l.SHA == nil && l.Content == nil {
		return nil, refuse(http.StatusUnprocessableEntity, "GitRPC::BadObjectState")
	}
	next, err := e.load(id)
	if err != nil {
		return nil, err
	}
	f.open[name] = next
	f.entries[name] = treeLine{Path: name, Mode: "040000"}
	return next, nil
}

// check refuses what GitHub refuses of one entry.
func (e *treeEditor) check(l treeLine) error {
	kind, ok := kinds[l.Mode]
	switch {
	case !ok:
		return refuse(http.StatusUnprocessableEntity, "tree.mode "+l.Mode+" is not one of 100644, 100755, 040000, 160000, 120000")
	case l.Type != "" && l.Type != kind:
		return refuse(http.StatusUnprocessableEntity, "tree.type does not match tree.mode")
	case l.SHA != nil && l.Content != nil:
		return refuse(http.StatusUnprocessableEntity, "Both tree.sha and tree.content are given")
	}
	for name := range strings.SplitSeq(l.Path, "/") {
		if name == "" || name == "." || name == ".." || strings.EqualFold(name, ".git") || strings.ContainsRune(name, 0) {
			return refuse(http.StatusUnprocessableEntity, "tree.path contains a malformed path component")
		}
	}
	if l.SHA == nil || l.Mode == "160000" {
		return nil
	}
	return e.exists(*l.SHA, kind)
}

func (e *treeEditor) exists(id, kind string) error {
	if _, asked := e.found[id]; !asked {
		o, ok, err := e.s.get(id)
		if err != nil {
			return err
		}
		if !ok || len(id) != 40 {
			o.kind = "none"
		}
		e.found[id] = o.kind
	}
	if e.found[id] != kind {
		return refuse(http.StatusUnprocessableEntity, "tree.sha "+id+" is not a valid "+kind)
	}
	return nil
}

// save writes a directory and those that are open in it; "" if nothing is left.
func (e *treeEditor) save(f *treeFolder, top bool) (string, error) {
	for name, sub := range f.open {
		id, err := e.save(sub, false)
		if err != nil {
			return "", err
		}
		if id == "" {
			delete(f.entries, name)
			continue
		}
		f.entries[name] = treeLine{Path: name, Mode: "040000", SHA: &id}
	}
	if len(f.entries) == 0 && !top {
		return "", nil
	}
	return e.s.Put("tree", f.raw())
}

// raw is the tree object.
func (f *treeFolder) raw() []byte {
	key := func(l treeLine) string {
		if l.Mode == "040000" {
			return l.Path + "/"
		}
		return l.Path
	}
	lines := make([]treeLine, 0, len(f.entries))
	for _, l := range f.entries {
		lines = append(lines, l)
	}
	slices.SortFunc(lines, func(a, b treeLine) int { return cmp.Compare(key(a), key(b)) })
	var raw []byte
	for _, l := range lines {
		id, _ := hex.DecodeString(*l.SHA)
		raw = append(append(append(raw, strings.TrimLeft(l.Mode, "0")+" "+l.Path...), 0), id...)
	}
	return raw
}

// list writes out a tree, and if deep all below it, as far as a limit.
func (e *treeEditor) list(id, above string, deep bool, limit int, out *[]treeLine) (cut bool, err error) {
	o, ok, err := e.s.get(id)
	if err != nil || !ok || o.kind != "tree" {
		return false, cmp.Or(err, error(refuse(http.StatusNotFound, "Not Found")))
	}
	lines, err := parse(o.content)
	if err != nil {
		return false, err
	}
	for _, l := range lines {
		if len(*out) >= limit {
			return true, nil
		}
		l.Path = above + l.Path
		*out = append(*out, l)
		if deep && l.Type == "tree" {
			if cut, err := e.list(*l.SHA, l.Path+"/", deep, limit, out); cut || err != nil {
				return cut, err
			}
		}
	}
	return false, nil
}

// postTree makes a tree.
func (s *Server) postTree(c *apiCall) error {
	var ask struct {
		BaseTree string     `json:"base_tree"`
		Tree     []treeLine `json:"tree"`
	}
	if err := c.read(&ask); err != nil {
		return err
	}
	if len(ask.Tree) == 0 || len(ask.Tree) > s.lim.Items {
		return refuse(http.StatusUnprocessableEntity, "Invalid tree info: "+strconv.Itoa(len(ask.Tree))+" entries")
	}
	e := &treeEditor{s: c.repo.store, found: map[string]string{}}
	top, err := e.load(ask.BaseTree)
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, l := range ask.Tree {
		if seen[l.Path] {
			return refuse(http.StatusUnprocessableEntity, "tree.path "+l.Path+" is given twice")
		}
		seen[l.Path] = true
		if err := e.apply(top, l); err != nil {
			return err
		}
	}
	id, err := e.save(top, true)
	if err != nil {
		return err
	}
	return c.answer(http.StatusCreated, map[string]string{"sha": id})
}

// getTree lists a tree.
func (s *Server) getTree(c *apiCall) error {
	e := &treeEditor{s: c.repo.store}
	out := []treeLine{}
	deep := c.r.URL.Query().Get("recursive") != ""
	limit := 1 << 30
	if deep {
		limit = s.lim.Listing
	}
	cut, err := e.list(c.r.PathValue("sha"), "", deep, limit, &out)
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, struct {
		SHA       string     `json:"sha"`
		Tree      []treeLine `json:"tree"`
		Truncated bool       `json:"truncated"`
	}{c.r.PathValue("sha"), out, cut})
}
