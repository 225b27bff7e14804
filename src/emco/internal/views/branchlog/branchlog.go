// Package branchlog reads the newest commits of branches, for people. Deliveries need the budgets of Git servers,
// so it asks for a branch only once in a while, for few branches at the same time, and rarely where a provider
// limits requests. In between it answers from memory.
package branchlog

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/bytelru"
	"github.com/emco-orchestrator/emco/src/emco/internal/contain"
	"github.com/emco-orchestrator/emco/src/emco/internal/fairshare"
	"github.com/emco-orchestrator/emco/src/emco/internal/trailers"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/batch"
)

const (
	maxCommits  = 200 // of a branch
	fewCommits  = 20  // of a branch whose commits are too large
	maxText     = 200 // characters of a title or an author
	maxBranches = 1000
	maxBytes    = 32 << 20 // of all commits in memory, about
	maxHistory  = maxBytes / 4
	atOnce      = 4  // readings at the same time
	perServer   = 2  // of them from one server: one that does not answer leaves some to the others
	maxWaiting  = 50 // branches of one server
	readTime    = 20 * time.Second

	gap         = 10 * time.Second // between the end of a reading of a branch and the next one
	hostedGap   = time.Minute      // the same, where a provider limits requests
	hostedReads = 6                // in hostedGap, of all branches together: a third of what GitHub grants, at most
)

// Options are what logs are read with.
type Options struct {
	Host   Host
	Repo   func(ctx context.Context, url, branch string) (git.Repo, error) // with a credential
	Hosted func(r git.Repo) bool                                           // its provider limits requests
	Now    func() time.Time
	Panics *contain.Panics
}

// Host reads from Git servers.
type Host interface {
	// Head returns the commit that a branch points at.
	Head(ctx context.Context, r git.Repo, branch string) (git.Hash, error)
	git.LatestReader
}

// Logs reads logs of branches. It is safe for concurrent use.
type Logs struct {
	Options
	reading singleflight.Group
	shares  *fairshare.Shares // of servers
	commits *bytelru.Cache[logKey, history]

	mu     sync.Mutex
	looks  map[branch]branchLook // guarded by mu
	hosted []time.Time           // the last readings where a provider limits requests; guarded by mu
}

type branch struct{ url, name string }

// logKey names a history, which never changes.
type logKey struct {
	branch
	head git.Hash
}

// history is the newest commits of a head.
type history struct {
	commits []Commit
	older   bool // there are older ones
}

// branchLook is the last look at a branch.
type branchLook struct {
	repo   git.Repo
	head   git.Hash  // empty if it never succeeded
	at     time.Time // of head
	tried  time.Time // when the last try ended
	err    error     // of the last try
	repoAt time.Time
}

// Log is the newest commits of a branch.
type Log struct {
	At      time.Time // when the head was read
	Commits []Commit  // newest first
	Older   bool      // there are older ones
	Err     error     // why the last try to read the head failed; nil if it did not fail
}

// Commit is a commit with its parsed trailers.
type Commit struct {
	ID            git.Hash
	When          time.Time
	Author, Title string
	Ours, Signed  bool
	Carried       []trailers.Carried
	Clusters      int
}

// New returns logs that know nothing yet.
func New(o Options) *Logs {
	return &Logs{
		Options: o,
		shares:  fairshare.New(fairshare.Options{Permits: atOnce, PerTenant: perServer}),
		commits: bytelru.New[logKey, history](maxBytes), looks: map[branch]branchLook{},
	}
}

// Read returns the newest commits of a branch. If the server cannot be asked, it returns what it knows from
// before, with the reason; an error if it knows nothing. It returns when ctx ends, and the reading goes on for other callers.
func (l *Logs) Read(ctx context.Context, url, name string) (Log, error) {
	b := branch{url, name}
	known := l.look(b)
	if l.due(known) {
		done := l.reading.DoChan(url+"\x00"+name, func() (any, error) { // its outcome is in the look
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readTime)
			defer cancel()
			l.readIfDue(ctx, b)
			return nil, nil
		})
		select {
		case <-done:
		case <-ctx.Done():
			return Log{}, errs.E(errs.Unavailable, "read", "log of branch "+name, ctx.Err())
		}
		known = l.look(b)
	}
	h, there := l.commits.Get(logKey{b, known.head})
	switch {
	case there:
	case known.err != nil:
		return Log{}, known.err
	default:
		again := max(0, l.gap(known.repo)-l.Now().Sub(known.tried))
		return Log{}, errs.E(errs.Unavailable, "read", "log of branch "+name, fmt.Errorf("the logs of other branches took its place in memory; try again in %s", again.Round(time.Second)))
	}
	return Log{At: known.at, Commits: h.commits, Older: h.older, Err: known.err}, nil
}

func (l *Logs) look(b branch) branchLook {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.looks[b]
}

func (l *Logs) gap(r git.Repo) time.Duration {
	if l.Hosted(r) {
		return hostedGap
	}
	return gap
}

// due reports whether a branch may be read again.
func (l *Logs) due(known branchLook) bool {
	return known.tried.IsZero() || l.Now().Sub(known.tried) >= l.gap(known.repo)
}

// readIfDue looks at a branch and notes the outcome, unless another caller did so just before.
func (l *Logs) readIfDue(ctx context.Context, b branch) {
	next := l.look(b)
	if !l.due(next) {
		return
	}
	begun := l.Now()
	next.err = l.Panics.Do(contain.Git, "the log of branch "+b.name, func() error {
		head, err := l.readHead(ctx, b, &next)
		if err == nil {
			next.head, next.at = head, begun
		}
		return err
	})
	next.tried = l.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, known := l.looks[b]; !known && len(l.looks) >= maxBranches {
		delete(l.looks, l.longestAgoLocked())
	}
	l.looks[b] = next
}

// longestAgoLocked returns the branch whose last try is the longest ago.
func (l *Logs) longestAgoLocked() (out branch) {
	var first time.Time
	for b, known := range l.looks {
		if first.IsZero() || known.tried.Before(first) {
			out, first = b, known.tried
		}
	}
	return out
}

// serverOf returns what identifies the server of a repository.
func serverOf(url string) string {
	a, err := git.ParseURL(url)
	if err != nil {
		return url
	}
	return net.JoinHostPort(a.Host, a.Port)
}

// readHead reads where a branch is, and the commits there unless they are known.
func (l *Logs) readHead(ctx context.Context, b branch, known *branchLook) (head git.Hash, err error) {
	server := serverOf(b.url)
	if l.shares.Waiting(server) >= maxWaiting {
		return "", errs.Throttle("read", "log of branch "+b.name, gap, fmt.Errorf("the logs of %d other branches of its server wait to be read", maxWaiting))
	}
	release, err := l.shares.Acquire(ctx, server, fairshare.Fresh)
	if err != nil {
		return "", errs.E(errs.Unavailable, "read", "log of branch "+b.name, fmt.Errorf("its server was busy with other branches: %w", err))
	}
	defer release()
	if known.repoAt.IsZero() || l.Now().Sub(known.repoAt) >= hostedGap {
		if known.repo, err = l.Repo(ctx, b.url, b.name); err != nil {
			return "", err
		}
		known.repoAt = l.Now()
	}
	if err := l.admit(known.repo); err != nil {
		return "", err
	}
	head, err = l.Host.Head(ctx, known.repo, b.name)
	if err != nil {
		return "", err
	}
	key := logKey{b, head}
	if _, there := l.commits.Get(key); there {
		return head, nil
	}
	h, size, err := l.readCommits(ctx, known.repo, head)
	if err == nil {
		l.commits.Put(key, h, size)
	}
	return head, err
}

// admit refuses readings above those that a provider has budget for.
func (l *Logs) admit(r git.Repo) error {
	if !l.Hosted(r) {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.Now()
	for len(l.hosted) > 0 && now.Sub(l.hosted[0]) >= hostedGap {
		l.hosted = l.hosted[1:]
	}
	if len(l.hosted) >= hostedReads {
		return errs.Throttle("read", "the log of a branch of "+r.URL, hostedGap-now.Sub(l.hosted[0]), errors.New("logs of other branches were read within the last minute, and deliveries need the rest of the budget"))
	}
	l.hosted = append(l.hosted, now)
	return nil
}

// readCommits reads the newest commits of a head, and returns about how many bytes they take.
func (l *Logs) readCommits(ctx context.Context, r git.Repo, head git.Hash) (h history, size int, err error) {
	for _, n := range []int{maxCommits, fewCommits} {
		var found []git.Commit
		found, err = l.Host.Latest(ctx, r, head, n)
		if errs.Is(err, errs.TooLarge) {
			continue
		}
		if err != nil {
			return h, 0, err
		}
		ids := map[v2.DeploymentID]v2.DeploymentID{}
		for _, c := range found {
			one := commitOf(c, ids)
			more := 200 + len(one.Author) + len(one.Title) + 40*len(one.Carried)
			if size+more > maxHistory {
				h.older = true
				if size == 0 {
					return h, 0, errs.E(errs.TooLarge, "read", "commit "+string(c.ID), errors.New("it names more deployments than can be shown"))
				}
				break
			}
			h.commits, size = append(h.commits, one), size+more
		}
		h.older = h.older || len(found) == n && len(found[n-1].Parents) > 0
		return h, size, nil
	}
	return h, 0, err
}

// commitOf returns what is kept of a commit, without parts of its message, which may be long. ids has a copy of each
// deployment's id.
func commitOf(c git.Commit, ids map[v2.DeploymentID]v2.DeploymentID) Commit {
	carried := trailers.Of(c)
	for i, one := range carried {
		if _, known := ids[one.Deployment]; !known {
			id := v2.DeploymentID(strings.Clone(string(one.Deployment)))
			ids[id] = id
		}
		carried[i].Deployment = ids[one.Deployment]
	}
	title, _, _ := strings.Cut(c.Message, "\n")
	return Commit{
		ID: c.ID, When: c.When, Author: cut(c.Author), Title: cut(title), Signed: c.Signed,
		Ours:    c.Trailer(batch.FenceTrailer) != "" || c.Trailer(git.SourceTrailer) != "",
		Carried: carried, Clusters: trailers.Count(c, trailers.Clusters),
	}
}

// cut returns the beginning of a text that others have written, as a text of its own.
func cut(text string) string {
	runes := []rune(strings.ToValidUTF8(text, "\ufffd"))
	if len(runes) > maxText {
		runes = append(runes[:maxText-1], '…')
	}
	return string(runes)
}
