package batch

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
)

const (
	firstWait   = 10 * time.Millisecond  // after the first lost race; doubled each time
	longestWait = 300 * time.Millisecond // between two tries for a branch that others write too
	outageWait  = 200 * time.Millisecond // after the first outage; doubled each time
	maxOutages  = 5                      // Unavailable so often in a row is given back
	maxHalvings = 16                     // tries to find out whom a refusal is about that does not say
)

// settle commits the jobs and answers their callers. Where the commit is refused
// because of what is in it, whoever is to blame is answered with the refusal and
// the others are tried again.
func (l *line) settle(reqs []*request) {
	ctx, cancel := context.WithTimeout(l.owner.ctx, l.owner.opt.Deadline)
	defer cancel()
	halvings := maxHalvings
	groups := [][]*request{reqs}
	for len(groups) > 0 {
		group := groups[0]
		groups = groups[1:]
		commit, err := l.tend(ctx, group)
		if isolates(err) && len(group) > 1 {
			parts, named := l.part(group, err)
			if !named {
				halvings--
			}
			if named || halvings >= 0 {
				groups = append(parts, groups...)
				continue
			}
		}
		for _, r := range group {
			l.reply(r, answer{commit: commit, err: err})
		}
	}
}

// tend lands jobs unless their repository rests.
func (l *line) tend(ctx context.Context, reqs []*request) (git.Hash, error) {
	repo, rests := reqs[0].job.Repo, l.owner.rests
	asked := slices.ContainsFunc(reqs, func(r *request) bool { return r.job.Interactive })
	if err := rests.check(repo, asked); err != nil {
		return "", err
	}
	commit, err := l.land(ctx, reqs)
	if l.owner.ctx.Err() == nil && slices.ContainsFunc(reqs, func(r *request) bool { return r.ctx.Err() == nil }) {
		rests.learn(repo, err)
	}
	return commit, err
}

// isolates says whether an error may be about one job and not about all.
func isolates(err error) bool {
	if _, ok := errors.AsType[*RewrittenError](err); ok {
		return false
	}
	return errs.Is(err, errs.Invalid) || errs.Is(err, errs.Forbidden) || errs.Is(err, errs.TooLarge)
}

// part splits jobs after a refusal. If it names a path, those that own it are
// separated from the others; one that is alone with it is answered. If it names
// none that some but not all own, the jobs are halved.
func (l *line) part(reqs []*request, err error) (parts [][]*request, named bool) {
	at, ok := errors.AsType[*git.PathError](err)
	if !ok {
		return halves(reqs), false
	}
	var guilty, others []*request
	for _, r := range reqs {
		if owns(r, at.Path) {
			guilty = append(guilty, r)
		} else {
			others = append(others, r)
		}
	}
	switch {
	case len(guilty) == 0 || len(others) == 0:
		return halves(reqs), false
	case len(guilty) == 1:
		l.reply(guilty[0], answer{err: err})
		return [][]*request{others}, true
	}
	return [][]*request{guilty, others}, true
}

func halves(reqs []*request) [][]*request {
	half := len(reqs) / 2
	return [][]*request{reqs[:half], reqs[half:]}
}

// owns says whether a job edits a path, something in it, or something around it.
func owns(r *request, path string) bool {
	for _, e := range r.job.Edits {
		if git.Inside(e.Path, path) || git.Inside(path, e.Path) {
			return true
		}
	}
	return slices.ContainsFunc(r.job.Derived, func(v git.DerivedBranch) bool { return git.Inside(v.Dir, path) })
}

// land makes one commit of the jobs, and tries until it is on the branch, is
// refused, or the deadline is over.
func (l *line) land(ctx context.Context, reqs []*request) (git.Hash, error) {
	start := time.Now()
	m := newMerge()
	for _, r := range reqs {
		m.add(r.job.Edits)
	}
	t := &try{
		line: l, repo: reqs[0].job.Repo, fence: reqs[0].job.Fence, bases: basesOf(reqs),
		edits: m.sorted(), message: message(reqs, l.owner.opt.Author), views: viewsOf(reqs), outages: maxOutages,
		propose: reqs[0].job.Propose,
	}
	t.gone, t.foreign = goneOf(reqs, t.views), reqs[0].job.OnExternalEdits
	t.message.Guard, t.message.Signer = t.guard, l.owner.opt.Signer
	if l.owner.rests.again(t.repo) {
		t.outages = 1
	}
	waits, release := whileAwaited(ctx, reqs)
	commit, err := t.run(ctx, waits)
	release()
	e := Event{
		Repo: l.key.url, Branch: l.key.branch, Jobs: len(reqs), Paths: m.paths, Bytes: m.bytes,
		Committed: t.committed, Conflicts: t.conflicts, Retries: t.retries, Took: time.Since(start),
		Failed: err != nil, Kind: errs.KindOf(err), Fenced: errors.Is(err, ErrFenced),
	}
	l.owner.opt.Observe(e)
	if err == nil && t.landed != "" {
		for _, r := range reqs {
			if r.job.OnCommit != nil {
				r.job.OnCommit(t.landed)
			}
		}
	}
	if err == nil {
		t.show(ctx, reqs)
	}
	l.log(ctx, e, commit)
	return commit, err
}

func (l *line) log(ctx context.Context, e Event, commit git.Hash) {
	if !e.Committed {
		return
	}
	l.owner.opt.Log.LogAttrs(ctx, slog.LevelInfo, "committed",
		slog.String("repo", e.Repo), slog.String("branch", e.Branch), slog.String("commit", string(commit)),
		slog.Int("jobs", e.Jobs), slog.Int("paths", e.Paths), slog.Int("conflicts", e.Conflicts),
		slog.Duration("took", e.Took))
}

// try is one set of edits on its way to the branch.
type try struct {
	line      *line
	repo      git.Repo
	fence     Fence
	bases     []git.Hash // that the branch must hold
	edits     []git.Edit
	message   git.Message
	views     []git.DerivedBranch
	gone      []string
	foreign   func(context.Context, []git.Commit) ([]string, error)
	told      git.Hash // the head up to which commits of others were told of
	shown     git.DerivedResult
	news      []git.Commit // that came since the branch was looked at before, newest first
	committed bool
	landed    git.Hash // the commit that was made, or found
	fresh     bool     // the head was read for this try
	unsure    bool     // a try ended in Unavailable: its commit may be there
	outages   int      // Unavailable so often in a row is given back
	propose   bool
	conflicts int
	retries   int
}

// guard is asked right before a push: it takes the push out of the budget, and asks
// whether the fence stands.
func (t *try) guard(ctx context.Context) error {
	if err := t.line.owner.opt.Budget.Spend(ctx, t.repo, git.Cost{Pushes: 1}); err != nil {
		return err
	}
	return t.fence.guard(ctx)
}

// run tries until the commit is on the branch, is refused, or is not worth waiting for
// any more.
func (t *try) run(ctx, waits context.Context) (git.Hash, error) {
	outages := 0
	for {
		commit, err := t.once(ctx)
		wait := time.Duration(0)
		switch {
		case err == nil:
			return commit, nil
		case errors.Is(err, ErrFenced), waitsForMerge(err):
			return "", err
		case errs.Is(err, errs.Conflict):
			outages = 0
			t.conflicts++
			wait = backoff(firstWait, t.conflicts, longestWait)
		case errs.Is(err, errs.Unavailable):
			t.retries++
			if outages++; outages >= t.outages {
				return "", err
			}
			wait = backoff(outageWait, outages, 5*time.Second)
		case errs.Is(err, errs.Throttled):
			t.retries++
			wait = errs.RetryAfter(err) + backoff(firstWait, 1, longestWait)
		default:
			return "", err
		}
		if !sleep(waits, wait) {
			return "", err
		}
	}
}

// whileAwaited returns a context that ends with ctx, or when all callers have left. It
// has to be released.
func whileAwaited(ctx context.Context, reqs []*request) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	var here atomic.Int64
	here.Store(int64(len(reqs)))
	stops := make([]func() bool, len(reqs))
	for i, r := range reqs {
		stops[i] = context.AfterFunc(r.ctx, func() {
			if here.Add(-1) == 0 {
				cancel()
			}
		})
	}
	return ctx, func() {
		for _, stop := range stops {
			stop()
		}
		cancel()
	}
}

// once reads the head if it is not known, and commits on top of it.
func (t *try) once(ctx context.Context) (git.Hash, error) {
	l := t.line
	if !l.known {
		if err := t.readHead(ctx); err != nil {
			return "", err
		}
	}
	if err := t.look(ctx); err != nil {
		l.known = false
		if _, rewritten := errors.AsType[*RewrittenError](err); rewritten && !t.fresh {
			return t.once(ctx) // somebody else may have written since the head was read
		}
		return "", err
	}
	parent := l.head
	commit, err := t.put(ctx, parent)
	if err != nil {
		l.known = false
		t.unsure = t.unsure || errs.Is(err, errs.Unavailable)
		return "", err
	}
	if commit == parent && !t.fresh {
		l.known = false // nothing was sent: the branch may have left parent long ago, and lost the edits
		return t.once(ctx)
	}
	t.committed = commit != parent || t.unsure
	if commit == parent {
		return t.find(), nil
	}
	l.past.landed(commit, parent)
	l.head, t.landed = commit, commit
	return commit, nil
}

// find returns the commit that holds edits which change nothing: one of ours that others
// may have written on top of, or the head.
func (t *try) find() git.Hash {
	if id, ok := t.ours(); ok {
		t.landed = id
		return id
	}
	if t.unsure {
		t.landed = t.line.head
	}
	return t.line.head
}

// basesOf returns the bases of jobs, each once.
func basesOf(reqs []*request) []git.Hash {
	var bases []git.Hash
	for _, r := range reqs {
		if b := r.job.Base; b != "" && !slices.Contains(bases, b) {
			bases = append(bases, b)
		}
	}
	return bases
}

// readHead finds out where the branch is; a branch that is not there yet is made by
// its first commit.
func (t *try) readHead(ctx context.Context) error {
	l := t.line
	head, err := l.owner.host.Head(ctx, t.repo, l.key.branch)
	if err != nil && !errs.Is(err, errs.NotFound) {
		return err
	}
	l.head, l.known, t.fresh = head, true, true
	return nil
}

// backoff is a random time, of at most base doubled n-1 times.
func backoff(base time.Duration, n int, most time.Duration) time.Duration {
	limit := min(base<<min(n-1, 16), most)
	return limit/4 + rand.N(limit*3/4+1)
}

// sleep waits, and returns false, at once, if ctx ends before that.
func sleep(ctx context.Context, d time.Duration) bool {
	if end, ok := ctx.Deadline(); ok && time.Until(end) < d || ctx.Err() != nil {
		return false
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
