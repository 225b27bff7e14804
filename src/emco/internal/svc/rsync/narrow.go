package rsync

import (
	"context"
	"maps"
	"strings"

	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/gate"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
)

// A revision mostly wants what the one before it wanted. Once a shard has carried out one
// to the last pair, of the next one it looks only at the clusters that are to hold
// something else, those that are not settled, and those that were registered, moved or
// deleted since: for all others there is nothing to do.

// obeyed is what a shard has carried out of what a head asks for.
type obeyed struct {
	key   wishKey
	whole int64 // the revision of which all pairs were written in this term; 0 if none
	mark  int64 // of what had been written to the store before it was read
}

// follows reports whether a wish can be told by what is different from the last one. Where
// pairs wait for each other, all of them are looked at.
func (d *dispatcher) follows(w pair.Desired, last obeyed) bool {
	return !w.Claim && last.whole > 0 && last.whole < w.Rev && !gate.Ordered(w.Apps) && d.ledger.Plain(w.Deployment)
}

// narrow fills in what a revision wants on the clusters that have to be looked at.
func (d *dispatcher) narrow(ctx context.Context, w *pair.Desired, last obeyed, news store.Changes) error {
	other, err := d.desk.changes(ctx, w.Head, last.whole, w.Rev)
	if err != nil {
		return err
	}
	look := d.ledger.Unsettled(w.Deployment)
	for _, c := range other {
		look[c] = true
	}
	maps.Copy(look, clustersIn(news.Keys))
	if w.Scope, err = d.mine(ctx, w.Deployment, look); err != nil {
		return err
	}
	w.Places, err = d.desk.on(ctx, w.Head, w.Rev, w.Scope)
	return err
}

// mine returns those of the clusters on which this shard has begun with a deployment, or is
// to begin.
func (d *dispatcher) mine(ctx context.Context, uid string, clusters map[string]bool) (map[string]bool, error) {
	mine, far := d.ledger.Split(uid, clusters)
	homes, err := d.desk.shards(ctx, far)
	if err != nil {
		return nil, err
	}
	var fresh []string
	for _, c := range far {
		if homes[c] == d.shard {
			fresh = append(fresh, c)
		}
	}
	err = d.begin(ctx, uid, fresh, mine)
	maps.DeleteFunc(mine, func(_ string, is bool) bool { return !is })
	return mine, err
}

// clustersIn returns the clusters whose registrations are among the keys.
func clustersIn(keys []store.Key) map[string]bool {
	out := map[string]bool{}
	for _, k := range keys {
		part := strings.Split(string(k), "/")
		if len(part) == 4 && part[0] == "cluster-providers" && part[2] == "clusters" {
			out[part[1]+"+"+part[3]] = true
		}
	}
	return out
}
