package github_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/batch"
	"github.com/emco-orchestrator/emco/src/git/budget"
	"github.com/emco-orchestrator/emco/src/git/github"
	"github.com/emco-orchestrator/emco/src/git/gittest"
	"github.com/emco-orchestrator/emco/src/git/gittest/githubtest"
)

// A server that grants 80 calls that make content a minute, and refuses one call in ten
// with 403 and Retry-After: all work lands, no error reaches the caller, and no more than
// 60 % of the limit is used. An hour or so goes by in no time.
func TestTWdAllWorkLandsWithinTheLimits(t *testing.T) {
	t.Parallel()
	srv, err := githubtest.Serve(t.TempDir(), githubtest.Options{Limits: githubtest.Limits{Calls: 5000, Points: 900, Content: 80, ContentHour: 500, RetryAfter: time.Minute}},
		githubtest.User{Name: "emco", Token: token, Write: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = srv.Close() })
	bare, err := srv.Seed(t.Context(), "acme", "fleet", "main")
	if err != nil {
		t.Fatal(err)
	}
	repo := srv.Repo("acme", "fleet", token)
	synctest.Test(t, func(t *testing.T) {
		b := budget.New(budget.Options{})
		h := github.Through(srv.Transport(), github.Options{Budget: b})
		chance, refused, limited := rand.New(rand.NewPCG(1, 2)), 0, 0
		var mu sync.Mutex
		srv.Faults(func(*http.Request) *githubtest.Fault {
			mu.Lock()
			defer mu.Unlock()
			if chance.IntN(10) > 0 {
				return nil
			}
			refused++
			return &githubtest.Fault{Status: 403, Header: map[string]string{"Retry-After": fmt.Sprint(1 + chance.IntN(30))}, Body: `{"message":"You have exceeded a secondary rate limit."}`}
		})
		w := batch.New(h, batch.Options{
			Hosted: func(git.Repo) bool { return true }, Budget: b, Deadline: 12 * time.Hour,
			Observe: func(e batch.Event) { limited += e.Retries },
		})
		start := time.Now()
		var wg sync.WaitGroup
		for c := range 40 {
			wg.Go(func() {
				for round := range 8 {
					path := fmt.Sprintf("clusters/edge+site%02d/r%d", c, round)
					_, err := w.Submit(t.Context(), batch.Job{Repo: repo, Branch: "main", Edits: []git.Edit{{Path: path, File: []byte(path)}}, Title: path})
					if err != nil {
						t.Errorf("%s: %v", path, err)
					}
					time.Sleep(time.Duration(chanceOf(c, round)) * time.Second) // of the bubble
				}
			})
		}
		wg.Wait()
		w.Close()
		t.Logf("320 changes in %v, %d calls refused, %d tries again, at most %d of 80 calls that make content within a minute", time.Since(start), refused, limited, srv.MostContent(token))
		if refused == 0 {
			t.Error("no call was refused")
		}
		if most := srv.MostContent(token); most > 48 {
			t.Errorf("%d calls that make content were made within a minute, want at most 48", most)
		}
	})
	if files := must(bare.Git(t.Context(), "", "ls-tree", "-r", "--name-only", "main")); strings.Count(files, "clusters/") != 320 {
		t.Errorf("the branch holds %d of 320 files", strings.Count(files, "clusters/"))
	}
	if err := bare.Fsck(t.Context()); err != nil {
		t.Error(err)
	}
}

// chanceOf is how long one waits before its next change.
func chanceOf(c, round int) int { return (c*7 + round*13) % 60 }

// Thirty-two writers, and somebody who pushes by Git all the time: nothing is lost.
func TestH47ForeignPushesSurvive(t *testing.T) {
	t.Parallel()
	srv, bare, repo := seeded(t)
	h := host(t, github.Options{})
	clone := gittest.Bare{Dir: t.TempDir()}
	remote := strings.Replace(srv.URL(), "http://", "http://emco:"+token+"@", 1) + "/acme/fleet.git"
	must(clone.Git(t.Context(), "", "clone", "-q", remote, "."))
	w := batch.New(h, batch.Options{Window: 400 * time.Millisecond})
	defer w.Close()
	var wg sync.WaitGroup
	var wrote, pushed atomic.Int64
	wg.Go(func() {
		for pushed.Load() < enough && wrote.Load() < 32*most {
			pushed.Add(push(t, clone, fmt.Sprintf("theirs-%d", pushed.Load())))
		}
	})
	for i := range 32 {
		wg.Go(func() {
			for round := 0; round < 3 || pushed.Load() < enough && round < most; round++ {
				e := []git.Edit{{Path: fmt.Sprintf("clusters/edge+site%02d/r%d", i, round), File: []byte("x")}}
				if _, err := w.Submit(t.Context(), batch.Job{Repo: repo, Branch: "main", Edits: e, Title: "t"}); err != nil {
					t.Errorf("Submit: %v", err)
				}
				wrote.Add(1)
			}
		})
	}
	wg.Wait()
	files := must(bare.Git(t.Context(), "", "ls-tree", "-r", "--name-only", "main"))
	if got := int64(strings.Count(files, "clusters/")); got != wrote.Load() {
		t.Errorf("the branch holds %d of our %d files", got, wrote.Load())
	}
	if got := int64(strings.Count(files, "theirs-")); got != pushed.Load() || got == 0 {
		t.Errorf("the branch holds %d of their %d files", got, pushed.Load())
	}
	if err := bare.Fsck(t.Context()); err != nil {
		t.Error(err)
	}
	t.Logf("%d changes beside %d pushes", wrote.Load(), pushed.Load())
}

const (
	enough = 3  // pushes between ours
	most   = 40 // changes of one writer
)

// push pushes one file on top of what is there, and says how many got through.
func push(t *testing.T, clone gittest.Bare, name string) int64 {
	if _, err := os.Stat(filepath.Join(clone.Dir, name)); err != nil {
		if err := os.WriteFile(filepath.Join(clone.Dir, name), []byte("t"), 0o644); err != nil {
			t.Error(err)
		}
		must(clone.Git(t.Context(), "", "add", name))
		must(clone.Git(t.Context(), "", "commit", "-q", "-m", name))
	}
	must(clone.Git(t.Context(), "", "pull", "-q", "--rebase", "origin", "main"))
	if _, err := clone.Git(t.Context(), "", "push", "-q", "origin", "HEAD:main"); err != nil {
		return 0
	}
	return 1
}
