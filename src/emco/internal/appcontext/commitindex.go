package appcontext

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strconv"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
)

// maxIndexed bounds what one change of a revision's commits writes to the index: a transaction takes 128 operations.
const maxIndexed = 100

// indexKey is where a Git commit is found by its name.
func indexKey(kv *etcdkv.Client, commit string, of recordedRevision) string {
	return kv.Key("commit", commit, string(of.uid), etcdkv.Number(of.rev))
}

// recordedRevision is a revision that has recorded commits.
type recordedRevision struct {
	uid HeadID
	rev int64
}

// indexOps returns the operations after which the index holds, of the commits that were recorded, those
// that are kept. Published content has no place in it.
func indexOps(kv *etcdkv.Client, of recordedRevision, recorded, kept []RevisionCommit) (ops []clientv3.Op, err error) {
	done := map[string]bool{}
	for _, c := range recorded {
		if !isIndexed(c) || done[c.Commit] || len(ops) == maxIndexed {
			continue
		}
		done[c.Commit] = true
		key := indexKey(kv, c.Commit, of)
		same := slices.DeleteFunc(slices.Clone(kept), func(k RevisionCommit) bool { return k.Commit != c.Commit })
		if len(same) == 0 {
			ops = append(ops, clientv3.OpDelete(key))
			continue
		}
		text, err := etcdkv.Encode(key, same)
		if err != nil {
			return nil, err
		}
		ops = append(ops, clientv3.OpPut(key, text))
	}
	return ops, nil
}

// FoundCommit is a Git commit, and one of the revisions that it carried.
type FoundCommit struct {
	UID HeadID // of the head
	Rev int64
	RevisionCommit
}

// FindCommits yields the recorded Git commits whose names begin with prefix, in order of their names: each once
// for every revision and branch that it carried. It reads a page at a time, so a caller that needs few may stop.
func (s *RevisionStore) FindCommits(ctx context.Context, prefix string) iter.Seq2[FoundCommit, error] {
	if err := etcdkv.CheckParts(prefix); err != nil {
		return etcdkv.Failed[FoundCommit](err)
	}
	return func(yield func(FoundCommit, error) bool) {
		for kv, err := range s.kv.List(ctx, etcdkv.Scan{Prefix: s.kv.Key("commit", prefix)}) {
			var of recordedRevision
			var commits []RevisionCommit
			if err == nil {
				of, err = indexed(s.kv, kv)
			}
			if err == nil {
				commits, err = etcdkv.Decode[[]RevisionCommit](kv)
			}
			if err != nil {
				yield(FoundCommit{}, err)
				return
			}
			for _, c := range commits {
				if !yield(FoundCommit{UID: of.uid, Rev: of.rev, RevisionCommit: c}, nil) {
					return
				}
			}
		}
	}
}

// indexed returns the revision that a key of the index is about.
func indexed(kv *etcdkv.Client, at *mvccpb.KeyValue) (recordedRevision, error) {
	parts := kv.Split(at.Key)
	if len(parts) != 4 {
		return recordedRevision{}, etcdkv.Corrupt(string(at.Key), fmt.Errorf("%d parts, want commit, name, head and revision", len(parts)))
	}
	n, err := strconv.ParseInt(parts[3], 10, 64)
	if err != nil {
		return recordedRevision{}, etcdkv.Corrupt(string(at.Key), fmt.Errorf("the key names no revision: %w", err))
	}
	return recordedRevision{HeadID(parts[2]), n}, nil
}

// indexedOf returns the keys of a deployment's commits in the index.
func indexedOf(ctx context.Context, kv *etcdkv.Client, uid HeadID) (keys []string, err error) {
	for at, err := range kv.List(ctx, etcdkv.Scan{Prefix: kv.Key("dep", string(uid), "commit") + "/"}) {
		if err != nil {
			return nil, err
		}
		rev, commits, err := parseCommits(kv, at)
		if err != nil { // what cannot be read stops no deletion; a sweep removes its keys
			continue
		}
		for _, c := range commits {
			if isIndexed(c) {
				keys = append(keys, indexKey(kv, c.Commit, recordedRevision{uid, rev}))
			}
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys), nil
}

func removeIndexed(ctx context.Context, kv *etcdkv.Client, keys []string) error {
	b := kv.NewBatch("commits")
	for _, key := range keys {
		if err := b.Add(ctx, clientv3.OpDelete(key)); err != nil {
			return err
		}
	}
	return b.Flush(ctx)
}

// isIndexed reports whether a commit has a place in the index.
func isIndexed(c RevisionCommit) bool { return c.Branch != "" && etcdkv.CheckParts(c.Commit) == nil }

// sweepIndex removes commits of revisions that have no recorded commits any longer, unless they were written
// after the sweep began.
func (w *sweeper) sweepIndex(ctx context.Context) error {
	b := w.s.kv.NewBatch("commits")
	for kv, err := range w.s.kv.List(ctx, etcdkv.Scan{Prefix: w.s.kv.Key("commit") + "/", KeysOnly: true}) {
		if err != nil {
			return err
		}
		of, err := indexed(w.s.kv, kv)
		if err != nil {
			return err
		}
		if w.recorded[of] || kv.ModRevision > w.start {
			continue
		}
		if err := b.Add(ctx, clientv3.OpDelete(string(kv.Key))); err != nil {
			return err
		}
	}
	return b.Flush(ctx)
}
