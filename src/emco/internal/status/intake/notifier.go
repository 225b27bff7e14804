package intake

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/emco-orchestrator/emco/src/api/status"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/git"
)

// Pairs returns the pairs that a cluster must hold.
type Pairs func(ctx context.Context, cluster v2.ClusterKey) ([]Pair, error)

// Notifier turns documents into reports of pairs and delivers those that changed. It repeats an
// unchanged report every Refresh, for readers that missed it; the heartbeat of a cluster is stored
// elsewhere, once for all its pairs. Only one goroutine may use it.
type Notifier struct {
	Refresh time.Duration // how long an unchanged report is not repeated
	Pairs   Pairs
	History *History                                                           // its ready must lead to another Notify with the newest document of the cluster
	Desired func(ctx context.Context, cluster v2.ClusterKey) (git.Repo, error) // the branch that holds the cluster's desired state
	Deliver func(context.Context, appcontext.Report)
	Log     *slog.Logger

	sent map[v2.ClusterKey]map[appcontext.PairKey]sentReport // by cluster
}

// sentReport identifies the last delivered report of a pair.
type sentReport struct {
	digest [sha256.Size]byte
	at     time.Time
}

// Notify delivers the reports of a document received at the given time: first one without an
// app, which means that the cluster has an agent, and then one for each changed pair. It leaves out
// a pair whose proof History still reads: its last report stays until Notify is called again. It
// returns an error if it could not read the pairs; the caller tries again.
func (t *Notifier) Notify(ctx context.Context, r status.Report, received time.Time) error {
	pairs, err := t.Pairs(ctx, v2.ClusterKey(r.Cluster))
	if err != nil {
		return fmt.Errorf("read what %s must hold: %w", r.Cluster, err)
	}
	if t.sent == nil {
		t.sent = map[v2.ClusterKey]map[appcontext.PairKey]sentReport{}
	}
	last, introduced := t.sent[v2.ClusterKey(r.Cluster)]
	if !introduced {
		t.Deliver(ctx, appcontext.Report{Key: appcontext.PairKey{Cluster: v2.ClusterKey(r.Cluster)}, Seq: r.Seq, At: received})
	}
	reading, kept := t.index(ctx, r), make(map[appcontext.PairKey]sentReport, len(pairs))
	for _, pair := range pairs {
		was, told := last[pair.Key]
		report, known := t.buildReport(ctx, reading, pair)
		if !known {
			if told {
				kept[pair.Key] = was
			}
			continue
		}
		report.At, report.Seq = received, r.Seq
		now := sentReport{digestOf(report), received}
		if was.digest == now.digest && received.Sub(was.at) < t.Refresh {
			kept[pair.Key] = was
			continue
		}
		t.Deliver(ctx, report)
		kept[pair.Key] = now
	}
	t.sent[v2.ClusterKey(r.Cluster)] = kept
	return ctx.Err()
}

// Forget makes Notify deliver every pair of the cluster again.
func (t *Notifier) Forget(cluster v2.ClusterKey) {
	delete(t.sent, cluster)
}

// index indexes a report. The repository of its cluster is read when a pair needs it, once.
func (t *Notifier) index(ctx context.Context, r status.Report) *indexedReport {
	x := indexReport(r)
	x.desired = sync.OnceValues(func() (git.Repo, error) { return t.Desired(ctx, v2.ClusterKey(r.Cluster)) })
	return x
}

// buildReport builds the report of a pair. It is not known yet while History reads what proves unread objects.
func (t *Notifier) buildReport(ctx context.Context, r *indexedReport, pair Pair) (_ appcontext.Report, known bool) {
	if r.objectsProved, known = t.provesContent(ctx, r, pair, pair.Commit); !known {
		return appcontext.Report{}, false
	}
	if r.hooksProved, known = t.provesContent(ctx, r, pair, pair.HookCommit); !known {
		return appcontext.Report{}, false
	}
	return r.pairReport(pair), true
}

// digestOf identifies the content of a report, without its time and sequence.
func digestOf(r appcontext.Report) [sha256.Size]byte {
	text := make([]byte, 0, 1024)
	put := func(words ...string) {
		for _, w := range words { // the length comes first, so that no two lists encode alike
			text = append(binary.AppendUvarint(text, uint64(len(w))), w...)
		}
	}
	put(r.Commit, r.Proof.By, r.Proof.Holds)
	text = binary.AppendVarint(text, int64(r.Truncated))
	for _, s := range r.Resources {
		put(s.Group, s.Version, s.Kind, s.Namespace, s.Name, s.Status, s.Reason, s.Content)
		text = strconv.AppendBool(text, s.Extra)
	}
	return sha256.Sum256(text)
}

// provesContent reports whether unread objects have the desired content: the reconciler names the
// commit that it applied, and that commit contains the commit delivered, which holds the objects. If a
// third commit was proved to contain delivered before, it is enough to contain that one. The answer is
// not known while History reads the commit.
func (t *Notifier) provesContent(ctx context.Context, r *indexedReport, pair Pair, delivered string) (yes, known bool) {
	app, ok := r.app(pair.Key)
	if !ok || app.Commit == "" || delivered == "" || !anyUnread(app) {
		return false, true
	}
	desired, err := r.desired()
	if err != nil {
		t.Log.Debug("repository of a cluster not known", "cluster", r.report.Cluster, "err", err)
		return false, true
	}
	contains := func(ancestor string) (yes, known bool) {
		return t.History.Contains(ctx, v2.ClusterKey(r.report.Cluster), desired, git.Hash(app.Commit), git.Hash(ancestor))
	}
	if pair.Proof.Holds == delivered {
		if yes, known := contains(pair.Proof.By); yes || !known {
			return yes, known
		}
	}
	return contains(delivered)
}

func anyUnread(a status.App) bool {
	for _, o := range a.Objects {
		if o.Unread {
			return true
		}
	}
	return false
}
