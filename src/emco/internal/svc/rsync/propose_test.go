package rsync

import (
	"context"
	"strings"
	"testing"
	"time"

	deliver "github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/deliver/gitwriter"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/seal"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
	"github.com/emco-orchestrator/emco/src/git/batch"
	"github.com/emco-orchestrator/emco/src/git/gittest"
	"github.com/emco-orchestrator/emco/src/git/plain"
)

// forge is a host with pull requests of one repository.
type forge struct {
	*plain.Host
	*gittest.Proposals
}

func (f *forge) Close() error { return f.Host.Close() }

// A branch is protected, and the sync object asks for pull requests: pairs wait for the
// one that there is, also those of another process, and are applied once it is merged; or
// fail when it is closed.
func TestH54PairsWaitForTheMerge(t *testing.T) {
	t.Parallel()
	w := newWorks(t, 1)
	w.must(w.git.Bare("r0").Protect(t.Context(), "main", "take a pull request"))
	text := `{"metadata":{"name":"r0"},"spec":{"kv":[{"url":"` + w.git.URL("r0") + `","userName":"emco","gitToken":"secret","gitType":"github","onProtected":"pullRequest"}]}}`
	key := store.Key("cluster-providers/edge/cluster-sync-objects/r0")
	_, err := w.db.Replace(t.Context(), store.Write{Key: key, Secret: seal.Secret(text)}, 0)
	w.must(err)
	f := &forge{Host: plain.New(plain.Options{}), Proposals: &gittest.Proposals{Bare: w.git.Bare("r0")}}
	proposing := func(deliver.Committer) deliver.Committer {
		writers := batch.New(f, batch.Options{Window: time.Millisecond, ProposalPoll: 50 * time.Millisecond})
		w.Cleanup(writers.Close)
		return writers
	}
	waiting := func(pairs map[string]appcontext.Pair) bool {
		p := pairs["edge+c0 7"]
		return p.Reason == pair.WaitingForMerge && p.Phase == appcontext.Retrying && strings.Contains(p.Error, "https://forge.example.org/pull/")
	}
	stop := w.start(w.process("one", proposing))
	w.wish("7", "green", "edge+c0")
	w.until("the proposal", waiting)
	stop()
	w.start(w.process("two", proposing))
	w.wish("7", "red", "edge+c0")
	w.until("the proposal of the second revision", func(pairs map[string]appcontext.Pair) bool {
		got, err := w.git.Bare("r0").Show(t.Context(), "emco/main", file("c0", "7"))
		return err == nil && strings.Contains(got, "red") && waiting(pairs) && pairs["edge+c0 7"].Rev == 2
	})
	if f.Count() != 1 {
		t.Errorf("%d proposals, want the one", f.Count())
	}
	w.holds("r0", "c0", "7", "")
	w.must(f.Merge(context.WithoutCancel(t.Context()), true))
	w.applied(1, 2)
	w.holds("r0", "c0", "7", "red")

	w.wish("7", "blue", "edge+c0")
	w.until("the second proposal", waiting)
	f.Proposals.Close()
	w.until("the refusal", func(pairs map[string]appcontext.Pair) bool {
		return pairs["edge+c0 7"].Reason == pair.ProposalClosed && pairs["edge+c0 7"].Phase == appcontext.Failed
	})
	if f.Count() != 2 {
		t.Errorf("%d proposals, want two", f.Count())
	}
}
