package views

import (
	"fmt"
	"strings"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/views/tally"
)

// conditions returns the conditions of a deployment; none if nothing is desired, or its pairs are another's. appFailed is why an
// app of the revision could not be rendered; empty if all could.
func conditions(s tally.DeploymentSum, takenUp bool, appFailed string) []v2.ViewCondition {
	h := s.Head
	if !h.Owns() || h.Gone || h.Rev == 0 && h.Op == nil && h.Failure == "" {
		return nil
	}
	working := h.Op != nil
	placed, rendered := truth(h.Rev > 0), truth(h.Rev > 0 && appFailed == "")
	if h.Rev == 0 && working {
		placed, rendered = unknown, unknown
	}
	delivered, why := progress(s, takenUp)
	healthy, health := health(s)
	return []v2.ViewCondition{
		{Type: v2.ConditionPlaced, Status: placed, Reason: unless(placed, h.Failure)},
		{Type: v2.ConditionRendered, Status: rendered, Reason: unless(rendered, appFailed)},
		{Type: v2.ConditionDelivered, Status: delivered, Reason: why},
		{Type: v2.ConditionHealthy, Status: healthy, Reason: health},
		stalled(s, appFailed),
	}
}

// The values of a condition, as Kubernetes writes them.
const (
	isTrue  = "True"
	isFalse = "False"
	unknown = "Unknown"
)

func truth(yes bool) string {
	if yes {
		return isTrue
	}
	return isFalse
}

// unless returns the reason of a condition that is not met.
func unless(status, reason string) string {
	if status == isFalse {
		return reason
	}
	return ""
}

// progress returns whether what is desired was delivered to all clusters.
func progress(s tally.DeploymentSum, takenUp bool) (status, reason string) {
	c := s.Counts
	switch open := c[tally.Blocked] + c[tally.Progressing] + c[tally.Leaving]; {
	case s.Head.Op != nil:
		return isFalse, s.Head.Op.Kind + ": the revision is being made"
	case s.Head.Rev == 0:
		return isFalse, ""
	case !takenUp:
		return isFalse, "the revision is being taken up"
	case c[tally.Failed]+open > 0:
		return isFalse, counted(c, tally.Failed, tally.Blocked, tally.Leaving, tally.Progressing)
	}
	return isTrue, ""
}

// counted names the numbers of pairs in some states, without those of which there are none: "1 failed, 2 blocked".
func counted(c tally.Counts, states ...tally.State) string {
	var parts []string
	for _, s := range states {
		if c[s] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", c[s], s))
		}
	}
	return strings.Join(parts, ", ")
}

// unmet returns the reason of the first condition that is not as it should be; empty if all are.
func unmet(all []v2.ViewCondition) string {
	for _, c := range all {
		if good := (c.Status == isTrue) != (c.Type == v2.ConditionStalled); !good && c.Reason != "" {
			return c.Reason
		}
	}
	return ""
}

// health returns whether all clusters report this very content as ready.
func health(s tally.DeploymentSum) (status, reason string) {
	c := s.Counts
	switch bad := c[tally.Failed] + c[tally.NotReady]; {
	case bad > 0:
		return isFalse, fmt.Sprintf("%d of %d not ready", bad, c.Sum())
	case c.Sum() == 0, c[tally.Unknown] > 0:
		return unknown, fmt.Sprintf("%d of %d without a report", c[tally.Unknown], c.Sum())
	case c[tally.Ready] < c.Sum():
		return unknown, fmt.Sprintf("%d of %d still change", c.Sum()-c[tally.Ready], c.Sum())
	}
	return isTrue, ""
}

// stalled returns whether only a user can help.
func stalled(s tally.DeploymentSum, appFailed string) v2.ViewCondition {
	out := v2.ViewCondition{Type: v2.ConditionStalled, Status: isTrue}
	switch {
	case s.Head.Op != nil:
		out.Status = isFalse
	case s.Head.Failure != "":
		out.Reason = s.Head.Failure
	case s.Head.Stopped:
		out.Reason = "a user stopped it"
	case appFailed != "":
		out.Reason = appFailed
	case s.Counts[tally.Failed] > 0:
		out.Reason = fmt.Sprintf("%d failed", s.Counts[tally.Failed])
	default:
		out.Status = isFalse
	}
	return out
}
