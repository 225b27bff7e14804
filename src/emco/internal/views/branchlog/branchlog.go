// Package branchlog reads the newest commits of branches, for people. Deliveries need the budgets of Git servers,
// so it asks for a branch only once in a while, for few branches at the same time, and rarely where a provider
// limits requests. In between it answers from memory.
package branchlog

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/bytelru"
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
	atOnce      = 4 // readings at the same time
	readTime    = 20 * time.Second

	gap         = 10 * time.Second // between two readings of a branch
	hostedGap   = time.Minute      // the same, where a provider limits requests
	hostedReads = 6                // in hostedGap, of all branches together: a third of what GitHub grants, at most
)

// Options are what logs are read with.
type Options struct {
	Host   Host
	Repo   func(ctx context.Context, url, branch string) (git.Repo, error) // with a credential
	Hosted func(r git.Repo) bool                                           // its provider limits requests
	Now    func() time.Time
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
	slots   chan struct{}
	commits *bytelru.Cache[logKey, history]

	mu     sync.Mutex
	looks  map[branch]look // guarded by mu
	hosted []time.Time     // the last readings where a provider limits requests; guarded by mu
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

// look is the last look at a branch.
type look struct {
	repo   git.Repo
	head   git.Hash  // empty if it never succeeded
	at     time.Time // of head
	tried  time.Time
	err    error // of the last try
	repoAt time.Time
}

// Log is the newest commits of a branch.
type Log struct {
	At      time.Time // when the head was read
	Commits []Commit  // newest first
	Older   bool      // there are older ones
	Err     error     // why the head was not read again; nil if it was not due
}

// Commit is a commit with what its trailers say.
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
	return &Logs{Options: o, slots: make(chan struct{}, atOnce), commits: bytelru.New[logKey, history](maxBytes), looks: map[branch]look{}}
}

// Read returns the newest commits of a branch. If the server cannot be asked, it returns what it knows from
// before, with the reason; an error if it knows nothing.
func (l *Logs) Read(ctx context.Context, url, name string) (Log, error) {
	b := branch{url, name}
	known := l.look(b)
	h, there := l.commits.Get(logKey{b, known.head})
	if known.tried.IsZero() || l.Now().Sub(known.tried) >= l.gap(known.repo) || known.err == nil && !there {
		_, _, _ = l.reading.Do(url+"\x00"+name, func() (any, error) { // its outcome is in the look
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readTime)
			defer cancel()
			l.readNow(ctx, b)
			return nil, nil
		})
		known = l.look(b)
		h, there = l.commits.Get(logKey{b, known.head})
	}
	switch {
	case there:
	case known.err != nil:
		return Log{}, known.err
	default:
		return Log{}, errs.E(errs.Unavailable, "read", "log of branch "+name, errors.New("the logs of other branches took its place in memory; try again"))
	}
	return Log{At: known.at, Commits: h.commits, Older: h.older, Err: known.err}, nil
}

func (l *Logs) look(b branch) look {
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

// readNow looks at a branch and notes the outcome.
func (l *Logs) readNow(ctx context.Context, b branch) {
	next := l.look(b)
	next.tried = l.Now()
	var head git.Hash
	if head, next.err = l.readHead(ctx, b, &next); next.err == nil {
		next.head, next.at = head, next.tried
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, known := l.looks[b]; !known && len(l.looks) >= maxBranches {
		clear(l.looks)
	}
	l.looks[b] = next
}

// readHead reads where a branch is, and the commits there unless they are known.
func (l *Logs) readHead(ctx context.Context, b branch, known *look) (head git.Hash, err error) {
	select {
	case l.slots <- struct{}{}:
		defer func() { <-l.slots }()
	case <-ctx.Done():
		return "", errs.E(errs.Unavailable, "read", "log of "+b.name, ctx.Err())
	}
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
				if h.older = true; size == 0 {
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
		Carried: carried, Clusters: len(trailers.List(c, trailers.Clusters)),
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
