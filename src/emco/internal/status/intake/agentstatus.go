package intake

import (
	"time"

	"github.com/emco-orchestrator/emco/src/api/status"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
)

// AgentStatus describes the agent of a cluster, for operators.
type AgentStatus struct {
	Cluster  v2.ClusterKey   `json:"cluster"`
	Agent    string          `json:"agent,omitempty"`      // name and version
	Seq      uint64          `json:"sequence,omitempty"`   // of the last stored report
	Received time.Time       `json:"received,omitzero"`    // when it was accepted
	Reported time.Time       `json:"reported,omitzero"`    // when the cluster sent it, by its own clock
	Ahead    string          `json:"clockAhead,omitempty"` // how far the cluster's clock is ahead, above aheadLimit
	Apps     int             `json:"apps"`
	Unseen   []status.Unseen `json:"unseen,omitempty"` // kinds that the agent cannot read
	Refused  *Refused        `json:"refused,omitempty"`
	Capacity status.Capacity `json:"capacity,omitzero"` // what the nodes have free, by the last accepted report
}

// Refused counts the refused documents of a cluster. Later accepted reports keep it.
type Refused struct {
	Count  uint64    `json:"count"`
	Result string    `json:"result"` // of the last one: see Results
	Why    string    `json:"why"`
	Commit string    `json:"commit,omitempty"` // empty if it arrived by HTTPS
	At     time.Time `json:"at"`
}

// aheadLimit is how far the clock of a cluster may be ahead before AgentStatus shows it.
const aheadLimit = 5 * time.Minute

// Describe returns the status of an agent that sent a report.
func Describe(r status.Report, received time.Time) AgentStatus {
	a := AgentStatus{Cluster: v2.ClusterKey(r.Cluster), Agent: r.Agent, Apps: len(r.Apps), Unseen: r.Unseen, Capacity: r.Capacity}
	a.Heard(r.Seq, r.At, received)
	return a
}

// Heard sets the sequence and the times of the last report.
func (a *AgentStatus) Heard(seq uint64, reported, received time.Time) {
	a.Seq, a.Received, a.Reported, a.Ahead = seq, received, time.Time{}, ""
	if reported.IsZero() {
		return
	}
	a.Reported = reported.UTC()
	if ahead := reported.Sub(received); ahead > aheadLimit {
		a.Ahead = ahead.Round(time.Second).String()
	}
}
