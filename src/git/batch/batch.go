// Package batch is the only writer of Git branches. Callers hand over what paths
// hold from now on and wait; for each branch one goroutine takes all that is
// queued, makes one commit of it, and tells every caller which commit holds its
// edits.
//
//	Submit ─┐
//	Submit ─┼─ queue of (repository, branch) ── take ── merge ── commit ── answer all
//	Submit ─┘  urgent ones first;  at once when idle or when all   │
//	           are back who shared the last commit, else a window  ├ Conflict: read head, apply again
//	                                                               ├ Unavailable: read head; if the edits
//	                                                               │  are there, the reply was lost: done
//	                                                               └ Invalid: leave out whom it blames
//
// Nothing is written twice: applying the same edits to a branch that holds them
// changes nothing, and then no commit is made.
//
// Two things stop a writer instead of having it try again: a later owner of its work has
// written to the branch (ErrFenced), and the branch does not hold any more what was
// written to it before (RewrittenError). Where a branch is protected, and a job says so, its
// edits are proposed (ProposedError). Repositories that are out of order rest.
package batch

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
)

// Options tune Writers. Zero values mean the defaults given here.
type Options struct {
	Window       time.Duration       // longest wait, after a commit, for those who shared it; 50 ms
	Hosted       func(git.Repo) bool // whether others run a repository's server, and limit what is asked of it; none is
	HostedWindow time.Duration       // least time between commits on hosted repositories, which their branches share; 10 s
	Budget       git.Budget          // of which pushes are spent; git.Free
	ProposalPoll time.Duration       // after which jobs that wait for a proposal are to be handed over again; 30 s
	Cooldown     Cooldown            // how long repositories are left alone that are out of order
	Idle         time.Duration       // a branch without work for so long loses its goroutine; 30 s
	Deadline     time.Duration       // how long one batch is tried; 2 minutes
	Grace        time.Duration       // how long Close lets queued work go on; 10 s
	MaxBytes     int64               // distinct bytes of one commit; 16 MiB; a single larger job goes alone
	MaxPaths     int                 // changed paths of one commit; 100,000; likewise
	MaxQueue     int                 // jobs waiting or in work in all; 10,000; Submit waits for room
	Author       string              // git.DefaultAuthor
	Signer       git.Signer          // of commits; none are signed when nil
	Observe      func(Event)         // told of each batch, from the branch's goroutine; must be quick
	Log          *slog.Logger        // one line per commit; none
}

func (o Options) withDefaults() Options {
	o.Window = positive(o.Window, 50*time.Millisecond)
	o.HostedWindow = positive(o.HostedWindow, 10*time.Second)
	o.Idle = positive(o.Idle, 30*time.Second)
	o.ProposalPoll = positive(o.ProposalPoll, defaultPoll)
	o.Cooldown = o.Cooldown.withDefaults()
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

// Event tells what became of one batch, for metrics.
type Event struct {
	Repo      string // URL
	Branch    string
	Jobs      int           // callers that were answered
	Paths     int           // files and deletions that they handed over
	Bytes     int64         // distinct bytes that they handed over
	Committed bool          // a commit was made, or found to be made already
	Conflicts int           // races that were lost on the way
	Retries   int           // tries that ended in Unavailable or Throttled on the way
	Took      time.Duration // from taking the jobs to the answer
	Kind      errs.Kind     // of the error; only if Failed
	Failed    bool
	Fenced    bool // it failed because another process has taken over the work
}

// Job is what one caller wants of a branch. Nothing in it may change until Submit
// returns, and not before its commit is done if the context ended Submit early.
type Job struct {
	Repo        git.Repo
	Branch      string
	Edits       []git.Edit
	Title       string
	Trailers    []git.Trailer // a value may be a list, separated by commas
	Fence       Fence
	Propose     bool // where the branch is protected, a pull or merge request is to bring the edits there
	Urgent      bool // goes before others, but for those whose paths it shares
	Interactive bool // somebody waits for it: a repository that rests is tried for it, if it has rested for a moment

	// Base is a commit that was written to the branch before, and must be in its history;
	// empty if there is none.
	Base git.Hash

	// Landed is told of the commit that was made for the job, also if that is found only
	// afterwards. It is called before the job is answered, and must be quick. It may be nil.
	OnCommit func(git.Hash)

	// Foreign is told of commits that others have made since Base, or since the branch was
	// looked at last, before anything is written on top of them. It returns the paths that
	// are to be left as they are: jobs that edit them fail with Forbidden, alone. It is called
	// from the branch's goroutine, for all jobs that share a commit. It may be nil.
	OnExternalEdits func(ctx context.Context, commits []git.Commit) (keep []string, err error)

	// Views are to show what the branch holds when the job is done. The host must be a
	// git.Viewer; else the job fails with Invalid.
	Derived []git.DerivedBranch
	// Gone are branches of views that nobody reads any more, and that are to be removed: see
	// git.Showing.
	RemoveDerived []string
	// Shown is told what became of the job's views, and of no others, before the job is
	// answered. It must be quick, and may be nil.
	OnDerived func(git.DerivedResult)
}

// Writers owns one goroutine for each branch that has work. Make it with New.
type Writers struct {
	host  git.Host
	opt   Options
	slots chan struct{}
	ctx   context.Context // of the goroutines; ends Grace after Close
	stop  context.CancelFunc

	mu            sync.Mutex
	closed        bool
	queues        map[branchKey]*branchQueue
	hostedWindows map[string]time.Time // until when hosted repositories are left alone, by URL
	cooldowns     *outages
	wg            sync.WaitGroup
}

// branchKey names a branch.
type branchKey struct{ url, branch string }

// New returns writers that write through host.
func New(host git.Host, o Options) *Writers {
	o = o.withDefaults()
	ctx, stop := context.WithCancel(context.Background())
	return &Writers{
		host: host, opt: o, slots: make(chan struct{}, o.MaxQueue),
		ctx: ctx, stop: stop, queues: map[branchKey]*branchQueue{}, hostedWindows: map[string]time.Time{}, cooldowns: newOutages(o.Cooldown),
	}
}

// Submit waits until the job's edits are on the branch and returns the commit that
// holds them: one that was made for it and for what else was queued, or if the edits
// change nothing, one that an owner of the same shard made since Base, or else the head
// (empty if there is no branch and nothing to write).
//
// Of two jobs that are queued with the same path the one submitted later wins; jobs
// whose paths overlap otherwise get commits of their own, in order. Edits that can
// never be committed fail with Invalid, alone. A server that refuses is reported
// with its own kind; a race that is lost is tried again until Options.Deadline. While a
// repository rests its error is that of the try before, and says when to come back.
// ErrFenced if the fence has fallen, RewrittenError if the branch does not hold Base.
// A job that was proposed, and waits to be merged, fails with ProposedError: hand it over again.
// When ctx ends first its error is returned; a try that is under way may still succeed,
// but nothing is tried again for callers who have left.
func (w *Writers) Submit(ctx context.Context, j Job) (git.Hash, error) {
	if err := errors.Join(git.CheckBranch(j.Branch), git.CheckEdits(j.Edits), git.CheckDerived(j.Branch, j.Derived), checkRemoved(j)); err != nil {
		return "", firstOf(err)
	}
	select {
	case w.slots <- struct{}{}:
	case <-ctx.Done():
		return "", ctx.Err()
	}
	r := &jobRequest{job: j, ctx: ctx, answer: make(chan jobAnswer, 1)}
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

// enqueue puts a request into its branch's line, and starts the line if need be.
func (w *Writers) enqueue(r *jobRequest) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return errs.E(errs.Unavailable, "write", r.job.Repo.URL, errors.New("shutting down"))
	}
	k := branchKey{url: r.job.Repo.URL, branch: r.job.Branch}
	l, ok := w.queues[k]
	if !ok {
		l = &branchQueue{owner: w, key: k, wake: make(chan struct{}, 1)}
		w.queues[k] = l
		w.wg.Go(l.run)
	}
	l.queue = append(l.queue, r)
	l.wakeUp()
	return nil
}

// Close refuses new jobs, lets those that are queued end, at most for
// Options.Grace, and waits for all goroutines.
func (w *Writers) Close() {
	w.mu.Lock()
	w.closed = true
	for _, l := range w.queues {
		l.wakeUp()
	}
	w.mu.Unlock()
	timer := time.AfterFunc(w.opt.Grace, w.stop)
	w.wg.Wait()
	timer.Stop()
	w.stop()
}

// Active returns how many branches have a goroutine now.
func (w *Writers) Active() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.queues)
}

// CoolingDown returns how many repositories are left alone now because they are out of order.
func (w *Writers) CoolingDown() int { return w.cooldowns.count(time.Now()) }
