package pairstore

import (
	"iter"

	"github.com/RoaringBitmap/roaring/v2"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
)

// Tables follows the tables and rosters of all shards as they change. It is not safe for
// concurrent use.
type Tables struct {
	rosters map[string]*roster         // by shard
	tables  map[appID]map[string]Table // by shard
	reports map[TableID]ReportTable
}

// appID names an app of a deployment.
type appID struct {
	deployment v2.DeploymentID
	app        string
}

// NewTables returns none.
func NewTables() *Tables {
	return &Tables{rosters: map[string]*roster{}, tables: map[appID]map[string]Table{}, reports: map[TableID]ReportTable{}}
}

// SetRoster takes a part of a roster in.
func (t *Tables) SetRoster(part RosterPart) { t.roster(part.Shard).set(part.chunk, part.entries) }

func (t *Tables) roster(shard string) *roster {
	if t.rosters[shard] == nil {
		t.rosters[shard] = newRoster()
	}
	return t.rosters[shard]
}

// StateChange is a pair that got another state in a table.
type StateChange struct {
	Key          Key
	Registration string
	From, To     *State // nil: the table did not have it, or no longer has it
}

// Replace replaces a table, nil for none, and yields the pairs whose state differs. An error stands
// for a pair whose cluster is not known.
func (t *Tables) Replace(id TableID, next *Table) iter.Seq2[StateChange, error] {
	app := appID{id.Deployment, id.App}
	old, now := t.tables[app][id.Shard], Table{}
	if next != nil {
		now = next.sharing(old)
	}
	t.set(app, id.Shard, now)
	return func(yield func(StateChange, error) bool) {
		for _, g := range now.groups {
			joined := g.members
			if i := old.indexOf(g.id); i >= 0 {
				joined = roaring.AndNot(g.members, old.groups[i].members)
			}
			if !t.yieldMoves(id, joined, func(n uint32) (from, to *State) { return old.stateOf(n), g.state }, yield) {
				return
			}
		}
		left := roaring.AndNot(old.members(), now.members())
		t.yieldMoves(id, left, func(n uint32) (from, to *State) { return old.stateOf(n), nil }, yield)
	}
}

func (t *Tables) yieldMoves(id TableID, numbers *roaring.Bitmap, states func(n uint32) (from, to *State), yield func(StateChange, error) bool) bool {
	r := t.roster(id.Shard)
	for n := range roaring.Values(numbers) {
		e, err := r.entry(n)
		c := StateChange{Key: Key{Cluster: e.Cluster, Deployment: id.Deployment, App: id.App}, Registration: e.Registration}
		c.From, c.To = states(n)
		if !yield(c, err) {
			return false
		}
	}
	return true
}

func (t *Tables) set(app appID, shard string, now Table) {
	if len(now.groups) > 0 {
		if t.tables[app] == nil {
			t.tables[app] = map[string]Table{}
		}
		t.tables[app][shard] = now
		return
	}
	if delete(t.tables[app], shard); len(t.tables[app]) == 0 {
		delete(t.tables, app)
	}
}

// Get returns the state that a table holds of a pair, nil if none does.
func (t *Tables) Get(k Key) *State {
	for shard, table := range t.tables[appID{k.Deployment, k.App}] {
		if n, known := t.rosters[shard].find(k.Cluster); known {
			if s := table.stateOf(n); s != nil {
				return s
			}
		}
	}
	return nil
}

// stateOf returns the state of a number, nil if the table does not have it.
func (t Table) stateOf(n uint32) *State {
	if i := t.groupOf(n); i >= 0 {
		return t.groups[i].state
	}
	return nil
}

// sharing returns the table with the states of old where they are equal.
func (t Table) sharing(old Table) Table {
	out := Table{groups: make([]group, len(t.groups))}
	for i, g := range t.groups {
		if j := old.indexOf(g.id); j >= 0 {
			g.state = old.groups[j].state
		}
		out.groups[i] = g
	}
	return out
}
