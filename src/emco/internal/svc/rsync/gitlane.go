package rsync

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"log/slog"
	"slices"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/route"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/branchguard"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/content"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pairs"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/queue"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/batch"
)

const (
	batchTargets = 1000 // of one commit
	maxBlamed    = 20   // refused paths of one commit that fail alone; with more, all of it fails
)

// commits is the Git writer.
type commits interface {
	Submit(ctx context.Context, job batch.Job) (git.Hash, error)
}

// gitSink writes targets' files to a repository and branch.
type gitSink struct {
	commits  commits
	contents *content.Reader
	ledger   *pairs.Store
	ways     *content.StepPlans
	brakes   *queue.Cancellations
	record   record // nil: nothing is remembered
	branches *branchguard.Records
	inspect  func(ctx context.Context, r git.Repo, on route.Branch, commits []git.Commit) (keep []string, err error) // nil: commits of others are not looked into
	fence    batch.Fence
	log      *slog.Logger
}

// deliver plans all targets and has them committed together, in as many commits as it
// takes. It yields what came of each before the next one is planned. A target that cannot
// be planned fails alone. All targets share the lane's repository and branch.
func (s *gitSink) deliver(ctx context.Context, due []pair.Target, found map[pair.Target]route.Route) iter.Seq[[]pair.Result] {
	return func(yield func([]pair.Result) bool) {
		for part := range slices.Chunk(s.urgentFirst(due), batchTargets) {
			slices.SortFunc(part, pair.CompareTargets)
			if !yield(s.commit(ctx, part, found)) {
				return
			}
		}
	}
}

// urgentFirst puts targets of which something is taken back or away before the others. All
// go together if they fit into one commit.
func (s *gitSink) urgentFirst(due []pair.Target) []pair.Target {
	if len(due) <= batchTargets {
		return due
	}
	var first, rest []pair.Target
	for _, t := range due {
		if slices.ContainsFunc(pair.AllDeliverable(s.ledger.Of(t)), urgent) {
			first = append(first, t)
		} else {
			rest = append(rest, t)
		}
	}
	return append(first, rest...)
}

// urgent says whether a pair is on its way back, or to nothing.
func urgent(p appcontext.Pair) bool {
	return p.Desired == "" || p.Change == appcontext.RollBack
}

// share is one target's part of a commit.
type share struct {
	target pair.Target
	pairs  []appcontext.Pair
	edits  []git.Edit
	views  []git.DerivedBranch // that are to show the target's cluster
	hopes  []pair.Result       // what is true when the commit is there
}

// commit has targets committed together. When one of their deployments is stopped before
// the commit has begun, the others are planned anew.
func (s *gitSink) commit(ctx context.Context, due []pair.Target, found map[pair.Target]route.Route) []pair.Result {
	var out []pair.Result
	for len(due) > 0 && ctx.Err() == nil {
		running, release := s.brakes.WithAny(ctx, deployments(due))
		results := s.attempt(running, due, found)
		braked := running.Err() != nil && ctx.Err() == nil
		release()
		if !braked {
			return append(out, results...)
		}
		var again []appcontext.Pair
		for _, o := range results {
			if o.Err == nil {
				out = append(out, o)
			} else {
				again = append(again, appcontext.Pair{Key: o.Key})
			}
		}
		due = pair.TargetsOf(again)
	}
	return out
}

func deployments(of []pair.Target) map[string]bool {
	out := map[string]bool{}
	for _, t := range of {
		out[t.UID] = true
	}
	return out
}

func (s *gitSink) attempt(ctx context.Context, due []pair.Target, found map[pair.Target]route.Route) []pair.Result {
	var out []pair.Result
	var shares []share
	for _, t := range due {
		sh, failed := s.share(ctx, t, found[t])
		out = append(out, failed...)
		if len(sh.hopes) > 0 {
			shares = append(shares, sh)
		}
	}
	if len(shares) == 0 {
		return out
	}
	if found[due[0]].Settings.Published() {
		return append(out, s.publish(ctx, found, shares)...)
	}
	return append(out, s.land(ctx, found[due[0]], shares, maxBlamed)...)
}

// share plans one target. Outcomes of pairs that cannot be planned are handed back.
func (s *gitSink) share(ctx context.Context, t pair.Target, d route.Route) (share, []pair.Result) {
	sh := share{target: t, pairs: s.ledger.Of(t)}
	if len(pair.AllDeliverable(sh.pairs)) == 0 {
		return sh, nil
	}
	if err := pair.HeldEditOf(sh.pairs); err != nil {
		return sh, pair.Failures(sh.pairs, err)
	}
	plan, err := s.plan(ctx, t, d, sh.pairs)
	if err != nil {
		return sh, pair.Failures(sh.pairs, err)
	}
	sh.edits, sh.views = plan.edits, d.Settings.ViewOf(d.Target(t.Cluster, t.UID).Root())
	var failed []pair.Result
	for _, p := range pair.AllDeliverable(sh.pairs) {
		step, last, err := s.ways.At(ctx, p, true)
		o := pair.ResultOf(p, step, last)
		o.Apps = plan.apps
		if o.Err = cmp.Or(err, plan.refused[p.Key.App]); o.Err != nil {
			failed = append(failed, o)
		} else {
			sh.hopes = append(sh.hopes, o)
		}
	}
	return sh, failed
}

// land has the shares committed together. When the commit is refused for a path, the
// shares that own it fail and the others are tried again, at most tries times.
func (s *gitSink) land(ctx context.Context, d route.Route, shares []share, tries int) []pair.Result {
	shown, made, err := s.submit(ctx, s.job(d, shares))
	if guilty, others := blamed(err, shares); tries > 0 && len(guilty) > 0 && len(others) > 0 {
		return append(answers(guilty, git.DerivedResult{}, err), s.land(ctx, d, others, tries-1)...)
	}
	if err == nil {
		s.remember(ctx, s.landed(d, made, shares))
	}
	return answers(shares, shown, err)
}

// submit has a job committed on top of what was written to the branch before, and
// remembers the commit. It returns what Submit does, with what became of the job's views,
// and the commit that was made for the job, if there is one.
func (s *gitSink) submit(ctx context.Context, job batch.Job) (shown git.DerivedResult, made git.Hash, err error) {
	at := route.Branch{URL: job.Repo.URL, Name: job.Branch}
	base, err := s.branches.Base(ctx, at)
	if err != nil {
		return shown, "", err
	}
	landed, views := make(chan git.Hash, 1), make(chan git.DerivedResult, 1) // the writer may be done after we have left
	if s.inspect != nil {
		job.OnExternalEdits = func(ctx context.Context, commits []git.Commit) ([]string, error) {
			return s.inspect(ctx, job.Repo, at, commits)
		}
	}
	job.Fence, job.Base, job.OnCommit = s.fence, base, func(id git.Hash) { landed <- id }
	job.OnDerived = func(now git.DerivedResult) { views <- now }
	hash, err := s.commits.Submit(ctx, job)
	select {
	case made = <-landed:
		s.note(ctx, at, base, made)
	default:
	}
	select {
	case shown = <-views:
	default:
	}
	shown.Commit = hash
	return shown, made, err
}

// note remembers a commit. If that fails, the one before is remembered, which the branch
// holds as well.
func (s *gitSink) note(ctx context.Context, at route.Branch, base, commit git.Hash) {
	if base == commit {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), queue.GracePeriod)
	defer cancel()
	if err := s.branches.SetCommit(ctx, s.ledger.Fence(), at, commit); err != nil {
		s.log.Warn("a commit is not remembered; the one before is", "repo", at.URL, "branch", at.Name, "commit", commit, "err", err)
	}
}

func (s *gitSink) job(d route.Route, shares []share) batch.Job {
	job := batch.Job{Repo: d.Settings.Repo, Branch: d.Settings.Branch, Propose: d.Settings.Propose}
	tags := trailers{}
	var about summary
	for _, sh := range shares {
		job.Edits = append(job.Edits, sh.edits...)
		job.Derived = append(job.Derived, sh.views...)
		for _, p := range pair.AllDeliverable(sh.pairs) {
			job.Urgent = job.Urgent || urgent(p)
			job.Interactive = job.Interactive || p.Attempt == 0
		}
		tags.note(sh.target, sh.pairs)
		about.note(s.ledger.Subject(sh.target.UID), sh.target, sh.pairs)
	}
	job.Derived = slices.CompactFunc(job.Derived, func(a, b git.DerivedBranch) bool { return a.Branch == b.Branch }) // targets are in order of clusters
	job.Title, job.Trailers = about.title(), tags.list()
	return job
}

// blamed parts shares into those that own the path for which a commit was refused,
// and the others.
func blamed(err error, shares []share) (guilty, others []share) {
	fault, ok := errors.AsType[*git.PathError](err)
	if !ok {
		return nil, shares
	}
	owns := func(e git.Edit) bool { return git.Inside(fault.Path, e.Path) || git.Inside(e.Path, fault.Path) }
	for _, sh := range shares {
		if slices.ContainsFunc(sh.edits, owns) {
			guilty = append(guilty, sh)
		} else {
			others = append(others, sh)
		}
	}
	return guilty, others
}

// answers makes the shares' hopes true, or says why they are not. Of a cluster that reads
// a view the commit is the one that the view is at: the cluster meets it, or one that came
// after it, and never one of the branch that the view shows.
func answers(shares []share, shown git.DerivedResult, err error) (out []pair.Result) {
	for _, sh := range shares {
		commit := shown.Commit
		for _, v := range sh.views {
			commit = shown.Heads[v.Branch]
		}
		for _, o := range sh.hopes {
			o.Commit, o.Err = string(commit), err
			out = append(out, o)
		}
	}
	return out
}

// planned is what a backend makes of a target.
type planned struct {
	edits   []git.Edit
	apps    []string         // that have files, in order
	refused map[string]error // apps that the backend refuses
}

// plan asks the backend for the target's files. An app that the backend refuses is left
// as it was, and the error says why.
func (s *gitSink) plan(ctx context.Context, t pair.Target, d route.Route, pairs []appcontext.Pair) (planned, error) {
	at := s.ledger.Address(t, d)
	apps, err := s.apps(ctx, pairs, nil)
	if err != nil {
		return planned{}, err
	}
	change, err := d.Backend.Plan(at, apps)
	if err == nil {
		return planned{edits: change.Edits, apps: present(apps)}, nil
	}
	refused := map[string]error{}
	for _, a := range apps {
		if _, err := d.Backend.Plan(at, []syncer.App{a}); err != nil {
			refused[a.Name] = err
		}
	}
	if len(refused) == 0 { // no app is to blame alone
		return planned{}, err
	}
	if apps, err = s.apps(ctx, pairs, refused); err != nil {
		return planned{}, err
	}
	change, err = d.Backend.Plan(at, apps)
	return planned{edits: change.Edits, apps: present(apps), refused: refused}, err
}

// apps reads what is to be there now of each pair; those of which nothing is are left
// out. Of those that were refused what is proved to be there stays.
func (s *gitSink) apps(ctx context.Context, pairs []appcontext.Pair, refused map[string]error) ([]syncer.App, error) {
	var out []syncer.App
	for _, p := range pairs {
		app, err := s.content(ctx, p, refused[p.Key.App] != nil)
		if err != nil {
			return nil, err
		}
		if len(app.Objects)+len(app.CRDs) > 0 {
			app.Name, app.DependsOn = p.Key.App, s.ledger.Needs(p.Key)
			out = append(out, app)
		}
	}
	return out, nil
}

// content is what a cluster is to hold of a pair now: while the pair has not begun its
// way, what it held before; then what belongs to the step that it is at.
func (s *gitSink) content(ctx context.Context, p appcontext.Pair, refused bool) (syncer.App, error) {
	switch {
	case refused, !pair.Started(p) && !pair.Deliverable(p) && p.Phase != appcontext.Applied:
		return s.whole(ctx, p.Applied)
	case p.Phase == appcontext.Applied:
		return s.whole(ctx, p.Desired)
	}
	step, last, err := s.ways.At(ctx, p, true)
	if err != nil {
		return syncer.App{}, err
	}
	if last && len(step.Keep) == 0 {
		return s.whole(ctx, p.Desired)
	}
	return s.contents.AppOf(ctx, step.Set())
}

// whole returns all that is settled of a bundle; that without a digest is empty.
func (s *gitSink) whole(ctx context.Context, bundle appcontext.Digest) (syncer.App, error) {
	if bundle == "" {
		return syncer.App{}, nil
	}
	return s.contents.SettledApp(ctx, bundle)
}

// present names apps, in order.
func present(apps []syncer.App) []string {
	out := make([]string, len(apps))
	for i, a := range apps {
		out[i] = a.Name
	}
	return out
}
