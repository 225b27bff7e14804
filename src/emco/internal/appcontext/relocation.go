package appcontext

import (
	"context"
	"errors"
	"iter"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

// Relocation is how far a cluster is on its way to another place in Git. Where it leaves
// from and where it goes to is in its registration, which numbers its moves; this says
// what has been done of the last one. When the cluster is deregistered it says what it
// leaves behind.
type Relocation struct {
	Cluster      string    `json:"-"`                     // "<provider>+<cluster>"
	Registration string    `json:"registration"`          // id of the cluster's document
	Number       int64     `json:"number"`                // of the move
	Stage        MoveStage `json:"stage"`                 // what has been done
	Finish       bool      `json:"finish,omitempty"`      // it may be taken out of the old place, whoever reads that
	Deployments  []string  `json:"deployments,omitempty"` // that are in the old place
	Written      string    `json:"written,omitempty"`     // commit by which it is in the new place
	Cleared      string    `json:"cleared,omitempty"`     // commit by which it is in the old one no more
	Error        string    `json:"error,omitempty"`       // why the last try to go on failed
	Left         LeftPlace `json:"left,omitzero"`         // of a cluster that was deregistered
	At           time.Time `json:"at"`
	Mod          int64     `json:"-"` // etcd revision at which it was read; used for compare-and-swap
}

// LeftPlace is where in Git a cluster was that is registered no more, in the words of its
// registration.
type LeftPlace struct {
	Type      string `json:"type"`
	Reference string `json:"reference,omitempty"`
	Resource  string `json:"resource,omitempty"`
	RefMode   string `json:"refMode,omitempty"`
	Shard     string `json:"shard,omitempty"`
	FanOut    bool   `json:"fanOut,omitempty"`
}

// MoveStage says what has been done of a move.
type MoveStage string

// The stages of a move, in order, and that of a cluster that was deregistered.
const (
	MoveAsked   MoveStage = "asked"   // nothing yet
	MoveWritten MoveStage = "written" // what the cluster holds is in the new place
	MoveTaken   MoveStage = "taken"   // and whoever works on the new place has taken it over
	MoveDone    MoveStage = "done"    // and it is in the old place no more
	MoveLeft    MoveStage = "left"    // the cluster was deregistered: nobody reads its branch
)

// Of reports whether r is about a move of a registration, or about a later one.
func (r Relocation) Of(registration string, number int64) bool {
	return r.Registration == registration && r.Number >= number
}

// Relocation returns how far the last move of a cluster is, or NotFound.
func (s *Store) Relocation(ctx context.Context, cluster string) (Relocation, error) {
	if err := checkParts(cluster); err != nil {
		return Relocation{}, err
	}
	_, kv, err := one[Relocation](ctx, s, s.key("move", cluster))
	if errs.Is(err, errs.NotFound) {
		err = errs.E(errs.NotFound, "read", "move of "+cluster, errors.New("it was never moved while something was deployed on it"))
	}
	if err != nil {
		return Relocation{}, err
	}
	return s.parseRelocation(kv)
}

// PutRelocation writes how far a move is. The record must be as r was read (r.Mod; 0: there
// must be none); Conflict if not, and ErrFenced if own was lost.
func (s *Store) PutRelocation(ctx context.Context, own Fence, r Relocation) (Relocation, error) {
	if err := checkParts(r.Cluster); err != nil {
		return r, err
	}
	r.At = s.now().UTC()
	key := s.key("move", r.Cluster)
	text, err := encode(key, r)
	if err != nil {
		return r, err
	}
	same := clientv3.Compare(clientv3.ModRevision(key), "=", r.Mod)
	rev, ok, err := s.Fenced(own).commit(ctx, key, []clientv3.Cmp{same}, []clientv3.Op{clientv3.OpPut(key, text)})
	if err == nil && !ok {
		err = errs.E(errs.Conflict, "change", "move of "+r.Cluster, errors.New("someone else was faster; read it again"))
	}
	if err == nil {
		r.Mod = rev
	}
	return r, err
}

// AskRelocation notes that a cluster is to be moved, or with Finish that it may be taken out
// of its old place. Of ask only Cluster, Registration, Number and Finish matter. A move that
// is noted already goes on as it was.
func (s *Store) AskRelocation(ctx context.Context, ask Relocation) error {
	return s.changeRelocation(ctx, ask.Cluster, func(r Relocation) (Relocation, bool) {
		if !r.Of(ask.Registration, ask.Number) {
			r = Relocation{Cluster: ask.Cluster, Registration: ask.Registration, Number: ask.Number, Stage: MoveAsked, Finish: ask.Finish, Mod: r.Mod}
			return r, true
		}
		changes := ask.Finish && !r.Finish
		r.Finish = r.Finish || ask.Finish
		return r, changes
	})
}

// LeaveRelocation notes what a cluster leaves behind that is registered no more.
func (s *Store) LeaveRelocation(ctx context.Context, cluster, registration string, left LeftPlace) error {
	return s.changeRelocation(ctx, cluster, func(r Relocation) (Relocation, bool) {
		return Relocation{Cluster: cluster, Registration: registration, Number: r.Number, Stage: MoveLeft, Left: left, Mod: r.Mod}, true
	})
}

func (s *Store) changeRelocation(ctx context.Context, cluster string, how func(Relocation) (Relocation, bool)) error {
	for {
		r, err := s.Relocation(ctx, cluster)
		if err != nil && !errs.Is(err, errs.NotFound) {
			return err
		}
		r, changes := how(r)
		if !changes {
			return nil
		}
		if _, err = s.PutRelocation(ctx, Fence{}, r); !errs.Is(err, errs.Conflict) {
			return err
		}
	}
}

// ForgetRelocation removes what is noted of a cluster's moves; that nothing is noted is fine.
func (s *Store) ForgetRelocation(ctx context.Context, cluster string) error {
	if err := checkParts(cluster); err != nil {
		return err
	}
	key := s.key("move", cluster)
	_, _, err := s.commit(ctx, key, nil, []clientv3.Op{clientv3.OpDelete(key)})
	return err
}

// DropRelocation removes a record, which must still be as r was read.
func (s *Store) DropRelocation(ctx context.Context, own Fence, r Relocation) error {
	key := s.key("move", r.Cluster)
	same := clientv3.Compare(clientv3.ModRevision(key), "=", r.Mod)
	_, ok, err := s.Fenced(own).commit(ctx, key, []clientv3.Cmp{same}, []clientv3.Op{clientv3.OpDelete(key)})
	if err == nil && !ok {
		err = errs.E(errs.Conflict, "forget", "move of "+r.Cluster, errors.New("someone else was faster; read it again"))
	}
	return err
}

// RelocationEvent says how far a move is, or that all was told that was there at the start.
type RelocationEvent struct {
	Relocation Relocation // only Cluster and Mod if Forgotten; nothing if Synced
	Forgotten  bool
	Synced     bool
}

// WatchRelocations yields every record, then an event that is Synced, then changes, each at
// least once and in order for each cluster. It ends only when ctx ends. An error stands
// for one record that cannot be read; the iteration goes on.
func (s *Store) WatchRelocations(ctx context.Context) iter.Seq2[RelocationEvent, error] {
	return func(yield func(RelocationEvent, error) bool) {
		for c := range s.follow(ctx, s.key("move")+"/") {
			var err error
			e := RelocationEvent{Synced: c.synced, Forgotten: c.deleted}
			switch {
			case c.deleted:
				e.Relocation = Relocation{Cluster: s.split(c.kv.Key)[1], Mod: c.kv.ModRevision}
			case !c.synced:
				e.Relocation, err = s.parseRelocation(c.kv)
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

func (s *Store) parseRelocation(kv *mvccpb.KeyValue) (Relocation, error) {
	r, err := decode[Relocation](kv)
	r.Cluster, r.Mod = s.split(kv.Key)[1], kv.ModRevision
	return r, err
}
