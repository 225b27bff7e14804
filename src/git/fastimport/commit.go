package fastimport

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
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
	return id, j.plain(j.push(move{branch: branch, from: parent, to: id, guard: m.Guard}))
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
	err := j.ready()
	if err == nil && parent != "" {
		err = j.open(parent)
	}
	if err != nil {
		return "", err
	}
	b, err := j.batch()
	if err != nil {
		return "", err
	}
	defer b.close()
	root := tree.Empty
	if parent != "" {
		if root, err = b.root(parent); err != nil {
			return "", err
		}
	}
	d, err := tree.Apply(b.tree, root, tree.NewEdits(edits))
	switch {
	case err != nil:
		return "", err
	case d.Root == root:
		return parent, nil
	case m.Dry:
		return "", asIs{git.ErrDry}
	}
	if err := j.build(d, root); err != nil {
		j.spoil()
		return "", err
	}
	return j.seal(d.Root, parent, m)
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

// seal makes the commit object, signed if the message has a signer.
func (j *job) seal(root tree.ID, parent git.Hash, m git.Message) (git.Hash, error) {
	var parents []git.Hash
	if parent != "" {
		parents = append(parents, parent)
	}
	object, _, err := m.Object(root.Hash(), parents...)
	if err != nil {
		return "", err
	}
	out, err := j.local(run{args: []string{"hash-object", "-t", "commit", "-w", "--stdin"}, in: bytes.NewReader(object), most: 100})
	if err != nil {
		return "", err
	}
	id := git.Hash(strings.TrimSpace(string(out)))
	_, err = tree.ParseID(id)
	return id, err
}
