package github_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/github"
	"github.com/emco-orchestrator/emco/src/git/gittest"
	"github.com/emco-orchestrator/emco/src/git/plain"
)

// The trees of any edits equal those that the host plain builds.
func TestTreesAreThoseOfPlain(t *testing.T) {
	t.Parallel()
	for _, o := range []github.Options{{}, {MaxItems: 3}, {MaxTrees: 2000}} {
		for seed := range uint64(2) {
			t.Run(fmt.Sprint(o.MaxItems, o.MaxTrees, seed), func(t *testing.T) {
				t.Parallel()
				compare(t, o, rand.New(rand.NewPCG(seed, 7)))
			})
		}
	}
}

func compare(t *testing.T, o github.Options, r *rand.Rand) {
	_, bare, repo := seeded(t)
	other, err := gittest.Init(t.Context(), t.TempDir(), "main")
	if err != nil {
		t.Fatal(err)
	}
	h, oracle := host(t, o), plain.New(plain.Options{AllowFile: true})
	var at, twin git.Hash
	var steps [][]git.Edit
	ours, theirs := []string{"rev-parse"}, []string{"rev-parse"} // the trees after each step
	at, err = h.Commit(t.Context(), repo, "work", "", []git.Edit{{Path: "f", File: []byte("f")}}, git.Message{})
	if err == nil {
		twin, err = oracle.Commit(t.Context(), git.Repo{URL: "file://" + other.Dir}, "work", "", []git.Edit{{Path: "f", File: []byte("f")}}, git.Message{})
	}
	for i := 0; err == nil && i < 12; i++ {
		edits := randomEdits(r)
		var refused error
		at2, err1 := h.Commit(t.Context(), repo, "work", at, edits, git.Message{})
		if twin, refused = next(twin)(oracle.Commit(t.Context(), git.Repo{URL: "file://" + other.Dir}, "work", twin, edits, git.Message{})); (refused == nil) != (err1 == nil) {
			t.Fatalf("step %d: %v here, %v by Git's protocol, of %q", i, err1, refused, edits)
		}
		if err1 == nil {
			at = at2
		}
		steps, ours, theirs = append(steps, edits), append(ours, string(at)+"^{tree}"), append(theirs, string(twin)+"^{tree}")
	}
	if err != nil {
		t.Fatal(err)
	}
	here, there := strings.Fields(must(bare.Git(t.Context(), "", ours...))), strings.Fields(must(other.Git(t.Context(), "", theirs...)))
	for i, edits := range steps {
		if here[i] != there[i] {
			t.Fatalf("step %d: tree %s, want %s, of %q", i, here[i], there[i], edits)
		}
	}
	if err := bare.Fsck(t.Context()); err != nil {
		t.Error(err)
	}
}

// next keeps a commit where there is no newer one.
func next(old git.Hash) func(git.Hash, error) (git.Hash, error) {
	return func(id git.Hash, err error) (git.Hash, error) {
		if err != nil {
			return old, err
		}
		return id, nil
	}
}

// randomEdits are edits that do not overlap, of few names, so that they meet what is there.
func randomEdits(r *rand.Rand) []git.Edit {
	shared := map[string][]byte{}
	for range 1 + r.IntN(4) {
		shared[randomPath(r, 3)] = []byte(strings.Repeat(fmt.Sprint(r.IntN(3)), 1+r.IntN(30_000)))
	}
	if git.CheckEdits([]git.Edit{{Path: "x", Dir: shared}}) != nil {
		shared = map[string][]byte{"a": []byte("a")}
	}
	var edits []git.Edit
	for range 1 + r.IntN(6) {
		e := git.Edit{Path: randomPath(r, 4)}
		switch r.IntN(4) {
		case 0:
			e.File = []byte(fmt.Sprint(r.IntN(3)))
		case 1, 2:
			e.Dir = shared
		}
		if git.CheckEdits(append(edits, e)) == nil {
			edits = append(edits, e)
		}
	}
	return edits
}

func randomPath(r *rand.Rand, depth int) string {
	var names []string
	for range 1 + r.IntN(depth) {
		names = append(names, string(rune('a'+r.IntN(3))))
	}
	return strings.Join(names, "/")
}
