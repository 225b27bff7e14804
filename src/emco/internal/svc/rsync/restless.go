package rsync

import "github.com/emco-orchestrator/emco/src/emco/internal/appcontext"

// restless are the pairs that do not hold what they are to hold, by deployment.
type restless map[string]map[appcontext.PairKey]bool

func (r restless) note(p appcontext.Pair) {
	if p.Phase == appcontext.Applied && p.Desired != "" {
		r.forget(p.Key)
		return
	}
	if r[p.Key.UID] == nil {
		r[p.Key.UID] = map[appcontext.PairKey]bool{}
	}
	r[p.Key.UID][p.Key] = true
}

func (r restless) forget(k appcontext.PairKey) {
	if delete(r[k.UID], k); len(r[k.UID]) == 0 {
		delete(r, k.UID)
	}
}

// unsettled returns the clusters on which a deployment does not hold what it is to hold.
func (l *ledger) unsettled(uid string) map[string]bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := map[string]bool{}
	for k := range l.restless[uid] {
		out[k.Cluster] = true
	}
	return out
}
