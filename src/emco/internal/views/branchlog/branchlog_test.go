package branchlog

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/bytelru"
	"github.com/emco-orchestrator/emco/src/emco/internal/contain"
	"github.com/emco-orchestrator/emco/src/git"
)

// server is a Git server with one line of commits, which counts requests.
type server struct {
	mu       sync.Mutex
	line     []git.Commit // newest first
	err      error
	largest  int           // commits that one exchange may bring; 0: any number
	lag      time.Duration // of all but https://quick/
	broken   bool          // reading what it answers causes a panic
	heads    int
	logs     int
	lookups  int
	atOnce   int
	mostOnce int
}

func (s *server) Head(_ context.Context, r git.Repo, _ string) (git.Hash, error) {
	s.mu.Lock()
	s.heads++
	s.atOnce++
	s.mostOnce = max(s.mostOnce, s.atOnce)
	s.mu.Unlock()
	if !strings.HasPrefix(r.URL, "https://quick/") {
		time.Sleep(s.lag)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.atOnce--
	if s.broken {
		panic("index out of range")
	}
	if s.err != nil {
		return "", s.err
	}
	return s.line[0].ID, nil
}

func (s *server) Latest(_ context.Context, _ git.Repo, commit git.Hash, n int) ([]git.Commit, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.logs++
	if s.largest > 0 && n > s.largest {
		return nil, errs.New(errs.TooLarge, "too much")
	}
	for i, c := range s.line {
		if c.ID == commit {
			return s.line[i:min(len(s.line), i+n)], nil
		}
	}
	return nil, errs.New(errs.NotFound, "no such commit")
}

// commit adds a commit to the line.
func (s *server) commit(message string) {
	c := git.Commit{ID: git.Hash(fmt.Sprintf("%040d", len(s.line))), Message: message, Author: "Ana <ana@example.org>", When: time.Now()}
	if len(s.line) > 0 {
		c.Parents = []git.Hash{s.line[0].ID}
	}
	s.line = append([]git.Commit{c}, s.line...)
}

func (s *server) logsOf(hosted bool) *Logs {
	return New(Options{
		Host: s, Now: time.Now, Hosted: func(r git.Repo) bool { return hosted && r.URL != "" },
		Repo: func(_ context.Context, url, _ string) (git.Repo, error) {
			s.lookups++
			return git.Repo{URL: url}, nil
		},
	})
}

func TestABranchIsReadOnceInAWhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		s.commit("first\n\nEmco-Fence: a:1\nEmco-Revision: 7.1, 9.4\nEmco-Clusters: edge+a, edge+b, edge+c\n")
		s.commit("by hand\n")
		logs := s.logsOf(false)
		read := func(heads, commitLogs, commits int) Log {
			t.Helper()
			log, err := logs.Read(t.Context(), "https://git/fleet.git", "main")
			if err != nil {
				t.Fatal(err)
			}
			if s.heads != heads || s.logs != commitLogs || len(log.Commits) != commits {
				t.Errorf("%d heads, %d logs, %d commits; want %d, %d, %d", s.heads, s.logs, len(log.Commits), heads, commitLogs, commits)
			}
			return log
		}
		log := read(1, 1, 2)
		if c := log.Commits[1]; !c.Ours || c.Title != "first" || c.Clusters != 3 || len(c.Carried) != 2 || c.Carried[1].Text() != "9.4" || c.Author != "Ana <ana@example.org>" {
			t.Errorf("what a commit carried: %+v", c)
		}
		if c := log.Commits[0]; c.Ours || c.Title != "by hand" || len(c.Carried) != 0 || log.Older || !log.At.Equal(time.Now()) {
			t.Errorf("a commit of others: %+v", log)
		}
		s.commit("third\n")
		read(1, 1, 2)
		time.Sleep(gap)
		if log := read(2, 2, 3); log.Commits[0].Title != "third" {
			t.Errorf("after a while: %+v", log)
		}
		time.Sleep(gap)
		read(3, 2, 3) // the commits of a head never change
		if s.lookups != 1 {
			t.Errorf("the credential was looked up %d times", s.lookups)
		}
		time.Sleep(hostedGap)
		if read(4, 2, 3); s.lookups != 2 {
			t.Errorf("the credential was looked up %d times, want it again after a minute", s.lookups)
		}

		s.err = errs.New(errs.Unavailable, "502")
		time.Sleep(gap)
		if log := read(5, 2, 3); log.Err == nil || time.Since(log.At) != gap {
			t.Errorf("while the server is down: %v, read %s ago", log.Err, time.Since(log.At))
		}
		read(5, 2, 3)
		if _, err := logs.Read(t.Context(), "https://git/fleet.git", "other"); !errs.Is(err, errs.Unavailable) || s.heads != 6 {
			t.Errorf("a branch that was never read: %v", err)
		}
		if _, err := logs.Read(t.Context(), "https://git/fleet.git", "other"); !errs.Is(err, errs.Unavailable) || s.heads != 6 {
			t.Errorf("the same again: %v after %d heads, want no other question", err, s.heads)
		}
	})
}

func TestReadersOfABranchShareOneReading(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &server{lag: time.Second}
		s.commit("first")
		logs := s.logsOf(false)
		var all sync.WaitGroup
		for i := range 60 {
			all.Go(func() {
				ctx, cancel := context.WithCancel(t.Context())
				if i == 0 {
					cancel() // its reading serves the others
				}
				defer cancel()
				log, err := logs.Read(ctx, "https://git/fleet.git", fmt.Sprint("main-", i%10))
				if left := i == 0; left != errs.Is(err, errs.Unavailable) || !left && (err != nil || len(log.Commits) != 1) {
					t.Errorf("caller %d: %+v, %v", i, log, err)
				}
			})
		}
		all.Wait()
		if s.heads != 10 || s.mostOnce != perServer {
			t.Errorf("%d readings, at most %d at once; want 10, %d at once", s.heads, s.mostOnce, perServer)
		}
		s.mostOnce = 0
		for i := range 10 {
			all.Go(func() {
				if _, err := logs.Read(t.Context(), fmt.Sprintf("https://git-%d/fleet.git", i), "main"); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if s.mostOnce != atOnce {
			t.Errorf("at most %d at once from several servers, want %d", s.mostOnce, atOnce)
		}
	})
}

func TestAServerThatHangsIsAskedRarelyAndDelaysNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &server{lag: readTime - 5*time.Second}
		s.commit("first")
		logs := s.logsOf(false)
		for range 2 {
			if _, err := logs.Read(t.Context(), "https://hangs/fleet.git", "main"); err != nil || s.heads != 1 {
				t.Errorf("%v after %d heads, want one question in a while", err, s.heads)
			}
		}
		var all sync.WaitGroup
		for i := range maxWaiting + perServer + 1 {
			all.Go(func() { _, _ = logs.Read(t.Context(), "https://hangs/fleet.git", fmt.Sprint(i)) })
			synctest.Wait()
		}
		begun := time.Now()
		if _, err := logs.Read(t.Context(), "https://hangs/fleet.git", fmt.Sprint(maxWaiting+perServer)); !errs.Is(err, errs.Throttled) || time.Since(begun) > 0 {
			t.Errorf("one branch too many waits: %v after %s", err, time.Since(begun))
		}
		if _, err := logs.Read(t.Context(), "https://quick/fleet.git", "main"); err != nil || time.Since(begun) > 0 {
			t.Errorf("another server: %v after %s", err, time.Since(begun))
		}
		all.Wait()
	})
}

func TestACallerLeavesWithoutTheServersAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &server{lag: 10 * time.Second}
		s.commit("first")
		logs, begun := s.logsOf(false), time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := logs.Read(ctx, "https://git/fleet.git", "main"); !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) != time.Second {
			t.Errorf("%v after %s, want the end of the caller's time", err, time.Since(begun))
		}
		if log, err := logs.Read(t.Context(), "https://git/fleet.git", "main"); err != nil || len(log.Commits) != 1 || s.heads != 1 {
			t.Errorf("the next caller: %+v, %v after %d heads; want the answer to the first question", log, err, s.heads)
		}
	})
}

func TestWhatIsForgottenIsNotReadAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		s.commit("first")
		logs := s.logsOf(false)
		read := func(branch int) error {
			_, err := logs.Read(t.Context(), "https://git/fleet.git", fmt.Sprint(branch))
			return err
		}
		for i := range maxBranches + 1 {
			if err := read(i); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond)
		}
		if err := read(maxBranches / 2); err != nil || s.heads != maxBranches+1 {
			t.Errorf("%v after %d heads; one branch too many made it forget others than the first", err, s.heads)
		}
		if err := read(0); err != nil || s.heads != maxBranches+2 || len(logs.looks) != maxBranches {
			t.Errorf("the first branch: %v after %d heads, %d in memory", err, s.heads, len(logs.looks))
		}

		logs.commits = bytelru.New[logKey, history](0) // all commits were dropped
		heads := s.heads
		for range 2 {
			if err := read(0); !errs.Is(err, errs.Unavailable) || !strings.Contains(err.Error(), "try again in 10s") || s.heads != heads {
				t.Errorf("%v after %d more heads, want when to try again", err, s.heads-heads)
			}
		}
	})
}

func TestAPanicIsContained(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &server{broken: true}
		logs := s.logsOf(false)
		for range 2 {
			if _, err := logs.Read(t.Context(), "https://git/fleet.git", "main"); !contain.Is(err) || s.heads != 1 {
				t.Errorf("%v after %d heads", err, s.heads)
			}
		}
	})
}

func TestAProviderIsAskedRarely(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		s.commit("first")
		logs := s.logsOf(true)
		for i := range hostedReads {
			if _, err := logs.Read(t.Context(), "https://github.com/acme/fleet", fmt.Sprint(i)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		_, err := logs.Read(t.Context(), "https://github.com/acme/fleet", "one more")
		if !errs.Is(err, errs.Throttled) || errs.RetryAfter(err) != hostedGap-hostedReads*time.Second {
			t.Errorf("one more: %v after %s", err, errs.RetryAfter(err))
		}
		time.Sleep(hostedGap / 2)
		if _, err := logs.Read(t.Context(), "https://github.com/acme/fleet", "0"); err != nil || s.heads != hostedReads {
			t.Errorf("a known one within a minute: %v, %d heads", err, s.heads)
		}
		time.Sleep(hostedGap)
		if _, err := logs.Read(t.Context(), "https://github.com/acme/fleet", "one more"); err != nil {
			t.Errorf("a minute later: %v", err)
		}
	})
}

func TestLogsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &server{largest: fewCommits}
		for i := range maxCommits + 50 {
			s.commit(fmt.Sprintf("%d %s\n\nbody", i, strings.Repeat("é", 300)))
		}
		log, err := s.logsOf(false).Read(t.Context(), "https://git/fleet.git", "main")
		if err != nil || len(log.Commits) != fewCommits || !log.Older {
			t.Fatalf("commits that are too large together: %d, %v, %v", len(log.Commits), log.Older, err)
		}
		if title := []rune(log.Commits[0].Title); len(title) != maxText || title[maxText-1] != '…' {
			t.Errorf("a long title has %d characters", len(title))
		}
		s.largest = 0
		if log, err = s.logsOf(false).Read(t.Context(), "https://git/fleet.git", "main"); err != nil || len(log.Commits) != maxCommits || !log.Older {
			t.Errorf("a long branch: %d, %v, %v", len(log.Commits), log.Older, err)
		}
		s.line = s.line[:1]
		s.line[0].Message = "many\n\nEmco-Revision: " + strings.Repeat("1234567.1, ", 300_000) + "7.1\n"
		if log, err = s.logsOf(false).Read(t.Context(), "https://git/fleet.git", "main"); err == nil || len(log.Commits) > 0 {
			t.Errorf("a commit that does not fit: %d, %v; want an error and not a branch without commits", len(log.Commits), err)
		}
		s.largest = 1
		if _, err = s.logsOf(false).Read(t.Context(), "https://git/fleet.git", "main"); !errs.Is(err, errs.TooLarge) {
			t.Errorf("commits that never fit: %v", err)
		}
	})
}

func TestWithoutACredentialNothingIsAsked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		logs := s.logsOf(false)
		logs.Repo = func(context.Context, string, string) (git.Repo, error) {
			return git.Repo{}, errs.E(errs.NotFound, "find", "a credential", errors.New("no cluster"))
		}
		if _, err := logs.Read(t.Context(), "https://git/fleet.git", "main"); !errs.Is(err, errs.NotFound) || s.heads != 0 {
			t.Errorf("%v after %d heads", err, s.heads)
		}
	})
}
