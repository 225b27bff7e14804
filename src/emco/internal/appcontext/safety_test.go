package appcontext

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdtest"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/pairstore"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
)

// A part of the placements must not count as all of them: the clusters of the rest would be
// emptied.
func TestAPartOfThePlacementsIsRefused(t *testing.T) {
	t.Parallel()
	s, ctx := newStore(t), t.Context()
	_, err := s.Publish(ctx, create(t, s, "7"), Revision{Number: 1}, slices.Values(places(2*maxClusters, "d")))
	must(t, err)
	keys := keysBelow(t, s, "dep/7/place/")
	if len(keys) != 2 {
		t.Fatalf("%d values of placements, want 2", len(keys))
	}
	for _, key := range keys {
		kv, err := etcd.Get(ctx, s.kv.Key(key))
		must(t, err)
		_, err = etcd.Delete(ctx, s.kv.Key(key))
		must(t, err)
		got, err := uncached(s).Placements(ctx, "7", 1)
		if !errs.Is(err, errs.Internal) || len(got) != 0 {
			t.Errorf("without %s: %d placements, %v, want an error", key, len(got), err)
		}
		_, err = etcd.Put(ctx, s.kv.Key(key), string(kv.Kvs[0].Value))
		must(t, err)
	}
	if got := placed(t)(uncached(s).Placements(ctx, "7", 1)); len(got) != 2*maxClusters {
		t.Errorf("%d placements, want %d", len(got), 2*maxClusters)
	}
}

// A sweep keeps the desired revision, with its placements and content, even if it is neither
// among the newest nor fresh, and no pair names it.
func TestSweepKeepsTheDesiredRevision(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	s, ctx := newStore(t, WithClock(func() time.Time { return now })), t.Context()
	h := create(t, s, "7")
	for n := range int64(4) {
		d, err := s.PutBundle(ctx, Bundle{CRDs: make([]Ref, n)})
		must(t, err)
		h, err = s.Publish(ctx, h, Revision{Number: n + 1, At: now}, slices.Values(places(1, d)))
		must(t, err)
		now = now.Add(24 * time.Hour)
	}
	back := h
	back.Rev = 2 // as a stopped rollback leaves it
	_, err := s.ChangeHead(ctx, h, back, nil, nil)
	must(t, err)
	sweepAll(t, s, 1)
	var left []int64
	for r, err := range s.Revisions(ctx, "7") {
		must(t, err)
		left = append(left, r.Number)
	}
	if !slices.Equal(left, []int64{2, 4}) {
		t.Fatalf("revisions %v are left, want the desired one and the newest", left)
	}
	for _, p := range placed(t)(uncached(s).Placements(ctx, "7", 2)) {
		for _, d := range p.Apps {
			if _, err := uncached(s).GetBundle(ctx, d); err != nil {
				t.Errorf("the desired bundle: %v", err)
			}
		}
	}
}

// A sweep keeps content that was written after it began, even if no head changes meanwhile:
// the operation that will refer to it may not have been queued yet.
func TestSweepKeepsContentThatWasWrittenMeanwhile(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s := during(t, 2, func(s *Store) { must(t, s.PutBlobs(ctx, content("new"))) })
	must(t, s.PutBlobs(ctx, content("old")))
	sweepAll(t, s, 1)
	if _, err := uncached(s).GetBlob(ctx, manifest.DigestOf([]byte("new"))); err != nil {
		t.Errorf("content that was written during the sweep: %v", err)
	}
	_, err := uncached(s).GetBlob(ctx, manifest.DigestOf([]byte("old")))
	wantKind(t, err, errs.NotFound)
}

// deafKV makes transactions that write a revision, and loses the answers.
type deafKV struct {
	clientv3.KV
	deaf bool
}

func (k *deafKV) Txn(ctx context.Context) clientv3.Txn { return &deafTxn{Txn: k.KV.Txn(ctx), kv: k} }

type deafTxn struct {
	clientv3.Txn
	kv       *deafKV
	compares bool
}

func (t *deafTxn) If(cs ...clientv3.Cmp) clientv3.Txn {
	t.Txn, t.compares = t.Txn.If(cs...), len(cs) > 0
	return t
}
func (t *deafTxn) Then(ops ...clientv3.Op) clientv3.Txn { t.Txn = t.Txn.Then(ops...); return t }
func (t *deafTxn) Else(ops ...clientv3.Op) clientv3.Txn { t.Txn = t.Txn.Else(ops...); return t }

func (t *deafTxn) Commit() (*clientv3.TxnResponse, error) {
	r, err := t.Txn.Commit()
	if t.kv.deaf && t.compares { // placements are written without conditions
		return nil, context.DeadlineExceeded
	}
	return r, err
}

// A publish without an answer may have been made. Its placements stay, because the revision
// may need them.
func TestPlacementsStayAfterAPublishWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	c := clientv3.NewCtxClient(context.WithoutCancel(t.Context()))
	kv := &deafKV{KV: etcd.KV}
	c.KV, c.Lease, c.Watcher = kv, etcd.Lease, etcd.Watcher
	s, ctx := New(c, etcdtest.Prefix(t)), t.Context()
	h := create(t, s, "7")
	kv.deaf = true
	_, err := s.Publish(ctx, h, Revision{Number: 1}, slices.Values(places(3, "d")))
	wantKind(t, err, errs.Unavailable)
	kv.deaf = false
	if h, err := s.Head(ctx, "7"); err != nil || h.Rev != 1 {
		t.Fatalf("the head is at revision %d, %v, want 1", h.Rev, err)
	}
	if got := placed(t)(s.Placements(ctx, "7", 1)); len(got) != 3 {
		t.Errorf("%d placements, want 3", len(got))
	}
}

// A cluster is in use while any pair wants something on it, and holds something while any
// pair is applied. Both keep it from being deleted.
func TestAClusterInUseIsKnown(t *testing.T) {
	t.Parallel()
	s, ctx := newStore(t), t.Context()
	key := func(cluster v2.ClusterKey, uid HeadID) PairKey {
		return PairKey{Cluster: cluster, Deployment: uid.Deployment(), App: "web"}
	}
	must(t, s.PutPairs(ctx, Fence{}, []Pair{
		{Key: key("p+idle", "1"), Held: []Digest{"d"}, Phase: Deleting},
		{Key: key("p+wanted", "1")},
		{Key: key("p+wanted", "2"), Desired: "d", Phase: Pending},
		{Key: key("p+wanted", "3")},
		{Key: key("p+applied", "1")},
		{Key: key("p+applied", "2"), Applied: "d", Phase: Deleting},
		{Key: key("p+applied", "3")},

		{Key: key("p+idle2", "1"), Desired: "d", Applied: "d"}, // a longer name
	}, nil))
	for cluster, want := range map[v2.ClusterKey]struct{ desired, applied bool }{
		"p+none": {}, "p+idle": {}, "p+wanted": {desired: true}, "p+applied": {applied: true}, "p+idle2": {true, true},
	} {
		desired, err1 := s.HasDesired(ctx, cluster)
		applied, err2 := s.HasApplied(ctx, cluster)
		if err := errors.Join(err1, err2); err != nil || desired != want.desired || applied != want.applied {
			t.Errorf("%s: desired %t, applied %t, %v, want %+v", cluster, desired, applied, err, want)
		}
	}
	for name, has := range map[string]func(context.Context, v2.ClusterKey) (bool, error){"HasDesired": s.HasDesired, "HasApplied": s.HasApplied} {
		if _, err := has(ctx, "p/c"); !errs.Is(err, errs.Invalid) {
			t.Errorf("%s of a name with a slash: %v, want Invalid", name, err)
		}
	}

	// A pair that cannot be read must not count as none.
	_, err := etcd.Put(ctx, pairstore.RecordKey(s.kv, key("p+broken", "1")), "{")
	must(t, err)
	for name, has := range map[string]func(context.Context, v2.ClusterKey) (bool, error){"HasDesired": s.HasDesired, "HasApplied": s.HasApplied} {
		if _, err := has(ctx, "p+broken"); !errs.Is(err, errs.Internal) {
			t.Errorf("%s with an unreadable pair: %v, want Internal", name, err)
		}
	}
}
