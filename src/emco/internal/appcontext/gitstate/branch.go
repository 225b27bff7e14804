// Package gitstate stores what is recorded of Git: the branches that rsync writes to, with
// what operators decided about them, and the progress of clusters' moves between places. clm
// asks for moves; rsync carries them out. It also passes webhook calls of Git servers on to all processes.
//
//	git/<hash>       Branch
//	move/<cluster>   Relocation
//	announced/push   Push: the last webhook call
package gitstate

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"iter"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
)

// Branch is the record of a Git branch that rsync writes to. By its Commit rsync notices a
// rewritten history. An operator's decision increments a counter; rsync sets the counter's
// counterpart to the same value when it has carried out the decision.
type Branch struct {
	URL        string `json:"url"`
	Name       string `json:"branch"`
	Commit     string `json:"commit,omitempty"`  // our last one, which the branch must contain; empty: any history will do
	Adopted    int64  `json:"adopted,omitempty"` // how many times an operator has adopted the history as it is, or restored it
	Rewritten  int64  `json:"renewed,omitempty"` // the value of Adopted that rsync has carried out: it made everything on the branch due again
	Decided    int64  `json:"judged,omitempty"`  // how many times an operator has decided on held edits
	Keep       bool   `json:"keep,omitempty"`    // the last of these decisions: the edits stay; else they are overwritten
	CarriedOut int64  `json:"heeded,omitempty"`  // the value of Decided that rsync has carried out
	Mod        int64  `json:"-"`                 // etcd revision at which it was read; used for compare-and-swap
}

// BranchStore stores the records of Git branches.
type BranchStore struct{ kv *etcdkv.Client }

// NewBranchStore returns the branches below the client's prefix.
func NewBranchStore(kv *etcdkv.Client) *BranchStore { return &BranchStore{kv} }

func branchKey(kv *etcdkv.Client, url, name string) string {
	sum := sha256.Sum256([]byte(url + "\x00" + name))
	return kv.Key("git", hex.EncodeToString(sum[:20]))
}

// Branch returns the record of a branch, or NotFound.
func (s *BranchStore) Branch(ctx context.Context, url, name string) (Branch, error) {
	b, kv, err := etcdkv.Read[Branch](ctx, s.kv, branchKey(s.kv, url, name))
	if errs.Is(err, errs.NotFound) {
		err = errs.E(errs.NotFound, "read", "branch "+name+" of "+url, errors.New("nothing was written to it"))
	}
	if err != nil {
		return Branch{}, err
	}
	b.Mod = kv.ModRevision
	return b, nil
}

// Branches yields all records, in no particular order; it ends at the first error.
func (s *BranchStore) Branches(ctx context.Context) iter.Seq2[Branch, error] {
	return etcdkv.Records(s.kv.List(ctx, etcdkv.Scan{Prefix: s.kv.Key("git") + "/"}), parseBranch)
}

// PutBranch writes a record, which must still be as b was read (b.Mod; 0: it must not
// exist); Conflict if not, and ErrFenced if own is lost.
func (s *BranchStore) PutBranch(ctx context.Context, own etcdkv.Fence, b Branch) (Branch, error) {
	key := branchKey(s.kv, b.URL, b.Name)
	text, err := etcdkv.Encode(key, b)
	if err != nil {
		return Branch{}, err
	}
	same := clientv3.Compare(clientv3.ModRevision(key), "=", b.Mod)
	rev, ok, err := s.kv.Fenced(own).Commit(ctx, key, []clientv3.Cmp{same}, []clientv3.Op{clientv3.OpPut(key, text)})
	if err == nil && !ok {
		err = changedBranch(b)
	}
	if err != nil {
		return Branch{}, err
	}
	b.Mod = rev
	return b, nil
}

// ForgetBranch removes a record, which must still be as b was read.
func (s *BranchStore) ForgetBranch(ctx context.Context, own etcdkv.Fence, b Branch) error {
	key := branchKey(s.kv, b.URL, b.Name)
	same := clientv3.Compare(clientv3.ModRevision(key), "=", b.Mod)
	_, ok, err := s.kv.Fenced(own).Commit(ctx, key, []clientv3.Cmp{same}, []clientv3.Op{clientv3.OpDelete(key)})
	if err == nil && !ok {
		err = changedBranch(b)
	}
	return err
}

func changedBranch(b Branch) error {
	return errs.E(errs.Conflict, "change", "branch "+b.Name+" of "+b.URL, errors.New("someone else was faster; read it again"))
}

// Adopt accepts the history of a branch as it is: everything desired will be written on
// top of it. NotFound if nothing was ever written to the branch.
func (s *BranchStore) Adopt(ctx context.Context, url, name string) (Branch, error) {
	return s.rewriteAll(ctx, url, name, func(b *Branch) { b.Commit = "" })
}

// SetRestored records that the history of a branch was restored: everything desired will be
// written again where it differs. NotFound if nothing was ever written to the branch.
func (s *BranchStore) SetRestored(ctx context.Context, url, name string) (Branch, error) {
	return s.rewriteAll(ctx, url, name, func(*Branch) {})
}

// ResolveEdits records that an operator has decided on held edits.
func (s *BranchStore) ResolveEdits(ctx context.Context, url, name string, keep bool) (Branch, error) {
	return s.alter(ctx, url, name, func(b *Branch) { b.Decided, b.Keep = b.Decided+1, keep })
}

// rewriteAll changes the record, and asks rsync to write everything desired again.
func (s *BranchStore) rewriteAll(ctx context.Context, url, name string, how func(*Branch)) (Branch, error) {
	return s.alter(ctx, url, name, func(b *Branch) { how(b); b.Adopted++ })
}

func (s *BranchStore) alter(ctx context.Context, url, name string, how func(*Branch)) (Branch, error) {
	for {
		b, err := s.Branch(ctx, url, name)
		if err != nil {
			return Branch{}, err
		}
		how(&b)
		if b, err = s.PutBranch(ctx, etcdkv.Fence{}, b); !errs.Is(err, errs.Conflict) {
			return b, err
		}
	}
}

// BranchEvent is the record of a branch, or the mark that all records that existed at the start
// have been yielded.
type BranchEvent struct {
	Branch    Branch // only URL, Name and Mod if Forgotten; nothing if Synced
	Forgotten bool
	Synced    bool
}

// WatchBranches yields every record, then an event that is Synced, then changes, each at
// least once and in order for each branch. It ends only when ctx ends. An error stands for
// one record that cannot be read; the iteration goes on.
func (s *BranchStore) WatchBranches(ctx context.Context) iter.Seq2[BranchEvent, error] {
	return func(yield func(BranchEvent, error) bool) {
		known := map[string]Branch{} // by key, which does not contain the name
		for c := range s.kv.Watch(ctx, s.kv.Key("git")+"/") {
			var err error
			e := BranchEvent{Synced: c.Synced, Forgotten: c.Deleted}
			switch {
			case c.Deleted:
				e.Branch = Branch{URL: known[string(c.KV.Key)].URL, Name: known[string(c.KV.Key)].Name, Mod: c.KV.ModRevision}
				delete(known, string(c.KV.Key))
			case !c.Synced:
				if e.Branch, err = parseBranch(c.KV); err == nil {
					known[string(c.KV.Key)] = e.Branch
				}
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

func parseBranch(kv *mvccpb.KeyValue) (Branch, error) {
	b, err := etcdkv.Decode[Branch](kv)
	b.Mod = kv.ModRevision
	return b, err
}
