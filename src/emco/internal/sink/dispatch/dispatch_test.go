package dispatch_test

import (
	"context"
	"testing"

	"github.com/emco-orchestrator/emco/src/emco/internal/sink/dispatch"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncobjects"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/batch"
)

// namedWriter answers with its name.
type namedWriter string

func (w namedWriter) Submit(context.Context, batch.Job) (git.Hash, error) {
	return git.Hash(w), nil
}

func TestEachKindHasItsWriter(t *testing.T) {
	t.Parallel()
	writers := dispatch.Writers{Branches: namedWriter("branches"), Artifacts: namedWriter("artifacts"), Buckets: namedWriter("buckets")}
	for kind, want := range map[string]git.Hash{"": "branches", "github": "branches", syncobjects.KindOCI: "artifacts", syncobjects.KindS3: "buckets"} {
		got, err := writers.Submit(t.Context(), batch.Job{Repo: git.Repo{Provider: kind}})
		if err != nil || got != want {
			t.Errorf("a job of kind %q goes to %s, %v, want %s", kind, got, err, want)
		}
	}
}
