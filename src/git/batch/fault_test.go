package batch_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/batch"
	"github.com/emco-orchestrator/emco/src/git/gittest"
	"github.com/emco-orchestrator/emco/src/git/plain"
)

// place is a branch on a real Git server, with writers that come and go.
type place struct {
	*testing.T
	server *gittest.Server
	bare   gittest.Bare
	repo   git.Repo
}

func newPlace(t *testing.T) place {
	server, bare, repo := server(t)
	return place{t, server, bare, repo}
}

// writer is the writer of a process that was just started: it remembers nothing.
func (p place) writer(o batch.Options) *batch.Writers {
	host := plain.New(plain.Options{})
	w := batch.New(host, o)
	p.Cleanup(func() { w.Close(); _ = host.Close() })
	return w
}

func (p place) job(base git.Hash, fence batch.Fence, edits ...git.Edit) batch.Job {
	return batch.Job{Repo: p.repo, Branch: "main", Edits: edits, Title: "ours", Fence: fence, Base: base}
}

func (p place) must(err error) {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
}

func (p place) submit(w *batch.Writers, j batch.Job) git.Hash {
	p.Helper()
	at, err := w.Submit(p.Context(), j)
	p.must(err)
	return at
}

// foreign commits as another person.
func (p place) foreign(path, content string) git.Hash {
	p.Helper()
	at, err := p.bare.CommitExternal(p.Context(), "main", map[string]gittest.File{path: {Content: content}})
	p.must(err)
	return git.Hash(at)
}

func (p place) git(args ...string) string {
	p.Helper()
	out, err := p.bare.Git(p.Context(), "", args...)
	p.must(err)
	return out
}

// log returns the titles of the branch's commits, newest first; it fails unless each has
// one parent at most.
func (p place) log() string {
	p.Helper()
	if merges := p.git("rev-list", "--merges", "main"); merges != "" {
		p.Errorf("the history is not linear: %s", merges)
	}
	return strings.ReplaceAll(p.git("log", "--format=%s", "main"), "\n", " ")
}

func (p place) holds(path, want string) {
	p.Helper()
	if got, err := p.bare.Show(p.Context(), "main", path); err != nil || got != want {
		p.Errorf("%s holds %q, %v, want %q", path, got, err, want)
	}
}

func edit(path, content string) git.Edit { return git.Edit{Path: path, File: []byte(content)} }

func fence(token int64) batch.Fence { return batch.Fence{Shard: "rsync-03", Token: token} }

// A process is killed after its push and before it has recorded the outcome, and someone commits on
// top. The next process finds the commit and makes no second one.
func TestH31TheCommitOfAKilledProcessIsFound(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	first := p.submit(p.writer(batch.Options{}), p.job("", fence(1), edit("f", "1")))
	second := p.submit(p.writer(batch.Options{}), p.job(first, fence(1), edit("f", "2"))) // and is killed
	p.foreign("README.md", "hello")
	var events []batch.Event
	w := p.writer(batch.Options{Observe: func(e batch.Event) { events = append(events, e) }})
	var landed git.Hash
	j := p.job(first, fence(2), edit("f", "2"))
	j.OnCommit = func(id git.Hash) { landed = id }
	found := p.submit(w, j)
	w.Close()
	if found != second || landed != second {
		t.Errorf("found %s, OnCommit got %s, want the commit of the killed process, %s", found, landed, second)
	}
	if got := p.log(); got != "foreign ours ours foreign" {
		t.Errorf("commits %s", got)
	}
	if len(events) != 1 || events[0].Committed {
		t.Errorf("events %+v, want no commit", events)
	}
	if got := p.git("log", "-1", "--format=%(trailers:key=Emco-Fence,valueonly,separator=)", string(second)); got != "rsync-03:1" {
		t.Errorf("the commit was made as %q", got)
	}
}

// The server takes the push, and the connection breaks before the reply; meanwhile someone commits
// on top. Success is reported, with the commit that was made.
func TestH53ALostReplyMakesNoSecondCommit(t *testing.T) {
	t.Parallel()
	for _, behind := range []batch.Fence{{}, fence(7)} {
		t.Run("fence="+behind.String(), func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			var made string
			p.server.AfterPush(func(string) {
				p.server.AfterPush(nil)
				made = p.git("rev-parse", "main")
				p.foreign("README.md", "hello")
			})
			p.server.DropReplies(1)
			at := p.submit(p.writer(batch.Options{}), p.job("", behind, edit("f", "1")))
			if want := map[bool]string{true: made, false: p.git("rev-parse", "main")}[behind.Shard != ""]; string(at) != want {
				t.Errorf("Submit returned %s, want %s", at, want)
			}
			if got := p.log(); got != "foreign ours foreign" {
				t.Errorf("commits %s", got)
			}
			if _, pushes := p.server.Requests(); pushes != 1 {
				t.Errorf("%d pushes were sent, want 1", pushes)
			}
		})
	}
}

// OnCommit is called with the commit that was made for a job, and with no other.
func TestJobsLearnTheirCommits(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	w := p.writer(batch.Options{})
	var landed []git.Hash
	j := p.job("", fence(1), edit("f", "1"))
	j.OnCommit = func(id git.Hash) { landed = append(landed, id) }
	at := p.submit(w, j)
	p.foreign("README.md", "hello")
	again := p.submit(w, j)
	if len(landed) != 1 || landed[0] != at || again == "" {
		t.Errorf("OnCommit got %v, want %s once", landed, at)
	}
}

// Someone edits a file of theirs and one in another cluster's folder while we write:
// nothing of either side is lost, and theirs stays byte for byte.
func TestH47ForeignCommitsSurvive(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	odd := "tabs\t\r\nno line break at the end \x00"
	n := 0
	p.server.BeforePush(func(string) { // each push but the last loses the race
		if n++; n <= 3 {
			p.foreign("README.md", fmt.Sprint(odd, n))
			p.foreign("clusters/edge+theirs/context/1/app/web/x.yaml", fmt.Sprint(odd, -n))
		}
	})
	var conflicts atomic.Int64
	w := p.writer(batch.Options{Observe: func(e batch.Event) { conflicts.Add(int64(e.Conflicts)) }})
	ours := git.Edit{Path: "clusters/edge+ours/context/1/app/web", Dir: map[string][]byte{"a.yaml": []byte("a"), "b.yaml": []byte("b")}}
	p.submit(w, p.job("", fence(1), ours))
	p.server.BeforePush(nil)
	if got := p.log(); got != "ours foreign foreign foreign foreign foreign foreign foreign" || conflicts.Load() != 3 {
		t.Errorf("commits %s, %d lost races, want 3", got, conflicts.Load())
	}
	p.holds("README.md", odd+"3")
	p.holds("clusters/edge+theirs/context/1/app/web/x.yaml", odd+"-3")
	p.holds("clusters/edge+ours/context/1/app/web/a.yaml", "a")
	p.must(p.bare.Fsck(t.Context()))
}

// A writer is paused in the middle of a push, longer than its lease. Its successor
// writes; when the first one goes on, Git refuses it, and it finds out why and stops.
func TestAPausedWriterIsOverrun(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	var events []batch.Event
	paused := p.writer(batch.Options{Observe: func(e batch.Event) { events = append(events, e) }})
	inPush, goOn := make(chan struct{}), make(chan struct{})
	p.server.BeforePush(func(string) {
		p.server.BeforePush(nil)
		close(inPush)
		<-goOn
	})
	var lost error
	var pause sync.WaitGroup
	pause.Go(func() { _, lost = paused.Submit(t.Context(), p.job("", fence(1), edit("f", "old"))) })
	<-inPush
	p.submit(p.writer(batch.Options{}), p.job("", fence(2), edit("f", "new")))
	close(goOn)
	pause.Wait()
	paused.Close()
	if !errors.Is(lost, batch.ErrFenced) || !errs.Is(lost, errs.Conflict) || !strings.Contains(lost.Error(), "rsync-03:2") {
		t.Errorf("the paused writer got %v, want it fenced by its successor", lost)
	}
	if got := p.log(); got != "ours foreign" {
		t.Errorf("commits %s", got)
	}
	p.holds("f", "new")
	if len(events) != 1 || !events[0].Fenced || events[0].Conflicts != 1 {
		t.Errorf("events %+v, want one that is fenced after one lost race", events)
	}
}

// Writers of other shards, and earlier owners of the same one, stop no writer.
func TestOnlyALaterOwnerOverruns(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	others := []batch.Fence{{Shard: "rsync-04", Token: 9}, fence(4), fence(5)}
	p.server.BeforePush(func(string) {
		if len(others) == 0 {
			return
		}
		next := others[0]
		others = others[1:]
		_, err := p.bare.Git(p.Context(), "", "update-ref", "refs/heads/main", p.git("commit-tree", "-p", "main", "-m", "other\n\nEmco-Fence: "+next.String(), "main^{tree}"))
		p.must(err)
	})
	p.submit(p.writer(batch.Options{}), p.job("", fence(5), edit("f", "1")))
	if got := p.log(); got != "ours other other other foreign" {
		t.Errorf("commits %s", got)
	}
}

// A fence that is no longer valid stops a push before anything is sent; one that cannot be asked
// is asked again.
func TestAFallenFenceStopsThePush(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	asked := 0
	f := fence(1)
	f.Check = func(context.Context) error {
		if asked++; asked == 1 {
			return errs.New(errs.Unavailable, "etcd does not answer")
		}
		return errs.New(errs.Conflict, "ownership was lost")
	}
	_, err := p.writer(batch.Options{}).Submit(t.Context(), p.job("", f, edit("f", "1")))
	if !errors.Is(err, batch.ErrFenced) || asked != 2 {
		t.Errorf("got %v after %d questions, want it fenced after two", err, asked)
	}
	if _, pushes := p.server.Requests(); pushes != 0 || p.log() != "foreign" {
		t.Errorf("%d pushes were sent, commits %s", pushes, p.log())
	}
}

// Someone rewrites the branch. Nothing more is written, however often it is tried,
// until the new history is taken as it is.
func TestH49RewrittenHistoryIsLeftAlone(t *testing.T) {
	t.Parallel()
	rewritings := map[string]func(p place) git.Hash{
		"rewound": func(p place) git.Hash {
			p.git("update-ref", "refs/heads/main", "main~1")
			return git.Hash(p.git("rev-parse", "main"))
		},
		"rewound and gone on": func(p place) git.Hash {
			p.git("update-ref", "refs/heads/main", "main~1")
			return p.foreign("README.md", "another way")
		},
		"unrelated": func(p place) git.Hash {
			p.git("update-ref", "refs/heads/main", p.git("commit-tree", "-m", "anew", "main^{tree}"))
			return git.Hash(p.git("rev-parse", "main"))
		},
		"deleted": func(p place) git.Hash {
			p.git("update-ref", "-d", "refs/heads/main")
			return ""
		},
	}
	for name, rewrite := range rewritings {
		for _, restarted := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, restarted=%v", name, restarted), func(t *testing.T) {
				t.Parallel()
				p := newPlace(t)
				w := p.writer(batch.Options{})
				base := p.submit(w, p.job("", fence(1), edit("f", "1")))
				head := rewrite(p)
				if restarted {
					w = p.writer(batch.Options{})
				}
				_, before := p.server.Requests()
				for range 3 {
					_, err := w.Submit(t.Context(), p.job(base, fence(1), edit("f", "2")))
					why, ok := errors.AsType[*batch.RewrittenError](err)
					if !ok || !errs.Is(err, errs.Forbidden) || *why != (batch.RewrittenError{Branch: "main", Base: base, Head: head}) || !strings.Contains(err.Error(), "HistoryRewritten") {
						t.Fatalf("got %v, want the history to be rewritten to %s", err, head)
					}
				}
				if _, now := p.server.Requests(); now != before {
					t.Errorf("%d pushes were sent", now-before)
				}
				p.submit(w, p.job("", fence(1), edit("f", "2"))) // adopted
				p.holds("f", "2")
			})
		}
	}
}

// A branch that only grew is no rewritten one, whatever a line has seen before.
func TestABranchThatGrewIsWrittenTo(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	w := p.writer(batch.Options{})
	base := p.submit(w, p.job("", fence(1), edit("f", "1")))
	for i := range 3 {
		p.foreign("README.md", fmt.Sprint(i))
		w = p.writer(batch.Options{})
		p.submit(w, p.job(base, fence(1), edit("f", fmt.Sprint("a", i))))
		p.foreign("README.md", fmt.Sprint(-i))
		next := p.submit(w, p.job(base, fence(1), edit("f", fmt.Sprint("b", i))))
		p.submit(w, p.job(next, fence(1), edit("f", fmt.Sprint("c", i))))
	}
	p.holds("f", "c2")
	p.holds("README.md", "-2")
}

// Someone else owned the branch for a while. A line that remembers where the branch was
// before looks again, and does not take its own memory for a rewritten history.
func TestABranchThatAnotherOwnerWroteToIsNoRewrittenOne(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	here, elsewhere := p.writer(batch.Options{}), p.writer(batch.Options{})
	base := p.submit(here, p.job("", fence(1), edit("f", "1")))
	for token, w := range []*batch.Writers{elsewhere, here, elsewhere} {
		base = p.submit(w, p.job(base, fence(int64(token+2)), edit("f", fmt.Sprint("turn ", token))))
	}
	p.holds("f", "turn 2")
}
