package pairs

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/clusterhistory"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
)

// historyOf returns what a change means for the history of clusters: an entry for all clusters on which the same
// apps of a deployment change alike. Neighbouring pairs of one target form one part of an entry. The caller holds writing.
func (s *Store) historyOf(c change) []clusterhistory.Entry {
	h := historyBuilder{at: map[string]int{}}
	for i := range c.put {
		p := &c.put[i]
		var old appcontext.Pair
		if known := s.index.at(p.Key); known != nil {
			old = *known.state.Common()
		}
		switch {
		case p.Applied == old.Applied:
		case p.Applied == "":
			h.add(p.Key, clusterhistory.AppChange{App: p.Key.App, Change: appcontext.Remove})
		default:
			h.add(p.Key, appliedChange(&old, p))
		}
	}
	for _, k := range c.remove {
		if old := s.index.at(k); old != nil && old.state.Common().Applied != "" {
			h.add(k, clusterhistory.AppChange{App: k.App, Change: appcontext.Remove})
		}
	}
	h.endTarget()
	for i := range h.entries {
		e := &h.entries[i]
		e.At, e.Document = s.cfg.Now().UTC(), s.deployments[e.Deployment].subject
		slices.Sort(e.Clusters)
	}
	return h.entries
}

// appliedChange returns how the content that is applied changed. If something else is desired by now, the pair no longer tells the
// revision, nor whether it was a rollback.
func appliedChange(old, p *appcontext.Pair) clusterhistory.AppChange {
	a := clusterhistory.AppChange{App: p.Key.App, Change: appcontext.Upgrade, Bundle: p.Applied, Commit: p.Commit}
	if p.Applied == p.Desired {
		a.Change, a.Rev = old.Change, p.Rev
	} else if old.Applied == "" {
		a.Change = appcontext.Install
	}
	return a
}

// historyBuilder groups the changes of targets that are equal.
type historyBuilder struct {
	entries []clusterhistory.Entry
	at      map[string]int // index in entries, by the deployment and what changed

	target  pair.Target // whose changes are gathered
	changes []clusterhistory.AppChange
	text    []byte // of the target's deployment and changes
}

func (h *historyBuilder) add(k appcontext.PairKey, a clusterhistory.AppChange) {
	if t := (pair.Target{Cluster: k.Cluster, Deployment: k.Deployment}); t != h.target {
		h.endTarget()
		h.target = t
	}
	h.changes = append(h.changes, a)
}

// endTarget adds the cluster of the target to the entry of equal changes.
func (h *historyBuilder) endTarget() {
	if len(h.changes) == 0 {
		return
	}
	slices.SortFunc(h.changes, func(a, b clusterhistory.AppChange) int { return cmp.Compare(a.App, b.App) })
	h.text = append(h.text[:0], h.target.Deployment...)
	for _, a := range h.changes {
		for _, member := range [...]string{a.App, string(a.Change), strconv.FormatInt(a.Rev, 10), string(a.Bundle), a.Commit} {
			h.text = append(append(h.text, 0), member...)
		}
	}
	i, known := h.at[string(h.text)]
	if !known {
		i = len(h.entries)
		h.at[string(h.text)] = i
		h.entries = append(h.entries, clusterhistory.Entry{Deployment: h.target.Deployment, Apps: slices.Clone(h.changes)})
	}
	h.entries[i].Clusters = append(h.entries[i].Clusters, h.target.Cluster)
	h.changes = h.changes[:0]
}
