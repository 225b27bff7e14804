package appcontext

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"iter"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

// Branch is what is remembered of a Git branch that is written to, so that it is noticed
// when somebody rewrites its history.
type Branch struct {
	URL     string `json:"url"`
	Name    string `json:"branch"`
	Commit  string `json:"commit,omitempty"`  // that we wrote last and the branch must hold; empty: whatever is there will do
	Adopted int64  `json:"adopted,omitempty"` // how often an operator has taken the history as it was, or put it back
	Renewed int64  `json:"renewed,omitempty"` // the last of these after which all that is desired was written anew
	Judged  int64  `json:"judged,omitempty"`  // how often an operator has decided on edits that were held
	Keep    bool   `json:"keep,omitempty"`    // the last of these decisions: they stay; else they are written over
	Heeded  int64  `json:"heeded,omitempty"`  // the last of these that was acted on
	Mod     int64  `json:"-"`                 // etcd revision at which it was read; used for compare-and-swap
}

func (s *Store) branchKey(url, name string) string {
	sum := sha256.Sum256([]byte(url + "\x00" + name))
	return s.key("git", hex.EncodeToString(sum[:20]))
}

// Branch returns what is remembered of a branch, or NotFound.
func (s *Store) Branch(ctx context.Context, url, name string) (Branch, error) {
	b, kv, err := one[Branch](ctx, s, s.branchKey(url, name))
	if errs.Is(err, errs.NotFound) {
		err = errs.E(errs.NotFound, "read", "branch "+name+" of "+url, errors.New("nothing was written there"))
	}
	if err != nil {
		return Branch{}, err
	}
	b.Mod = kv.ModRevision
	return b, nil
}

// Branches yields what is remembered of all branches, in no particular order; it ends at
// the first error.
func (s *Store) Branches(ctx context.Context) iter.Seq2[Branch, error] {
	return records(s.list(ctx, &scan{prefix: s.key("git") + "/"}), parseBranch)
}

// PutBranch writes what is to be remembered of a branch. It must still be as b was read
// (b.Mod; 0: there must be nothing); Conflict if not, and ErrFenced if own was lost.
func (s *Store) PutBranch(ctx context.Context, own Fence, b Branch) (Branch, error) {
	key := s.branchKey(b.URL, b.Name)
	text, err := encode(key, b)
	if err != nil {
		return Branch{}, err
	}
	same := clientv3.Compare(clientv3.ModRevision(key), "=", b.Mod)
	rev, ok, err := s.Fenced(own).commit(ctx, key, []clientv3.Cmp{same}, []clientv3.Op{clientv3.OpPut(key, text)})
	if err == nil && !ok {
		err = changedBranch(b)
	}
	if err != nil {
		return Branch{}, err
	}
	b.Mod = rev
	return b, nil
}

// ForgetBranch removes what is remembered of a branch. It must still be as b was read.
func (s *Store) ForgetBranch(ctx context.Context, own Fence, b Branch) error {
	key := s.branchKey(b.URL, b.Name)
	same := clientv3.Compare(clientv3.ModRevision(key), "=", b.Mod)
	_, ok, err := s.Fenced(own).commit(ctx, key, []clientv3.Cmp{same}, []clientv3.Op{clientv3.OpDelete(key)})
	if err == nil && !ok {
		err = changedBranch(b)
	}
	return err
}

func changedBranch(b Branch) error {
	return errs.E(errs.Conflict, "change", "branch "+b.Name+" of "+b.URL, errors.New("someone else was faster; read it again"))
}

// Adopt takes the history of a branch as it is now: what is desired will be written on
// top of whatever is there. NotFound if nothing was ever written to the branch.
func (s *Store) Adopt(ctx context.Context, url, name string) (Branch, error) {
	return s.renewed(ctx, url, name, func(b *Branch) { b.Commit = "" })
}

// Restored notes that the history of a branch was put back: what is desired is written anew
// where that is still needed, now. NotFound if nothing was ever written to the branch.
func (s *Store) Restored(ctx context.Context, url, name string) (Branch, error) {
	return s.renewed(ctx, url, name, func(*Branch) {})
}

// Judge notes that an operator has decided on edits that were held.
func (s *Store) Judge(ctx context.Context, url, name string, keep bool) (Branch, error) {
	return s.alter(ctx, url, name, func(b *Branch) { b.Judged, b.Keep = b.Judged+1, keep })
}

// renewed has all that is desired on a branch written anew.
func (s *Store) renewed(ctx context.Context, url, name string, how func(*Branch)) (Branch, error) {
	return s.alter(ctx, url, name, func(b *Branch) { how(b); b.Adopted++ })
}

func (s *Store) alter(ctx context.Context, url, name string, how func(*Branch)) (Branch, error) {
	for {
		b, err := s.Branch(ctx, url, name)
		if err != nil {
			return Branch{}, err
		}
		how(&b)
		if b, err = s.PutBranch(ctx, Fence{}, b); !errs.Is(err, errs.Conflict) {
			return b, err
		}
	}
}

// BranchEvent says what is remembered of a branch, or that all was told that was there
// at the start.
type BranchEvent struct {
	Branch    Branch // only URL, Name and Mod if Forgotten; nothing if Synced
	Forgotten bool
	Synced    bool
}

// WatchBranches yields every branch, then an event that is Synced, then changes, each at
// least once and in order for each branch. It ends only when ctx ends. An error stands
// for one record that cannot be read; the iteration goes on.
func (s *Store) WatchBranches(ctx context.Context) iter.Seq2[BranchEvent, error] {
	return func(yield func(BranchEvent, error) bool) {
		known := map[string]Branch{} // by key, which does not say the name
		for c := range s.follow(ctx, s.key("git")+"/") {
			var err error
			e := BranchEvent{Synced: c.synced, Forgotten: c.deleted}
			switch {
			case c.deleted:
				e.Branch = Branch{URL: known[string(c.kv.Key)].URL, Name: known[string(c.kv.Key)].Name, Mod: c.kv.ModRevision}
				delete(known, string(c.kv.Key))
			case !c.synced:
				if e.Branch, err = parseBranch(c.kv); err == nil {
					known[string(c.kv.Key)] = e.Branch
				}
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

func parseBranch(kv *mvccpb.KeyValue) (Branch, error) {
	b, err := decode[Branch](kv)
	b.Mod = kv.ModRevision
	return b, err
}
