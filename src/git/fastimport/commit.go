package fastimport

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/tree"
)

// Commit puts one commit on top of parent and moves branch from parent to it.
func (h *Host) Commit(ctx context.Context, r git.Repo, branch string, parent git.Hash, edits []git.Edit, m git.Message) (git.Hash, error) {
	if err := check(branch, edits); err != nil {
		return "", err
	}
	j, done, err := h.begin(ctx, r, "commit")
	if err != nil {
		return "", err
	}
	defer done()
	id, err := j.commit(parent, edits, m)
	if err != nil || id == parent {
		return id, j.plain(err)
	}
	return id, j.plain(j.push([]move{{branch: branch, from: parent, to: id}}, m.Guard))
}

func check(branch string, edits []git.Edit) error {
	if err := git.CheckBranch(branch); err != nil {
		return err
	}
	return git.CheckEdits(edits)
}

// asIs is an error that is handed back as it is.
type asIs struct{ error }

// plain is fail, but for errors that are handed back as they are.
func (j *job) plain(err error) error {
	if own, ok := err.(asIs); ok {
		return own.error
	}
	return j.fail(err)
}

// commit makes a commit here. It returns the parent if there is nothing to change.
func (j *job) commit(parent git.Hash, edits []git.Edit, m git.Message) (git.Hash, error) {
	d, err := j.draft(parent, edits, m)
	if err != nil {
		return "", err
	}
	d.close()
	return d.head, nil
}

// draft is what edits come to, here.
type draft struct {
	tree  *tree.Draft
	head  git.Hash // the commit, or the parent if nothing changes; empty if there is nothing at all
	trees *batch   // reads those that were there before
}

func (d *draft) close() { d.trees.close() }

// draft makes a commit here, unless there is nothing to change. It has to be closed.
func (j *job) draft(parent git.Hash, edits []git.Edit, m git.Message) (d *draft, err error) {
	if err = j.ready(); err == nil && parent != "" {
		err = j.open(parent)
	}
	if err != nil {
		return nil, err
	}
	d = &draft{head: parent}
	if d.trees, err = j.batch(); err != nil {
		return nil, err
	}
	if err := j.fill(d, edits, m); err != nil {
		d.close()
		return nil, err
	}
	return d, nil
}

// fill applies the edits to where the draft is, and makes the commit of what they come to.
func (j *job) fill(d *draft, edits []git.Edit, m git.Message) (err error) {
	root := tree.Empty
	if d.head != "" {
		if root, err = d.trees.root(d.head); err != nil {
			return err
		}
	}
	d.tree, err = tree.Apply(d.trees.tree, root, tree.NewEdits(edits))
	switch {
	case err != nil:
		return err
	case d.tree.Root == root:
		return nil
	case m.DryRun:
		return asIs{git.ErrDryRun}
	}
	if err := j.build(d.tree, root); err != nil {
		j.spoil()
		return err
	}
	object, err := commitObject(d.tree.Root, d.head, m)
	if err != nil {
		return err
	}
	ids, err := j.seal([][]byte{object})
	if err == nil {
		d.head = ids[0]
	}
	return err
}

// build has git fast-import make the trees of a draft. It must come to the same.
func (j *job) build(d *tree.Draft, root tree.ID) error {
	c, err := j.start(run{args: []string{"fast-import", "--quiet", "--force", "--done"}}) // a reference of our own, here
	if err != nil {
		return err
	}
	in := bufio.NewWriterSize(c.in, 64<<10)
	told := tell(in, d, root)
	if told == nil {
		told = in.Flush()
	}
	_ = c.in.Close()
	answer, heard := bufio.NewReader(c.out).ReadString('\n')
	if err := c.end(); err != nil {
		return &programError{command: "fast-import", said: c.said.String()}
	}
	if err := errors.Join(told, heard); err != nil {
		return err
	}
	return sameTree(answer, d.Root)
}

// sameTree compares what git fast-import says of its tree with the one of the draft.
func sameTree(answer string, want tree.ID) error {
	fields := strings.Fields(answer)
	if len(fields) == 3 && fields[2] == want.String() || want == tree.Empty && len(fields) > 0 && fields[0] == "missing" {
		return nil
	}
	return errs.E(errs.Internal, "", "", fmt.Errorf("git fast-import makes %q of what comes to tree %s", strings.TrimSpace(answer), want))
}

// tell writes what changes, as git fast-import reads it: files by their numbers, then what
// the paths hold.
func tell(w io.Writer, d *tree.Draft, root tree.ID) error {
	marks := map[tree.ID]int{}
	for i, o := range d.Objects {
		if o.Kind != tree.Blobs {
			continue
		}
		marks[o.ID] = i + 1
		if _, err := fmt.Fprintf(w, "blob\nmark :%d\ndata %d\n%s\n", i+1, len(o.Content), o.Content); err != nil {
			return err
		}
	}
	own := len(d.Objects) + 1
	fmt.Fprintf(w, "commit refs/emco/draft\nmark :%d\ncommitter emco <emco@localhost> 0 +0000\ndata 0\n", own)
	if root != tree.Empty {
		fmt.Fprintf(w, "M 040000 %s \"\"\n", root)
	}
	err := d.Changes(func(path string, now tree.Entry) error {
		line := "D " + quoted(path) + "\n"
		if mark, given := marks[now.ID]; given {
			line = fmt.Sprintf("M %06o :%d %s\n", now.Mode, mark, quoted(path))
		} else if now.Mode != 0 {
			line = fmt.Sprintf("M %06o %s %s\n", now.Mode, now.ID, quoted(path))
		}
		_, err := io.WriteString(w, line)
		return err
	})
	if err == nil {
		_, err = fmt.Fprintf(w, "\nls :%d \"\"\ndone\n", own)
	}
	return err
}

// quoted is a path as git fast-import takes any.
func quoted(path string) string {
	var s strings.Builder
	s.WriteByte('"')
	for _, c := range []byte(path) {
		if c < ' ' || c == '"' || c == '\\' || c >= 0x7f {
			fmt.Fprintf(&s, "\\%03o", c)
		} else {
			s.WriteByte(c)
		}
	}
	s.WriteByte('"')
	return s.String()
}

// commitObject is a commit of a tree, signed if the message has a signer.
func commitObject(root tree.ID, parent git.Hash, m git.Message) ([]byte, error) {
	var parents []git.Hash
	if parent != "" {
		parents = append(parents, parent)
	}
	object, _, err := m.Object(root.Hash(), parents...)
	return object, err
}

// seal stores commits, and returns their names. One run takes them all: from files, since it
// reads no more than one from its input.
func (j *job) seal(commits [][]byte) ([]git.Hash, error) {
	dir, err := os.MkdirTemp(j.cache.dir, "commits-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	var paths strings.Builder
	for i, object := range commits {
		path := filepath.Join(dir, strconv.Itoa(i))
		if err := os.WriteFile(path, object, 0o600); err != nil {
			return nil, err
		}
		fmt.Fprintln(&paths, path)
	}
	out, err := j.local(run{args: []string{"hash-object", "-t", "commit", "-w", "--no-filters", "--stdin-paths"}, in: strings.NewReader(paths.String()), most: maxListing})
	if err != nil {
		return nil, err
	}
	var ids []git.Hash
	for _, id := range strings.Fields(string(out)) {
		if _, err := tree.ParseID(git.Hash(id)); err != nil {
			return nil, err
		}
		ids = append(ids, git.Hash(id))
	}
	if len(ids) != len(commits) {
		return nil, errs.E(errs.Internal, "", "", fmt.Errorf("git hash-object names %d commits, want %d", len(ids), len(commits)))
	}
	return ids, nil
}
