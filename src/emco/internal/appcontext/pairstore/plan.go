package pairstore

import (
	"maps"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"
	clientv3 "go.etcd.io/etcd/client/v3"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
)

// move is the change of one pair.
type move struct {
	cluster v2.ClusterKey
	pair    *Pair // nil: the pair is removed
	number  uint32
	named   bool // the table has the number in a group
	group   bool // the pair goes into the group of its state
	id      stateID
}

func (m move) clusterKey() v2.ClusterKey { return m.cluster }

func (m move) recordOp(key string) (clientv3.Op, error) {
	if m.pair == nil || m.group {
		return clientv3.OpDelete(key), nil
	}
	text, err := etcdkv.Encode(key, *m.pair)
	return clientv3.OpPut(key, text), err
}

func (m move) hasRecord(shard string) bool {
	return m.pair != nil && !m.group && m.pair.Shard == shard
}

// plan decides where the changed pairs of a table are stored. Each cluster has one change.
func (w *Writer) plan(id TableID, changes []pairChange) *tablePlan[move] {
	at := w.pairs.of(id)
	moves, last := make([]move, 0, len(changes)), new(lastID)
	for _, c := range changes {
		p := c.pair
		m := move{cluster: c.cluster, pair: p}
		if n, known := w.roster.find(c.cluster); known && at.table.groupOf(n) >= 0 {
			m.number, m.named = n, true
		}
		if p != nil && p.Shard == w.shard {
			m.id, m.group = last.of(p), true
		}
		moves = append(moves, m)
	}
	grouped := groupedStates(at.table, moves)
	plan := &tablePlan[move]{id: id}
	if len(at.alone) == 0 { // most moves change only the table then
		plan.inTable = make([]move, 0, len(moves))
	}
	for _, m := range moves {
		if m.group = m.group && grouped[m.id]; m.group {
			m.number, m.group = w.number(m.cluster, m.pair.Registration, m.named)
		}
		if !at.alone[m.cluster] && (m.pair == nil || m.group) {
			plan.inTable = append(plan.inTable, m)
		} else {
			plan.records = append(plan.records, m)
		}
	}
	return plan
}

// groupedStates returns the states that have a group in a table, or get one.
func groupedStates(t Table, moves []move) map[stateID]bool {
	grouped, count := map[stateID]bool{}, map[stateID]int{}
	for _, g := range t.groups {
		grouped[g.id] = true
	}
	for _, m := range moves {
		if !m.group || grouped[m.id] || len(grouped) >= maxGroups {
			continue
		}
		if count[m.id]++; count[m.id] == minTogether && fitsGroup(m.pair) {
			grouped[m.id] = true
		}
	}
	return grouped
}

// fitsGroup reports whether a pair's state is small enough for a group.
func fitsGroup(p *Pair) bool {
	text, err := etcdkv.Encode(tableSpace, StateOf(*p).common)
	return err == nil && len(text) <= maxState
}

// number returns the roster's number of a cluster, and gives it one if it has none. named means
// that the table names the number already. It returns false if tables of pairs still name the
// number for an earlier registration of the cluster.
func (w *Writer) number(c v2.ClusterKey, registration string, named bool) (uint32, bool) {
	n, known := w.roster.find(c)
	switch {
	case !known:
		n = w.roster.add(rosterEntry{c, registration})
	case w.roster.entries[n].Registration == registration:
	case named || w.isNamed(n):
		return n, false
	default:
		w.roster.reregister(n, registration)
	}
	w.claimed[n] = true
	return n, true
}

// isNamed reports whether a table may name a number, or will.
func (w *Writer) isNamed(n uint32) bool {
	if w.claimed[n] {
		return true
	}
	for _, at := range w.pairs.at {
		if len(at.unsure) > 0 || at.table.groupOf(n) >= 0 {
			return true
		}
	}
	return false
}

func (t Table) empty() bool { return len(t.groups) == 0 }

func (t Table) with(moves []move) (Table, bool) {
	leave, join := roaring.New(), map[stateID][]uint32{}
	pairOf := map[stateID]*Pair{}
	for _, m := range moves {
		if m.named {
			leave.Add(m.number)
		}
		if m.group {
			join[m.id], pairOf[m.id] = append(join[m.id], m.number), m.pair
		}
	}
	if leave.IsEmpty() && len(join) == 0 {
		return t, false
	}
	var out Table
	changed := false
	for _, g := range t.groups {
		members := roaring.AndNot(g.members, leave)
		members.AddMany(join[g.id])
		delete(join, g.id)
		changed = changed || !members.Equals(g.members)
		if !members.IsEmpty() {
			out.groups = append(out.groups, group{g.state, g.id, members})
		}
	}
	for _, id := range slices.SortedFunc(maps.Keys(join), func(a, b stateID) int { return int(join[a][0]) - int(join[b][0]) }) {
		out.groups = append(out.groups, group{StateOf(*pairOf[id]), id, roaring.BitmapOf(join[id]...)})
		changed = true
	}
	return out, changed
}
