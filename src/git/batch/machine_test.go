package batch_test

import (
	"crypto/sha1"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/batch"
	"github.com/emco-orchestrator/emco/src/git/gittest"
	"github.com/emco-orchestrator/emco/src/git/plain"
)

// TestMain keeps the checks short unless a flag overrides that: each step talks to a Git
// server.
func TestMain(m *testing.M) {
	for name, value := range map[string]string{"rapid.checks": "8", "rapid.steps": "10"} {
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// machine is a writer of a branch on a real Git server, someone else who commits there
// too, and a model of what the branch holds.
type machine struct {
	place
	branch string
	writer *batch.Writers
	close  func()

	files map[string]string // the model
	ours  int               // commits that should have been made by us
	noted git.Hash          // what is known, across restarts, to have been written
	token int64             // of the process that runs
}

var branches atomic.Int64

func newMachine(p place) *machine {
	m := &machine{place: p, branch: fmt.Sprint("b", branches.Add(1)), files: map[string]string{}}
	m.start()
	return m
}

// start begins a process that knows nothing but what was noted.
func (m *machine) start() {
	host := plain.New(plain.Options{})
	m.writer = batch.New(host, batch.Options{Window: time.Microsecond})
	m.close = func() { m.writer.Close(); _ = host.Close() }
	m.token++
}

// kill ends the process and starts another one.
func (m *machine) kill(*rapid.T) {
	m.close()
	m.start()
}

var (
	roots    = []string{"clusters/a", "clusters/b", "clusters/c/d"}
	contents = []string{"", "one", "two\n", "three"}
)

// draw makes an edit of one of our paths.
func draw(t *rapid.T) git.Edit {
	e := git.Edit{Path: rapid.SampledFrom(roots).Draw(t, "path")}
	for range rapid.IntRange(0, 2).Draw(t, "files") {
		if e.Dir == nil {
			e.Dir = map[string][]byte{}
		}
		e.Dir[rapid.SampledFrom([]string{"x", "sub/y"}).Draw(t, "name")] = []byte(rapid.SampledFrom(contents).Draw(t, "content"))
	}
	return e
}

// apply makes an edit in the model and reports whether it changes the branch.
func (m *machine) apply(e git.Edit) bool {
	before := maps.Clone(m.files)
	maps.DeleteFunc(m.files, func(p, _ string) bool { return git.Inside(p, e.Path) })
	for name, content := range e.Dir {
		m.files[e.Path+"/"+name] = string(content)
	}
	return !maps.Equal(before, m.files)
}

// submit hands an edit over.
func (m *machine) submit(t *rapid.T, e git.Edit) (git.Hash, error) {
	j := m.job(m.noted, fence(m.token), e)
	j.Branch = m.branch
	return m.writer.Submit(t.Context(), j)
}

// write hands an edit over that must get through, with one commit if it changes anything.
func (m *machine) write(t *rapid.T) {
	e := draw(t)
	at, err := m.submit(t, e)
	if err != nil {
		t.Fatal(err)
	}
	if m.apply(e) {
		m.ours++
	}
	m.found(t, at)
	if rapid.Bool().Draw(t, "noted") { // else the process will be killed before that
		m.noted = at
	}
}

// found checks that the branch holds what Submit returned.
func (m *machine) found(t *rapid.T, at git.Hash) {
	if at == "" && len(m.files) == 0 {
		return
	}
	if _, err := m.bare.Git(t.Context(), "", "merge-base", "--is-ancestor", string(at), m.branch); err != nil {
		t.Fatalf("Submit returned %q, which is not on the branch: %v", at, err)
	}
}

// refused hands an edit over to a server that takes nothing.
func (m *machine) refused(t *rapid.T) {
	e := draw(t)
	fail(t, m.bare.Reject("closed"))
	_, err := m.submit(t, e)
	fail(t, m.bare.Accept())
	before := maps.Clone(m.files)
	if m.apply(e) != errs.Is(err, errs.Forbidden) || err != nil && !errs.Is(err, errs.Forbidden) {
		t.Fatalf("a server that takes nothing: %v", err)
	}
	m.files = before
}

// unanswered hands an edit over and loses the answer.
func (m *machine) unanswered(t *rapid.T) {
	m.server.DropReplies(1)
	m.write(t)
	m.server.DropReplies(0)
}

// raced hands an edit over while someone else is faster.
func (m *machine) raced(t *rapid.T) {
	path, content := drawForeign(t)
	m.server.BeforePush(func(string) {
		m.server.BeforePush(nil)
		m.commit(t, path, content)
	})
	e := draw(t)
	at, err := m.submit(t, e)
	m.server.BeforePush(nil)
	if err != nil {
		t.Fatal(err)
	}
	if m.apply(e) {
		m.ours++
	}
	m.found(t, at)
	m.noted = at
}

// disturb is a commit of someone else, now and then to one of our files.
func (m *machine) disturb(t *rapid.T) {
	path, content := drawForeign(t)
	if rapid.Bool().Draw(t, "drift") {
		path = rapid.SampledFrom(roots).Draw(t, "root") + "/x"
	}
	m.commit(t, path, content)
}

func drawForeign(t *rapid.T) (path, content string) {
	return "theirs/" + rapid.SampledFrom([]string{"p", "q"}).Draw(t, "their path"), rapid.SampledFrom(contents).Draw(t, "their content")
}

func (m *machine) commit(t *rapid.T, path, content string) {
	_, err := m.bare.CommitExternal(t.Context(), m.branch, map[string]gittest.File{path: {Mode: "100644", Content: content}})
	fail(t, err)
	m.files[path] = content
}

func fail(t *rapid.T, err error) {
	if err != nil {
		t.Fatal(err)
	}
}

// check compares the branch with the model.
func (m *machine) check(t *rapid.T) {
	tip, err := m.bare.Ref("refs/heads/" + m.branch)
	if err != nil {
		t.Fatal(err)
	}
	if tip == "" {
		if len(m.files) > 0 || m.ours > 0 {
			t.Fatalf("there is no branch, want %v", m.files)
		}
		return
	}
	tree, err := m.bare.Git(t.Context(), "", "ls-tree", "-r", m.branch)
	fail(t, err)
	var want []string
	for path, content := range m.files {
		want = append(want, fmt.Sprintf("100644 blob %x\t%s", sha1.Sum([]byte(fmt.Sprintf("blob %d\x00%s", len(content), content))), path))
	}
	slices.SortFunc(want, func(a, b string) int { return strings.Compare(a[strings.Index(a, "\t"):], b[strings.Index(b, "\t"):]) })
	if tree != strings.Join(want, "\n") {
		t.Fatalf("the branch holds\n%s\nwant\n%s", tree, strings.Join(want, "\n"))
	}
	history, err := m.bare.Git(t.Context(), "", "log", "--format=%s %P", m.branch)
	fail(t, err)
	ours := 0
	for line := range strings.Lines(history) {
		fields := strings.Fields(line)
		if len(fields) > 2 {
			t.Fatalf("the history is not linear:\n%s", history)
		}
		if fields[0] == "ours" {
			ours++
		}
	}
	if ours != m.ours {
		t.Fatalf("%d commits of ours, want %d:\n%s", ours, m.ours, history)
	}
}

// After any faults and any commits by others, the branch holds the last requested content,
// each change is one commit, and all commits by others remain.
func TestWriterAgainstModel(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	rapid.Check(t, func(t *rapid.T) {
		m := newMachine(p)
		defer func() { m.close() }()
		t.Repeat(map[string]func(*rapid.T){
			"write": m.write, "refused": m.refused, "unanswered": m.unanswered, "raced": m.raced,
			"disturb": m.disturb, "kill": m.kill, "": m.check,
		})
	})
}
