package gitstatus

import (
	"context"
	"encoding/json"

	"github.com/emco-orchestrator/emco/src/api/status"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/git"
)

// handOn delivers what a report says of each pair. A pair of which it says nothing new
// is delivered now and then only: each delivery is written down, and most reports of a
// fleet say that all is as it was.
func (p *poller) handOn(ctx context.Context, r status.Report, pairs []Pair, rec *record) error {
	reading := read(r)
	if !rec.introduced {
		p.deliver(ctx, appcontext.Report{Key: appcontext.PairKey{Cluster: r.Cluster}, Seq: r.Seq, At: rec.at})
		rec.introduced = true
	}
	kept := make(map[appcontext.PairKey]told, len(pairs))
	for _, pair := range pairs {
		reading.vouched = p.vouched(ctx, r, pair, pair.Commit)
		reading.vouchedHooks = p.vouched(ctx, r, pair, pair.HookCommit)
		report := reading.of(pair)
		report.At, report.Seq = rec.at, r.Seq
		now := told{digestOf(report), rec.at}
		if last := rec.told[pair.Key]; last.digest == now.digest && rec.at.Sub(last.at) < p.s.options.Refresh {
			kept[pair.Key] = last
			continue
		}
		p.deliver(ctx, report)
		kept[pair.Key] = now
	}
	rec.told = kept
	return ctx.Err()
}

// digestOf identifies what a report says, whenever it says so.
func digestOf(r appcontext.Report) manifest.Digest {
	text, err := json.Marshal(struct {
		Resources []appcontext.ResourceStatus
		Truncated int
		Commit    string
	}{r.Resources, r.Truncated, r.Commit})
	if err != nil {
		return "" // of plain strings and numbers; it does not happen
	}
	return manifest.DigestOf(text)
}

// vouched says whether objects that the agent may not read have the content that is
// desired: the reconciler says which commit it applied, and that one holds it.
func (p *poller) vouched(ctx context.Context, r status.Report, pair Pair, holds string) bool {
	app, ok := appOf(r, pair.Key)
	if !ok || app.Commit == "" || holds == "" || app.Error != "" || !anyUnread(app) {
		return false
	}
	desired := p.present()[r.Cluster].Desired
	yes, err := p.history.contains(ctx, p.s.git, desired, git.Hash(app.Commit), git.Hash(holds))
	if err != nil {
		p.s.options.Log.Debug("the history of a commit cannot be read", "cluster", r.Cluster, "commit", app.Commit, "err", err)
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
