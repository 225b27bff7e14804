package intake

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/bytelru"
	"github.com/emco-orchestrator/emco/src/emco/internal/contain"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/cooldown"
)

const (
	nearHistory  = 300              // commits that are read at first
	farHistory   = 5000             // commits that are read if these do not decide it
	maxHistory   = 100_000          // commits of one repository in memory
	maxMemory    = 128 << 20        // bytes of the commits of all repositories in memory; maxHistory commits take less than a quarter
	commitBytes  = 256              // of memory that a commit takes
	maxRepos     = 10_000           // repositories with failed reads that are remembered, besides those that clusters wait for
	maxReads     = 8                // repositories that are read at a time
	readTimeout  = 30 * time.Second // for one fetch
	missingRetry = 30 * time.Second // until a commit that could not be read is asked for again
	maxMissing   = 1000             // such commits of one repository in memory
)

// repoRest is how long a repository is left alone whose read failed, or took longer than readTimeout.
var repoRest = cooldown.Options{First: 10 * time.Second, Longest: 5 * time.Minute}

// History knows which commits contain which. It answers from memory, and reads what it does not know in the background:
// at most maxReads repositories at a time, and one commit at a time of each. Make it with NewHistory.
type History struct {
	commits git.HistoryReader
	ready   func(v2.ClusterKey)
	panics  *contain.Panics
	log     *slog.Logger
	rests   *cooldown.Repos
	reads   sync.WaitGroup // the goroutines of turn; Wait waits for them

	mu      sync.Mutex
	known   *bytelru.Cache[git.Repo, *knownCommits] // of the repositories that were asked about last; what it holds is guarded by mu
	repos   map[git.Repo]*repoReads                 // guarded by mu
	due     []*repoReads                            // guarded by mu: they wait for their turn, each once
	reading int                                     // guarded by mu: turns under way, at most maxReads
}

// knownCommits is what is known of the commits of one repository.
type knownCommits struct {
	parents map[git.Hash][]git.Hash
	read    map[git.Hash]int // commits that were read themselves, and how far back
}

// repoReads is the reads of one repository that failed, and the clusters that wait for others. History.mu guards it.
type repoReads struct {
	repo    git.Repo
	missing map[git.Hash]time.Time  // commits that could not be read, and when
	wanted  map[v2.ClusterKey]fetch // what each waiting cluster needs for its last question
	order   []v2.ClusterKey         // the keys of wanted, first in first out
	active  bool                    // it is among History.due, or has its turn
}

// fetch is a read of a commit and its ancestors.
type fetch struct {
	commit git.Hash
	depth  int // generations
}

// NewHistory returns a history that calls ready with a cluster after it has read, or failed to read, what the cluster
// waits for. Calls come from several goroutines, and may come without need.
func NewHistory(commits git.HistoryReader, ready func(v2.ClusterKey), panics *contain.Panics, log *slog.Logger) *History {
	return &History{commits: commits, ready: ready, panics: panics, log: log, rests: cooldown.New(repoRest), known: bytelru.New[git.Repo, *knownCommits](maxMemory), repos: map[git.Repo]*repoReads{}}
}

// Contains reports whether commit is ancestor or a descendant of it, at most farHistory commits later. If known is
// false, a read begins, which ends with ctx: call again when the cluster is ready. Of several questions
// that a cluster asks, only the last is pursued. A commit that could not be read contains nothing until it is tried again.
func (h *History) Contains(ctx context.Context, cluster v2.ClusterKey, r git.Repo, commit, ancestor git.Hash) (yes, known bool) {
	if commit == ancestor {
		return true, true
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.commitsLocked(r)
	found, open := c.walk(commit, ancestor)
	if found || !open {
		return found, true
	}
	if older, _ := c.walk(ancestor, commit); older {
		return false, true
	}
	one := h.repoLocked(r)
	next, due := h.nextLocked(one, commit, ancestor)
	if !due {
		return false, true
	}
	if _, waits := one.wanted[cluster]; !waits {
		one.order = append(one.order, cluster)
	}
	one.wanted[cluster] = next
	if !one.active {
		one.active = true
		h.due = append(h.due, one)
	}
	h.startLocked(ctx)
	return false, false
}

// nextLocked returns what to read next to learn whether a commit contains another one; false if no read can decide it now. It begins with
// little of both: a cluster that is behind has a commit that the other one contains.
func (h *History) nextLocked(one *repoReads, commit, ancestor git.Hash) (next fetch, due bool) {
	steps := []fetch{{commit, nearHistory}}
	if _, known := h.commitsLocked(one.repo).parents[commit]; known {
		steps = append(steps, fetch{ancestor, nearHistory}, fetch{commit, farHistory})
	}
	i := slices.IndexFunc(steps, func(f fetch) bool { return h.dueLocked(one, f) })
	if i < 0 {
		return fetch{}, false
	}
	return steps[i], true
}

// Wait waits until no read is under way. Reads end early when the context of Contains ends.
func (h *History) Wait() { h.reads.Wait() }

// commitsLocked returns what is known of the commits of a repository.
func (h *History) commitsLocked(r git.Repo) *knownCommits {
	if known, ok := h.known.Get(r); ok {
		return known
	}
	return &knownCommits{parents: map[git.Hash][]git.Hash{}, read: map[git.Hash]int{}}
}

// repoLocked returns the reads of a repository.
func (h *History) repoLocked(r git.Repo) *repoReads {
	if one := h.repos[r]; one != nil {
		return one
	}
	if len(h.repos) >= maxRepos {
		maps.DeleteFunc(h.repos, func(_ git.Repo, one *repoReads) bool { return !one.active })
	}
	one := &repoReads{repo: r, missing: map[git.Hash]time.Time{}, wanted: map[v2.ClusterKey]fetch{}}
	h.repos[r] = one
	return one
}

// dueLocked reports whether a read was not made yet, and may be made now.
func (h *History) dueLocked(one *repoReads, f fetch) bool {
	if h.commitsLocked(one.repo).read[f.commit] >= f.depth {
		return false
	}
	if failed, ok := one.missing[f.commit]; ok && time.Since(failed) < missingRetry {
		return false
	}
	return h.rests.Check(one.repo, false) == nil
}

// startLocked begins the turns of due repositories.
func (h *History) startLocked(ctx context.Context) {
	for h.reading < maxReads && len(h.due) > 0 && ctx.Err() == nil {
		one := h.due[0]
		h.due = h.due[1:]
		h.reading++
		h.reads.Go(func() { h.turn(ctx, one) })
	}
}

// turn reads what the first cluster of a repository waits for. Then it lets the next repository begin, and
// calls ready for that cluster and those after it that need no other read.
func (h *History) turn(ctx context.Context, one *repoReads) {
	h.mu.Lock()
	cluster, f := one.next()
	h.mu.Unlock()
	parents, err := h.read(ctx, one.repo, f)

	h.mu.Lock()
	h.addLocked(one, f, parents, err)
	answered := []v2.ClusterKey{cluster}
	for len(one.order) > 0 && !h.dueLocked(one, one.wanted[one.order[0]]) {
		cluster, _ := one.next()
		answered = append(answered, cluster)
	}
	h.reading--
	if one.active = len(one.order) > 0; one.active {
		h.due = append(h.due, one)
	}
	h.startLocked(ctx)
	h.mu.Unlock()
	for _, cluster := range answered {
		h.ready(cluster)
	}
}

// read makes a read. After an outage the repository rests.
func (h *History) read(ctx context.Context, r git.Repo, f fetch) (parents map[git.Hash][]git.Hash, err error) {
	limited, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	err = h.panics.Do(contain.Reports, "the history of "+r.URL, func() error {
		parents, err = h.commits.History(limited, r, f.commit, f.depth)
		return err
	})
	if ctx.Err() != nil {
		return parents, err
	}
	h.rests.Record(r, err)
	if err != nil {
		h.log.Debug("commit history not readable", "repo", r.URL, "commit", f.commit, "depth", f.depth, "err", err)
	}
	if rests := h.rests.Until(r); !rests.IsZero() {
		h.log.Warn("commit history not readable; what agents may not read counts as not applied until it is", "repo", r.URL, "again", rests, "err", err)
	}
	return parents, err
}

// next takes the first waiting cluster out, and returns what it waits for.
func (one *repoReads) next() (v2.ClusterKey, fetch) {
	cluster := one.order[0]
	f := one.wanted[cluster]
	one.order = one.order[1:]
	delete(one.wanted, cluster)
	return cluster, f
}

// addLocked records the outcome of a read. A far one that brought too much is not tried again.
func (h *History) addLocked(one *repoReads, f fetch, parents map[git.Hash][]git.Hash, err error) {
	_, there := parents[f.commit]
	tooLarge := errs.Is(err, errs.TooLarge) || len(parents) > maxHistory
	if decided := err == nil && there && !tooLarge || tooLarge && f.depth == farHistory; !decided {
		if len(one.missing) >= maxMissing {
			clear(one.missing)
		}
		one.missing[f.commit] = time.Now()
		return
	}
	known := h.commitsLocked(one.repo)
	if !tooLarge && len(known.parents)+len(parents) > maxHistory {
		known = &knownCommits{parents: map[git.Hash][]git.Hash{}, read: map[git.Hash]int{}}
	}
	if !tooLarge {
		maps.Copy(known.parents, parents)
	}
	known.read[f.commit] = f.depth
	delete(one.missing, f.commit)
	h.known.Remove(one.repo)
	h.known.Put(one.repo, known, (1+len(known.parents))*commitBytes)
}

// walk looks for ancestor behind commit, generation by generation. If it does not find it, open reports that it came to a
// commit that was not read, less than farHistory generations back.
func (c *knownCommits) walk(commit, ancestor git.Hash) (found, open bool) {
	seen := map[git.Hash]bool{commit: true}
	for generation, back := []git.Hash{commit}, 0; len(generation) > 0; back++ {
		var older []git.Hash
		for _, at := range generation {
			parents, read := c.parents[at]
			open = open || !read && back < farHistory
			for _, p := range parents {
				if p == ancestor {
					return true, false
				}
				if !seen[p] {
					seen[p] = true
					older = append(older, p)
				}
			}
		}
		generation = older
	}
	return false, open
}
