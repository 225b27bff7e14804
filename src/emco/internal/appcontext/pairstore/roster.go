package pairstore

import (
	"encoding/json"
	"fmt"
	"strconv"

	"go.etcd.io/etcd/api/v3/mvccpb"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
)

// rosterChunk is how many clusters one value of a roster names: some 12 KiB.
const rosterChunk = 256

// rosterEntry is a cluster with a number: its place in the roster.
type rosterEntry struct {
	Cluster      v2.ClusterKey
	Registration string // of the cluster's registration, see Pair.Registration
}

// MarshalJSON writes an entry as a list of two strings.
func (e rosterEntry) MarshalJSON() ([]byte, error) {
	return json.Marshal([2]string{string(e.Cluster), e.Registration})
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (e *rosterEntry) UnmarshalJSON(text []byte) error {
	var pair [2]string
	if err := json.Unmarshal(text, &pair); err != nil {
		return err
	}
	e.Cluster, e.Registration = v2.ClusterKey(pair[0]), pair[1]
	return nil
}

// roster gives the clusters of a shard numbers, so that a table names many in few bytes. A number
// keeps its cluster while a table names it.
type roster struct {
	entries  []rosterEntry // by number; a zero Cluster is free
	numberOf map[v2.ClusterKey]uint32
	free     []uint32     // numbers that no table names
	dirty    map[int]bool // chunks that etcd does not hold as they are here
}

func newRoster() *roster {
	return &roster{numberOf: map[v2.ClusterKey]uint32{}, dirty: map[int]bool{}}
}

// find returns the number of a cluster.
func (r *roster) find(c v2.ClusterKey) (uint32, bool) {
	n, known := r.numberOf[c]
	return n, known
}

// set sets the entries of a chunk, as etcd holds them.
func (r *roster) set(chunk int, entries []rosterEntry) {
	first := chunk * rosterChunk
	for len(r.entries) < first+len(entries) {
		r.entries = append(r.entries, rosterEntry{})
	}
	for i, e := range entries {
		n := uint32(first + i)
		if old := r.entries[n].Cluster; old != "" && r.numberOf[old] == n {
			delete(r.numberOf, old)
		}
		r.entries[n] = e
		if e.Cluster != "" {
			r.numberOf[e.Cluster] = n
		}
	}
}

// add gives a cluster a number. The cluster must have none.
func (r *roster) add(e rosterEntry) uint32 {
	var n uint32
	if last := len(r.free) - 1; last >= 0 {
		n, r.free = r.free[last], r.free[:last]
	} else {
		n = uint32(len(r.entries))
		r.entries = append(r.entries, rosterEntry{})
	}
	r.entries[n], r.numberOf[e.Cluster] = e, n
	r.dirty[int(n)/rosterChunk] = true
	return n
}

// reregister changes the registration of a number that no table of pairs names.
func (r *roster) reregister(n uint32, registration string) {
	r.entries[n].Registration = registration
	r.dirty[int(n)/rosterChunk] = true
}

// release frees the numbers that are not used.
func (r *roster) release(used func(n uint32) bool) {
	r.free = r.free[:0]
	for n := range r.entries {
		if !used(uint32(n)) {
			if c := r.entries[n].Cluster; c != "" {
				delete(r.numberOf, c)
				r.entries[n] = rosterEntry{}
			}
			r.free = append(r.free, uint32(n))
		}
	}
}

// chunk returns the entries of a chunk.
func (r *roster) chunk(k int) []rosterEntry {
	return r.entries[k*rosterChunk : min(len(r.entries), (k+1)*rosterChunk)]
}

func rosterKey(kv *etcdkv.Client, shard string, chunk int) string {
	return kv.Key(rosterSpace, shard, fmt.Sprintf("%06d", chunk))
}

// RosterPart is a part of a shard's roster, as etcd holds it.
type RosterPart struct {
	Shard   string
	chunk   int
	entries []rosterEntry
}

// ParseRoster reads a part of a roster.
func ParseRoster(kv *etcdkv.Client, record *mvccpb.KeyValue) (RosterPart, error) {
	parts := kv.Split(record.Key)
	if len(parts) != 3 {
		return RosterPart{}, etcdkv.Corrupt(string(record.Key), fmt.Errorf("the key has %d parts, not 3", len(parts)))
	}
	chunk, err := strconv.Atoi(parts[2])
	if err != nil || chunk < 0 {
		return RosterPart{}, etcdkv.Corrupt(string(record.Key), fmt.Errorf("%q is not a number of a part", parts[2]))
	}
	entries, err := etcdkv.Decode[[]rosterEntry](record)
	return RosterPart{parts[1], chunk, entries}, err
}
