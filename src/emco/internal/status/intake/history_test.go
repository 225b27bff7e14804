package intake_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/contain"
	"github.com/emco-orchestrator/emco/src/emco/internal/status/intake"
	"github.com/emco-orchestrator/emco/src/git"
)

// slowServers are Git servers by repository. A read of commit c of a repository that is not in any of the
// fields takes a second and finds the parent "base".
type slowServers struct {
	hanging, broken map[string]bool // by URL; guarded by mu

	mu              sync.Mutex
	reads           []string       // "URL commit"
	now             map[string]int // reads under way, by URL
	most, mostOfOne int            // the highest numbers of reads at a time
}

func (s *slowServers) History(ctx context.Context, r git.Repo, commit git.Hash, _ int) (map[git.Hash][]git.Hash, error) {
	s.mu.Lock()
	s.reads = append(s.reads, r.URL+" "+string(commit))
	s.now[r.URL]++
	all := 0
	for n := range maps.Values(s.now) {
		all += n
	}
	s.most, s.mostOfOne = max(s.most, all), max(s.mostOfOne, s.now[r.URL])
	hanging, broken := s.hanging[r.URL], s.broken[r.URL]
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.now[r.URL]--
	}()
	if hanging {
		<-ctx.Done()
		return nil, errs.E(errs.Unavailable, "history", r.URL, ctx.Err())
	}
	time.Sleep(time.Second) //nolint:forbidigo // of the bubble's clock
	switch {
	case broken:
		panic("a broken host")
	case commit == "lost":
		return nil, errs.New(errs.NotFound, "no such commit")
	}
	return map[git.Hash][]git.Hash{commit: {"base"}, "base": nil}, nil
}

func (s *slowServers) takeReads() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.reads
	s.reads = nil
	return out
}

// historyFixture is a history in a bubble.
type historyFixture struct {
	*intake.History
	t       *testing.T
	ctx     context.Context // of the reads
	servers *slowServers

	mu    sync.Mutex
	ready []v2.ClusterKey
}

// withHistory runs a test in a bubble, which fails if a goroutine remains.
func withHistory(t *testing.T, test func(*historyFixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := &historyFixture{t: t, servers: &slowServers{hanging: map[string]bool{}, broken: map[string]bool{}, now: map[string]int{}}}
		log := slog.New(slog.DiscardHandler)
		f.History = intake.NewHistory(f.servers, func(c v2.ClusterKey) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.ready = append(f.ready, c)
		}, &contain.Panics{Log: log, Count: func(string) {}}, log)
		var cancel context.CancelFunc
		f.ctx, cancel = context.WithCancel(t.Context())
		defer f.Wait()
		defer cancel()
		test(f)
	})
}

// ask formats what is known of a commit on the branch: "true", "false" or "unknown".
func (f *historyFixture) ask(cluster v2.ClusterKey, url string, commit git.Hash) string {
	yes, known := f.Contains(f.ctx, cluster, git.Repo{URL: url}, commit, "base")
	if !known {
		return "unknown"
	}
	return fmt.Sprint(yes)
}

func (f *historyFixture) want(what, got, want string) {
	f.t.Helper()
	if got != want {
		f.t.Errorf("%s: %s, want %s", what, got, want)
	}
}

// after lets time pass, and returns the clusters that became ready, in order.
func (f *historyFixture) after(d time.Duration) string {
	time.Sleep(d) //nolint:forbidigo // of the bubble's clock
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	out := f.ready
	f.ready = nil
	return fmt.Sprint(out)
}

func TestARepositoryThatHangsRests(t *testing.T) {
	t.Parallel()
	withHistory(t, func(f *historyFixture) {
		f.servers.hanging["bad"] = true
		f.want("bad", f.ask("a", "bad", "c1"), "unknown")
		f.want("bad for another cluster", f.ask("b", "bad", "c2"), "unknown")
		f.want("good", f.ask("c", "good", "c1"), "unknown")
		f.want("ready at once", f.after(2*time.Second), "[c]")
		f.want("good", f.ask("c", "good", "c1"), "true")
		f.want("ready after the time limit", f.after(30*time.Second), "[a b]")
		f.want("bad while it rests", f.ask("a", "bad", "c1")+" "+f.ask("b", "bad", "c2"), "false false")
		f.want("reads", fmt.Sprint(slices.Sorted(slices.Values(f.servers.takeReads()))), "[bad c1 good c1]")
		f.servers.hanging["bad"] = false
		f.after(time.Minute)
		f.want("bad after its rest", f.ask("a", "bad", "c1"), "unknown")
		f.want("ready", f.after(2*time.Second), "[a]")
		f.want("bad, mended", f.ask("a", "bad", "c1"), "true")
	})
}

func TestReadsOfHistoryAreBounded(t *testing.T) {
	t.Parallel()
	withHistory(t, func(f *historyFixture) {
		for i := range 100 {
			for range 3 {
				f.ask(v2.ClusterKey(fmt.Sprint("x", i)), fmt.Sprint("repo", i), "c1")
				f.ask(v2.ClusterKey(fmt.Sprint("y", i)), fmt.Sprint("repo", i), "c2")
			}
		}
		f.after(time.Minute)
		if f.servers.most != 8 || f.servers.mostOfOne != 1 || len(f.servers.takeReads()) != 200 {
			t.Errorf("%d reads at a time, %d of one repository", f.servers.most, f.servers.mostOfOne)
		}
	})
}

// Clusters that wait for the same commit are ready after one read.
func TestACommitIsReadOnce(t *testing.T) {
	t.Parallel()
	withHistory(t, func(f *historyFixture) {
		for _, c := range []v2.ClusterKey{"a", "b", "c"} {
			f.want(string(c), f.ask(c, "repo", "c1"), "unknown")
		}
		f.want("ready", f.after(2*time.Second), "[a b c]")
		f.want("reads", fmt.Sprint(f.servers.takeReads()), "[repo c1]")
	})
}

// Of the commits that a cluster asks for while it waits, the last is read; and it gives way to
// others, however often it asks.
func TestTheLastCommitOfAClusterIsRead(t *testing.T) {
	t.Parallel()
	withHistory(t, func(f *historyFixture) {
		f.want("first", f.ask("a", "repo", "c0"), "unknown")
		synctest.Wait() // c0 is being read
		f.ask("b", "repo", "other")
		for i := range 50 {
			f.ask("a", "repo", git.Hash(fmt.Sprint("c", i+1)))
		}
		f.want("ready", f.after(10*time.Second), "[a b a]")
		f.want("reads", fmt.Sprint(f.servers.takeReads()), "[repo c0 repo other repo c50]")
		f.want("the last", f.ask("a", "repo", "c50"), "true")
	})
}

// A commit that the server does not have, or whose read panics, is left alone for a while, and its
// repository is not.
func TestALostCommitIsLeftAlone(t *testing.T) {
	t.Parallel()
	withHistory(t, func(f *historyFixture) {
		f.servers.broken["broken"] = true
		f.ask("a", "repo", "lost")
		f.ask("b", "broken", "c1")
		f.after(2 * time.Second)
		f.want("the commits", f.ask("a", "repo", "lost")+" "+f.ask("b", "broken", "c1"), "false false")
		f.want("another", f.ask("a", "repo", "c1"), "unknown")
		f.after(2 * time.Second)
		f.want("another", f.ask("a", "repo", "c1"), "true")
		f.after(30 * time.Second)
		f.want("later", f.ask("a", "repo", "lost"), "unknown")
		f.after(2 * time.Second)
		if got := f.servers.takeReads(); len(got) != 4 || !slices.Contains(got, "broken c1") {
			t.Errorf("reads are %q", got)
		}
	})
}

// Reads end with their context; nothing begins afterwards.
func TestReadsOfHistoryEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		servers := &slowServers{hanging: map[string]bool{"bad": true}, now: map[string]int{}}
		h := intake.NewHistory(servers, func(v2.ClusterKey) {}, nil, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		h.Contains(ctx, "a", git.Repo{URL: "bad"}, "c1", "base")
		h.Contains(ctx, "b", git.Repo{URL: "bad"}, "c2", "base")
		synctest.Wait()
		began := time.Now()
		cancel()
		h.Wait()
		if took := time.Since(began); took != 0 || len(servers.takeReads()) != 1 {
			t.Errorf("the end took %s", took)
		}
	})
}

// longHistory is a server with one line of commits, "1" to "9999", which sends as many as it is asked for, but not more than
// it can.
type longHistory struct {
	most  int
	reads []string
}

func (l *longHistory) History(_ context.Context, _ git.Repo, commit git.Hash, depth int) (map[git.Hash][]git.Hash, error) {
	l.reads = append(l.reads, string(commit))
	newest, err := strconv.Atoi(string(commit))
	if depth > l.most {
		return nil, errs.New(errs.TooLarge, "too many commits")
	}
	out := map[git.Hash][]git.Hash{"1": nil}
	for n := newest; n > max(1, newest-depth); n-- {
		out[git.Hash(strconv.Itoa(n))] = []git.Hash{git.Hash(strconv.Itoa(n - 1))}
	}
	return out, err
}

// answer asks until the answer is known, and returns it with the commits that were read for it.
func (l *longHistory) answer(t *testing.T, h *intake.History, commit, ancestor git.Hash) (yes bool, reads string) {
	t.Helper()
	l.reads = nil
	for range 5 {
		if yes, known := h.Contains(t.Context(), "a", git.Repo{URL: "repo"}, commit, ancestor); known {
			return yes, fmt.Sprint(l.reads)
		}
		h.Wait()
	}
	t.Errorf("nothing is known of %s and %s after the reads %v", commit, ancestor, l.reads)
	return false, ""
}

// A first read of a commit is short, and longer ones follow only while it is undecided whether it contains the other one.
func TestHistoryIsReadAsFarAsItMustBe(t *testing.T) {
	t.Parallel()
	type question struct {
		commit, ancestor git.Hash
		want             bool
		reads            string
	}
	for name, questions := range map[string][]question{
		"a commit that is near":                      {{"9000", "8990", true, "[9000]"}, {"8800", "8790", true, "[]"}},
		"the history of a later commit ends before":  {{"9000", "8990", true, "[9000]"}, {"8705", "8690", true, "[8705]"}},
		"a cluster that is behind":                   {{"8950", "9000", false, "[8950 9000]"}, {"8940", "9000", false, "[]"}},
		"a cluster that is behind one that is known": {{"9000", "8990", true, "[9000]"}, {"8800", "9000", false, "[]"}},
		"a commit of long ago":                       {{"9000", "4500", true, "[9000 4500 9000]"}, {"9001", "4500", true, "[9001]"}},
		"a commit that is too long ago":              {{"9000", "1000", false, "[9000 1000 9000]"}, {"9000", "1000", false, "[]"}},
		"a cluster that was away for a long time":    {{"2000", "9000", false, "[2000 9000 2000]"}, {"1999", "9000", false, "[]"}},
	} {
		server := &longHistory{most: 5000}
		h := intake.NewHistory(server, func(v2.ClusterKey) {}, nil, slog.New(slog.DiscardHandler))
		for _, q := range questions {
			if yes, reads := server.answer(t, h, q.commit, q.ancestor); yes != q.want || reads != q.reads {
				t.Errorf("%s: %s contains %s: %t after the reads %s, want %t after %s", name, q.commit, q.ancestor, yes, reads, q.want, q.reads)
			}
		}
	}
}

// A history that is too large is not asked for again and again.
func TestALargeHistoryIsAskedForOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := &longHistory{most: 300}
		h := intake.NewHistory(server, func(v2.ClusterKey) {}, nil, slog.New(slog.DiscardHandler))
		for _, want := range []string{"[9000 4500 9000]", "[]", "[]"} {
			if yes, reads := server.answer(t, h, "9000", "4500"); yes || reads != want {
				t.Errorf("%t after the reads %s, want %s", yes, reads, want)
			}
			time.Sleep(time.Minute) //nolint:forbidigo // of the bubble's clock
		}
	})
}

// manyRepos are servers with the same commits in each repository, as many as are asked for.
type manyRepos struct {
	line  longHistory
	reads map[string]int // by URL
	huge  map[git.Hash][]git.Hash
}

func (m *manyRepos) History(ctx context.Context, r git.Repo, commit git.Hash, depth int) (map[git.Hash][]git.Hash, error) {
	m.reads[r.URL]++
	if m.huge != nil && depth > 300 {
		return m.huge, nil
	}
	return m.line.History(ctx, r, commit, depth)
}

// The commits of all repositories together are bounded: those of repositories that were not asked about for long are read again.
func TestTheCommitsOfAllRepositoriesAreBounded(t *testing.T) {
	t.Parallel()
	servers := &manyRepos{line: longHistory{most: 5000}, reads: map[string]int{}}
	h := intake.NewHistory(servers, func(v2.ClusterKey) {}, nil, slog.New(slog.DiscardHandler))
	ask := func(url string) {
		t.Helper()
		for range 2 {
			if yes, known := h.Contains(t.Context(), "a", git.Repo{URL: url}, "9000", "8900"); known {
				if !yes {
					t.Errorf("%s: the commit is not there", url)
				}
				return
			}
			h.Wait()
		}
		t.Errorf("%s: nothing is known after a read", url)
	}
	const repos = 2000
	for i := range repos {
		ask(fmt.Sprint(i))
		ask("often")
	}
	ask(fmt.Sprint(repos - 1))
	ask("0")
	if servers.reads["often"] != 1 || servers.reads[fmt.Sprint(repos-1)] != 1 || servers.reads["0"] != 2 {
		t.Errorf("%d reads of a repository that is often asked about, %d of the last one, %d of the first one, want 1, 1, 2",
			servers.reads["often"], servers.reads[fmt.Sprint(repos-1)], servers.reads["0"])
	}
}

// A server that sends more commits than are kept is not asked again and again.
func TestMoreCommitsThanAreKeptAreReadOnce(t *testing.T) {
	t.Parallel()
	servers := &manyRepos{line: longHistory{most: 5000}, reads: map[string]int{}, huge: map[git.Hash][]git.Hash{"9000": nil}}
	for n := range 100_000 {
		servers.huge[git.Hash(strconv.Itoa(-n))] = nil
	}
	h := intake.NewHistory(servers, func(v2.ClusterKey) {}, nil, slog.New(slog.DiscardHandler))
	for range 10 {
		h.Contains(t.Context(), "a", git.Repo{URL: "large"}, "9000", "4500")
		h.Wait()
	}
	if yes, known := h.Contains(t.Context(), "a", git.Repo{URL: "large"}, "9000", "4500"); yes || !known || servers.reads["large"] != 3 {
		t.Errorf("the answer is %v, known %v, after %d reads, want 3", yes, known, servers.reads["large"])
	}
	if yes, known := h.Contains(t.Context(), "a", git.Repo{URL: "large"}, "9000", "8900"); !yes || !known {
		t.Errorf("what was known before is forgotten: %v, known %v", yes, known)
	}
}
