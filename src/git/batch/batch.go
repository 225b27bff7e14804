// Package batch puts the edits of many callers for one branch into one commit. Callers submit edits and wait. One
// goroutine per branch takes the queued jobs that may share a commit, makes one commit of them, and answers each
// caller with the commit that holds its edits. Jobs may share one if they have the same credentials and fence, edit
// different paths, and stay within the limits of size together.
//
//	Submit ─┐
//	Submit ─┼─ queue of (repository, branch) ── take ── merge ── commit ── answer all
//	Submit ─┘  urgent ones first;  at once when idle or when as    │
//	           many wait as in the last commit, else a window      ├ Conflict: read head, apply again
//	                                                               ├ Unavailable: read head; if the edits
//	                                                               │  are there, the reply was lost: done
//	                                                               └ Invalid: leave out whom it blames
//
// A single caller does not wait for others. On hosted repositories (Options.Hosted) commits are Options.HostedWindow apart,
// over all branches.
//
// Nothing is written twice: edits that a branch holds already change nothing, and then no
// commit is made.
//
// Two things stop a writer at once: a later owner of its work has written to the branch
// (ErrFenced), or the branch lost a commit that was written to it before (RewrittenError).
// Where a branch is protected, edits of jobs with Propose become a pull or merge request
// (ProposedError). Repositories that fail are left alone for a while (package cooldown).
package batch

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/cooldown"
)

// Options tune Writers. Zero values mean the defaults given here.
type Options struct {
	Window       time.Duration       // longest wait, after a commit, for those who shared it; 50 ms
	Hosted       func(git.Repo) bool // whether a provider runs a repository's server and limits requests; none
	HostedWindow time.Duration       // least time between commits on hosted repositories, which their branches share; 10 s
	Budget       git.Budget          // pays for pushes; git.Unlimited
	ProposalPoll time.Duration       // after which callers submit jobs again that wait for a proposal; 30 s
	Cooldown     cooldown.Options    // how long failing repositories are left alone
	Idle         time.Duration       // time without work after which a branch's goroutine ends; 30 s
	Deadline     time.Duration       // for one batch with all its tries; 2 minutes
	Grace        time.Duration       // how long Close waits for queued work; 10 s
	MaxBytes     int64               // distinct bytes of one commit; 16 MiB; a single larger job goes alone
	MaxPaths     int                 // changed paths of one commit; 100,000; likewise
	MaxQueue     int                 // jobs waiting or in work in all; 10,000; Submit waits for room
	Author       string              // git.DefaultAuthor
	Signer       git.Signer          // of commits; none are signed when nil
	Observe      func(Event)         // called after each batch, from the branch's goroutine; must be quick
	Log          *slog.Logger        // one line per commit; none
}

func (o Options) withDefaults() Options {
	o.Window = positive(o.Window, 50*time.Millisecond)
	o.HostedWindow = positive(o.HostedWindow, 10*time.Second)
	o.Idle = positive(o.Idle, 30*time.Second)
	o.ProposalPoll = positive(o.ProposalPoll, defaultPoll)
	o.Deadline = positive(o.Deadline, 2*time.Minute)
	o.Grace = positive(o.Grace, 10*time.Second)
	o.MaxBytes = positive(o.MaxBytes, 16<<20)
	o.MaxPaths = positive(o.MaxPaths, 100_000)
	o.MaxQueue = positive(o.MaxQueue, 10_000)
	if o.Author == "" {
		o.Author = git.DefaultAuthor
	}
	if o.Hosted == nil {
		o.Hosted = func(git.Repo) bool { return false }
	}
	if o.Budget == nil {
		o.Budget = git.Unlimited{}
	}
	if o.Observe == nil {
		o.Observe = func(Event) {}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

func positive[N int | int64 | time.Duration](n, otherwise N) N {
	if n > 0 {
		return n
	}
	return otherwise
}

// Event is the outcome of one batch, for metrics.
type Event struct {
	Repo      string // URL
	Branch    string
	Jobs      int           // callers that were answered
	Paths     int           // files and deletions in their edits
	Bytes     int64         // distinct bytes in their edits
	Committed bool          // a commit was made, or was found already made
	Conflicts int           // races that were lost on the way
	Retries   int           // tries that ended in Unavailable or Throttled on the way
	Waited    time.Duration // of the job that was queued first, until it was taken
	Took      time.Duration // from taking the jobs to the answer
	Kind      errs.Kind     // of the error; only if Failed
	Failed    bool
	Panicked  bool // it failed by a panic; only Repo, Branch and Failed are set then
	Fenced    bool // it failed because another process owns the work now
}

// Job is a change of a branch. It must not change until Submit returns, and, if the context ended
// Submit early, until its commit is done.
type Job struct {
	Repo        git.Repo
	Branch      string
	Edits       []git.Edit
	Title       string
	Trailers    []git.Trailer // a value may be a list, separated by commas; a long one ends in the number of missing values
	Exact       []git.Trailer // as Trailers, for programs that read the values: a long list is cut, without a number at its end
	Fence       Fence
	Propose     bool // where the branch is protected, propose the edits by a pull or merge request
	Urgent      bool // overtakes jobs that share no path with it
	Interactive bool // a person waits for it: shortens the cooldown of the repository

	// Base is a commit that was written to the branch before, and must be in its history;
	// empty if there is none.
	Base git.Hash

	// OnCommit is called with the commit that was made for the job, also if that is found only
	// later. It is called before the job is answered, must be quick, and may be nil.
	OnCommit func(git.Hash)

	// OnExternalEdits is called with the commits of others since Base, or since the last check of
	// the branch, before anything is written on top of them. It returns the paths whose edits must
	// be kept: jobs that edit them fail with Forbidden, alone. It is called from the branch's
	// goroutine, once for all jobs that share a commit, and again after a failed check. It may be
	// nil.
	OnExternalEdits func(ctx context.Context, commits []git.Commit) (keep []string, err error)

	// OnOwnCommits is called with commits since Base that carry a fence, and that this process did
	// not make: those that a crash left unrecorded, and those that the caller has forgotten because
	// its state was restored from a backup. It is called as OnExternalEdits is, before it. It may be
	// nil.
	OnOwnCommits func(ctx context.Context, commits []git.Commit) error

	// Derived branches are updated with the commit. The host must be a git.DerivedWriter; else the
	// job fails with Invalid.
	Derived []git.DerivedBranch
	// RemoveDerived names derived branches that lost their reader; see git.DerivedUpdate.
	RemoveDerived []string
	// OnDerived is called with the outcome for the derived branches of this job, before the job is
	// answered. It must be quick, and may be nil.
	OnDerived func(git.DerivedResult)
}

// Writers owns one goroutine for each branch with work. Make it with New; Close ends them.
type Writers struct {
	host  git.Host
	opt   Options
	slots chan struct{}
	ctx   context.Context // of the goroutines; ends Grace after Close
	stop  context.CancelFunc
	wg    sync.WaitGroup // the goroutines of queues; Close waits for them

	cooldowns *cooldown.Repos // it has a lock of its own

	mu            sync.Mutex
	closed        bool                       // guarded by mu, as all below
	queues        map[branchKey]*branchQueue // branches with a goroutine
	lanes         map[branchKey]*laneRecord  // the last outcomes of branches
	hostedWindows map[string]time.Time       // until when hosted repositories are left alone, by URL
}

// branchKey names a branch.
type branchKey struct{ url, branch string }

// New returns writers that write through host.
func New(host git.Host, o Options) *Writers {
	o = o.withDefaults()
	ctx, stop := context.WithCancel(context.Background())
	return &Writers{
		host: host, opt: o, slots: make(chan struct{}, o.MaxQueue),
		ctx: ctx, stop: stop, queues: map[branchKey]*branchQueue{}, lanes: map[branchKey]*laneRecord{}, hostedWindows: map[string]time.Time{}, cooldowns: cooldown.New(o.Cooldown),
	}
}

// Submit waits until the job's edits are on the branch and returns the commit that holds them. That
// is a commit made for this job and others, or, if the edits change nothing, a commit that an owner
// of the same shard made since Base, or else the head (empty if there is no branch and nothing to
// write).
//
// Of two queued jobs with the same path the later one wins. Jobs whose paths overlap in other ways
// get commits of their own, in order. Edits that can never be committed fail with Invalid, alone.
// Refusals of the server keep their kind. A lost race is tried again until Options.Deadline. During
// a repository's cooldown Submit returns the last error and when to come back. It returns ErrFenced
// if a later owner exists, and RewrittenError if the branch lacks Base. A job that waits for a
// proposal fails with ProposedError: submit it again. When ctx ends first, its error is returned; a
// try under way may still succeed, but is not repeated for callers who have left.
func (w *Writers) Submit(ctx context.Context, j Job) (git.Hash, error) {
	if err := errors.Join(git.CheckBranch(j.Branch), git.CheckEdits(j.Edits), git.CheckDerived(j.Branch, j.Derived), checkRemoved(j)); err != nil {
		return "", firstOf(err)
	}
	select {
	case w.slots <- struct{}{}:
	case <-ctx.Done():
		return "", ctx.Err()
	}
	r := &jobRequest{job: j, ctx: ctx, answer: make(chan jobAnswer, 1), queued: time.Now()}
	if err := w.enqueue(r); err != nil {
		<-w.slots
		return "", err
	}
	select {
	case a := <-r.answer:
		return a.commit, a.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

func firstOf(err error) error {
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		return many.Unwrap()[0]
	}
	return err
}

// enqueue adds a job to the queue of its branch, and starts the queue's goroutine if there is none.
func (w *Writers) enqueue(r *jobRequest) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return errs.E(errs.Unavailable, "write", r.job.Repo.URL, errors.New("shutting down"))
	}
	k := branchKey{url: r.job.Repo.URL, branch: r.job.Branch}
	q, ok := w.queues[k]
	if !ok {
		q = &branchQueue{owner: w, key: k, wake: make(chan struct{}, 1)}
		w.queues[k] = q
		w.wg.Go(q.run)
	}
	q.pending = append(q.pending, r)
	q.wakeUp()
	return nil
}

// Close refuses new jobs, waits at most Options.Grace for queued ones, and then for all goroutines.
func (w *Writers) Close() {
	w.mu.Lock()
	w.closed = true
	for _, q := range w.queues {
		q.wakeUp()
	}
	w.mu.Unlock()
	timer := time.AfterFunc(w.opt.Grace, w.stop)
	w.wg.Wait()
	timer.Stop()
	w.stop()
}

// Active returns how many branches have a goroutine.
func (w *Writers) Active() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.queues)
}

// CoolingDown returns how many failing repositories are left alone now.
func (w *Writers) CoolingDown() int { return w.cooldowns.Count() }
