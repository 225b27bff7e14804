package rsync

import (
	"cmp"
	"context"
	"sync"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/mirror"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/gate"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
)

// elsewhere is where a shard sees what other shards have: the order of a deployment's apps
// holds across all of its clusters, whoever works on them.
type elsewhere interface {
	Snapshot(ctx context.Context, uid string) (mirror.Snapshot, error)
	Subscribe(ids ...string) *mirror.Subscription
}

// foreign is what other shards have of a deployment.
type foreign struct {
	pairs   []appcontext.Pair
	reports map[appcontext.PairKey]*mirror.Report // of all pairs; nil where there is none
}

// abroad returns a deployment's pairs in other shards. Where another shard has not taken
// in yet what is wished for, the pair is as it will be when it has: on its way.
func (l *ledger) abroad(ctx context.Context, w pair.Desired) (foreign, error) {
	out := foreign{reports: map[appcontext.PairKey]*mirror.Report{}}
	if l.elsewhere == nil {
		return out, nil
	}
	snap, err := l.elsewhere.Snapshot(ctx, cmp.Or(l.heads[w.Deployment], w.Deployment))
	if err != nil {
		return out, err
	}
	for at, e := range snap.Places {
		if e.Pair == nil || e.Pair.Shard == l.shard {
			continue
		}
		p := *e.Pair
		if bundle := w.Places[at.Cluster][at.App]; p.Desired != bundle {
			p = w.Retarget(p, bundle, l.now())
		}
		out.add(p, e.Report)
	}
	for cluster, apps := range w.Places {
		for app, bundle := range apps {
			key := appcontext.PairKey{Cluster: cluster, UID: w.Deployment, App: app}
			if _, begun := out.reports[key]; !begun {
				out.add(w.Retarget(appcontext.Pair{Key: key}, bundle, l.now()), nil)
			}
		}
	}
	return out, nil
}

func (f *foreign) add(p appcontext.Pair, r *mirror.Report) {
	f.pairs = append(f.pairs, p)
	f.reports[p.Key] = r
}

// seenFar is whether a settled pair in another shard is ready.
func seenFar(r *mirror.Report) gate.Readiness {
	switch {
	case r == nil:
		return gate.Readiness{Unreported: true}
	case r.Ready:
		return gate.Readiness{Ready: true, Since: r.Since}
	}
	return gate.Readiness{Why: "not ready"}
}

// lookouts have deployments looked at again when something of them changes in other
// shards, as long as pairs of this one wait.
type lookouts struct {
	elsewhere elsewhere
	stir      func(uid string)

	wg   sync.WaitGroup
	ends map[string]context.CancelFunc // by deployment
}

// watch looks out for these deployments, and no others, until ctx ends.
func (o *lookouts) watch(ctx context.Context, waiting map[string]bool) {
	for uid, end := range o.ends {
		if !waiting[uid] {
			end()
			delete(o.ends, uid)
		}
	}
	for uid := range waiting {
		if o.ends[uid] == nil {
			own, end := context.WithCancel(ctx)
			o.ends[uid] = end
			o.wg.Go(func() { o.one(own, uid) })
		}
	}
}

func (o *lookouts) one(ctx context.Context, uid string) {
	s := o.elsewhere.Subscribe(uid)
	defer s.Close()
	for ctx.Err() == nil {
		o.stir(uid) // also at first: something may have changed before
		select {
		case <-s.Changed():
		case <-ctx.Done():
		}
	}
}

// wait returns when all have ended; the context must have.
func (o *lookouts) wait() { o.wg.Wait() }
