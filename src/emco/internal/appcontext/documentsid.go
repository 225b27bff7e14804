package appcontext

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
)

// documentsID names the document store that the AppContext belongs to.
type documentsID struct {
	Documents string `json:"documents"`
}

func documentsKey(kv *etcdkv.Client) string { return kv.Key("identity") }

// DocumentsID returns the id of the document store that the AppContext belongs to; empty if none
// was recorded yet.
func (s *Store) DocumentsID(ctx context.Context) (string, error) {
	i, _, err := etcdkv.Read[documentsID](ctx, s.kv, documentsKey(s.kv))
	if errs.Is(err, errs.NotFound) {
		return "", nil
	}
	return i.Documents, err
}

// Identify records the document store that the AppContext belongs to, unless one is recorded
// or another process is faster, and returns the recorded one.
func (s *Store) Identify(ctx context.Context, documents string) (string, error) {
	key := documentsKey(s.kv)
	text, err := etcdkv.Encode(key, documentsID{documents})
	if err != nil {
		return "", err
	}
	absent := clientv3.Compare(clientv3.CreateRevision(key), "=", 0)
	if _, _, err := s.kv.Commit(ctx, key, []clientv3.Cmp{absent}, []clientv3.Op{clientv3.OpPut(key, text)}); err != nil {
		return "", err
	}
	return s.DocumentsID(ctx)
}
