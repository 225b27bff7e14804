package gitstate

import (
	"context"
	"iter"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
)

// Push is a webhook call of a Git server, which announces pushes. One process got it, and passes it on to the
// processes that read these repositories.
type Push struct {
	By    string   `json:"by"`              // the process that got the call
	Paths []string `json:"paths,omitempty"` // of the URLs of the repositories; empty: any
}

// PushStore passes pushes on between processes.
type PushStore struct{ kv *etcdkv.Client }

// NewPushStore returns the pushes below the client's prefix.
func NewPushStore(kv *etcdkv.Client) *PushStore { return &PushStore{kv} }

// AnnouncePush reports pushes to all processes.
func (s *PushStore) AnnouncePush(ctx context.Context, p Push) error {
	key := pushKey(s.kv)
	text, err := etcdkv.Encode(key, p)
	if err != nil {
		return err
	}
	_, _, err = s.kv.Commit(ctx, key, nil, []clientv3.Op{clientv3.OpPut(key, text)})
	return err
}

// Pushes yields the pushes that any process announces from now on, until ctx ends. It may skip one that another follows at
// once, or that is announced while etcd does not answer.
func (s *PushStore) Pushes(ctx context.Context) iter.Seq[Push] {
	return func(yield func(Push) bool) {
		synced := false
		for c := range s.kv.Watch(ctx, pushKey(s.kv)) {
			if c.Synced {
				synced = true
				continue
			}
			if !synced || c.Deleted || c.KV == nil {
				continue
			}
			p, err := etcdkv.Decode[Push](c.KV)
			if err != nil {
				s.kv.Log().Warn("an announced push is not readable", "err", err)
				continue
			}
			if !yield(p) {
				return
			}
		}
	}
}

func pushKey(kv *etcdkv.Client) string { return kv.Key("announced", "push") }
