package appcontext

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

// maxActs leaves room in Step's transaction for the head and two operations.
const maxActs = maxOps - 3

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

// Step moves a deployment from one state to the next in one transaction: it replaces
// the head, which must still be as from was read (from.Mod; 0: there must be none),
// appends acts to the history, and queues op, if given. It sets to.Seq, and to.Op if op
// is given. The operation that from names is removed unless to still names it.
//
// Conflict when someone else was faster; nothing is written then. After Unavailable
// the step may have been made: read the head.
func (s *Store) Step(ctx context.Context, from, to Head, acts []Action, op *Operation) (Head, error) {
	if err := checkStep(from, to, acts, op); err != nil {
		return Head{}, err
	}
	if op != nil {
		own := *op
		own.UID = to.UID
		to.Op = &own
	}
	to.Seq = from.Seq + int64(len(acts))
	ops, err := s.stepOps(from, to, acts, op != nil)
	if err != nil {
		return Head{}, err
	}
	return s.swap(ctx, from.Mod, to, nil, ops)
}

func checkStep(from, to Head, acts []Action, op *Operation) error {
	if from.Mod != 0 && from.UID != to.UID {
		return errs.E(errs.Invalid, "step", to.UID, fmt.Errorf("it was read as %s", from.UID))
	}
	if len(acts) > maxActs {
		return errs.E(errs.TooLarge, "step", to.UID, fmt.Errorf("%d actions are above the limit of %d", len(acts), maxActs))
	}
	if op != nil {
		return checkParts(to.UID, op.ID)
	}
	return checkParts(to.UID)
}

// stepOps are the writes of a step besides the head itself.
func (s *Store) stepOps(from, to Head, acts []Action, queue bool) ([]clientv3.Op, error) {
	var ops []clientv3.Op
	for i, a := range acts {
		key := s.actKey(to.UID, from.Seq+int64(i)+1)
		text, err := encode(key, a)
		if err != nil {
			return nil, err
		}
		ops = append(ops, clientv3.OpPut(key, text))
	}
	if queue {
		key := s.opKey(to.UID, to.Op.ID)
		text, err := encode(key, to.Op)
		if err != nil {
			return nil, err
		}
		ops = append(ops, clientv3.OpPut(key, text))
	}
	if from.Op != nil && (to.Op == nil || to.Op.ID != from.Op.ID) {
		ops = append(ops, clientv3.OpDelete(s.opKey(to.UID, from.Op.ID)))
	}
	return ops, nil
}

// swap writes the head, together with ops, if it is still at revision mod and cmps hold.
func (s *Store) swap(ctx context.Context, mod int64, to Head, cmps []clientv3.Cmp, ops []clientv3.Op) (Head, error) {
	key := s.headKey(to.UID)
	text, err := encode(key, to)
	if err != nil {
		return Head{}, err
	}
	cmps = append(cmps, clientv3.Compare(clientv3.ModRevision(key), "=", mod))
	rev, ok, err := s.commit(ctx, key, cmps, append(ops, clientv3.OpPut(key, text)))
	if err != nil {
		return Head{}, err
	}
	if !ok {
		return Head{}, errs.E(errs.Conflict, "change", "deployment "+to.UID, errors.New("someone else was faster; read it again"))
	}
	to.Mod = rev
	return to, nil
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
	_, _, err := s.commit(ctx, "deployment "+uid, nil, []clientv3.Op{
		clientv3.OpDelete(s.headKey(uid)),
		clientv3.OpDelete(s.key("dep", uid)+"/", clientv3.WithPrefix()),
		clientv3.OpDelete(s.key("op", uid)+"/", clientv3.WithPrefix()),
		clientv3.OpDelete(s.key("event", uid)+"/", clientv3.WithPrefix()),
	})
	return err
}
