package treeplan_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/github/internal/treeplan"
	"github.com/emco-orchestrator/emco/src/git/tree"
)

// nothing is a server that has no objects.
type nothing struct{}

func (nothing) Tree(tree.ID) (tree.Tree, bool) { return nil, false }
func (nothing) Blob(tree.ID) bool              { return false }

// all is a server that has everything.
type all struct{ nothing }

func (all) Tree(tree.ID) (tree.Tree, bool) { return nil, true }

func draft(t *testing.T, edits ...git.Edit) *treeplan.Draft {
	t.Helper()
	d, err := treeplan.NewDraft(map[tree.ID]tree.Tree{tree.Empty: nil}, tree.Empty, tree.NewEdits(edits))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// Content that many places share is sent once, as a tree of its own, and named elsewhere; small
// content is sent in place; a binary file has a request of its own.
func TestSharedContentIsSentOnce(t *testing.T) {
	t.Parallel()
	large, binary := []byte(strings.Repeat("a line\n", 2000)), []byte{0, 1, 2}
	shared := map[string][]byte{"web/large.yaml": large}
	var edits []git.Edit
	for c := range 10 {
		edits = append(edits, git.Edit{Path: fmt.Sprintf("clusters/c%d/app", c), Dir: shared})
	}
	edits = append(edits, git.Edit{Path: "small", File: []byte("s")}, git.Edit{Path: "binary", File: binary})
	d := draft(t, edits...)
	p := treeplan.New(d, nothing{}, tree.Empty)
	if len(p.Blobs) != 1 || !bytes.Equal(d.Blobs[p.Blobs[0]], binary) {
		t.Errorf("the files with a request are %v, want the binary one", p.Blobs)
	}
	sent, named := 0, 0
	for _, items := range append(p.Rounds, p.Root) {
		for _, i := range items {
			switch {
			case i.Content != nil && *i.Content == string(large):
				sent++
			case i.Content == nil && i.Mode == tree.ModeTree:
				named++
			}
		}
	}
	if len(p.Rounds) == 0 || sent != 1 || named < 10 {
		t.Errorf("%d rounds; the large file is sent %d times and trees are named %d times; want it sent once and named in ten places", len(p.Rounds), sent, named)
	}
	trees, files := p.MadeBy(0)
	if len(trees)+len(files) == 0 {
		t.Error("the server has nothing new after the first round")
	}
	for _, part := range treeplan.Split(p.Root, 3, 1<<20) {
		if len(part) > 3 {
			t.Errorf("a request of %d items, want 3 at most", len(part))
		}
	}
}

// What the server has is not sent.
func TestWhatTheServerHasIsNotSent(t *testing.T) {
	t.Parallel()
	d := draft(t, git.Edit{Path: "a/b", File: []byte("x")})
	if p := treeplan.New(d, all{}, tree.Empty); len(p.Blobs)+len(p.Rounds)+len(p.Root) != 0 {
		t.Errorf("the plan is %v, %v, %v; want nothing", p.Blobs, p.Rounds, p.Root)
	}
}
