package shards

import (
	"context"
	"slices"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
)

// Running returns the names of the processes that share the state, sorted. A process that was killed is named until its
// lease ends; one whose key is on no lease is not, see FindStale.
func Running(ctx context.Context, kv *etcdkv.Client) ([]string, error) {
	keys, err := readKeys(ctx, kv, "member", 0)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, k := range keys {
		if p := kv.Split(k.Key); k.Lease != 0 {
			names = append(names, p[len(p)-1])
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}
