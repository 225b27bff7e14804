package batch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/cooldown"
)

const (
	firstWait   = 10 * time.Millisecond  // after the first lost race; doubled each time
	longestWait = 300 * time.Millisecond // between two tries on a branch that others write, too
	outageWait  = 200 * time.Millisecond // after the first outage; doubled each time
	maxOutages  = 5                      // Unavailable in a row, before the attempt ends
	maxHalvings = 16                     // tries to find the job that a refusal without a path is about
)

// process commits jobs and answers their callers. If a commit is refused because of its content,
// the job that causes it gets the refusal, and the others are tried again.
func (q *branchQueue) process(reqs []*jobRequest) {
	ctx, cancel := context.WithTimeout(q.owner.ctx, q.owner.opt.Deadline)
	defer cancel()
	halvings := maxHalvings
	groups := [][]*jobRequest{reqs}
	for len(groups) > 0 {
		group := groups[0]
		groups = groups[1:]
		commit, err := q.commitUnlessCooling(ctx, group)
		if blamesOneJob(err) && len(group) > 1 {
			parts, named := q.splitByBlame(group, err)
			if !named {
				halvings--
			}
			if named || halvings >= 0 {
				groups = append(parts, groups...)
				continue
			}
		}
		for _, r := range group {
			q.reply(r, jobAnswer{commit: commit, err: err})
		}
	}
}

// commitUnlessCooling commits jobs, unless their repository is in a cooldown.
func (q *branchQueue) commitUnlessCooling(ctx context.Context, reqs []*jobRequest) (git.Hash, error) {
	repo, cooldowns := reqs[0].job.Repo, q.owner.cooldowns
	asked := slices.ContainsFunc(reqs, func(r *jobRequest) bool { return r.job.Interactive })
	if err := cooldowns.Check(repo, asked); err != nil {
		return "", err
	}
	commit, err := q.commitContained(ctx, reqs)
	if q.owner.ctx.Err() == nil && slices.ContainsFunc(reqs, func(r *jobRequest) bool { return r.ctx.Err() == nil }) {
		if waitsForMerge(err) {
			cooldowns.Record(repo, nil) // the repository is well
		} else {
			cooldowns.Record(repo, err)
		}
	}
	return commit, err
}

// PanicError is the error of a job whose commit panicked.
type PanicError struct{ value any }

// Error returns the text.
func (e *PanicError) Error() string {
	return fmt.Sprintf("a fault stopped the commit: %v", e.value)
}

// Panicked marks the error for callers that know no type of this package.
func (e *PanicError) Panicked() {}

// commitContained commits jobs, and turns a panic into a PanicError, so that other jobs and branches
// go on.
func (q *branchQueue) commitContained(ctx context.Context, reqs []*jobRequest) (commit git.Hash, err error) {
	defer func() {
		if v := recover(); v != nil {
			repo, branch := reqs[0].job.Repo.URL, reqs[0].job.Branch
			q.owner.opt.Log.Error("a commit panicked", "repo", repo, "branch", branch, "jobs", len(reqs), "err", fmt.Sprint(v), "stack", string(debug.Stack()))
			q.owner.opt.Observe(Event{Repo: repo, Branch: branch, Failed: true, Panicked: true})
			q.headKnown = false
			commit, err = "", &PanicError{v}
		}
	}()
	return q.commit(ctx, reqs)
}

// blamesOneJob reports whether an error may be about one job rather than all.
func blamesOneJob(err error) bool {
	if _, ok := errors.AsType[*RewrittenError](err); ok {
		return false
	}
	if _, ok := errors.AsType[*PanicError](err); ok {
		return true
	}
	return errs.Is(err, errs.Invalid) || errs.Is(err, errs.Forbidden) || errs.Is(err, errs.TooLarge)
}

// splitByBlame splits jobs after a refusal. If the error names a path, jobs with that path are
// separated from the others; a single such job is answered. Otherwise, and if all or none of the
// jobs have the path, the jobs are halved.
func (q *branchQueue) splitByBlame(reqs []*jobRequest, err error) (parts [][]*jobRequest, named bool) {
	at, ok := errors.AsType[*git.PathError](err)
	if !ok {
		return halves(reqs), false
	}
	var guilty, others []*jobRequest
	for _, r := range reqs {
		if isBlamed(r, at.Path) {
			guilty = append(guilty, r)
		} else {
			others = append(others, r)
		}
	}
	switch {
	case len(guilty) == 0 || len(others) == 0:
		return halves(reqs), false
	case len(guilty) == 1:
		q.reply(guilty[0], jobAnswer{err: err})
		return [][]*jobRequest{others}, true
	}
	return [][]*jobRequest{guilty, others}, true
}

func halves(reqs []*jobRequest) [][]*jobRequest {
	half := len(reqs) / 2
	return [][]*jobRequest{reqs[:half], reqs[half:]}
}

// isBlamed reports whether a job edits a path, or something in it or around it.
func isBlamed(r *jobRequest, path string) bool {
	for _, e := range r.job.Edits {
		if git.Inside(e.Path, path) || git.Inside(path, e.Path) {
			return true
		}
	}
	return slices.ContainsFunc(r.job.Derived, func(v git.DerivedBranch) bool { return git.Inside(v.Dir, path) })
}

// commit makes one commit of the jobs. It tries until the commit is on the branch, is refused, or
// the deadline passes.
func (q *branchQueue) commit(ctx context.Context, reqs []*jobRequest) (git.Hash, error) {
	start := time.Now()
	m := newEditSet()
	for _, r := range reqs {
		m.add(r.job.Edits)
	}
	t := &commitAttempt{
		queue: q, repo: reqs[0].job.Repo, fence: reqs[0].job.Fence, bases: basesOf(reqs),
		edits: m.inOrder(), message: joinMessages(reqs, q.owner.opt.Author), derived: derivedOf(reqs), outages: maxOutages,
		propose: reqs[0].job.Propose,
	}
	t.removeDerived, t.onExternalEdits = removedOf(reqs, t.derived), reqs[0].job.OnExternalEdits
	t.onOwnCommits = reqs[0].job.OnOwnCommits
	t.message.Guard, t.message.Signer = t.guard, q.owner.opt.Signer
	if q.owner.cooldowns.Failing(t.repo) {
		t.outages = 1
	}
	waits, release := whileWanted(ctx, reqs)
	commit, err := t.run(ctx, waits)
	release()
	e := Event{
		Repo: q.key.url, Branch: q.key.branch, Jobs: len(reqs), Paths: m.paths, Bytes: m.bytes,
		Committed: t.committed, Conflicts: t.conflicts, Retries: t.retries, Waited: waited(reqs, start), Took: time.Since(start),
		Failed: err != nil, Kind: errs.KindOf(err), Fenced: errors.Is(err, ErrFenced),
	}
	q.owner.opt.Observe(e)
	q.owner.noteLane(q.key, t.repo, t.written, err)
	if err == nil && t.written != "" {
		for _, r := range reqs {
			if r.job.OnCommit != nil {
				r.job.OnCommit(t.written)
			}
		}
	}
	if err == nil {
		t.reportDerived(ctx, reqs)
	}
	q.log(ctx, e, commit)
	return commit, err
}

// waited returns how long the first of some jobs was queued.
func waited(reqs []*jobRequest, taken time.Time) time.Duration {
	var longest time.Duration
	for _, r := range reqs {
		longest = max(longest, taken.Sub(r.queued))
	}
	return longest
}

func (q *branchQueue) log(ctx context.Context, e Event, commit git.Hash) {
	if !e.Committed {
		return
	}
	q.owner.opt.Log.LogAttrs(ctx, slog.LevelInfo, "committed",
		slog.String("repo", e.Repo), slog.String("branch", e.Branch), slog.String("commit", string(commit)),
		slog.Int("jobs", e.Jobs), slog.Int("paths", e.Paths), slog.Int("conflicts", e.Conflicts),
		slog.Duration("took", e.Took))
}

// commitAttempt is one set of edits on its way to the branch.
type commitAttempt struct {
	queue           *branchQueue
	repo            git.Repo
	fence           Fence
	bases           []git.Hash // commits that the branch must hold
	edits           []git.Edit
	message         git.Message
	derived         []git.DerivedBranch
	removeDerived   []string
	onExternalEdits func(context.Context, []git.Commit) ([]string, error)
	onOwnCommits    func(context.Context, []git.Commit) error
	reportedOwn     git.Hash // own commits up to this one were reported
	reportedHead    git.Hash // external commits up to this one were reported
	derivedResult   git.DerivedResult
	newCommits      []git.Commit // since the last check of the branch, newest first
	committed       bool
	written         git.Hash // the commit that was made or found
	headRead        bool     // the head was read in this attempt
	maybeWritten    bool     // a try ended in Unavailable: its commit may exist
	outages         int      // Unavailable so often in a row is given back
	propose         bool
	conflicts       int
	retries         int
}

// guard is called right before a push. It spends the push and checks the fence.
func (t *commitAttempt) guard(ctx context.Context) error {
	if err := t.queue.owner.opt.Budget.Spend(ctx, t.repo, git.Cost{Pushes: 1}); err != nil {
		return err
	}
	return t.fence.check(ctx)
}

// run tries until the commit is on the branch, is refused, or cannot succeed in time.
func (t *commitAttempt) run(ctx, waits context.Context) (git.Hash, error) {
	outages, throttled := 0, 0
	for {
		commit, err := t.runOnce(ctx)
		wait := time.Duration(0)
		switch {
		case err == nil:
			return commit, nil
		case errors.Is(err, ErrFenced), waitsForMerge(err):
			return "", err
		case errs.Is(err, errs.Conflict):
			outages = 0
			t.conflicts++
			wait = cooldown.Backoff(firstWait, t.conflicts, longestWait)
		case errs.Is(err, errs.Unavailable):
			t.retries++
			if outages++; outages >= t.outages {
				return "", err
			}
			wait = cooldown.Backoff(outageWait, outages, 5*time.Second)
		case errs.Is(err, errs.Throttled):
			t.retries++
			throttled++ // a server may say that now is fine, by a date of another clock
			wait = errs.RetryAfter(err) + cooldown.Backoff(firstWait, throttled, 5*time.Second)
		default:
			return "", err
		}
		if !sleep(waits, wait) {
			return "", err
		}
	}
}

// whileWanted returns a context that ends with ctx, or when all callers have left. The caller must
// call release.
func whileWanted(ctx context.Context, reqs []*jobRequest) (context.Context, func()) {
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

// runOnce reads the head if it is unknown, checks the history, and commits on top.
func (t *commitAttempt) runOnce(ctx context.Context) (git.Hash, error) {
	q := t.queue
	if !q.headKnown {
		if err := t.readHead(ctx); err != nil {
			return "", err
		}
	}
	if err := t.checkHistory(ctx); err != nil {
		q.headKnown = false
		if _, rewritten := errors.AsType[*RewrittenError](err); rewritten && !t.headRead {
			return t.runOnce(ctx) // someone may have written since the head was read
		}
		return "", err
	}
	parent := q.head
	commit, err := t.writeOrPropose(ctx, parent)
	if err != nil {
		q.headKnown = false
		t.maybeWritten = t.maybeWritten || errs.Is(err, errs.Unavailable)
		return "", err
	}
	if commit == parent && !t.headRead {
		q.headKnown = false // nothing was sent: the branch may have left parent since, and lost the edits
		return t.runOnce(ctx)
	}
	t.committed = commit != parent || t.maybeWritten
	if commit == parent {
		return t.holdingCommit(), nil
	}
	q.history.addOwn(commit, parent)
	q.head, t.written = commit, commit
	return commit, nil
}

// holdingCommit returns the commit that holds edits which change nothing: one of ours that others
// may have built on, or the head.
func (t *commitAttempt) holdingCommit() git.Hash {
	if id, ok := t.ownCommit(); ok {
		t.written = id
		return id
	}
	if t.maybeWritten {
		t.written = t.queue.head
	}
	return t.queue.head
}

// basesOf returns the bases of jobs without duplicates.
func basesOf(reqs []*jobRequest) []git.Hash {
	var bases []git.Hash
	for _, r := range reqs {
		if b := r.job.Base; b != "" && !slices.Contains(bases, b) {
			bases = append(bases, b)
		}
	}
	return bases
}

// readHead reads the head. A missing branch has an empty one: its first commit makes the branch.
func (t *commitAttempt) readHead(ctx context.Context) error {
	q := t.queue
	head, err := q.owner.host.Head(ctx, t.repo, q.key.branch)
	if err != nil && !errs.Is(err, errs.NotFound) {
		return err
	}
	q.head, q.headKnown, t.headRead = head, true, true
	return nil
}

// sleep waits. If ctx ends before that, it returns false at once.
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
