package appcontext

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
)

const (
	maxRecordsPerChange = etcdkv.MaxOps - 3 // history entries, events and workflow runs of one change: the limit leaves room for the head and two operations
	maxHeadChanges      = 2                 // in one transaction
)

// HeadStore stores heads, with the history and the waiting operations of deployments.
type HeadStore struct {
	kv     *etcdkv.Client
	events *EventStore
}

func headKey(kv *etcdkv.Client, uid HeadID) string { return kv.Key("head", string(uid)) }
func useKey(kv *etcdkv.Client, uid HeadID) string  { return kv.Key("use", string(uid)) }

func operationKey(kv *etcdkv.Client, uid HeadID, id string) string {
	return kv.Key("op", string(uid), id)
}

func actionKey(kv *etcdkv.Client, uid HeadID, seq int64) string {
	return kv.Key("dep", string(uid), "act", etcdkv.Number(seq))
}

// Head returns the head of a deployment, or NotFound.
func (s *HeadStore) Head(ctx context.Context, uid HeadID) (Head, error) {
	if err := etcdkv.CheckParts(string(uid)); err != nil {
		return Head{}, err
	}
	h, kv, err := etcdkv.Read[Head](ctx, s.kv, headKey(s.kv, uid))
	if err != nil {
		return Head{}, err
	}
	h.UID, h.Mod = uid, kv.ModRevision
	return h, nil
}

func (s *HeadStore) parseHead(kv *mvccpb.KeyValue) (Head, error) {
	h, err := etcdkv.Decode[Head](kv)
	h.UID, h.Mod = HeadID(s.kv.Split(kv.Key)[1]), kv.ModRevision
	return h, err
}

// Heads yields every head, in order of uid; it ends at the first error.
func (s *HeadStore) Heads(ctx context.Context) iter.Seq2[Head, error] {
	return etcdkv.Records(s.kv.List(ctx, etcdkv.Scan{Prefix: s.kv.Key("head") + "/"}), s.parseHead)
}

// HeadEvent reports a head that exists, was changed, or was deleted.
type HeadEvent struct {
	Head    Head // only UID and Mod if Deleted; nothing if Synced
	Deleted bool
	Synced  bool // comes once, after every head that existed at the start
}

// WatchHeads yields every head, then an event that is Synced, then changes, each at least
// once and in order for each deployment; a change may be skipped only if a later one of
// the same deployment follows. It ends only when ctx ends: after lost connections and
// compactions it lists again. An error stands for one head that cannot be read (UID and
// Mod are set); the iteration goes on.
func (s *HeadStore) WatchHeads(ctx context.Context) iter.Seq2[HeadEvent, error] {
	return func(yield func(HeadEvent, error) bool) {
		for c := range s.kv.Watch(ctx, s.kv.Key("head")+"/") {
			var err error
			e := HeadEvent{Synced: c.Synced, Deleted: c.Deleted}
			switch {
			case c.Deleted:
				e.Head = Head{UID: HeadID(s.kv.Split(c.KV.Key)[1]), Mod: c.KV.ModRevision}
			case !c.Synced:
				e.Head, err = s.parseHead(c.KV)
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// History returns a deployment's history, oldest first: at least the newest KeptHistory entries. It returns
// nothing if there is no such deployment.
func (s *HeadStore) History(ctx context.Context, uid HeadID) ([]HistoryEntry, error) {
	if err := etcdkv.CheckParts(string(uid)); err != nil {
		return nil, err
	}
	var all []HistoryEntry
	list := s.kv.List(ctx, etcdkv.Scan{Prefix: s.kv.Key("dep", string(uid), "act") + "/"})
	for a, err := range etcdkv.Records(list, s.parseEntry) {
		if err != nil {
			return nil, err
		}
		all = append(all, a)
	}
	return all, nil
}

// Recorded yields the ids of all deployments that have a history or a revision, with or without a head, in order; it
// ends at the first error. It takes one request for each deployment, and skips its records.
func (s *HeadStore) Recorded(ctx context.Context) iter.Seq2[HeadID, error] {
	return func(yield func(HeadID, error) bool) {
		scan := etcdkv.Scan{Prefix: s.kv.Key("dep") + "/", KeysOnly: true, First: 1}
		for more := true; more; {
			more = false
			for kv, err := range s.kv.List(ctx, scan) {
				if err != nil {
					yield("", err)
					return
				}
				id := HeadID(s.kv.Split(kv.Key)[1])
				scan.After, more = s.kv.Key("dep", string(id))+"/\xff", true
				if !yield(id, nil) {
					return
				}
				break
			}
		}
	}
}

func (s *HeadStore) parseEntry(kv *mvccpb.KeyValue) (HistoryEntry, error) {
	a, err := etcdkv.Decode[HistoryEntry](kv)
	if err == nil {
		p := s.kv.Split(kv.Key)
		if a.Seq, err = strconv.ParseInt(p[len(p)-1], 10, 64); err != nil {
			err = etcdkv.Corrupt(string(kv.Key), err)
		}
	}
	return a, err
}

// Operations yields all waiting operations, in order of deployment and id; it ends at the
// first error.
func (s *HeadStore) Operations(ctx context.Context) iter.Seq2[Operation, error] {
	return etcdkv.Records(s.kv.List(ctx, etcdkv.Scan{Prefix: s.kv.Key("op") + "/"}), s.parseOperation)
}

// WatchOperations yields the waiting operations, then new and replaced ones, each at least
// once. It ends only when ctx ends. An error stands for one operation that cannot be read
// (UID and ID are set); the iteration goes on.
func (s *HeadStore) WatchOperations(ctx context.Context) iter.Seq2[Operation, error] {
	return func(yield func(Operation, error) bool) {
		for c := range s.kv.Watch(ctx, s.kv.Key("op")+"/") {
			if c.Synced || c.Deleted {
				continue
			}
			if !yield(s.parseOperation(c.KV)) {
				return
			}
		}
	}
}

func (s *HeadStore) parseOperation(kv *mvccpb.KeyValue) (Operation, error) {
	op, err := etcdkv.Decode[Operation](kv)
	if p := s.kv.Split(kv.Key); len(p) == 3 {
		op.UID, op.ID = HeadID(p[1]), p[2]
	}
	return op, err
}

// Delete removes a deployment: head, history, revisions, events and operations, in one
// transaction, and then its commits from the index; a sweep removes what a crash leaves there. It is no error if it does not exist. Pairs and reports stay until rsync has
// cleared the clusters.
func (s *HeadStore) Delete(ctx context.Context, uid HeadID) error {
	if err := etcdkv.CheckParts(string(uid)); err != nil {
		return err
	}
	found, err := indexedOf(ctx, s.kv, uid)
	if err != nil {
		return err
	}
	if _, _, err := s.kv.Commit(ctx, "deployment "+string(uid), nil, s.deletions(uid)); err != nil {
		return err
	}
	return removeIndexed(ctx, s.kv, found)
}

// Remove deletes as Delete does, if the head is still as h was read (h.Mod; 0: it does not
// exist). Conflict with ErrOvertaken otherwise.
func (s *HeadStore) Remove(ctx context.Context, h Head) error {
	if err := etcdkv.CheckParts(string(h.UID)); err != nil {
		return err
	}
	found, err := indexedOf(ctx, s.kv, h.UID)
	if err != nil {
		return err
	}
	_, ok, err := s.kv.Commit(ctx, "deployment "+string(h.UID), []clientv3.Cmp{s.unchanged(h)}, s.deletions(h.UID))
	if err == nil && !ok {
		err = overtaken(h.UID)
	}
	if err != nil {
		return err
	}
	return removeIndexed(ctx, s.kv, found)
}

func (s *HeadStore) deletions(uid HeadID) []clientv3.Op {
	return []clientv3.Op{
		clientv3.OpDelete(headKey(s.kv, uid)),
		clientv3.OpDelete(useKey(s.kv, uid)),
		clientv3.OpDelete(s.kv.Key("dep", string(uid))+"/", clientv3.WithPrefix()),
		clientv3.OpDelete(s.kv.Key("op", string(uid))+"/", clientv3.WithPrefix()),
		clientv3.OpDelete(s.kv.Key("event", string(uid))+"/", clientv3.WithPrefix()),
		clientv3.OpDelete(runPrefix(s.kv, uid), clientv3.WithPrefix()),
	}
}

// ErrOvertaken means that a head is no longer as it was read: another writer was faster. It
// comes wrapped in a Conflict. Read again and try again.
var ErrOvertaken = errors.New("someone else was faster; read it again")

func overtaken(uid HeadID) error {
	return errs.E(errs.Conflict, "change", "deployment "+string(uid), ErrOvertaken)
}

// HeadChange changes one deployment from one state to the next.
type HeadChange struct {
	From, To Head           // From as it was read; From.Mod is 0 if it did not exist
	Acts     []HistoryEntry // for the history
	Events   []Event        // for the event log; ChangeHeads fills in the deployment, and the time if it is zero
	Op       *Operation     // to queue; nil for none
	Runs     []WorkflowRun  // of hooks; each replaces the last run of its hook

	// Needs is another head that must be as it was read, such as that of a logical cloud;
	// the change is recorded as a use of it. Nil for none.
	Needs *Head
	// Unused is what Uses returned before the caller found that nothing uses the head. The
	// change is refused if a use was recorded since. Nil if that does not matter.
	Unused *Uses
}

// Uses is a moment in the uses of a head, see HeadChange.
type Uses struct {
	uid HeadID
	mod int64
}

// Uses returns the moment of the last recorded use of a head.
func (s *HeadStore) Uses(ctx context.Context, uid HeadID) (Uses, error) {
	if err := etcdkv.CheckParts(string(uid)); err != nil {
		return Uses{}, err
	}
	r, err := s.kv.Get(ctx, useKey(s.kv, uid))
	if err != nil || len(r.Kvs) == 0 {
		return Uses{uid: uid}, err
	}
	return Uses{uid: uid, mod: r.Kvs[0].ModRevision}, nil
}

// ChangeHead makes one change: it replaces the head, which must still be as from was read
// (from.Mod; 0: it must not exist), appends acts to the history, and queues op, if given.
// See HeadChange.
func (s *HeadStore) ChangeHead(ctx context.Context, from, to Head, acts []HistoryEntry, op *Operation) (Head, error) {
	heads, err := s.ChangeHeads(ctx, HeadChange{From: from, To: to, Acts: acts, Op: op})
	if err != nil {
		return Head{}, err
	}
	return heads[0], nil
}

// ChangeHeads makes one or two changes of different deployments in one transaction: both or none.
// It sets Seq of each head, and Op where one is queued. The operation that From names is
// removed unless To still names it. The heads are returned in order.
//
// Conflict with ErrOvertaken when a head is not as it was read; nothing is written then.
// After Unavailable the changes may have been made: read the heads.
func (s *HeadStore) ChangeHeads(ctx context.Context, changes ...HeadChange) ([]Head, error) {
	if len(changes) == 0 || len(changes) > maxHeadChanges || len(changes) == 2 && changes[0].To.UID == changes[1].To.UID {
		return nil, errs.E(errs.Invalid, "change", "deployments", fmt.Errorf("%d changes: it must be one, or two of different deployments", len(changes)))
	}
	t := &headTxn{used: map[string]bool{}}
	for _, m := range changes {
		if err := s.addChange(t, m); err != nil {
			return nil, err
		}
	}
	if len(t.ops) > etcdkv.MaxOps {
		return nil, errs.E(errs.TooLarge, "change", string(t.heads[0].UID), fmt.Errorf("%d writes are above the limit of %d", len(t.ops), etcdkv.MaxOps))
	}
	rev, ok, err := s.kv.Commit(ctx, headKey(s.kv, t.heads[0].UID), t.cmps, t.ops)
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

// headTxn is the transaction of one or two changes while it is built.
type headTxn struct {
	heads []Head // as they are afterwards
	cmps  []clientv3.Cmp
	ops   []clientv3.Op
	used  map[string]bool // keys of uses; a key may be written once
	err   error           // of encoding
}

// addChange adds a change: what it requires of heads, and what it writes.
func (s *HeadStore) addChange(t *headTxn, m HeadChange) error {
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
	if m.Unused != nil {
		t.cmps = append(t.cmps, clientv3.Compare(clientv3.ModRevision(useKey(s.kv, m.Unused.uid)), "=", m.Unused.mod))
	}
	if m.Needs != nil {
		t.cmps = append(t.cmps, s.unchanged(*m.Needs))
		if key := useKey(s.kv, m.Needs.UID); !t.used[key] {
			t.used[key] = true
			t.ops = append(t.ops, clientv3.OpPut(key, string(to.UID)))
		}
	}

	addPut(t, headKey(s.kv, to.UID), to)
	for i, a := range m.Acts {
		addPut(t, actionKey(s.kv, to.UID, m.From.Seq+int64(i)+1), a)
	}
	for _, e := range m.Events {
		e = s.events.complete(e, to.UID)
		addPut(t, s.events.newKey(e), e)
	}
	for _, r := range m.Runs {
		addPut(t, runKey(s.kv, to.UID, r.Name), r)
	}
	if m.Op != nil {
		addPut(t, operationKey(s.kv, to.UID, to.Op.ID), to.Op)
	}
	if m.From.Op != nil && (to.Op == nil || to.Op.ID != m.From.Op.ID) {
		t.ops = append(t.ops, clientv3.OpDelete(operationKey(s.kv, to.UID, m.From.Op.ID)))
	}
	return t.err
}

// addPut adds a record. The first error stays in t.err.
func addPut[T any](t *headTxn, key string, v T) {
	text, err := etcdkv.Encode(key, v)
	if t.err == nil {
		t.err = err
	}
	t.ops = append(t.ops, clientv3.OpPut(key, text))
}

func (m HeadChange) check() error {
	if m.From.Mod != 0 && m.From.UID != m.To.UID {
		return errs.E(errs.Invalid, "change", string(m.To.UID), fmt.Errorf("it was read as %s", m.From.UID))
	}
	if n := len(m.Acts) + len(m.Events) + len(m.Runs); n > maxRecordsPerChange {
		return errs.E(errs.TooLarge, "change", string(m.To.UID), fmt.Errorf("%d actions, events and hooks are above the limit of %d", n, maxRecordsPerChange))
	}
	for _, r := range m.Runs {
		if err := etcdkv.CheckParts(string(r.Name)); err != nil {
			return err
		}
	}
	if m.Op != nil {
		return etcdkv.CheckParts(string(m.To.UID), m.Op.ID)
	}
	return etcdkv.CheckParts(string(m.To.UID))
}

// unchanged holds while a head is as it was read; with Mod 0, while it does not exist.
func (s *HeadStore) unchanged(h Head) clientv3.Cmp {
	return clientv3.Compare(clientv3.ModRevision(headKey(s.kv, h.UID)), "=", h.Mod)
}

// swap writes the head, together with ops, if it is still at revision mod and cmps hold.
func (s *HeadStore) swap(ctx context.Context, mod int64, to Head, cmps []clientv3.Cmp, ops []clientv3.Op) (Head, error) {
	key := headKey(s.kv, to.UID)
	text, err := etcdkv.Encode(key, to)
	if err != nil {
		return Head{}, err
	}
	cmps = append(cmps, s.unchanged(Head{UID: to.UID, Mod: mod}))
	rev, ok, err := s.kv.Commit(ctx, key, cmps, append(ops, clientv3.OpPut(key, text)))
	if err != nil {
		return Head{}, err
	}
	if !ok {
		return Head{}, overtaken(to.UID)
	}
	to.Mod = rev
	return to, nil
}
