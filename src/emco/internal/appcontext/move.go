package appcontext

import (
	"context"
	"errors"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

const (
	maxActs  = maxOps - 3 // of one move: leaves room for the head and two operations
	maxMoves = 2          // at once
)

// ErrOvertaken says that a head is not as it was read any more: whoever changed it was
// faster. It comes wrapped in a Conflict. To read again and to try again is right.
var ErrOvertaken = errors.New("someone else was faster; read it again")

func overtaken(uid string) error {
	return errs.E(errs.Conflict, "change", "deployment "+uid, ErrOvertaken)
}

// Move is the way of one deployment from one state to the next.
type Move struct {
	From, To Head       // From as it was read; From.Mod is 0 if there was none
	Acts     []Action   // for the history
	Events   []Event    // for the event log; the deployment and the time are set if they are not
	Op       *Operation // to be queued; nil for none

	// Needs is another head that must be as it was read, such as that of a logical cloud;
	// the move is noted as a use of it. Nil for none.
	Needs *Head
	// Unused is what Uses said before it was found out that nobody uses the head. The
	// move is not made if a use was noted since. Nil if that does not matter.
	Unused *Uses
}

// Uses is a moment in the uses of a head, see Move.
type Uses struct {
	uid string
	mod int64
}

// Uses returns the moment of the last use of a head that was noted.
func (s *Store) Uses(ctx context.Context, uid string) (Uses, error) {
	if err := checkParts(uid); err != nil {
		return Uses{}, err
	}
	r, err := s.get(ctx, s.useKey(uid))
	if err != nil || len(r.Kvs) == 0 {
		return Uses{uid: uid}, err
	}
	return Uses{uid: uid, mod: r.Kvs[0].ModRevision}, nil
}

// Step makes one move: it replaces the head, which must still be as from was read
// (from.Mod; 0: there must be none), appends acts to the history, and queues op, if
// given. See Move.
func (s *Store) Step(ctx context.Context, from, to Head, acts []Action, op *Operation) (Head, error) {
	heads, err := s.Move(ctx, Move{From: from, To: to, Acts: acts, Op: op})
	if err != nil {
		return Head{}, err
	}
	return heads[0], nil
}

// Move makes one or two moves of different deployments in one transaction: both or none.
// It sets Seq of each head, and Op where one is queued. The operation that From names is
// removed unless To still names it. The heads are returned in order.
//
// Conflict with ErrOvertaken when a head is not as it was read; nothing is written then.
// After Unavailable the moves may have been made: read the heads.
func (s *Store) Move(ctx context.Context, moves ...Move) ([]Head, error) {
	t, err := s.transaction(moves)
	if err != nil {
		return nil, err
	}
	rev, ok, err := s.commit(ctx, s.headKey(t.heads[0].UID), t.cmps, t.ops)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, overtaken(t.heads[0].UID)
	}
	for i := range t.heads {
		t.heads[i].Mod = rev
	}
	return t.heads, nil
}

// moving is a transaction that is put together.
type moving struct {
	heads []Head
	cmps  []clientv3.Cmp
	ops   []clientv3.Op
	used  map[string]bool // keys of uses; a key may be written once
}

func (s *Store) transaction(moves []Move) (*moving, error) {
	t := &moving{used: map[string]bool{}}
	if len(moves) == 0 || len(moves) > maxMoves || len(moves) == 2 && moves[0].To.UID == moves[1].To.UID {
		return nil, errs.E(errs.Invalid, "change", "deployments", fmt.Errorf("%d moves are not one, or two of different deployments", len(moves)))
	}
	for _, m := range moves {
		if err := s.addMove(t, m); err != nil {
			return nil, err
		}
	}
	if len(t.ops) > maxOps {
		return nil, errs.E(errs.TooLarge, "change", t.heads[0].UID, fmt.Errorf("%d writes are above the limit of %d", len(t.ops), maxOps))
	}
	return t, nil
}

func (s *Store) addMove(t *moving, m Move) error {
	if err := m.check(); err != nil {
		return err
	}
	to := m.To
	if m.Op != nil {
		own := *m.Op
		own.UID = to.UID
		to.Op = &own
	}
	to.Seq = m.From.Seq + int64(len(m.Acts))
	t.heads = append(t.heads, to)
	t.cmps = append(t.cmps, s.unchanged(Head{UID: to.UID, Mod: m.From.Mod}))
	s.addConditions(t, m)
	return s.addWrites(t, m, to)
}

func (m Move) check() error {
	if m.From.Mod != 0 && m.From.UID != m.To.UID {
		return errs.E(errs.Invalid, "step", m.To.UID, fmt.Errorf("it was read as %s", m.From.UID))
	}
	if len(m.Acts)+len(m.Events) > maxActs {
		return errs.E(errs.TooLarge, "step", m.To.UID, fmt.Errorf("%d actions and events are above the limit of %d", len(m.Acts)+len(m.Events), maxActs))
	}
	if m.Op != nil {
		return checkParts(m.To.UID, m.Op.ID)
	}
	return checkParts(m.To.UID)
}

// addConditions adds what a move demands of other heads.
func (s *Store) addConditions(t *moving, m Move) {
	if m.Unused != nil {
		t.cmps = append(t.cmps, clientv3.Compare(clientv3.ModRevision(s.useKey(m.Unused.uid)), "=", m.Unused.mod))
	}
	if m.Needs == nil {
		return
	}
	t.cmps = append(t.cmps, s.unchanged(*m.Needs))
	if key := s.useKey(m.Needs.UID); !t.used[key] {
		t.used[key] = true
		t.ops = append(t.ops, clientv3.OpPut(key, m.To.UID))
	}
}

// addWrites adds what a move writes: the head, actions, events and the operation.
func (s *Store) addWrites(t *moving, m Move, to Head) error {
	w := &writes{ops: t.ops}
	w.put(s.headKey(to.UID), encoded(to))
	for i, a := range m.Acts {
		w.put(s.actKey(to.UID, m.From.Seq+int64(i)+1), encoded(a))
	}
	for _, e := range m.Events {
		e = s.stamped(e, to.UID)
		w.put(s.eventKey(e), encoded(e))
	}
	if m.Op != nil {
		w.put(s.opKey(to.UID, to.Op.ID), encoded(to.Op))
	}
	if m.From.Op != nil && (to.Op == nil || to.Op.ID != m.From.Op.ID) {
		w.ops = append(w.ops, clientv3.OpDelete(s.opKey(to.UID, m.From.Op.ID)))
	}
	t.ops = w.ops
	return w.err
}

// writes collects puts; the first error stays.
type writes struct {
	ops []clientv3.Op
	err error
}

func (w *writes) put(key string, text func(key string) (string, error)) {
	value, err := text(key)
	if w.err == nil {
		w.err = err
	}
	w.ops = append(w.ops, clientv3.OpPut(key, value))
}

// encoded returns what encodes v as the value of a key.
func encoded[T any](v T) func(key string) (string, error) {
	return func(key string) (string, error) { return encode(key, v) }
}

// unchanged holds as long as a head is as it was read; with Mod 0, as long as there is none.
func (s *Store) unchanged(h Head) clientv3.Cmp {
	return clientv3.Compare(clientv3.ModRevision(s.headKey(h.UID)), "=", h.Mod)
}

// swap writes the head, together with ops, if it is still at revision mod and cmps hold.
func (s *Store) swap(ctx context.Context, mod int64, to Head, cmps []clientv3.Cmp, ops []clientv3.Op) (Head, error) {
	key := s.headKey(to.UID)
	text, err := encode(key, to)
	if err != nil {
		return Head{}, err
	}
	cmps = append(cmps, s.unchanged(Head{UID: to.UID, Mod: mod}))
	rev, ok, err := s.commit(ctx, key, cmps, append(ops, clientv3.OpPut(key, text)))
	if err != nil {
		return Head{}, err
	}
	if !ok {
		return Head{}, overtaken(to.UID)
	}
	to.Mod = rev
	return to, nil
}
