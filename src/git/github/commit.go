package github

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	gh "github.com/google/go-github/v60/github"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/tree"
)

// Commit puts one commit on top of parent and moves branch from parent to it.
//
// The API moves a branch to any descendant of its head. So that a branch that was rewound is not
// moved forward again, its head is read right before.
func (h *Host) Commit(ctx context.Context, r git.Repo, branch string, parent git.Hash, edits []git.Edit, m git.Message) (git.Hash, error) {
	d, err := h.checkedClient(r, firstOf(git.CheckBranch(branch), git.CheckEdits(edits)))
	if err != nil {
		return "", err
	}
	w := &commitWriter{client: d, known: h.repo(r), branch: branch, parent: parent, message: m}
	id, err := w.commit(ctx, edits)
	if errors.Is(err, errEmpty) && parent == "" {
		if err := w.initRepository(ctx); err != nil {
			return "", err
		}
		id, err = w.commit(ctx, edits)
	}
	return id, blamePath(err, edits)
}

// commitWriter makes one commit.
type commitWriter struct {
	*client
	known    *repoCache
	branch   string
	parent   git.Hash  // the head of the branch; empty if it does not exist
	base     git.Hash  // the commit's parent: parent, or the first commit of an empty repository
	expected *git.Hash // the head of a branch that leaves its history; nil: base
	message  git.Message
}

// commit builds the trees and the commit, and moves the branch.
func (w *commitWriter) commit(ctx context.Context, edits []git.Edit) (git.Hash, error) {
	from, err := w.baseTree(ctx)
	if err != nil {
		return "", err
	}
	top, r := tree.NewEdits(edits), w.treeReader()
	if err := r.load(ctx, from, top, 0); err != nil {
		return "", err
	}
	d, err := newTreeDraft(r.trees, from, top)
	if err != nil {
		return "", w.withSubject(err)
	}
	if d.Root == from {
		return w.parent, nil
	}
	if w.message.DryRun {
		return "", git.ErrDryRun
	}
	p := newTreePlan(d, w.known, from)
	if err := w.spend(ctx, "commit", w.cost(p)); err != nil {
		return "", err
	}
	if err := w.build(ctx, p, from); err != nil {
		return "", w.forgetIfGone(err)
	}
	id, err := w.createCommit(ctx, d.Root)
	if err != nil {
		return "", w.forgetIfGone(err)
	}
	if err := w.moveBranch(ctx, id); err != nil {
		return "", err
	}
	if commit, err := tree.ParseID(id); err == nil {
		w.known.addRoot(commit, d.Root)
	}
	return id, nil
}

// withSubject adds the repository to an error that blames a path.
func (w *commitWriter) withSubject(err error) error {
	if at, ok := errors.AsType[*git.PathError](err); ok {
		return errs.E(errs.Invalid, "commit", w.repo.URL, at)
	}
	return err
}

// baseTree returns the tree that the edits apply to.
func (w *commitWriter) baseTree(ctx context.Context) (tree.ID, error) {
	if w.parent == "" {
		return tree.Empty, nil
	}
	commit, err := tree.ParseID(w.parent)
	if err != nil {
		return tree.ID{}, err
	}
	w.base = w.parent
	return w.rootOf(ctx, commit)
}

// cost returns the least cost of all calls of a plan, of the commit and of the branch.
func (w *commitWriter) cost(p *treePlan) git.Cost {
	n := len(p.blobs) + len(w.splitItems(p.root))
	for _, round := range p.rounds {
		n += len(w.splitItems(round))
	}
	c := times(writeCost, n+2)
	if w.parent != "" {
		c = plus(c, readCost)
	}
	return c
}

func (w *commitWriter) splitItems(items []treeItem) [][]treeItem {
	return splitItems(items, w.h.opt.MaxItems, w.h.opt.MaxBytes)
}

// build creates the trees of a plan on the server.
func (w *commitWriter) build(ctx context.Context, p *treePlan, from tree.ID) error {
	for _, id := range p.blobs {
		if err := w.blob(ctx, id, p.d.blobs[id]); err != nil {
			return err
		}
	}
	for n, round := range p.rounds {
		if _, err := w.trees(ctx, tree.ID{}, round); err != nil {
			return err
		}
		w.rememberRound(p, n)
	}
	if len(p.root) == 0 {
		return nil // the server had the whole tree before
	}
	base := from
	if from == tree.Empty {
		base = tree.ID{}
	}
	root, err := w.trees(ctx, base, p.root)
	if err != nil {
		return err
	}
	if root != p.d.Root {
		w.known.forget()
		return errs.E(errs.Unavailable, "commit", w.repo.URL, fmt.Errorf("the server comes to tree %s, and not to %s", root, p.d.Root))
	}
	w.known.addTrees(p.d.fresh)
	w.known.addBlobs(p.d.files())
	return nil
}

// rememberRound caches what the server has after a round, so that nothing of it is sent again if a
// later call fails.
func (w *commitWriter) rememberRound(p *treePlan, round int) {
	trees, blobs := map[tree.ID]tree.Tree{}, []tree.ID{}
	for _, id := range p.order {
		if p.rounded[id] == round {
			p.collectNew(id, trees, &blobs)
		}
	}
	w.known.addTrees(trees)
	w.known.addBlobs(blobs)
}

// blob creates a file on the server.
func (w *commitWriter) blob(ctx context.Context, id tree.ID, content []byte) error {
	text := base64.StdEncoding.EncodeToString(content)
	var made string
	err := w.call(ctx, "commit", prepaid, func(ctx context.Context, c *gh.Client) (*gh.Response, error) {
		b, resp, err := c.Git.CreateBlob(ctx, w.owner, w.name, &gh.Blob{Content: &text, Encoding: gh.String("base64")})
		made = b.GetSHA()
		return resp, err
	})
	if err != nil {
		return err
	}
	if made != id.String() {
		return errs.E(errs.Unavailable, "commit", w.repo.URL, errors.New("the server stored another file than was sent"))
	}
	w.known.addBlobs([]tree.ID{id})
	return nil
}

// trees creates a tree of items on top of another, in as few requests as the limits allow, and
// returns its name.
func (w *commitWriter) trees(ctx context.Context, base tree.ID, items []treeItem) (tree.ID, error) {
	for _, part := range w.splitItems(items) {
		on := ""
		if base != (tree.ID{}) {
			on = base.String()
		}
		var made string
		err := w.call(ctx, "commit", prepaid, func(ctx context.Context, c *gh.Client) (*gh.Response, error) {
			t, resp, err := c.Git.CreateTree(ctx, w.owner, w.name, on, entriesOf(part))
			made = t.GetSHA()
			return resp, err
		})
		if err != nil {
			return tree.ID{}, err
		}
		if base, err = tree.ParseID(git.Hash(made)); err != nil {
			return tree.ID{}, errs.E(errs.Unavailable, "commit", w.repo.URL, errors.New("the server names no tree"))
		}
	}
	return base, nil
}

// entriesOf converts items to entries of the API.
func entriesOf(items []treeItem) []*gh.TreeEntry {
	entries := make([]*gh.TreeEntry, len(items))
	for i, it := range items {
		kind, at := "blob", tree.Entry{Mode: it.mode}
		switch {
		case at.IsTree():
			kind = "tree"
		case at.IsSubmodule():
			kind = "commit"
		}
		e := &gh.TreeEntry{Path: gh.String(it.path), Mode: gh.String(fmt.Sprintf("%06o", it.mode)), Type: gh.String(kind), Content: it.content}
		if it.content == nil && it.id != (tree.ID{}) {
			e.SHA = gh.String(it.id.String())
		}
		entries[i] = e
	}
	return entries
}

// createCommit creates the commit object.
func (w *commitWriter) createCommit(ctx context.Context, root tree.ID) (id git.Hash, err error) {
	w.message = w.message.Dated()
	who := authorOf(w.message)
	c := &gh.Commit{Message: gh.String(w.message.Text()), Tree: &gh.Tree{SHA: gh.String(root.String())}, Author: who, Committer: who}
	if w.base != "" {
		c.Parents = []*gh.Commit{{SHA: gh.String(string(w.base))}}
	}
	if c.Verification, err = w.signature(root); err != nil {
		return "", err
	}
	err = w.call(ctx, "commit", prepaid, func(ctx context.Context, client *gh.Client) (*gh.Response, error) {
		made, resp, err := client.Git.CreateCommit(ctx, w.owner, w.name, c, nil)
		id = git.Hash(made.GetSHA())
		return resp, err
	})
	if err != nil {
		return "", err
	}
	if _, err := tree.ParseID(id); err != nil {
		return "", errs.E(errs.Unavailable, "commit", w.repo.URL, errors.New("the server names no commit"))
	}
	return id, nil
}

// signature signs the commit as the server will make it; nil without a signer.
func (w *commitWriter) signature(root tree.ID) (*gh.SignatureVerification, error) {
	if w.message.Signer == nil {
		return nil, nil
	}
	var parents []git.Hash
	if w.base != "" {
		parents = append(parents, w.base)
	}
	_, text, err := w.message.Object(git.Hash(root.String()), parents...)
	return &gh.SignatureVerification{Signature: gh.String(text)}, err
}

// authorOf converts a message's signature.
func authorOf(m git.Message) *gh.CommitAuthor {
	name, rest, _ := strings.Cut(m.Signature(), " <")
	mail, rest, _ := strings.Cut(rest, "> ")
	seconds, _, _ := strings.Cut(rest, " ")
	at, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		at = time.Now().Unix()
	}
	return &gh.CommitAuthor{Name: gh.String(name), Email: gh.String(mail), Date: &gh.Timestamp{Time: time.Unix(at, 0).UTC()}}
}

// moveBranch moves the branch to a commit if it is at its expected head. That is read again if the
// guard took long.
func (w *commitWriter) moveBranch(ctx context.Context, to git.Hash) error {
	looked := time.Now()
	if err := w.checkHead(ctx, prepaid); err != nil {
		return err
	}
	if w.message.Guard != nil {
		if err := w.message.Guard(ctx); err != nil {
			return err
		}
	}
	if time.Since(looked) > headCheckValid {
		if err := w.checkHead(ctx, readCost); err != nil {
			return err
		}
	}
	return w.moveRefused(w.updateRef(ctx, to))
}

// updateRef moves the branch, without force unless it must leave its history.
func (w *commitWriter) updateRef(ctx context.Context, to git.Hash) error {
	was := w.expectedHead()
	return w.call(ctx, "commit", prepaid, func(ctx context.Context, c *gh.Client) (resp *gh.Response, err error) {
		ref := &gh.Reference{Ref: gh.String("refs/heads/" + w.branch), Object: &gh.GitObject{SHA: gh.String(string(to))}}
		if was == "" {
			_, resp, err = c.Git.CreateRef(ctx, w.owner, w.name, ref)
		} else {
			_, resp, err = c.Git.UpdateRef(ctx, w.owner, w.name, ref, was != w.base)
		}
		return resp, err
	})
}

// longAgo is when it has to be asked again where a branch is.
const headCheckValid = time.Second

// checkHead fails unless the branch is at its expected head; one that must not exist is not
// checked.
func (w *commitWriter) checkHead(ctx context.Context, cost git.Cost) error {
	was := w.expectedHead()
	if was == "" {
		return nil
	}
	at, err := w.headOf(ctx, w.branch, cost)
	if err == nil && at != was {
		err = w.conflict()
	}
	return err
}

// expectedHead is the commit that the branch must be at; empty if it must not exist.
func (w *commitWriter) expectedHead() git.Hash {
	if w.expected != nil {
		return *w.expected
	}
	return w.base
}

// headOf returns the head of a branch; empty if there is none.
func (d *client) headOf(ctx context.Context, branch string, cost git.Cost) (id git.Hash, err error) {
	err = d.call(ctx, "commit", cost, func(ctx context.Context, c *gh.Client) (*gh.Response, error) {
		ref, resp, err := c.Git.GetRef(ctx, d.owner, d.name, "heads/"+branch)
		id = git.Hash(ref.GetObject().GetSHA())
		return resp, err
	})
	if errs.Is(err, errs.NotFound) {
		return "", nil
	}
	return id, err
}

func (w *commitWriter) conflict() error {
	return errs.E(errs.Conflict, "commit", w.repo.URL, fmt.Errorf("branch %s is not where it was expected", w.branch))
}

// moveRefused classifies a refusal to move a branch: unless it is a lost race, a rule caused it.
func (w *commitWriter) moveRefused(err error) error {
	switch {
	case err == nil || errors.Is(err, errEmpty):
		return err
	case errs.Is(err, errs.Conflict):
		return w.conflict()
	case !errs.Is(err, errs.Invalid) && !errs.Is(err, errs.Forbidden):
		return err
	}
	e, _ := errors.AsType[*errs.Error](err)
	return errs.E(errs.Forbidden, "commit", w.repo.URL, fmt.Errorf("the server refuses to move branch %s: %w", w.branch, e.Err))
}

// forgetIfGone empties the cache if the server lacks cached objects: the next try reads them again.
func (w *commitWriter) forgetIfGone(err error) error {
	if errors.Is(err, errGone) {
		w.known.forget()
		return w.conflict()
	}
	return err
}

// blamePath adds to an error the path of an edit, or a directory above it, that the server's
// message names.
func blamePath(err error, edits []git.Edit) error {
	e, ok := errors.AsType[*errs.Error](err)
	if _, done := errors.AsType[*git.PathError](err); !ok || done || e.Kind != errs.Invalid && e.Kind != errs.TooLarge {
		return err
	}
	longest, words := "", strings.FieldsFunc(e.Err.Error(), func(r rune) bool { return strings.ContainsRune(" \t\"'`,;:()", r) })
	for _, edit := range edits {
		for at := edit.Path; at != "." && len(at) > len(longest); at = path.Dir(at) {
			if slices.Contains(words, at) {
				longest = at
			}
		}
	}
	if longest == "" {
		return err
	}
	return &errs.Error{Kind: e.Kind, Op: e.Op, Subject: e.Subject, Err: &git.PathError{Path: longest, Err: e.Err}}
}

// readme is the content of the first commit of an empty repository.
const readme = "This repository is written by EMCO. Its content is on its way.\n"

// initRepository makes the first commit of an empty repository. Only the API for single files can
// do that, and only on the default branch. If that is the branch to write, the commit comes on top,
// without this file.
func (w *commitWriter) initRepository(ctx context.Context) error {
	if w.message.Guard != nil {
		if err := w.message.Guard(ctx); err != nil {
			return err
		}
	}
	var main string
	err := w.call(ctx, "commit", readCost, func(ctx context.Context, c *gh.Client) (*gh.Response, error) {
		found, resp, err := c.Repositories.Get(ctx, w.owner, w.name)
		main = found.GetDefaultBranch()
		return resp, err
	})
	if err != nil {
		return err
	}
	who, title := authorOf(w.message), "begin"
	err = w.call(ctx, "commit", writeCost, func(ctx context.Context, c *gh.Client) (*gh.Response, error) {
		made, resp, err := c.Repositories.CreateFile(ctx, w.owner, w.name, "README.md",
			&gh.RepositoryContentFileOptions{Message: &title, Content: []byte(readme), Author: who, Committer: who})
		if main == w.branch {
			w.base = git.Hash(made.GetSHA())
		}
		return resp, err
	})
	if errs.Is(err, errs.Invalid) || errs.Is(err, errs.Conflict) {
		return w.conflict() // someone else initialised it
	}
	return err
}
