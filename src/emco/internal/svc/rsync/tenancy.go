package rsync

import (
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/route"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer"
)

// tenancy is where a deployment belongs: what backends tell reconcilers of it.
type tenancy struct {
	namespace string
	cloud     appcontext.Cloud
}

// settleIn remembers where a deployment belongs. A wish of which the revision is not there
// any more does not say so, and leaves what is known. The caller holds mu.
func (l *ledger) settleIn(w pair.Desired) {
	if w.Namespace != "" {
		l.clouds[w.Deployment] = tenancy{w.Namespace, w.Cloud}
	}
}

// address is a target as backends see it when they plan.
func (l *ledger) address(t pair.Target, d route.Route) syncer.Target {
	l.mu.Lock()
	defer l.mu.Unlock()
	out, in := d.Target(t.Cluster, t.UID), l.clouds[t.UID]
	out.Namespace = in.namespace
	out.Cloud = syncer.Cloud{Name: in.cloud.Name, Confined: in.cloud.Confined, Account: in.cloud.Account}
	return out
}

// needs returns the apps that an app of a deployment comes after.
func (l *ledger) needs(k appcontext.PairKey) []syncer.Need {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []syncer.Need
	for _, d := range l.orders[k.UID].apps[k.App].DependsOn {
		out = append(out, syncer.Need{App: d.App, Ready: d.Ready})
	}
	return out
}
