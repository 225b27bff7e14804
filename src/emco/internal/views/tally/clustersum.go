package tally

import (
	"cmp"
	"time"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/mirror"
)

// ClusterSum is what the tally knows of a cluster.
type ClusterSum struct {
	Counts Counts
	State  State
	Heard  time.Time
	Silent bool
}

// ClusterSums returns what the tally knows of clusters, and the mark.
func (t *Tally) ClusterSums(clusters []v2.ClusterKey) (map[v2.ClusterKey]ClusterSum, int64) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	out := make(map[v2.ClusterKey]ClusterSum, len(clusters))
	for _, cluster := range clusters {
		out[cluster] = t.clusters[cluster].sum()
	}
	return out, t.mark
}

// sum returns what is known of a cluster; nil is one without pairs.
func (c *clusterTally) sum() ClusterSum {
	if c == nil {
		return ClusterSum{State: Idle}
	}
	out := ClusterSum{Counts: c.counts, State: c.counts.Worst(), Heard: c.heard, Silent: c.silent}
	if c.silent && out.State > Unknown {
		out.State = Unknown
	}
	return out
}

// Describe returns the state of a pair, and why it is not ready.
func Describe(e *mirror.Entry, s ClusterSum) (State, string) {
	c := cellOf(e)
	state := c.at(s.Silent)
	switch state {
	case None, Ready, Idle:
		return state, ""
	case Unknown:
		switch {
		case s.Silent && e.Report != nil:
			return state, silence(s) + "; was " + c.at(false).String()
		case e.Report == nil:
			return state, "the cluster has not reported"
		}
		return state, "the cluster cannot be reached"
	case NotReady:
		return state, cmp.Or(firstProblem(e.Report), "the cluster does not report all objects as ready")
	case Blocked:
		return state, e.State.Common().Blocked
	case Leaving:
		return state, cmp.Or(e.State.Common().Error, e.State.Common().Blocked, "it is being removed")
	}
	return state, cmp.Or(e.State.Common().Error, string(e.State.Common().Phase))
}

func silence(s ClusterSum) string { return "no report since " + s.Heard.UTC().Format(time.RFC3339) }

// firstProblem returns the first object of a report that is not Current.
func firstProblem(r *mirror.Report) string {
	for _, h := range r.Objects {
		s := h.Value()
		if s.Status == "Current" {
			continue
		}
		text := s.Kind + " " + s.Name + ": " + s.Status
		if s.Reason != "" {
			text += ", " + s.Reason
		}
		return text
	}
	return ""
}

// WorstReason returns why the worst pair of a cluster is not ready.
func WorstReason(pairs []mirror.ClusterPair, s ClusterSum) string {
	worst, text := Idle, ""
	for _, e := range pairs {
		state, why := Describe(e.Entry, s)
		if state == None || e.State == nil {
			continue
		}
		why = e.App + ": " + why
		if state < worst || state == worst && why < text {
			worst, text = state, why
		}
	}
	switch {
	case worst >= Ready && s.Silent:
		return silence(s)
	case worst >= Ready:
		return ""
	}
	return text
}
