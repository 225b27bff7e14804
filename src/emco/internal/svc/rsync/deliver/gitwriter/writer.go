// Package gitwriter delivers to clusters that pull from Git: it plans the files of targets, and
// has those of one repository and branch committed together. Where a registry or a bucket
// takes the place of a repository, it publishes the files as artifacts. It also writes all
// that a moving cluster holds to its new place, clears the old one, and records which
// commits carried a revision.
package gitwriter

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/contain"
	"github.com/emco-orchestrator/emco/src/emco/internal/fairshare"
	"github.com/emco-orchestrator/emco/src/emco/internal/route"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/content"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/queue"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer"
	"github.com/emco-orchestrator/emco/src/emco/internal/tracing"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/batch"
)

const (
	maxTargets   = 1000 // of one job; git/batch may put several jobs into a commit
	maxOffending = 20   // refused paths of one commit that fail alone; with more, all of it fails
)

// Writer writes the files of targets to repositories and branches. It is safe for
// concurrent use; nothing in it changes.
type Writer struct {
	Commits       Committer
	Content       *content.Reader
	Plans         *content.StepPlans
	Pairs         Pairs
	Branches      Branches
	Cancellations *queue.Cancellations
	Weight        func(project string) int // turns of a project in large commits; nil: all have one

	// Fence is checked with each commit and each write of a branch record.
	Fence      batch.Fence
	StoreFence appcontext.Fence

	// RecordCommit stores which commits carried a revision of a head; nil: they are not stored.
	RecordCommit func(ctx context.Context, head appcontext.HeadID, rev int64, c ...appcontext.RevisionCommit) error
	// Inspect looks into commits by others before anything is written on top of them. It
	// returns the paths that must not be overwritten. Nil: nothing is looked into.
	Inspect func(ctx context.Context, r git.Repo, on route.Branch, commits []git.Commit) (keep []string, err error)

	// InspectOwn looks into commits of this shard that are not recorded. Nil: nothing is looked into.
	InspectOwn func(ctx context.Context, on route.Branch, commits []git.Commit) error

	Panics *contain.Panics
	Tracer *tracing.Tracer // nil: nothing is traced
	Log    *slog.Logger
}

// Committer commits jobs; *batch.Writers does.
type Committer interface {
	Submit(ctx context.Context, job batch.Job) (git.Hash, error)
}

// Branches is what is stored of branches.
type Branches interface {
	// Base returns the commit that a branch must contain, "" if there is none.
	Base(ctx context.Context, at route.Branch) (git.Hash, error)
	// SetCommit stores the commit that was written last.
	SetCommit(ctx context.Context, own appcontext.Fence, at route.Branch, commit git.Hash) error
}

// Pairs are the pairs of a shard, and what is known of their deployments.
type Pairs interface {
	AppendOf(to []appcontext.Pair, t pair.Target) []appcontext.Pair      // adds the pairs of a target, in order of app
	Urgent(t pair.Target) bool                                           // a pair is due to be removed or rolled back
	On(cluster v2.ClusterKey) []pair.Target                              // in order
	Document(deployment v2.DeploymentID) string                          // for people
	Head(deployment v2.DeploymentID) (id appcontext.HeadID, wanted bool) // the head that wants it; "" if that is not known
	Trace(deployment v2.DeploymentID) string                             // span of the action that asked for what is desired; "" for none
	Needs(k appcontext.PairKey) []syncer.Dependency                      // apps that an app comes after
	Address(t pair.Target, r route.Route) (at syncer.Target)             // a target as backends see it
}

// Deliver plans and commits targets, at most maxTargets in one job, and calls handle with the results of each job. While a job is
// committed, handle gets the results of the one before, and the next one is planned. Before each further job Deliver calls goOn
// with the remaining targets; if that returns false, Deliver ends. It returns the targets that it has not delivered. A target that cannot be planned fails alone. All targets are in one
// queue, so they share repository and branch.
func (w *Writer) Deliver(ctx context.Context, due []pair.Target, routes map[pair.Target]route.Route, handle func([]pair.Result), goOn func(left []pair.Target) bool) (left []pair.Target) {
	next, left := w.takeJob(ctx, w.orderForJobs(due), routes)
	defer func() {
		if next != nil { // handle panics
			next.release()
		}
	}()
	var commit sync.WaitGroup // one at a time; it ends before Deliver, also if handle panics
	defer commit.Wait()
	var results []pair.Result
	for next != nil {
		job, done := next, make(chan []pair.Result, 1)
		commit.Go(func() { done <- w.commitContained(ctx, job, routes) })
		if len(results) > 0 {
			handle(results)
		}
		next, left = w.takeJob(ctx, left, routes)
		results = <-done
		if next == nil {
			break
		}
		if all := slices.Concat(next.targets, left); ctx.Err() != nil || !goOn(all) {
			next.release()
			next, left = nil, all
		}
	}
	if len(results) > 0 {
		handle(results)
	}
	return left
}

// orderForJobs moves targets with a removal or a rollback to the front. Projects take turns, and so do
// the deployments of each, so that a small deployment is in the first job. If all fit into one job, their
// order does not matter.
func (w *Writer) orderForJobs(due []pair.Target) []pair.Target {
	if len(due) <= maxTargets {
		return due
	}
	var first, rest []pair.Target
	for _, t := range due {
		if w.Pairs.Urgent(t) {
			first = append(first, t)
		} else {
			rest = append(rest, t)
		}
	}
	return append(w.turns(first), w.turns(rest)...)
}

func (w *Writer) turns(targets []pair.Target) []pair.Target {
	deployment := func(t pair.Target) string { return string(t.Deployment) }
	project := func(t pair.Target) string { return store.Key(w.Pairs.Document(t.Deployment)).Project() }
	return fairshare.Turns(fairshare.Turns(targets, deployment, nil), project, w.Weight)
}

// contribution is one target's part of a commit. It keeps no pairs: there may be ten thousand contributions at a time.
type contribution struct {
	target   pair.Target
	about    pairsSummary
	edits    []git.Edit
	derived  []git.DerivedBranch // of the target's cluster
	expected []pair.Result       // what is true when the commit is there
}

// plannedJob is what targets contribute to one commit. It ends early if one of their deployments is stopped. Its owner must release it.
type plannedJob struct {
	targets []pair.Target
	parts   []contribution
	failed  []pair.Result // of targets, and of apps of others, that cannot be planned
	running context.Context
	release func()
}

// takeJob plans the first targets, and returns the others; nil if there are none.
func (w *Writer) takeJob(ctx context.Context, due []pair.Target, routes map[pair.Target]route.Route) (*plannedJob, []pair.Target) {
	if len(due) == 0 {
		return nil, nil
	}
	n := min(len(due), maxTargets)
	return w.planJob(ctx, due[:n:n], routes), due[n:]
}

func (w *Writer) planJob(ctx context.Context, due []pair.Target, routes map[pair.Target]route.Route) *plannedJob {
	slices.SortFunc(due, pair.CompareTargets)
	job := &plannedJob{targets: due}
	job.running, job.release = w.Cancellations.WithAny(ctx, pair.Deployments(due))
	var pairs []appcontext.Pair // of one target after the other
	for _, t := range due {
		pairs = w.Pairs.AppendOf(pairs[:0], t)
		var c contribution
		var failed []pair.Result
		if err := w.Panics.Do(contain.Rsync, t.Name(), func() error {
			c, failed = w.contribution(job.running, t, routes[t], pairs)
			return nil
		}); err != nil {
			failed = pair.Failures(pairs, err)
		}
		job.failed = append(job.failed, failed...)
		if len(c.expected) > 0 {
			job.parts = append(job.parts, c)
		}
	}
	return job
}

// commitContained commits a job, and fails all its targets if that panics.
func (w *Writer) commitContained(ctx context.Context, job *plannedJob, routes map[pair.Target]route.Route) (out []pair.Result) {
	if err := w.Panics.Do(contain.Rsync, job.targets[0].Name(), func() error {
		out = w.commit(ctx, job, routes)
		return nil
	}); err != nil {
		out = nil
		for _, t := range job.targets {
			out = append(out, pair.Failures(w.Pairs.AppendOf(nil, t), err)...)
		}
	}
	return out
}

// commit commits a job. When one of its deployments is stopped before the commit began, it plans the others again.
func (w *Writer) commit(ctx context.Context, job *plannedJob, routes map[pair.Target]route.Route) []pair.Result {
	var out []pair.Result
	for {
		results := w.send(job, routes)
		canceled := job.running.Err() != nil && ctx.Err() == nil
		job.release()
		if !canceled {
			return append(results, out...)
		}
		var again []appcontext.Pair
		for _, r := range results {
			if r.Err == nil {
				out = append(out, r)
			} else {
				again = append(again, appcontext.Pair{Key: r.Key})
			}
		}
		due := pair.TargetsOf(again)
		if len(due) == 0 || ctx.Err() != nil {
			return out
		}
		job = w.planJob(ctx, due, routes)
	}
}

// send commits or publishes the contributions of a job.
func (w *Writer) send(job *plannedJob, routes map[pair.Target]route.Route) []pair.Result {
	r := routes[job.targets[0]]
	switch {
	case len(job.parts) == 0:
		return job.failed
	case r.Settings.Published():
		return append(w.publish(job.running, routes, job.parts), job.failed...)
	}
	return append(w.land(job.running, r, job.parts, maxOffending), job.failed...)
}

// contribution plans one target with its pairs, which it does not keep. It returns the results of pairs that fail already.
func (w *Writer) contribution(ctx context.Context, t pair.Target, r route.Route, pairs []appcontext.Pair) (contribution, []pair.Result) {
	c := contribution{target: t, about: summaryOf(pairs)}
	if !slices.ContainsFunc(pairs, pair.Deliverable) {
		return c, nil
	}
	if err := pair.HeldEditOf(pairs); err != nil {
		return c, pair.Failures(pairs, err)
	}
	plan, err := w.plan(ctx, t, r, pairs)
	if err != nil {
		return c, pair.Failures(pairs, err)
	}
	c.edits, c.derived = plan.edits, derivedOf(t, r)
	c.expected = make([]pair.Result, 0, len(pairs))
	var failed []pair.Result
	for _, p := range pairs {
		if !pair.Deliverable(p) {
			continue
		}
		step, last, err := w.Plans.At(ctx, p, true)
		result := pair.ResultOf(p, step, last)
		result.Apps = plan.apps
		if result.Err = cmp.Or(err, plan.refused[p.Key.App]); result.Err != nil {
			failed = append(failed, result)
		} else {
			c.expected = append(c.expected, result)
		}
	}
	return c, failed
}

// derivedOf returns the branch that a target's cluster alone reads, if it has one.
func derivedOf(t pair.Target, r route.Route) []git.DerivedBranch {
	return r.Settings.DerivedBranches(r.Target(t.Cluster, t.Deployment).Root())
}

// land commits the contributions together. If the commit is refused because of a path, the
// contributions that own the path fail and the others are tried again, at most tries times.
func (w *Writer) land(ctx context.Context, r route.Route, parts []contribution, tries int) []pair.Result {
	spans := w.trace(ctx, parts)
	job := w.job(r, parts)
	job.Exact = spans.trailers()
	derived, made, err := w.Submit(ctx, job)
	spans.end(made, err)
	if offending, others := splitOffending(err, parts); tries > 0 && len(offending) > 0 && len(others) > 0 {
		return append(results(offending, git.DerivedResult{}, err), w.land(ctx, r, others, tries-1)...)
	}
	if err == nil && made != "" {
		log := commitLog{}
		log.add(w.Pairs, appcontext.RevisionCommit{Repository: r.Settings.Repo.URL, Branch: r.Settings.Branch, Commit: string(made)}, parts)
		w.record(ctx, log)
	}
	return results(parts, derived, err)
}

// Submit commits a job on top of what was written to its branch before, and stores the new
// commit. It returns what became of the job's derived branches, with the commit that the
// branch is at, and the commit that was made for the job, if any.
func (w *Writer) Submit(ctx context.Context, job batch.Job) (derived git.DerivedResult, made git.Hash, err error) {
	at := route.Branch{URL: job.Repo.URL, Name: job.Branch}
	base, err := w.Branches.Base(ctx, at)
	if err != nil {
		return derived, "", err
	}
	if w.Inspect != nil {
		job.OnExternalEdits = func(ctx context.Context, commits []git.Commit) ([]string, error) {
			return w.Inspect(ctx, job.Repo, at, commits)
		}
	}
	if w.InspectOwn != nil {
		job.OnOwnCommits = func(ctx context.Context, commits []git.Commit) error { return w.InspectOwn(ctx, at, commits) }
	}
	// Buffered: the job may be done after this call has returned.
	commits, derivedResults := make(chan git.Hash, 1), make(chan git.DerivedResult, 1)
	job.Fence, job.Base = w.Fence, base
	job.OnCommit = func(id git.Hash) { commits <- id }
	job.OnDerived = func(d git.DerivedResult) { derivedResults <- d }
	head, err := w.Commits.Submit(ctx, job)
	select {
	case made = <-commits:
		w.setCommit(ctx, at, base, made)
	default:
	}
	select {
	case derived = <-derivedResults:
	default:
	}
	derived.Commit = head
	return derived, made, err
}

// setCommit stores a commit of a branch. If that fails, the one before stays stored, which
// the branch contains as well.
func (w *Writer) setCommit(ctx context.Context, at route.Branch, base, commit git.Hash) {
	if base == commit {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), queue.GracePeriod)
	defer cancel()
	if err := w.Branches.SetCommit(ctx, w.StoreFence, at, commit); err != nil {
		w.Log.Warn("a commit was not stored; the one before stays", "repo", at.URL, "branch", at.Name, "commit", commit, "err", err)
	}
}

// job is the commit of contributions.
func (w *Writer) job(r route.Route, parts []contribution) batch.Job {
	job := batch.Job{Repo: r.Settings.Repo, Branch: r.Settings.Branch, Propose: r.Settings.Propose}
	trailers := trailerSet{}
	var title commitTitle
	for _, c := range parts {
		job.Edits = append(job.Edits, c.edits...)
		job.Derived = append(job.Derived, c.derived...)
		job.Urgent, job.Interactive = job.Urgent || c.about.urgent, job.Interactive || c.about.interactive
		trailers.addTarget(c.target, c.about)
		title.add(w.Pairs.Document(c.target.Deployment), c.target, c.about)
	}
	// Contributions are in order of clusters, so equal branches stand next to each other.
	job.Derived = slices.CompactFunc(job.Derived, func(a, b git.DerivedBranch) bool { return a.Branch == b.Branch })
	job.Title, job.Trailers = title.String(), trailers.list()
	return job
}

// splitOffending splits contributions into those that own the path that a commit was
// refused for, and the others.
func splitOffending(err error, parts []contribution) (offending, others []contribution) {
	fault, ok := errors.AsType[*git.PathError](err)
	if !ok {
		return nil, parts
	}
	owns := func(e git.Edit) bool { return git.Inside(fault.Path, e.Path) || git.Inside(e.Path, fault.Path) }
	for _, c := range parts {
		if slices.ContainsFunc(c.edits, owns) {
			offending = append(offending, c)
		} else {
			others = append(others, c)
		}
	}
	return offending, others
}

// results completes the expected results of contributions with the commit, or with the
// error. For a cluster that reads a derived branch the commit is the head of that branch:
// the cluster never sees commits of the branch that it is derived from.
func results(parts []contribution, derived git.DerivedResult, err error) []pair.Result {
	n := 0
	for _, c := range parts {
		n += len(c.expected)
	}
	out := make([]pair.Result, 0, n)
	for _, c := range parts {
		commit := derived.Commit
		for _, d := range c.derived {
			commit = derived.Heads[d.Branch]
		}
		for _, r := range c.expected {
			r.Commit, r.Err = string(commit), err
			out = append(out, r)
		}
	}
	return out
}
