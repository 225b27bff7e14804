package github

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	gh "github.com/google/go-github/v60/github"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/github/internal/api"
	"github.com/emco-orchestrator/emco/src/git/github/internal/treeplan"
	"github.com/emco-orchestrator/emco/src/git/tree"
)

// Commit puts one commit on top of parent and moves branch from parent to it.
//
// The API moves a branch to any descendant of its head. So that a branch that was rewound is not
// moved forward again, its head is read right before.
func (h *Host) Commit(ctx context.Context, r git.Repo, branch string, parent git.Hash, edits []git.Edit, m git.Message) (git.Hash, error) {
	repo, err := h.open(r, git.CheckBranch(branch), git.CheckEdits(edits))
	if err != nil {
		return "", err
	}
	w := &commitWriter{repository: repo, branch: branch, parent: parent, message: m}
	id, err := w.commit(ctx, edits)
	if errors.Is(err, api.ErrEmpty) && parent == "" {
		if err := w.initRepository(ctx); err != nil {
			return "", err
		}
		id, err = w.commit(ctx, edits)
	}
	return id, blamePath(err, edits)
}

// commitWriter makes one commit.
type commitWriter struct {
	*repository
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
	d, err := treeplan.NewDraft(r.trees, from, top)
	if err != nil {
		return "", w.withSubject(err)
	}
	if d.Root == from {
		return w.parent, nil
	}
	if w.message.DryRun {
		return "", git.ErrDryRun
	}
	p := treeplan.New(d, w.known, from)
	if err := w.Spend(ctx, "commit", w.cost(p)); err != nil {
		return "", err
	}
	if err := w.build(ctx, d, p, from); err != nil {
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
		return errs.E(errs.Invalid, "commit", w.URL, at)
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
func (w *commitWriter) cost(p *treeplan.Plan) git.Cost {
	n := len(p.Blobs) + len(w.splitItems(p.Root))
	for _, round := range p.Rounds {
		n += len(w.splitItems(round))
	}
	c := api.Times(api.WriteCost, n+2)
	if w.parent != "" {
		c = api.Plus(c, api.ReadCost)
	}
	return c
}

func (w *commitWriter) splitItems(items []treeplan.Item) [][]treeplan.Item {
	return treeplan.Split(items, w.limit.items, w.limit.bytes)
}

// build creates the trees of a plan on the server.
func (w *commitWriter) build(ctx context.Context, d *treeplan.Draft, p *treeplan.Plan, from tree.ID) error {
	for _, id := range p.Blobs {
		if err := w.blob(ctx, id, d.Blobs[id]); err != nil {
			return err
		}
	}
	for n, round := range p.Rounds {
		if _, err := w.trees(ctx, tree.ID{}, round); err != nil {
			return err
		}
		w.rememberRound(p, n)
	}
	if len(p.Root) == 0 {
		return nil // the server had the whole tree before
	}
	base := from
	if from == tree.Empty {
		base = tree.ID{}
	}
	root, err := w.trees(ctx, base, p.Root)
	if err != nil {
		return err
	}
	if root != d.Root {
		w.known.forget()
		return errs.E(errs.Unavailable, "commit", w.URL, fmt.Errorf("the server comes to tree %s, and not to %s", root, d.Root))
	}
	w.known.addTrees(d.Fresh)
	w.known.addBlobs(maps.Keys(d.Blobs))
	return nil
}

// rememberRound caches what the server has after a round, so that nothing of it is sent again if a
// later call fails.
func (w *commitWriter) rememberRound(p *treeplan.Plan, round int) {
	trees, blobs := p.MadeBy(round)
	w.known.addTrees(trees)
	w.known.addBlobs(slices.Values(blobs))
}

// blob creates a file on the server.
func (w *commitWriter) blob(ctx context.Context, id tree.ID, content []byte) error {
	text := base64.StdEncoding.EncodeToString(content)
	var made string
	err := w.Call(ctx, "commit", api.Prepaid, func(ctx context.Context, c *gh.Client) (*gh.Response, error) {
		b, resp, err := c.Git.CreateBlob(ctx, w.Owner, w.Name, &gh.Blob{Content: &text, Encoding: gh.String("base64")})
		made = b.GetSHA()
		return resp, err
	})
	if err != nil {
		return err
	}
	if made != id.String() {
		return errs.E(errs.Unavailable, "commit", w.URL, errors.New("the server stored another file than was sent"))
	}
	w.known.addBlobs(slices.Values([]tree.ID{id}))
	return nil
}

// trees creates a tree of items on top of another, in as few requests as the limits allow, and
// returns its name.
func (w *commitWriter) trees(ctx context.Context, base tree.ID, items []treeplan.Item) (tree.ID, error) {
	for _, part := range w.splitItems(items) {
		on := ""
		if base != (tree.ID{}) {
			on = base.String()
		}
		var made string
		err := w.Call(ctx, "commit", api.Prepaid, func(ctx context.Context, c *gh.Client) (*gh.Response, error) {
			t, resp, err := c.Git.CreateTree(ctx, w.Owner, w.Name, on, entriesOf(part))
			made = t.GetSHA()
			return resp, err
		})
		if err != nil {
			return tree.ID{}, err
		}
		if base, err = tree.ParseID(git.Hash(made)); err != nil {
			return tree.ID{}, errs.E(errs.Unavailable, "commit", w.URL, errors.New("the server names no tree"))
		}
	}
	return base, nil
}

// entriesOf converts items to entries of the API.
func entriesOf(items []treeplan.Item) []*gh.TreeEntry {
	entries := make([]*gh.TreeEntry, len(items))
	for i, it := range items {
		kind, at := "blob", tree.Entry{Mode: it.Mode}
		switch {
		case at.IsTree():
			kind = "tree"
		case at.IsSubmodule():
			kind = "commit"
		}
		e := &gh.TreeEntry{Path: gh.String(it.Path), Mode: gh.String(fmt.Sprintf("%06o", it.Mode)), Type: gh.String(kind), Content: it.Content}
		if it.Content == nil && it.ID != (tree.ID{}) {
			e.SHA = gh.String(it.ID.String())
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
	err = w.Call(ctx, "commit", api.Prepaid, func(ctx context.Context, client *gh.Client) (*gh.Response, error) {
		made, resp, err := client.Git.CreateCommit(ctx, w.Owner, w.Name, c, nil)
		id = git.Hash(made.GetSHA())
		return resp, err
	})
	if err != nil {
		return "", err
	}
	if _, err := tree.ParseID(id); err != nil {
		return "", errs.E(errs.Unavailable, "commit", w.URL, errors.New("the server names no commit"))
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
	if err := w.checkHead(ctx, api.Prepaid); err != nil {
		return err
	}
	if w.message.Guard != nil {
		if err := w.message.Guard(ctx); err != nil {
			return err
		}
	}
	if time.Since(looked) > headCheckValid {
		if err := w.checkHead(ctx, api.ReadCost); err != nil {
			return err
		}
	}
	return w.moveRefused(w.updateRef(ctx, to))
}

// updateRef moves the branch, without force unless it must leave its history.
func (w *commitWriter) updateRef(ctx context.Context, to git.Hash) error {
	was := w.expectedHead()
	return w.Call(ctx, "commit", api.Prepaid, func(ctx context.Context, c *gh.Client) (resp *gh.Response, err error) {
		ref := &gh.Reference{Ref: gh.String("refs/heads/" + w.branch), Object: &gh.GitObject{SHA: gh.String(string(to))}}
		if was == "" {
			_, resp, err = c.Git.CreateRef(ctx, w.Owner, w.Name, ref)
		} else {
			_, resp, err = c.Git.UpdateRef(ctx, w.Owner, w.Name, ref, was != w.base)
		}
		return resp, err
	})
}

// headCheckValid is how long a head that was read is taken for the current one.
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
func (repo *repository) headOf(ctx context.Context, branch string, cost git.Cost) (id git.Hash, err error) {
	id, err = repo.head(ctx, "commit", branch, cost)
	if errs.Is(err, errs.NotFound) {
		return "", nil
	}
	return id, err
}

func (w *commitWriter) conflict() error {
	return errs.E(errs.Conflict, "commit", w.URL, fmt.Errorf("branch %s is not where it was expected", w.branch))
}

// moveRefused classifies a refusal to move a branch: unless it is a lost race, a rule caused it.
func (w *commitWriter) moveRefused(err error) error {
	switch {
	case err == nil || errors.Is(err, api.ErrEmpty):
		return err
	case errs.Is(err, errs.Conflict):
		return w.conflict()
	case !errs.Is(err, errs.Invalid) && !errs.Is(err, errs.Forbidden):
		return err
	}
	e, _ := errors.AsType[*errs.Error](err)
	return errs.E(errs.Forbidden, "commit", w.URL, fmt.Errorf("the server refuses to move branch %s: %w", w.branch, e.Err))
}

// forgetIfGone empties the cache if the server lacks cached objects: the next try reads them again.
func (w *commitWriter) forgetIfGone(err error) error {
	if errors.Is(err, api.ErrGone) {
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
	err := w.Call(ctx, "commit", api.ReadCost, func(ctx context.Context, c *gh.Client) (*gh.Response, error) {
		found, resp, err := c.Repositories.Get(ctx, w.Owner, w.Name)
		main = found.GetDefaultBranch()
		return resp, err
	})
	if err != nil {
		return err
	}
	who, title := authorOf(w.message), "begin"
	err = w.Call(ctx, "commit", api.WriteCost, func(ctx context.Context, c *gh.Client) (*gh.Response, error) {
		made, resp, err := c.Repositories.CreateFile(ctx, w.Owner, w.Name, "README.md",
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
