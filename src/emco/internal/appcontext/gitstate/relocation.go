package gitstate

import (
	"context"
	"errors"
	"iter"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
)

// Relocation is the progress of a cluster's last move to another place in Git. The
// registration of the cluster names both places and numbers its moves. When the cluster is
// deregistered, the record names what it leaves behind.
type Relocation struct {
	Cluster      v2.ClusterKey     `json:"-"`
	Registration string            `json:"registration"`          // id of the cluster's document
	Number       int64             `json:"number"`                // of the move
	Stage        MoveStage         `json:"stage"`                 // done so far
	Finish       bool              `json:"finish,omitempty"`      // it may be removed from the old place, even if something still reads that
	Deployments  []v2.DeploymentID `json:"deployments,omitempty"` // in the old place
	Written      string            `json:"written,omitempty"`     // commit that added it to the new place
	Cleared      string            `json:"cleared,omitempty"`     // commit that removed it from the old place
	Error        string            `json:"error,omitempty"`       // why the last attempt to continue failed
	Left         LeftPlace         `json:"left,omitzero"`         // of a deregistered cluster
	At           time.Time         `json:"at"`                    // when this record was last written, not when the stage began
	Mod          int64             `json:"-"`                     // etcd revision at which it was read; used for compare-and-swap
}

// LeftPlace is the place in Git of a deregistered cluster, as its registration named it.
type LeftPlace struct {
	Type      string `json:"type"`
	Reference string `json:"reference,omitempty"`
	Resource  string `json:"resource,omitempty"`
	RefMode   string `json:"refMode,omitempty"`
	Shard     string `json:"shard,omitempty"`
	FanOut    bool   `json:"fanOut,omitempty"`
}

// MoveStage is the progress of a move.
type MoveStage string

// The stages of a move, in order, and the one of a deregistered cluster.
const (
	MoveAsked   MoveStage = "asked"   // nothing is done yet
	MoveWritten MoveStage = "written" // everything that the cluster holds is in the new place
	MoveTaken   MoveStage = "taken"   // and the shard of the new place has taken it over
	MoveDone    MoveStage = "done"    // and it is removed from the old place
	MoveLeft    MoveStage = "left"    // the cluster was deregistered: nothing reads its branch
)

// IsAtLeast reports whether r is about this move of a registration, or a later one.
func (r Relocation) IsAtLeast(registration string, number int64) bool {
	return r.Registration == registration && r.Number >= number
}

// RelocationStore stores the progress of clusters' moves.
type RelocationStore struct {
	kv  *etcdkv.Client
	now func() time.Time
}

// NewRelocationStore returns the moves below the client's prefix.
func NewRelocationStore(kv *etcdkv.Client, now func() time.Time) *RelocationStore {
	return &RelocationStore{kv: kv, now: now}
}

// Relocation returns the progress of a cluster's last move, or NotFound.
func (s *RelocationStore) Relocation(ctx context.Context, cluster v2.ClusterKey) (Relocation, error) {
	if err := etcdkv.CheckParts(string(cluster)); err != nil {
		return Relocation{}, err
	}
	_, kv, err := etcdkv.Read[Relocation](ctx, s.kv, s.kv.Key("move", string(cluster)))
	if errs.Is(err, errs.NotFound) {
		err = errs.E(errs.NotFound, "read", "move of "+string(cluster), errors.New("it was never moved while something was deployed on it"))
	}
	if err != nil {
		return Relocation{}, err
	}
	return s.parseRelocation(kv)
}

// PutRelocation writes the progress of a move. The record must be as r was read (r.Mod; 0: it
// must not exist); Conflict if not, and ErrFenced if own is lost.
func (s *RelocationStore) PutRelocation(ctx context.Context, own etcdkv.Fence, r Relocation) (Relocation, error) {
	if err := etcdkv.CheckParts(string(r.Cluster)); err != nil {
		return r, err
	}
	r.At = s.now().UTC()
	key := s.kv.Key("move", string(r.Cluster))
	text, err := etcdkv.Encode(key, r)
	if err != nil {
		return r, err
	}
	same := clientv3.Compare(clientv3.ModRevision(key), "=", r.Mod)
	rev, ok, err := s.kv.Fenced(own).Commit(ctx, key, []clientv3.Cmp{same}, []clientv3.Op{clientv3.OpPut(key, text)})
	if err == nil && !ok {
		err = errs.E(errs.Conflict, "change", "move of "+string(r.Cluster), errors.New("someone else was faster; read it again"))
	}
	if err == nil {
		r.Mod = rev
	}
	return r, err
}

// AskRelocation requests a cluster's move, or with Finish its removal from the old place. Of
// ask only Cluster, Registration, Number and Finish count. A move that was requested before
// continues unchanged.
func (s *RelocationStore) AskRelocation(ctx context.Context, ask Relocation) error {
	return s.changeRelocation(ctx, ask.Cluster, func(r Relocation) (Relocation, bool) {
		if !r.IsAtLeast(ask.Registration, ask.Number) {
			r = Relocation{Cluster: ask.Cluster, Registration: ask.Registration, Number: ask.Number, Stage: MoveAsked, Finish: ask.Finish, Mod: r.Mod}
			return r, true
		}
		changes := ask.Finish && !r.Finish
		r.Finish = r.Finish || ask.Finish
		return r, changes
	})
}

// CheckTurnBack refuses to turn back the move with a number once the old place is being cleared
// or is cleared, and while pairs are handed over.
func (r Relocation) CheckTurnBack(registration string, number int64) error {
	switch {
	case !r.IsAtLeast(registration, number) || r.Stage == MoveAsked:
		return nil
	case r.Stage == MoveWritten:
		return errs.New(errs.Conflict, "the cluster is just being handed over; abort the move in a moment")
	case r.Stage != MoveTaken || r.Finish:
		return errs.New(errs.Conflict, "the old place is being cleared: the move can no longer be aborted; move the cluster back when it is done")
	}
	return nil
}

// TurnBack replaces a move, which has the number and has not passed its point of no return, by
// the next one, which leads back. A record that is turned already stays. Conflict if the old
// place is being cleared or is cleared, or while pairs are handed over.
func (s *RelocationStore) TurnBack(ctx context.Context, cluster v2.ClusterKey, registration string, number int64) error {
	var refusal error
	err := s.changeRelocation(ctx, cluster, func(r Relocation) (Relocation, bool) {
		if refusal = r.CheckTurnBack(registration, number); r.IsAtLeast(registration, number+1) {
			return r, false
		}
		next := Relocation{Cluster: cluster, Registration: registration, Number: number + 1, Stage: MoveAsked, Mod: r.Mod}
		return next, refusal == nil
	})
	if err == nil {
		err = refusal
	}
	return err
}

// LeaveRelocation records what a deregistered cluster leaves behind.
func (s *RelocationStore) LeaveRelocation(ctx context.Context, cluster v2.ClusterKey, registration string, left LeftPlace) error {
	return s.changeRelocation(ctx, cluster, func(r Relocation) (Relocation, bool) {
		return Relocation{Cluster: cluster, Registration: registration, Number: r.Number, Stage: MoveLeft, Left: left, Mod: r.Mod}, true
	})
}

func (s *RelocationStore) changeRelocation(ctx context.Context, cluster v2.ClusterKey, how func(Relocation) (Relocation, bool)) error {
	for {
		r, err := s.Relocation(ctx, cluster)
		if err != nil && !errs.Is(err, errs.NotFound) {
			return err
		}
		r, changes := how(r)
		if !changes {
			return nil
		}
		if _, err = s.PutRelocation(ctx, etcdkv.Fence{}, r); !errs.Is(err, errs.Conflict) {
			return err
		}
	}
}

// ForgetRelocation removes the record of a cluster's moves, if it exists.
func (s *RelocationStore) ForgetRelocation(ctx context.Context, cluster v2.ClusterKey) error {
	if err := etcdkv.CheckParts(string(cluster)); err != nil {
		return err
	}
	key := s.kv.Key("move", string(cluster))
	_, _, err := s.kv.Commit(ctx, key, nil, []clientv3.Op{clientv3.OpDelete(key)})
	return err
}

// DropRelocation removes a record, which must still be as r was read.
func (s *RelocationStore) DropRelocation(ctx context.Context, own etcdkv.Fence, r Relocation) error {
	key := s.kv.Key("move", string(r.Cluster))
	same := clientv3.Compare(clientv3.ModRevision(key), "=", r.Mod)
	_, ok, err := s.kv.Fenced(own).Commit(ctx, key, []clientv3.Cmp{same}, []clientv3.Op{clientv3.OpDelete(key)})
	if err == nil && !ok {
		err = errs.E(errs.Conflict, "forget", "move of "+string(r.Cluster), errors.New("someone else was faster; read it again"))
	}
	return err
}

// RelocationEvent is the progress of a move, or the mark that all records that existed at the
// start have been yielded.
type RelocationEvent struct {
	Relocation Relocation // only Cluster and Mod if Forgotten; nothing if Synced
	Forgotten  bool
	Synced     bool
}

// WatchRelocations yields every record, then an event that is Synced, then changes, each at
// least once and in order for each cluster. It ends only when ctx ends. An error stands
// for one record that cannot be read; the iteration goes on.
func (s *RelocationStore) WatchRelocations(ctx context.Context) iter.Seq2[RelocationEvent, error] {
	return func(yield func(RelocationEvent, error) bool) {
		for c := range s.kv.Watch(ctx, s.kv.Key("move")+"/") {
			var err error
			e := RelocationEvent{Synced: c.Synced, Forgotten: c.Deleted}
			switch {
			case c.Deleted:
				e.Relocation = Relocation{Cluster: v2.ClusterKey(s.kv.Split(c.KV.Key)[1]), Mod: c.KV.ModRevision}
			case !c.Synced:
				e.Relocation, err = s.parseRelocation(c.KV)
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

func (s *RelocationStore) parseRelocation(kv *mvccpb.KeyValue) (Relocation, error) {
	r, err := etcdkv.Decode[Relocation](kv)
	r.Cluster, r.Mod = v2.ClusterKey(s.kv.Split(kv.Key)[1]), kv.ModRevision
	return r, err
}
