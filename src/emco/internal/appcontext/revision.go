package appcontext

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

// published is a revision as it is stored: with the try that wrote its placements. Two
// writers of the same revision therefore never mix their placements.
type published struct {
	Revision
	Try string `json:"try"`
}

// Publish makes rev the desired state of the deployment of which h is the head. The
// placements go first, below a key that nobody reads yet; then one transaction writes
// the revision, sets the head's Rev, LastRev, Op, Failure and Gone, and removes the
// operation. It counts the chunks of rev itself.
//
// Conflict if the head is not as h was read any more, or if the revision exists; what
// was written is removed then. What a crash leaves behind is never visible, and Sweep
// removes it. After Unavailable it may have been published: read the head.
func (s *Store) Publish(ctx context.Context, h Head, rev Revision, places iter.Seq[Placement]) (Head, error) {
	if h.Mod == 0 || rev.Number <= 0 {
		return Head{}, errs.E(errs.Invalid, "publish", h.UID, errors.New("a head that was read and a revision above 0 are needed"))
	}
	rev.Deployed = h.Deployment()
	p := published{Revision: rev, Try: s.newTry()}
	chunks, err := s.putPlaces(ctx, s.placeKey(h.UID, rev.Number, p.Try), places)
	if err != nil {
		s.unpublish(ctx, h.UID, p)
		return Head{}, err
	}
	p.Chunks = chunks
	next, err := s.flip(ctx, h, p)
	if err != nil && !errs.Is(err, errs.Unavailable) {
		s.unpublish(ctx, h.UID, p) // after Unavailable the transaction may be on its way
	}
	return next, err
}

// newTry names a try to publish; the name starts with the time, for Sweep.
func (s *Store) newTry() string {
	return fmt.Sprintf("%013x-%s", s.now().UnixMilli(), rand.Text()[:10])
}

// flip is the transaction that makes a revision visible.
func (s *Store) flip(ctx context.Context, h Head, p published) (Head, error) {
	key := s.revKey(h.UID, p.Number)
	text, err := encode(key, p)
	if err != nil {
		return Head{}, err
	}
	ops := []clientv3.Op{clientv3.OpPut(key, text)}
	if h.Op != nil {
		ops = append(ops, clientv3.OpDelete(s.opKey(h.UID, h.Op.ID)))
	}
	next := h
	next.Rev, next.LastRev = p.Number, max(h.LastRev, p.Number)
	next.Op, next.Failure, next.Gone = nil, "", false
	return s.swap(ctx, h.Mod, next, []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(key), "=", 0)}, ops)
}

// unpublish removes the placements of a try that did not become visible. It is done
// even if ctx has ended; what it misses is left to Sweep.
func (s *Store) unpublish(ctx context.Context, uid string, p published) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	key := s.placeKey(uid, p.Number, p.Try)
	if _, err := s.c.Delete(ctx, key, clientv3.WithPrefix()); err != nil {
		s.log.Warn("placements of a failed publish are left behind", "key", key, "err", err)
		return
	}
	s.onOp("txn", len(key))
}

// putPlaces writes placements below prefix and returns the number of values.
func (s *Store) putPlaces(ctx context.Context, prefix string, places iter.Seq[Placement]) (int, error) {
	b := &batch{s: s, subject: prefix}
	chunks := 0
	for some, err := range layoutsOf(prefix, places) {
		if err != nil {
			return 0, err
		}
		text, err := encode(prefix, some)
		if err != nil {
			return 0, err
		}
		if err := b.add(ctx, clientv3.OpPut(fmt.Sprintf("%s%06d", prefix, chunks), text)); err != nil {
			return 0, err
		}
		chunks++
	}
	return chunks, b.flush(ctx)
}

// Revision returns revision n of a deployment, or NotFound.
func (s *Store) Revision(ctx context.Context, uid string, n int64) (Revision, error) {
	if err := checkParts(uid); err != nil {
		return Revision{}, err
	}
	p, _, err := one[published](ctx, s, s.revKey(uid, n))
	return p.Revision, err
}

// Revisions yields the revisions of a deployment that are kept, oldest first; it ends
// at the first error.
func (s *Store) Revisions(ctx context.Context, uid string) iter.Seq2[Revision, error] {
	return func(yield func(Revision, error) bool) {
		for p, err := range s.published(ctx, uid) {
			if !yield(p.Revision, err) {
				return
			}
		}
	}
}

func (s *Store) published(ctx context.Context, uid string) iter.Seq2[published, error] {
	if err := checkParts(uid); err != nil {
		return failed[published](err)
	}
	return records(s.list(ctx, &scan{prefix: s.key("dep", uid, "rev") + "/"}), decode[published])
}

func failed[T any](err error) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) { yield(*new(T), err) }
}

// Placements returns where revision n wants what, in the order in which it was published,
// each cluster once. NotFound if there is no such revision. Nothing in the list may be
// changed: others have it too, and the placements share their Apps.
func (s *Store) Placements(ctx context.Context, uid string, n int64) ([]Placement, error) {
	if err := checkParts(uid); err != nil {
		return nil, err
	}
	p, _, err := one[published](ctx, s, s.revKey(uid, n))
	if err != nil {
		return nil, err
	}
	prefix := s.placeKey(uid, p.Number, p.Try)
	if known, ok := s.places.get(prefix); ok {
		return known, nil
	}
	places, err := s.placements(ctx, prefix, p.Chunks)
	if err == nil {
		s.places.put(prefix, places, len(places)*placementSize)
	}
	return places, err
}

// placementSize is about what a placement takes in memory, in bytes, besides its Apps.
const placementSize = 72

// placements reads so many values below prefix.
func (s *Store) placements(ctx context.Context, prefix string, want int) ([]Placement, error) {
	var out []Placement
	chunks := 0
	for some, err := range records(s.list(ctx, &scan{prefix: prefix}), decode[layout]) {
		if err == nil {
			err = some.check()
		}
		if err != nil {
			return nil, err
		}
		chunks++
		out = slices.AppendSeq(out, some.placements())
	}
	if chunks != want {
		return nil, corrupt(prefix, fmt.Errorf("%d of %d values are there; the revision may have been removed meanwhile", chunks, want))
	}
	return out, nil
}
