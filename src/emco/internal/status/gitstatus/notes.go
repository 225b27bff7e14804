package gitstatus

import (
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
	Commit string    `json:"commit"`
	At     time.Time `json:"at"`
}

// notes are guarded by their own lock.
type notes struct {
	mu sync.Mutex
	of map[string]Note
}

func newNotes() notes { return notes{of: map[string]Note{}} }

// Note returns what is known of a cluster's agent; ok is false if nothing came of it yet.
func (s *Source) Note(cluster string) (n Note, ok bool) {
	s.notes.mu.Lock()
	defer s.notes.mu.Unlock()
	n, ok = s.notes.of[cluster]
	return n, ok
}

func (n *notes) taken(r status.Report, received, now time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	fresh := Note{
		Cluster: r.Cluster, Agent: r.Agent, Seq: r.Seq, Received: received, Reported: r.At.UTC(),
		Apps: len(r.Apps), Unseen: r.Unseen, Refused: n.of[r.Cluster].Refused,
	}
	if ahead := r.At.Sub(now); ahead > aheadLimit {
		fresh.Ahead = ahead.Round(time.Second).String()
	}
	n.of[r.Cluster] = fresh
}

func (n *notes) refused(d document, result, why string, now time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	have := n.of[d.cluster]
	have.Cluster = d.cluster
	count := uint64(1)
	if have.Refused != nil {
		count += have.Refused.Count
	}
	have.Refused = &Refused{Count: count, Result: result, Why: why, Commit: string(d.commit), At: now}
	n.of[d.cluster] = have
}
