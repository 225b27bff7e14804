package rsync

import (
	"context"
	"slices"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/batch"
)

// batchTargets bounds the targets of one commit.
const batchTargets = 1000

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

func (s *gitSink) commit(ctx context.Context, due []target, found map[target]destination) []outcome {
	var failed, hopes []outcome
	d := found[due[0]]
	job := batch.Job{Repo: d.settings.Repo, Branch: d.settings.Branch}
	tags := trailers{}
	var about summary
	for _, t := range due {
		pairs := s.ledger.of(t)
		edits, refused, err := s.plan(ctx, t, found[t], pairs)
		if err != nil {
			failed = append(failed, outcomes(pairs, "", err)...)
			continue
		}
		job.Edits = append(job.Edits, edits...)
		for _, o := range outcomes(pairs, "", nil) {
			if o.err = refused[o.key.App]; o.err != nil {
				failed = append(failed, o)
			} else {
				hopes = append(hopes, o)
			}
		}
		tags.note(t, pairs)
		about.note(s.ledger.subject(t.uid), t, pairs)
	}
	if len(hopes) == 0 {
		return failed
	}
	job.Title, job.Trailers = about.title(), tags.list()
	hash, err := s.commits.Submit(ctx, job)
	for i := range hopes {
		hopes[i].commit, hopes[i].err = string(hash), err
	}
	return append(failed, hopes...)
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
