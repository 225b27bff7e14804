package fastimport

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/tree"
)

// viewsAtOnce is how many commits of views are fetched by one run.
const viewsAtOnce = 500

// CommitDerived commits, and moves views along by the same push.
func (h *Host) CommitDerived(ctx context.Context, r git.Repo, s git.DerivedUpdate) (git.DerivedResult, error) {
	if err := s.Check(); err != nil {
		return git.DerivedResult{}, err
	}
	j, done, err := h.begin(ctx, r, "show")
	if err != nil {
		return git.DerivedResult{}, err
	}
	defer done()
	shown, err := j.show(s)
	if err != nil {
		return git.DerivedResult{}, j.plain(err)
	}
	return shown, nil
}

// show makes the commit and those of views here, and pushes what has to move.
func (j *job) show(s git.DerivedUpdate) (git.DerivedResult, error) {
	d, err := j.draft(s.Parent, s.Edits, s.Message)
	if err != nil {
		return git.DerivedResult{}, err
	}
	defer d.close()
	if d.head == "" && len(s.Remove) == 0 {
		return git.DerivedResult{}, nil
	}
	at, err := j.heads(append(s.Branches(), s.Branch)...)
	if err != nil {
		return git.DerivedResult{}, err
	}
	own := move{branch: s.Branch, from: s.Parent, to: d.head}
	if d.head == s.Parent && at[s.Branch] != d.head {
		return git.DerivedResult{}, j.lost(own)
	}
	g, err := j.gallery(s, d, at)
	if err != nil {
		return git.DerivedResult{}, err
	}
	if d.head != s.Parent {
		err = j.pushWith(own, g.moves, s.Message.Guard)
	} else if len(g.moves) > 0 {
		err = j.push(g.moves, s.Message.Guard)
	}
	if err == nil {
		j.see(g.made)
	}
	return g.shown, err
}

// maxHung bounds the commits of views that are known.
const maxHung = 20_000

// see remembers commits of views.
func (j *job) see(made map[git.Hash]tree.BranchTip) {
	c := j.cache
	if c.hung == nil || len(c.hung)+len(made) > maxHung {
		c.hung = map[git.Hash]tree.BranchTip{}
	}
	maps.Copy(c.hung, made)
}

// gallery is what has to be done for views to show a commit.
type gallery struct {
	moves []move
	made  map[git.Hash]tree.BranchTip
	shown git.DerivedResult
}

// gallery finds out which views have to move, and makes their commits here.
func (j *job) gallery(s git.DerivedUpdate, d *draft, at map[string]git.Hash) (*gallery, error) {
	hung, err := j.hung(s.Branches(), at)
	if err != nil {
		return nil, err
	}
	g := &gallery{made: map[git.Hash]tree.BranchTip{}}
	due, shown, err := d.tree.Derived().Due(s.Derived, hung)
	if err != nil {
		return nil, err
	}
	g.shown, g.shown.Commit = shown, d.head
	if err := j.hang(g, due, s.Message); err != nil {
		j.spoil()
		return nil, err
	}
	for _, name := range tree.Removable(s.Remove, hung, &g.shown) {
		g.moves = append(g.moves, move{branch: name, from: at[name]})
		g.shown.Removed = append(g.shown.Removed, name)
	}
	return g, nil
}

// hung returns what is known of views that are there. Commits that are not known are fetched,
// without what they hold.
func (j *job) hung(views []string, at map[string]git.Hash) (map[string]tree.BranchTip, error) {
	known := map[git.Hash]tree.BranchTip{}
	var missing []string
	for _, name := range views {
		if v, seen := j.cache.hung[at[name]]; seen {
			known[at[name]] = v
		} else if at[name] != "" {
			missing = append(missing, string(at[name]))
		}
	}
	slices.Sort(missing)
	for some := range slices.Chunk(slices.Compact(missing), viewsAtOnce) {
		if err := j.view(some, known); err != nil {
			return nil, err
		}
	}
	j.see(known)
	out := map[string]tree.BranchTip{}
	for _, name := range views {
		if at[name] != "" {
			out[name] = known[at[name]]
		}
	}
	return out, nil
}

// view takes in what commits show.
func (j *job) view(commits []string, known map[git.Hash]tree.BranchTip) error {
	if err := j.bring("--filter=tree:0", commits...); err != nil {
		return err
	}
	b, err := j.batch()
	if err != nil {
		return err
	}
	defer b.close()
	for _, commit := range commits {
		id, err := tree.ParseID(git.Hash(commit))
		if err != nil {
			return err
		}
		raw, err := b.read(id, "commit")
		if err != nil {
			return err
		}
		root, err := rootOf(raw)
		if err != nil {
			return err
		}
		at := git.Hash(commit)
		known[at] = tree.BranchTip{Commit: at, Root: root, Ours: git.ReadCommit(at, raw).Trailer(git.SourceTrailer) != ""}
	}
	return nil
}

// hang makes the commits of pictures: git fast-import their trees, which must come to what was
// worked out.
func (j *job) hang(g *gallery, due []tree.DerivedChange, m git.Message) error {
	if len(due) == 0 {
		return nil
	}
	var in bytes.Buffer
	for i, p := range due {
		tellPicture(&in, i+1, p)
	}
	in.WriteString("done\n")
	out, err := j.local(run{args: []string{"fast-import", "--quiet", "--force", "--done"}, in: &in, most: maxListing})
	if err != nil {
		return err
	}
	answers := strings.SplitAfter(string(out), "\n")
	if len(answers) != len(due)+1 {
		return errs.E(errs.Internal, "", "", fmt.Errorf("git fast-import tells of %d trees, want %d", len(answers)-1, len(due)))
	}
	var objects [][]byte
	for i, p := range due {
		if err := sameTree(answers[i], p.Root); err != nil {
			return err
		}
		object, err := commitObject(p.Root, p.From, m.ForDerived(p.Derived, g.shown.Commit))
		if err != nil {
			return err
		}
		objects = append(objects, object)
	}
	ids, err := j.seal(objects)
	for i, id := range ids {
		p := due[i]
		g.made[id] = tree.BranchTip{Commit: id, Root: p.Root, Ours: true}
		g.moves = append(g.moves, move{branch: p.Derived.Branch, from: p.From, to: id, dir: p.Derived.Dir})
		g.shown.Heads[p.Derived.Branch] = id
	}
	return err
}

// tellPicture writes what a view holds, as git fast-import reads it, and asks for its tree.
func tellPicture(w *bytes.Buffer, mark int, p tree.DerivedChange) {
	fmt.Fprintf(w, "commit refs/emco/draft\nmark :%d\ncommitter emco <emco@localhost> 0 +0000\ndata 0\ndeleteall\n", mark)
	if !p.Dir.IsZero() {
		fmt.Fprintf(w, "M 040000 %s %s\n", p.Dir, quoted(p.Derived.Dir))
	} else {
		for _, name := range slices.Sorted(maps.Keys(p.Derived.Empty)) {
			content := p.Derived.Empty[name]
			fmt.Fprintf(w, "M 100644 inline %s\ndata %d\n%s\n", quoted(tree.Join(p.Derived.Dir, name)), len(content), content)
		}
	}
	fmt.Fprintf(w, "\nls :%d \"\"\n", mark)
}
