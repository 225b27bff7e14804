package shards

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
)

// Stale is a key of a process that has gone, which etcd does not remove.
type Stale struct {
	Key    string // in etcd, with the prefix of the installation
	Reason string // with what to do
}

// onNoLease is why a key stays for ever. Processes write their keys on leases only.
const onNoLease = "it is on no lease, so it stays when its process ends: copies of etcd key by key, as etcdctl make-mirror makes them, lose the leases"

// FindStale returns members and owners of shards that no process keeps alive: those on no lease, and owners that are no members of
// their group. It only reads, at one moment, so a handover is no finding.
func FindStale(ctx context.Context, kv *etcdkv.Client) ([]Stale, error) {
	now, err := kv.Get(ctx, kv.Key("member", "level"))
	if err != nil {
		return nil, err
	}
	members, err := readKeys(ctx, kv, "member", now.Header.Revision)
	if err != nil {
		return nil, err
	}
	owners, err := readKeys(ctx, kv, "own", now.Header.Revision)
	if err != nil {
		return nil, err
	}
	members = slices.DeleteFunc(members, func(k *mvccpb.KeyValue) bool { return len(kv.Split(k.Key)) != 3 }) // the level, which stays
	holders := map[string][]string{}                                                                         // by kind
	var stale []Stale
	for _, k := range members {
		p := kv.Split(k.Key)
		holders[p[1]] = append(holders[p[1]], p[2])
		if k.Lease == 0 {
			stale = append(stale, Stale{string(k.Key), fmt.Sprintf("%s. The other processes leave work to it. Stop the process %s if it runs, and delete the key: etcdctl del %s", onNoLease, p[2], k.Key)})
		}
	}
	for _, k := range owners {
		shard, holder := kv.Split(k.Key)[1], string(k.Value)
		group := holders[shard[:max(0, strings.LastIndex(shard, "-"))]]
		switch {
		case k.Lease == 0:
			stale = append(stale, Stale{string(k.Key), fmt.Sprintf("%s. No other process can own the shard. Stop the process %s if it runs, and delete the key: etcdctl del %s", onNoLease, holder, k.Key)})
		case len(group) > 0 && !slices.Contains(group, holder):
			stale = append(stale, Stale{string(k.Key), fmt.Sprintf("%s owns the shard and is no member any longer, so another process waits for it: restart %s", holder, holder)})
		}
	}
	return stale, nil
}

// readKeys reads the keys of processes at a revision of etcd.
func readKeys(ctx context.Context, kv *etcdkv.Client, kind string, revision int64) (out []*mvccpb.KeyValue, err error) {
	for k, err := range kv.List(ctx, etcdkv.Scan{Prefix: kv.Key(kind) + "/", Revision: revision}) {
		if err != nil {
			return nil, err
		}
		if out = append(out, k); len(out) > maxMembers {
			return nil, errs.E(errs.TooLarge, "read", kv.Key(kind), fmt.Errorf("it has more than %d keys, and so many processes are not possible; delete those that are no processes'", maxMembers))
		}
	}
	return out, nil
}
