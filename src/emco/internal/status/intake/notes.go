package intake

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/emco-orchestrator/emco/src/api/status"
)

// Note is what is known of the agent of a cluster, for people. It is kept in memory
// and begins anew with each process.
type Note struct {
	Cluster  string          `json:"cluster"`
	Agent    string          `json:"agent,omitempty"`      // name and version
	Seq      uint64          `json:"sequence,omitempty"`   // of the last report that counted
	Received time.Time       `json:"received,omitzero"`    // when that was
	Reported time.Time       `json:"reported,omitzero"`    // the same by the cluster's clock
	Ahead    string          `json:"clockAhead,omitempty"` // how far the cluster's clock is ahead, if that is much
	Apps     int             `json:"apps"`
	Unseen   []status.Unseen `json:"unseen,omitempty"` // kinds that the agent does not see
	Refused  *Refused        `json:"refused,omitempty"`
}

// Refused is what was refused of a cluster. It stays when later reports count.
type Refused struct {
	Count  uint64    `json:"count"`
	Result string    `json:"result"` // of the last one: see Results
	Why    string    `json:"why"`
	Commit string    `json:"commit,omitempty"` // if it came by Git
	At     time.Time `json:"at"`
}

// aheadLimit is how far the clock of a cluster may be ahead before it is noted.
const aheadLimit = 5 * time.Minute

// Notes are what is known of agents. They are safe for use by many goroutines.
type Notes struct {
	mu sync.Mutex
	of map[string]Note
}

// NewNotes returns notes of which none is written.
func NewNotes() *Notes { return &Notes{of: map[string]Note{}} }

// Of returns what is known of a cluster's agent; ok is false if nothing came of it yet.
func (n *Notes) Of(cluster string) (note Note, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	note, ok = n.of[cluster]
	return note, ok
}

// Taken notes a report that counts.
func (n *Notes) Taken(r status.Report, received, now time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	last := n.of[r.Cluster]
	fresh := Note{
		Cluster: last.Cluster, Agent: last.Agent, Seq: r.Seq, Received: received, Reported: r.At.UTC(),
		Apps: len(r.Apps), Unseen: last.Unseen, Refused: last.Refused,
	}
	if fresh.Cluster != r.Cluster || fresh.Agent != r.Agent { // what stays may not hold the whole report
		fresh.Cluster, fresh.Agent = strings.Clone(r.Cluster), strings.Clone(r.Agent)
	}
	if !slices.Equal(fresh.Unseen, r.Unseen) {
		fresh.Unseen = cloned(r.Unseen)
	}
	if ahead := r.At.Sub(now); ahead > aheadLimit {
		fresh.Ahead = ahead.Round(time.Second).String()
	}
	n.of[fresh.Cluster] = fresh
}

func cloned(kinds []status.Unseen) []status.Unseen {
	out := make([]status.Unseen, len(kinds))
	for i, u := range kinds {
		out[i] = status.Unseen{Group: strings.Clone(u.Group), Kind: strings.Clone(u.Kind), Reason: strings.Clone(u.Reason)}
	}
	return out
}

// Alive notes that the agent of a cluster confirms what it said before.
func (n *Notes) Alive(cluster string, seq uint64, reported, received time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	have := n.of[cluster]
	have.Cluster, have.Seq, have.Received, have.Reported = cluster, seq, received, reported.UTC()
	n.of[cluster] = have
}

// Refused notes a document that does not count.
func (n *Notes) Refused(d Document, err error, now time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	have := n.of[d.Cluster]
	have.Cluster = d.Cluster
	count := uint64(1)
	if have.Refused != nil {
		count += have.Refused.Count
	}
	have.Refused = &Refused{Count: count, Result: ResultOf(err), Why: err.Error(), Commit: d.Where, At: now}
	n.of[d.Cluster] = have
}
