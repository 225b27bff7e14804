package intake

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/emco-orchestrator/emco/src/api/status"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/git"
)

// Pairs says what a cluster is to hold.
type Pairs func(ctx context.Context, cluster string) ([]Pair, error)

// Teller hands on what reports say of each pair. A pair of which a report says nothing new
// is told of now and then only, for those who missed it; that its cluster lives is written
// down elsewhere, once for all of them. It belongs to one goroutine.
type Teller struct {
	Refresh time.Duration // what is no news is told again after so long
	Pairs   Pairs
	Commits git.HistoryReader
	Desired func(ctx context.Context, cluster string) (git.Repo, error) // where what the cluster is to hold is written
	Deliver func(context.Context, appcontext.Report)
	Log     *slog.Logger

	history history
	told    map[string]map[appcontext.PairKey]told // by cluster
}

// told is what was last handed on of a pair.
type told struct {
	digest [sha256.Size]byte
	at     time.Time
}

// Tell delivers what a report says, received at some time: first that the cluster has an
// agent, by a report that names no app, and then one report for each pair. The error says
// that it could not be done now.
func (t *Teller) Tell(ctx context.Context, r status.Report, received time.Time) error {
	pairs, err := t.Pairs(ctx, r.Cluster)
	if err != nil {
		return fmt.Errorf("what %s is to hold: %w", r.Cluster, err)
	}
	if t.told == nil {
		t.told = map[string]map[appcontext.PairKey]told{}
	}
	last, introduced := t.told[r.Cluster]
	if !introduced {
		t.Deliver(ctx, appcontext.Report{Key: appcontext.PairKey{Cluster: r.Cluster}, Seq: r.Seq, At: received})
	}
	reading, kept := read(r), make(map[appcontext.PairKey]told, len(pairs))
	for _, pair := range pairs {
		report := t.reportOf(ctx, reading, pair)
		report.At, report.Seq = received, r.Seq
		now := told{digestOf(report), received}
		if was := last[pair.Key]; was.digest == now.digest && received.Sub(was.at) < t.Refresh {
			kept[pair.Key] = was
			continue
		}
		t.Deliver(ctx, report)
		kept[pair.Key] = now
	}
	t.told[r.Cluster] = kept
	return ctx.Err()
}

// Forget makes the next report of a cluster be told as if it were the first.
func (t *Teller) Forget(cluster string) { delete(t.told, cluster) }

func (t *Teller) reportOf(ctx context.Context, r *reading, pair Pair) appcontext.Report {
	r.vouched = t.vouched(ctx, r.report, pair, pair.Commit)
	r.vouchedHooks = t.vouched(ctx, r.report, pair, pair.HookCommit)
	return r.of(pair)
}

// digestOf identifies what a report says, whenever it says so.
func digestOf(r appcontext.Report) [sha256.Size]byte {
	text := make([]byte, 0, 1024)
	put := func(words ...string) {
		for _, w := range words { // after its length, so that no two lists look alike
			text = append(binary.AppendUvarint(text, uint64(len(w))), w...)
		}
	}
	put(r.Commit)
	text = binary.AppendVarint(text, int64(r.Truncated))
	for _, s := range r.Resources {
		put(s.Group, s.Version, s.Kind, s.Namespace, s.Name, s.Status, s.Reason, s.Content)
		text = strconv.AppendBool(text, s.Extra)
	}
	return sha256.Sum256(text)
}

// vouched says whether objects that the agent may not read have the content that is
// desired: the reconciler says which commit it applied, and that one holds it.
func (t *Teller) vouched(ctx context.Context, r status.Report, pair Pair, holds string) bool {
	app, ok := appOf(r, pair.Key)
	if !ok || app.Commit == "" || holds == "" || !anyUnread(app) {
		return false
	}
	desired, err := t.Desired(ctx, r.Cluster)
	yes := false
	if err == nil {
		yes, err = t.history.contains(ctx, t.Commits, desired, git.Hash(app.Commit), git.Hash(holds))
	}
	if err != nil {
		t.Log.Debug("the history of a commit cannot be read", "cluster", r.Cluster, "commit", app.Commit, "err", err)
	}
	return yes
}

func appOf(r status.Report, key appcontext.PairKey) (status.App, bool) {
	_, label := manifest.DeploymentLabel(key.UID, key.App)
	for _, a := range r.Apps {
		if a.Label == label {
			return a, true
		}
	}
	return status.App{}, false
}

func anyUnread(a status.App) bool {
	for _, o := range a.Objects {
		if o.Unread {
			return true
		}
	}
	return false
}
