package intake

import (
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/emco-orchestrator/emco/src/api/status"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
)

// AgentStatus describes the agent of a cluster, for operators.
type AgentStatus struct {
	Cluster  v2.ClusterKey   `json:"cluster"`
	Agent    string          `json:"agent,omitempty"`      // name and version
	Seq      uint64          `json:"sequence,omitempty"`   // of the last accepted report
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

// AgentStatuses holds the status of each agent as this process knows it: it starts empty in each process, which
// sees only what arrives there. It is safe for concurrent use.
type AgentStatuses struct {
	mu        sync.Mutex // guards byCluster
	byCluster map[v2.ClusterKey]AgentStatus
}

// NewAgentStatuses returns an empty set.
func NewAgentStatuses() *AgentStatuses {
	return &AgentStatuses{byCluster: map[v2.ClusterKey]AgentStatus{}}
}

// Get returns the status of a cluster's agent; ok is false if the cluster sent nothing yet.
func (n *AgentStatuses) Get(cluster v2.ClusterKey) (note AgentStatus, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	note, ok = n.byCluster[cluster]
	return note, ok
}

// Accepted records an accepted report.
func (n *AgentStatuses) Accepted(r status.Report, received, now time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	last, fresh := n.byCluster[v2.ClusterKey(r.Cluster)], Describe(r, received, now)
	fresh.Refused = last.Refused
	if fresh.Cluster == last.Cluster && fresh.Agent == last.Agent {
		fresh.Cluster, fresh.Agent = last.Cluster, last.Agent
	} else { // a stored substring would keep the whole report in memory
		fresh.Cluster, fresh.Agent = v2.ClusterKey(strings.Clone(r.Cluster)), strings.Clone(r.Agent)
	}
	if fresh.Unseen = last.Unseen; !slices.Equal(fresh.Unseen, r.Unseen) {
		fresh.Unseen = cloneUnseen(r.Unseen)
	}
	if fresh.Capacity = last.Capacity; !reflect.DeepEqual(fresh.Capacity, r.Capacity) {
		fresh.Capacity = r.Capacity.Clone()
	}
	n.byCluster[fresh.Cluster] = fresh
}

// Describe returns the status of an agent that sent a report, which shares the report's texts.
func Describe(r status.Report, received, now time.Time) AgentStatus {
	a := AgentStatus{
		Cluster: v2.ClusterKey(r.Cluster), Agent: r.Agent, Seq: r.Seq, Received: received, Reported: r.At.UTC(),
		Apps: len(r.Apps), Unseen: r.Unseen, Capacity: r.Capacity,
	}
	if ahead := r.At.Sub(now); ahead > aheadLimit {
		a.Ahead = ahead.Round(time.Second).String()
	}
	return a
}

func cloneUnseen(kinds []status.Unseen) []status.Unseen {
	out := make([]status.Unseen, len(kinds))
	for i, u := range kinds {
		out[i] = status.Unseen{Group: strings.Clone(u.Group), Kind: strings.Clone(u.Kind), Reason: strings.Clone(u.Reason)}
	}
	return out
}

// Confirmed records that the agent of a cluster repeated its last report.
func (n *AgentStatuses) Confirmed(cluster v2.ClusterKey, seq uint64, reported, received time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	have := n.byCluster[cluster]
	have.Cluster, have.Seq, have.Received, have.Reported = cluster, seq, received, reported.UTC()
	n.byCluster[cluster] = have
}

// Refused records a refused document.
func (n *AgentStatuses) Refused(d Document, err error, now time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	have := n.byCluster[d.Cluster]
	have.Cluster = d.Cluster
	count := uint64(1)
	if have.Refused != nil {
		count += have.Refused.Count
	}
	have.Refused = &Refused{Count: count, Result: ResultOf(err), Why: err.Error(), Commit: d.Where, At: now}
	n.byCluster[d.Cluster] = have
}
