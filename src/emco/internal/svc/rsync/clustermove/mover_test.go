package clustermove_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/contexttest"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/gitstate"
	"github.com/emco-orchestrator/emco/src/emco/internal/resource/resourcetest"
	"github.com/emco-orchestrator/emco/src/emco/internal/route"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/clustermove"
	backends "github.com/emco-orchestrator/emco/src/emco/internal/syncer/all"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncobjects"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/batch"
)

var fleet = route.Branch{URL: "https://git.example/fleet", Name: "main"}

// fakeGit keeps the jobs that it is asked to commit.
type fakeGit struct {
	clustermove.GitWriter // nil: nothing else is asked
	jobs                  []batch.Job
	errs                  []error // of the next jobs
}

func (f *fakeGit) Submit(_ context.Context, job batch.Job) (git.DerivedResult, git.Hash, error) {
	f.jobs = append(f.jobs, job)
	if len(f.errs) > 0 {
		err := f.errs[0]
		f.errs = f.errs[1:]
		return git.DerivedResult{}, "", err
	}
	return git.DerivedResult{Removed: job.RemoveDerived}, "", nil
}

// A deregistered cluster leaves a branch that it alone has read. The branch is removed,
// unless the cluster was registered again and reads it.
func TestTheBranchOfADeregisteredClusterIsRemoved(t *testing.T) {
	t.Parallel()
	own := v2.GitOps{Type: "git", Reference: "repo", RefMode: syncobjects.RefCluster}
	for name, tt := range map[string]struct {
		again   *v2.GitOps // as it is registered again
		errs    []error
		removed int // how often the removal is submitted
	}{
		"it is gone":                      {nil, nil, 1},
		"it reads the branch again":       {&own, nil, 0},
		"it reads another branch now":     {&v2.GitOps{Type: "git", Reference: "repo"}, nil, 1},
		"the Git server is away at first": {nil, []error{errors.New("away")}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db, contexts, writer := resourcetest.DB(t), contexttest.New(t), &fakeGit{errs: tt.errs}
			put := func(key store.Key, doc any, secret string) { resourcetest.Put(t, db, key, doc, secret) }
			put("cluster-providers/edge", v2.Named{}, "")
			put("cluster-providers/edge/cluster-sync-objects/repo", nil,
				`{"metadata":{"name":"repo"},"spec":{"kv":[{"url":"https://git.example/fleet"},{"branch":"main"},{"userName":"emco"},{"gitToken":"secret"}]}}`)
			if tt.again != nil {
				c := v2.Cluster{Named: v2.Named{Metadata: v2.Metadata{Name: "c1"}}}
				c.Spec.GitOps = *tt.again
				put("cluster-providers/edge/clusters/c1", c, "")
			}
			left := gitstate.LeftPlace{Type: own.Type, Reference: own.Reference, RefMode: own.RefMode}
			if err := contexts.LeaveRelocation(t.Context(), "edge+c1", "the old registration", left); err != nil {
				t.Fatal(err)
			}

			log := slog.New(slog.DiscardHandler)
			progress := clustermove.NewProgress(contexts, log)
			mover := clustermove.New(clustermove.Options{
				Shard: fleet.Shard(), Store: contexts, Routes: &route.Resolver{DB: db, Backends: backends.Backends()}, Progress: progress, Git: writer, Log: log,
			})
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{}, 2)
			go func() { progress.Run(ctx); done <- struct{}{} }()
			go func() { mover.Run(ctx); done <- struct{}{} }()
			for e := range contexts.WatchRelocations(t.Context()) {
				if e.Forgotten { // the mover is done with it
					break
				}
				if e.Synced {
					if _, err := contexts.Relocation(t.Context(), "edge+c1"); err != nil {
						break
					}
				}
			}
			cancel()
			<-done
			<-done

			if len(writer.jobs) != tt.removed {
				t.Fatalf("%d jobs, want %d: %+v", len(writer.jobs), tt.removed, writer.jobs)
			}
			for _, job := range writer.jobs {
				view := syncobjects.DefaultDerivedPrefix + "edge+c1"
				if (route.Branch{URL: job.Repo.URL, Name: job.Branch}) != fleet || len(job.Edits) > 0 || !slices.Equal(job.RemoveDerived, []string{view}) {
					t.Errorf("submitted %+v, want the removal of %s", job, view)
				}
			}
		})
	}
}
