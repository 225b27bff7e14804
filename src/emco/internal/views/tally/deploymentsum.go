package tally

import (
	"maps"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
)

// DeploymentSum is what the tally knows of a deployment.
type DeploymentSum struct {
	Head     appcontext.Head
	Counts   Counts
	Clusters int
	Edited   int // pairs whose files others have changed in Git
}

// Heads returns all heads by id.
func (t *Tally) Heads() map[appcontext.HeadID]appcontext.Head {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return maps.Clone(t.heads)
}

// DeploymentSums returns what is known of all deployments, by their heads.
func (t *Tally) DeploymentSums() (map[appcontext.HeadID]DeploymentSum, int64) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	out := make(map[appcontext.HeadID]DeploymentSum, len(t.heads))
	for id, h := range t.heads {
		s := DeploymentSum{Head: h}
		if d := t.deployments[h.Deployment()]; d != nil && h.Owns() {
			s.Counts, s.Clusters, s.Edited = d.counts, len(d.targets), d.edited
		}
		out[id] = s
	}
	return out, t.mark
}

// Edited returns the clusters with pairs whose files others have changed in Git, and the numbers of these.
func (t *Tally) Edited() map[v2.ClusterKey]int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return maps.Clone(t.edited)
}

// Deployed returns upstream's deployedStatus, by the rules of package statusview.
func (s DeploymentSum) Deployed(takenUp, appFailed bool) string {
	failed, open := s.Counts[Failed] > 0 || appFailed, !takenUp || s.Counts[Progressing]+s.Counts[Blocked]+s.Counts[Leaving] > 0
	switch h := s.Head; {
	case !h.Owns():
		return ""
	case h.Stopped && !h.State.Live():
		return v2.StatusTerminateFailed
	case h.Stopped:
		return v2.StatusInstantiateFailed
	case h.Op != nil && h.Op.Terminates():
		return v2.StatusTerminating
	case h.Op != nil:
		return v2.StatusInstantiating
	case h.Failure != "":
		return v2.StatusInstantiateFailed
	case h.Gone && takenUp && s.Counts.Sum() == 0:
		return v2.StatusTerminated
	case h.Gone && takenUp && s.Counts.Sum() == s.Counts[Failed]:
		return v2.StatusTerminateFailed
	case h.Gone:
		return v2.StatusTerminating
	case h.Rev == 0:
		return ""
	case open:
		return v2.StatusInstantiating
	case failed:
		return v2.StatusInstantiateFailed
	}
	return v2.StatusInstantiated
}

// State returns how bad a deployment is.
func (s DeploymentSum) State(takenUp bool) State {
	worst := s.Counts.Worst()
	switch {
	case s.Head.Owns() && s.Head.Failure != "" && s.Head.Op == nil:
		return Failed
	case s.Head.Op != nil || !takenUp:
		return min(worst, Progressing)
	}
	return worst
}
