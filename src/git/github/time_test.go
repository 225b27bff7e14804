package github_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
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

// Thirty-two writers commit, and each time one of the commits is about to move the branch,
// someone else pushes by Git. Every push succeeds, our commit is rebuilt on top of it, and
// nothing is lost.
// The test does not depend on timing: our commit waits at the server while theirs is pushed.
func TestH47ForeignPushesSurvive(t *testing.T) {
	t.Parallel()
	srv, bare, repo := seeded(t)
	h := host(t, github.Options{})
	clone := gittest.Bare{Dir: t.TempDir()}
	remote := strings.Replace(srv.URL(), "http://", "http://emco:"+token+"@", 1) + "/acme/fleet.git"
	must(clone.Git(t.Context(), "", "clone", "-q", remote, "."))
	const theirs, writers, rounds = 5, 32, 3
	var mu sync.Mutex
	pushed := 0
	srv.Faults(func(r *http.Request) *githubtest.Fault {
		mu.Lock()
		defer mu.Unlock()
		if r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, "/git/refs/heads/main") && pushed < theirs {
			push(t, clone, fmt.Sprintf("theirs-%d", pushed))
			pushed++
		}
		return nil
	})
	lost := 0
	w := batch.New(h, batch.Options{Observe: func(e batch.Event) { lost += e.Conflicts }})
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			for round := range rounds {
				e := []git.Edit{{Path: fmt.Sprintf("clusters/edge+site%02d/r%d", i, round), File: []byte("x")}}
				if _, err := w.Submit(t.Context(), batch.Job{Repo: repo, Branch: "main", Edits: e, Title: "t"}); err != nil {
					t.Errorf("Submit: %v", err)
				}
			}
		})
	}
	wg.Wait()
	w.Close()
	files := must(bare.Git(t.Context(), "", "ls-tree", "-r", "--name-only", "main"))
	if got := strings.Count(files, "clusters/"); got != writers*rounds {
		t.Errorf("the branch holds %d of our %d files", got, writers*rounds)
	}
	if got := strings.Count(files, "theirs-"); got != theirs || pushed != theirs || lost < theirs {
		t.Errorf("the branch holds %d of their %d files, after %d races that we lost, want one for each", got, theirs, lost)
	}
	if err := bare.Fsck(t.Context()); err != nil {
		t.Error(err)
	}
}

// push pushes one file on top of the branch.
func push(t *testing.T, clone gittest.Bare, name string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(clone.Dir, name), []byte("t"), 0o644); err != nil {
		t.Error(err)
	}
	for _, args := range [][]string{{"add", name}, {"commit", "-q", "-m", name}, {"pull", "-q", "--rebase", "origin", "main"}, {"push", "-q", "origin", "HEAD:main"}} {
		if _, err := clone.Git(t.Context(), "", args...); err != nil {
			t.Error(err)
		}
	}
}
