package rsync

import (
	"context"
	"errors"
	"slices"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
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
	contents *contents
	ledger   *ledger
}

// deliver plans all targets and has them committed together. A target that cannot
// be planned fails alone. All targets share the lane's repository and branch.
func (s *gitSink) deliver(ctx context.Context, due []target, found map[target]destination) []outcome {
	var out []outcome
	for part := range slices.Chunk(due, batchTargets) {
		out = append(out, s.commit(ctx, part, found)...)
	}
	return out
}

// share is one target's part of a commit.
type share struct {
	target target
	pairs  []appcontext.Pair
	edits  []git.Edit
	hopes  []outcome // what is true when the commit is there
}

func (s *gitSink) commit(ctx context.Context, due []target, found map[target]destination) []outcome {
	var out []outcome
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
	return append(out, s.land(ctx, found[due[0]], shares, maxBlamed)...)
}

// share plans one target. Outcomes of pairs that cannot be planned are handed back.
func (s *gitSink) share(ctx context.Context, t target, d destination) (share, []outcome) {
	sh := share{target: t, pairs: s.ledger.of(t)}
	edits, refused, err := s.plan(ctx, t, d, sh.pairs)
	if err != nil {
		return sh, outcomes(sh.pairs, "", err)
	}
	sh.edits = edits
	var failed []outcome
	for _, o := range outcomes(sh.pairs, "", nil) {
		if o.err = refused[o.key.App]; o.err != nil {
			failed = append(failed, o)
		} else {
			sh.hopes = append(sh.hopes, o)
		}
	}
	return sh, failed
}

// land has the shares committed together. When the commit is refused for a path, the
// shares that own it fail and the others are tried again, at most tries times.
func (s *gitSink) land(ctx context.Context, d destination, shares []share, tries int) []outcome {
	hash, err := s.commits.Submit(ctx, s.job(d, shares))
	if guilty, others := blamed(err, shares); tries > 0 && len(guilty) > 0 && len(others) > 0 {
		return append(answers(guilty, "", err), s.land(ctx, d, others, tries-1)...)
	}
	return answers(shares, string(hash), err)
}

func (s *gitSink) job(d destination, shares []share) batch.Job {
	job := batch.Job{Repo: d.settings.Repo, Branch: d.settings.Branch}
	tags := trailers{}
	var about summary
	for _, sh := range shares {
		job.Edits = append(job.Edits, sh.edits...)
		tags.note(sh.target, sh.pairs)
		about.note(s.ledger.subject(sh.target.uid), sh.target, sh.pairs)
	}
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

// answers makes the shares' hopes true, or says why they are not.
func answers(shares []share, commit string, err error) (out []outcome) {
	for _, sh := range shares {
		for _, o := range sh.hopes {
			o.commit, o.err = commit, err
			out = append(out, o)
		}
	}
	return out
}

// plan asks the backend for the target's files. An app that the backend refuses is left
// as it was, and the error says why.
func (s *gitSink) plan(ctx context.Context, t target, d destination, pairs []appcontext.Pair) ([]git.Edit, map[string]error, error) {
	at := syncer.Target{
		Cluster: t.cluster, Deployment: t.uid,
		Repo: syncer.Coordinates{URL: d.settings.ReadURL(), Branch: d.settings.Branch},
	}
	apps, err := s.apps(ctx, pairs, func(p appcontext.Pair) appcontext.Digest { return p.Desired })
	if err != nil {
		return nil, nil, err
	}
	change, err := d.backend.Plan(at, apps)
	if err == nil {
		return change.Edits, nil, nil
	}
	refused := map[string]error{}
	for _, a := range apps {
		if _, err := d.backend.Plan(at, []syncer.App{a}); err != nil {
			refused[a.Name] = err
		}
	}
	if len(refused) == 0 { // no app is to blame alone
		return nil, nil, err
	}
	apps, err = s.apps(ctx, pairs, func(p appcontext.Pair) appcontext.Digest {
		if refused[p.Key.App] != nil {
			return p.Applied
		}
		return p.Desired
	})
	if err != nil {
		return nil, nil, err
	}
	change, err = d.backend.Plan(at, apps)
	return change.Edits, refused, err
}

// apps reads the bundle that is chosen of each pair; those without one are left out.
func (s *gitSink) apps(ctx context.Context, pairs []appcontext.Pair, choose func(appcontext.Pair) appcontext.Digest) ([]syncer.App, error) {
	var out []syncer.App
	for _, p := range pairs {
		bundle := choose(p)
		if bundle == "" {
			continue
		}
		app, err := s.contents.app(ctx, bundle)
		if err != nil {
			return nil, err
		}
		app.Name = p.Key.App
		out = append(out, app)
	}
	return out, nil
}

// outcomes makes one outcome of each pair that is not settled.
func outcomes(pairs []appcontext.Pair, commit string, err error) []outcome {
	var out []outcome
	for _, p := range unsettled(pairs) {
		out = append(out, outcome{key: p.Key, bundle: p.Desired, commit: commit, err: err})
	}
	return out
}
