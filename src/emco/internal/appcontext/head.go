package appcontext

import (
	"context"
	"iter"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Head returns where a deployment stands, or NotFound.
func (s *Store) Head(ctx context.Context, uid string) (Head, error) {
	if err := checkParts(uid); err != nil {
		return Head{}, err
	}
	h, kv, err := one[Head](ctx, s, s.headKey(uid))
	if err != nil {
		return Head{}, err
	}
	h.UID, h.Mod = uid, kv.ModRevision
	return h, nil
}

func (s *Store) parseHead(kv *mvccpb.KeyValue) (Head, error) {
	h, err := decode[Head](kv)
	h.UID, h.Mod = s.split(kv.Key)[1], kv.ModRevision
	return h, err
}

// Heads yields every deployment, in order of uid; it ends at the first error. Heads
// have a key space of their own, so no other record travels with them.
func (s *Store) Heads(ctx context.Context) iter.Seq2[Head, error] {
	return records(s.list(ctx, &scan{prefix: s.key("head") + "/"}), s.parseHead)
}

// records turns key-value pairs into what they say; it ends at the first error.
func records[T any](kvs iter.Seq2[*mvccpb.KeyValue, error], parse func(*mvccpb.KeyValue) (T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for kv, err := range kvs {
			var v T
			if err == nil {
				v, err = parse(kv)
			}
			if !yield(v, err) || err != nil {
				return
			}
		}
	}
}

// Actions returns a deployment's history, oldest first; none if there is no deployment.
func (s *Store) Actions(ctx context.Context, uid string) ([]Action, error) {
	if err := checkParts(uid); err != nil {
		return nil, err
	}
	var acts []Action
	sc := &scan{prefix: s.key("dep", uid, "act") + "/"}
	for a, err := range records(s.list(ctx, sc), decode[Action]) {
		if err != nil {
			return nil, err
		}
		acts = append(acts, a)
	}
	return acts, nil
}

// Operations yields all work that waits, in order of deployment and id; it ends at the
// first error.
func (s *Store) Operations(ctx context.Context) iter.Seq2[Operation, error] {
	return records(s.list(ctx, &scan{prefix: s.key("op") + "/"}), s.parseOperation)
}

func (s *Store) parseOperation(kv *mvccpb.KeyValue) (Operation, error) {
	op, err := decode[Operation](kv)
	if p := s.split(kv.Key); len(p) == 3 {
		op.UID, op.ID = p[1], p[2]
	}
	return op, err
}

// Delete removes a deployment: head, history, revisions, events and operations, in one
// transaction. It is not an error if there is none. Pairs and reports stay until rsync
// has cleared the clusters.
func (s *Store) Delete(ctx context.Context, uid string) error {
	if err := checkParts(uid); err != nil {
		return err
	}
	_, _, err := s.commit(ctx, "deployment "+uid, nil, s.deleteOps(uid))
	return err
}

// Remove deletes as Delete does, if the head is still as h was read (h.Mod; 0: there is
// none). Conflict with ErrOvertaken otherwise.
func (s *Store) Remove(ctx context.Context, h Head) error {
	if err := checkParts(h.UID); err != nil {
		return err
	}
	_, ok, err := s.commit(ctx, "deployment "+h.UID, []clientv3.Cmp{s.unchanged(h)}, s.deleteOps(h.UID))
	if err == nil && !ok {
		err = overtaken(h.UID)
	}
	return err
}

func (s *Store) deleteOps(uid string) []clientv3.Op {
	return []clientv3.Op{
		clientv3.OpDelete(s.headKey(uid)),
		clientv3.OpDelete(s.useKey(uid)),
		clientv3.OpDelete(s.key("dep", uid)+"/", clientv3.WithPrefix()),
		clientv3.OpDelete(s.key("op", uid)+"/", clientv3.WithPrefix()),
		clientv3.OpDelete(s.key("event", uid)+"/", clientv3.WithPrefix()),
	}
}
