package appcontext

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
)

// Generation is a period in the life of an installation. The documents and the AppContext hold the present one, see
// package generation.
type Generation struct {
	Number int64     `json:"number"` // 0: there is none yet
	Token  string    `json:"token"`  // random: after a restore, a number comes a second time
	Begun  time.Time `json:"begun"`
}

// IsZero reports whether there is no generation.
func (g Generation) IsZero() bool { return g.Number == 0 }

// Generations are what the AppContext holds.
type Generations struct {
	Generation
	Next Generation `json:"next,omitzero"` // while it begins: the documents hold this one or the present one
	Mod  int64      `json:"-"`             // etcd's revision of the record; 0: it does not exist
}

func generationKey(kv *etcdkv.Client) string { return kv.Key("generation") }

// Generations returns the generations that the AppContext holds.
func (s *Store) Generations(ctx context.Context) (Generations, error) {
	g, kv, err := etcdkv.Read[Generations](ctx, s.kv, generationKey(s.kv))
	if errs.Is(err, errs.NotFound) {
		return Generations{}, nil
	}
	if err == nil {
		g.Mod = kv.ModRevision
	}
	return g, err
}

// SetGenerations replaces what Generations returned; ok is false if another process was faster.
func (s *Store) SetGenerations(ctx context.Context, was, to Generations) (set Generations, ok bool, err error) {
	key := generationKey(s.kv)
	text, err := etcdkv.Encode(key, to)
	if err != nil {
		return to, false, err
	}
	same := clientv3.Compare(clientv3.ModRevision(key), "=", was.Mod)
	to.Mod, ok, err = s.kv.Commit(ctx, key, []clientv3.Cmp{same}, []clientv3.Op{clientv3.OpPut(key, text)})
	return to, ok, err
}
