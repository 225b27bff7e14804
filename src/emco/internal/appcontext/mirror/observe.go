package mirror

import "github.com/emco-orchestrator/emco/src/emco/internal/appcontext"

// replay hands all records to an observer.
func (x *index) replay(o Observer) {
	o.Restarted()
	for id, h := range x.heads {
		o.HeadChanged(id, h)
	}
	for cluster, sign := range x.lives {
		o.AgentHeard(cluster, sign.At())
	}
	for deployment, pairs := range x.deployments {
		for at, e := range pairs.All() {
			o.PairChanged(appcontext.PairKey{Cluster: at.Cluster, Deployment: deployment, App: at.App}, e)
		}
	}
}

// notifyObserver passes the change of a record, which was applied, to an observer.
func (x *index) notifyObserver(o Observer, r appcontext.Record) {
	switch r.Space {
	case appcontext.HeadSpace:
		o.HeadChanged(r.HeadID, x.heads[r.HeadID])
	case appcontext.AgentSpace:
		o.AgentHeard(r.Key.Cluster, x.lives[r.Key.Cluster].At())
	case appcontext.RosterSpace, appcontext.HookSpace:
	case appcontext.TableSpace, appcontext.ReportTableSpace:
		for _, k := range x.moved {
			o.PairChanged(k, x.deployments[k.Deployment].At(Pair{k.Cluster, k.App}))
		}
	default:
		o.PairChanged(r.Key, x.deployments[r.Key.Deployment].At(Pair{r.Key.Cluster, r.Key.App}))
	}
}
