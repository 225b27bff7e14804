package blobstore

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
)

// Swept is what one sweep did.
type Swept struct {
	Removed int // contents that were removed
	Unused  int // contents that this sweep was the first to find unused; the next sweep may remove them
	Held    int // unused contents that stay because an operation older than their mark still waits
}

// References returns bundles with all content that they refer to. It does not use the cache: a
// bundle that etcd has lost is an error.
func (s *Store) References(ctx context.Context, bundles map[Digest]bool) (map[Digest]bool, error) {
	out := map[Digest]bool{}
	for d := range bundles {
		out[d] = true
		text, err := s.readBlob(ctx, d)
		if err != nil {
			return nil, err
		}
		b, err := parseBundle(d, text)
		if err != nil {
			return nil, err
		}
		for _, refs := range [][]Ref{b.Objects, b.CRDs} {
			for _, r := range refs {
				out[r.Digest] = true
			}
		}
		for _, h := range b.Hooks {
			out[h.Digest] = true
		}
	}
	return out, nil
}

// SweepInput is what a sweep of content goes by.
type SweepInput struct {
	Needed map[Digest]bool // all content that something refers to; see References
	Start  int64           // etcd's revision before anything was read
	Oldest int64           // etcd's revision at which the oldest waiting operation was queued
}

// SweepContent removes content that is not needed, in two runs: the first one marks it, and a later one
// removes it, if every operation that was queued before the mark has ended. An operation that
// finds marked content writes it again and removes the mark (PutBlobs). Run one sweep at a time.
func (s *Store) SweepContent(ctx context.Context, in SweepInput) (Swept, error) {
	w := &sweeper{Store: s, SweepInput: in}
	err := w.sweep(ctx)
	return w.done, err
}

// sweeper is one run of SweepContent; only its goroutine uses it.
type sweeper struct {
	*Store
	SweepInput
	done Swept
}

// storedContent is what is stored of one content.
type storedContent struct {
	digest Digest
	newest int64 // etcd's revision of its last change, without its mark
	mark   int64 // etcd's revision of its mark; 0 without one
}

// sweep decides about each content.
func (w *sweeper) sweep(ctx context.Context) error {
	b := w.kv.NewBatch("marks of blobs")
	var at storedContent
	for kv, err := range w.kv.List(ctx, etcdkv.Scan{Prefix: w.kv.Key("blob") + "/", KeysOnly: true}) {
		if err != nil {
			return err
		}
		p := w.kv.Split(kv.Key)
		if d := Digest(p[1]); d != at.digest {
			if err := w.sweepBlob(ctx, b, at); err != nil {
				return err
			}
			at = storedContent{digest: d}
		}
		if p[2] == unusedMark {
			at.mark = kv.ModRevision
		} else {
			at.newest = max(at.newest, kv.ModRevision)
		}
	}
	if err := w.sweepBlob(ctx, b, at); err != nil {
		return err
	}
	return b.Flush(ctx)
}

// sweepBlob decides about one content. What was written after the start stays as it is.
func (w *sweeper) sweepBlob(ctx context.Context, b *etcdkv.Batch, c storedContent) error {
	switch key := unusedKey(w.kv, c.digest); {
	case c.digest == "" || c.newest > w.Start || c.mark > w.Start:
		return nil
	case w.Needed[c.digest] && c.mark > 0, c.newest == 0: // needed, or a mark that a crash left behind
		return b.Add(ctx, clientv3.OpDelete(key))
	case w.Needed[c.digest]:
		return nil
	case c.mark == 0:
		w.done.Unused++
		return b.Add(ctx, clientv3.OpPut(key, ""))
	case c.mark >= w.Oldest:
		w.done.Held++
		return nil
	}
	return w.removeBlob(ctx, c)
}

// removeBlob removes content, unless an operation has removed its mark meanwhile.
func (w *sweeper) removeBlob(ctx context.Context, c storedContent) error {
	marked := clientv3.Compare(clientv3.ModRevision(unusedKey(w.kv, c.digest)), "=", c.mark)
	_, ok, err := w.kv.Commit(ctx, "blob "+string(c.digest), []clientv3.Cmp{marked}, []clientv3.Op{
		clientv3.OpDelete(w.kv.Key("blob", string(c.digest))+"/", clientv3.WithPrefix()),
	})
	if ok {
		w.done.Removed++
	}
	return err
}
