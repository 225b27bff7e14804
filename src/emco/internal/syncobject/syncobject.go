// Package syncobject reads cluster-sync-objects with their secrets. Only those who
// check or use a credential import it.
package syncobject

import (
	"context"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/gitops"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

// Read returns a sync object as gitops reads it; the zero Object for an empty name.
// provider is the key of the cluster provider that it belongs to.
func Read(ctx context.Context, db *store.DB, provider store.Key, name string) (gitops.Object, error) {
	if name == "" {
		return gitops.Object{}, nil
	}
	doc, err := db.Get(ctx, provider+"/cluster-sync-objects/"+store.Key(name))
	if err != nil {
		return gitops.Object{}, err
	}
	plain, err := db.Reveal(ctx, doc)
	if err != nil {
		return gitops.Object{}, err
	}
	o, err := v2.Decode[v2.SyncObject](plain, v2.Lenient)
	return Of(o), err
}

// Of returns a document, with its secrets, as gitops reads it.
func Of(o v2.SyncObject) gitops.Object {
	return gitops.Object{Name: o.Metadata.Name, KV: o.Spec.Strings()}
}

// SeatOf returns where in its repository a cluster is.
func SeatOf(g v2.GitOps) gitops.Seat {
	return gitops.Seat{Mode: g.RefMode, Shard: g.Shard, FanOut: g.FanOut}
}
