package clusterhistory

import (
	"context"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
)

// TrimClusterHistory removes the oldest entries of each deployment beyond what is kept; all entries of a deployment that does not
// exist any longer, if all are from before a time; and lists that no entry names. Entries and lists may be added meanwhile.
//
// Another process may be about to store an entry that names a list, because it has stored one lately. So the lists of all entries
// of that time stay, also of entries that are removed now. A list that is stored again meanwhile has another revision of etcd, and stays.
func (s *Store) TrimClusterHistory(ctx context.Context, exists func(v2.DeploymentID) bool, before time.Time) error {
	lists, err := s.storedLists(ctx) // first: a list that is not among them is newer than the entries that are read then
	if err != nil {
		return err
	}
	b := s.kv.NewBatch(entrySpace)
	var keys []string // of one deployment, the oldest first
	var entries []entryKey
	trim := func() error {
		first := removable(entries, exists, before)
		for i, e := range entries {
			if i >= first || time.Since(e.at) < 2*trustedFor {
				delete(lists, e.list)
			}
			if i >= first {
				continue
			}
			if err := b.Add(ctx, clientv3.OpDelete(keys[i])); err != nil {
				return err
			}
		}
		keys, entries = nil, nil
		return nil
	}
	for kv, err := range s.kv.List(ctx, etcdkv.Scan{Prefix: s.kv.Key(entrySpace) + "/", KeysOnly: true}) {
		if err != nil {
			return err
		}
		k, err := s.parseKey(kv.Key)
		if err != nil {
			s.kv.Log().Warn("an entry of the history of clusters stays, because its key is not readable", "err", err)
			continue
		}
		if len(entries) > 0 && entries[0].deployment != k.deployment {
			if err := trim(); err != nil {
				return err
			}
		}
		keys, entries = append(keys, string(kv.Key)), append(entries, k)
	}
	if err := trim(); err != nil {
		return err
	}
	if err := b.Flush(ctx); err != nil {
		return err
	}
	return s.removeLists(ctx, lists)
}

// storedLists returns etcd's revision of each stored list, by id.
func (s *Store) storedLists(ctx context.Context) (map[string]int64, error) {
	out := map[string]int64{}
	for kv, err := range s.kv.List(ctx, etcdkv.Scan{Prefix: s.kv.Key(listSpace) + "/", KeysOnly: true}) {
		if err != nil {
			return nil, err
		}
		out[s.kv.Split(kv.Key)[1]] = kv.ModRevision
	}
	return out, nil
}

// removeLists removes lists that still have these revisions.
func (s *Store) removeLists(ctx context.Context, lists map[string]int64) error {
	for id, rev := range lists {
		key := s.kv.Key(listSpace, id)
		same := clientv3.Compare(clientv3.ModRevision(key), "=", rev)
		if _, _, err := s.kv.Commit(ctx, key, []clientv3.Cmp{same}, []clientv3.Op{clientv3.OpDelete(key)}); err != nil {
			return err
		}
	}
	return nil
}

// removable returns how many of a deployment's entries, from the oldest, need not be kept.
func removable(entries []entryKey, exists func(v2.DeploymentID) bool, before time.Time) int {
	if len(entries) == 0 {
		return 0
	}
	if last := entries[len(entries)-1]; !exists(last.deployment) && last.at.Before(before) {
		return len(entries)
	}
	kept, counted := 0, map[string]bool{} // lists, by id
	for i, e := range slices.Backward(entries) {
		kept++
		if e.list != "" && !counted[e.list] {
			kept += e.clusters / clustersPerUnit
			counted[e.list] = true
		}
		if kept > maxKept {
			return i + 1
		}
	}
	return 0
}
