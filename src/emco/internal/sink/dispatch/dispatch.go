// Package dispatch passes each job to the writer of its kind: branches, artifacts or buckets.
package dispatch

import (
	"context"

	"github.com/emco-orchestrator/emco/src/emco/internal/syncobjects"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/batch"
)

// Writer writes deliveries.
type Writer interface {
	Submit(ctx context.Context, job batch.Job) (git.Hash, error)
}

// Writers are the writers of all kinds.
type Writers struct{ Branches, Artifacts, Buckets Writer }

// Submit passes the job to the writer of its kind and returns what was written.
func (w Writers) Submit(ctx context.Context, job batch.Job) (git.Hash, error) {
	switch job.Repo.Provider {
	case syncobjects.KindOCI:
		return w.Artifacts.Submit(ctx, job)
	case syncobjects.KindS3:
		return w.Buckets.Submit(ctx, job)
	}
	return w.Branches.Submit(ctx, job)
}
