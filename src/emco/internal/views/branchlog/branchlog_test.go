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
	"github.com/emco-orchestrator/emco/src/git"
)

// server is a Git server with one line of commits, which counts what it is asked for.
type server struct {
	mu       sync.Mutex
	line     []git.Commit // newest first
	err      error
	largest  int // commits that one exchange may bring; 0: any number
	lag      time.Duration
	heads    int
	logs     int
	lookups  int
	atOnce   int
	mostOnce int
}

func (s *server) Head(context.Context, git.Repo, string) (git.Hash, error) {
	s.mu.Lock()
	s.heads++
	s.atOnce++
	s.mostOnce = max(s.mostOnce, s.atOnce)
	s.mu.Unlock()
	time.Sleep(s.lag)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.atOnce--
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
				if log, err := logs.Read(ctx, "https://git/fleet.git", fmt.Sprint("main-", i%10)); err != nil || len(log.Commits) != 1 {
					t.Errorf("%+v, %v", log, err)
				}
			})
		}
		all.Wait()
		if s.heads != 10 || s.mostOnce != atOnce {
			t.Errorf("%d readings, at most %d at once; want 10, %d at once", s.heads, s.mostOnce, atOnce)
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
