package pairstore

import (
	"encoding/base64"
	"fmt"
	"iter"

	"github.com/RoaringBitmap/roaring/v2"
	"go.etcd.io/etcd/api/v3/mvccpb"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
)

// TableID names the table of one app of a deployment in a shard.
type TableID struct {
	Deployment v2.DeploymentID
	App        string
	Shard      string
}

func tableKey(kv *etcdkv.Client, id TableID) string {
	return kv.Key(tableSpace, string(id.Deployment), id.App, id.Shard)
}

// ParseTableID reads the key of a table.
func ParseTableID(kv *etcdkv.Client, key []byte) (TableID, error) {
	p := kv.Split(key)
	if len(p) != 4 {
		return TableID{}, etcdkv.Corrupt(string(key), fmt.Errorf("the key has %d parts, not 4", len(p)))
	}
	return TableID{Deployment: v2.DeploymentID(p[1]), App: p[2], Shard: p[3]}, nil
}

// group is the clusters of a table that stand alike. It is replaced, never changed.
type group struct {
	state   *State
	id      stateID
	members *roaring.Bitmap // numbers of the roster
}

// Table is the pairs of one app of a deployment that stand like others.
type Table struct{ groups []group }

// storedGroup is a group as etcd holds it.
type storedGroup struct {
	Pair
	Clusters string `json:"clusters"` // a roaring bitmap, in base64
}

// encode returns the value of a table.
func (t Table) encode(key string) (string, error) {
	groups := make([]storedGroup, len(t.groups))
	for i, g := range t.groups {
		g.members.RunOptimize()
		text, err := g.members.ToBytes()
		if err != nil {
			return "", etcdkv.Corrupt(key, err)
		}
		groups[i] = storedGroup{g.state.common, base64.StdEncoding.EncodeToString(text)}
	}
	return etcdkv.Encode(key, groups)
}

// ParseTable reads the value of a table.
func ParseTable(record *mvccpb.KeyValue) (Table, error) {
	stored, err := etcdkv.Decode[[]storedGroup](record)
	if err != nil {
		return Table{}, err
	}
	t := Table{groups: make([]group, len(stored))}
	for i, s := range stored {
		text, err := base64.StdEncoding.DecodeString(s.Clusters)
		if err != nil {
			return Table{}, etcdkv.Corrupt(string(record.Key), err)
		}
		members := roaring.New()
		if err := members.UnmarshalBinary(text); err != nil {
			return Table{}, etcdkv.Corrupt(string(record.Key), err)
		}
		t.groups[i] = group{StateOf(s.Pair), idOf(&s.Pair), members}
	}
	return t, nil
}

// groupOf returns the index of the group that has a number, -1 if none has it.
func (t Table) groupOf(n uint32) int {
	for i, g := range t.groups {
		if g.members.Contains(n) {
			return i
		}
	}
	return -1
}

// indexOf returns the index of the group with a state, -1 if there is none.
func (t Table) indexOf(id stateID) int {
	for i := range t.groups {
		if t.groups[i].id == id {
			return i
		}
	}
	return -1
}

// members returns all numbers of the table.
func (t Table) members() *roaring.Bitmap {
	all := roaring.New()
	for _, g := range t.groups {
		all.Or(g.members)
	}
	return all
}

// pairs yields the pairs of a table. Pairs of a group share their state.
func (t Table) pairs(id TableID, r *roster) iter.Seq2[Pair, error] {
	return func(yield func(Pair, error) bool) {
		for _, g := range t.groups {
			for n := range roaring.Values(g.members) {
				e, err := r.entry(n)
				if err != nil {
					yield(Pair{}, err)
					return
				}
				if !yield(g.state.Pair(Key{Cluster: e.Cluster, Deployment: id.Deployment, App: id.App}, e.Registration), nil) {
					return
				}
			}
		}
	}
}

// entry returns the cluster with a number.
func (r *roster) entry(n uint32) (rosterEntry, error) {
	if int(n) >= len(r.entries) || r.entries[n].Cluster == "" {
		return rosterEntry{}, etcdkv.Corrupt(rosterSpace, fmt.Errorf("no cluster has the number %d", n))
	}
	return r.entries[n], nil
}
