package appcontext

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
)

const (
	maxCommits     = 100 // of one revision that are kept; the newest stay
	commitAttempts = 5   // to record one, when other writers record at the same time
	placementSize  = 72  // bytes of a placement in memory, about, without its Apps

	// unpublishTimeout bounds removing the placements of a failed publish.
	unpublishTimeout = 5 * time.Second
)

// RevisionStore stores revisions of deployments, their placements, and the Git commits
// that carried them.
type RevisionStore struct {
	kv     *etcdkv.Client
	heads  *HeadStore
	lists  *ContentStore // of clusters, see placementValue
	now    func() time.Time
	caches caches
}

func revisionKey(kv *etcdkv.Client, uid HeadID, n int64) string {
	return kv.Key("dep", string(uid), "rev", etcdkv.Number(n))
}

func commitKey(kv *etcdkv.Client, uid HeadID, n int64) string {
	return kv.Key("dep", string(uid), "commit", etcdkv.Number(n))
}

// placementPrefix is the prefix of the placements of one try to publish revision n.
func placementPrefix(kv *etcdkv.Client, uid HeadID, n int64, try string) string {
	return kv.Key("dep", string(uid), "place", etcdkv.Number(n), try) + "/"
}

// storedRevision is a revision with the try that wrote its placements. Two writers of the
// same revision therefore never mix their placements.
type storedRevision struct {
	Revision
	Try string `json:"try"`
}

// Publish makes rev the desired state of the deployment whose head is h. It writes the
// placements first, below a key that is not read yet; then one transaction writes the
// revision, sets the head's Rev, LastRev, Op, Failure and Gone, and removes the operation.
// It sets rev.Chunks.
//
// Conflict if the head is no longer as h was read, or if the revision exists; what was
// written is removed then, except lists of clusters. What a crash leaves behind is never visible, and
// Sweep removes it, like unused lists. h must have an operation: a sweep leaves what that one needs.
// After Unavailable the revision may be published: read the head.
func (s *RevisionStore) Publish(ctx context.Context, h Head, rev Revision, places iter.Seq[Placement]) (Head, error) {
	if h.Mod == 0 || rev.Number <= 0 {
		return Head{}, errs.E(errs.Invalid, "publish", string(h.UID), errors.New("a head that was read and a revision above 0 are needed"))
	}
	rev.Deployed = h.Deployment()
	r := storedRevision{Revision: rev, Try: s.newTry()}
	chunks, err := s.putPlacements(ctx, placementPrefix(s.kv, h.UID, rev.Number, r.Try), places)
	if err != nil {
		s.unpublish(ctx, h.UID, r)
		return Head{}, err
	}
	r.Chunks = chunks
	next, err := s.flip(ctx, h, r)
	if err != nil && !errs.Is(err, errs.Unavailable) {
		s.unpublish(ctx, h.UID, r) // after Unavailable the transaction may still be made
	}
	return next, err
}

// newTry names a try to publish; the name starts with the time, for Sweep.
func (s *RevisionStore) newTry() string {
	return fmt.Sprintf("%013x-%s", s.now().UnixMilli(), rand.Text()[:10])
}

// flip is the transaction that makes a revision visible.
func (s *RevisionStore) flip(ctx context.Context, h Head, r storedRevision) (Head, error) {
	key := revisionKey(s.kv, h.UID, r.Number)
	text, err := etcdkv.Encode(key, r)
	if err != nil {
		return Head{}, err
	}
	ops := []clientv3.Op{clientv3.OpPut(key, text)}
	if h.Op != nil {
		ops = append(ops, clientv3.OpDelete(operationKey(s.kv, h.UID, h.Op.ID)))
	}
	next := h
	next.Rev, next.LastRev = r.Number, max(h.LastRev, r.Number)
	next.Op, next.Failure, next.Gone = nil, "", false
	return s.heads.swap(ctx, h.Mod, next, []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(key), "=", 0)}, ops)
}

// unpublish removes the placements of a try that did not become visible, even if ctx has
// ended. Sweep removes what it misses.
func (s *RevisionStore) unpublish(ctx context.Context, uid HeadID, r storedRevision) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unpublishTimeout)
	defer cancel()
	key := placementPrefix(s.kv, uid, r.Number, r.Try)
	if _, err := s.kv.Etcd().Delete(ctx, key, clientv3.WithPrefix()); err != nil {
		s.kv.Log().Warn("the placements of a failed publish are left behind", "key", key, "err", err)
		return
	}
	s.kv.CountRequest("txn", len(key))
}

// putPlacements writes placements below prefix, with the content that they refer to, and returns the
// number of values.
func (s *RevisionStore) putPlacements(ctx context.Context, prefix string, places iter.Seq[Placement]) (int, error) {
	b := s.kv.NewBatch(prefix)
	chunks, lists := 0, map[Digest][]byte{}
	for chunk, err := range chunksOf(prefix, places) {
		if err != nil {
			return 0, err
		}
		value, refers, list, err := chunk.value()
		if err != nil {
			return 0, err
		}
		if refers != "" {
			lists[refers] = list
		}
		text, err := etcdkv.Encode(prefix, value)
		if err != nil {
			return 0, err
		}
		if err := b.Add(ctx, clientv3.OpPut(fmt.Sprintf("%s%06d", prefix, chunks), text)); err != nil {
			return 0, err
		}
		chunks++
	}
	if err := s.lists.PutBlobs(ctx, lists); err != nil {
		return 0, err
	}
	return chunks, b.Flush(ctx)
}

// Revision returns revision n of a deployment, or NotFound.
func (s *RevisionStore) Revision(ctx context.Context, uid HeadID, n int64) (Revision, error) {
	r, err := s.stored(ctx, uid, n)
	return r.Revision, err
}

func (s *RevisionStore) stored(ctx context.Context, uid HeadID, n int64) (storedRevision, error) {
	if err := etcdkv.CheckParts(string(uid)); err != nil {
		return storedRevision{}, err
	}
	key := revisionKey(s.kv, uid, n)
	r, kv, err := etcdkv.Read[storedRevision](ctx, s.kv, key)
	if err == nil {
		s.caches.revisions.Put(key, r, 2*len(kv.Value))
	}
	return r, err
}

// DesiredRevision is Revision for a revision that a head desires. Such a revision exists and never changes, so it is read from etcd
// once. It is shared and must not be changed.
func (s *RevisionStore) DesiredRevision(ctx context.Context, uid HeadID, n int64) (Revision, error) {
	r, err := s.desired(ctx, uid, n)
	return r.Revision, err
}

// DesiredPlacements is Placements for a revision that a head desires.
func (s *RevisionStore) DesiredPlacements(ctx context.Context, uid HeadID, n int64) ([]Placement, error) {
	r, err := s.desired(ctx, uid, n)
	if err != nil {
		return nil, err
	}
	return s.placementsOf(ctx, uid, r)
}

func (s *RevisionStore) desired(ctx context.Context, uid HeadID, n int64) (storedRevision, error) {
	if known, ok := s.caches.revisions.Get(revisionKey(s.kv, uid, n)); ok {
		return known, nil
	}
	return s.stored(ctx, uid, n)
}

// Revisions yields the revisions of a deployment that are kept, oldest first; it ends at
// the first error.
func (s *RevisionStore) Revisions(ctx context.Context, uid HeadID) iter.Seq2[Revision, error] {
	if err := etcdkv.CheckParts(string(uid)); err != nil {
		return etcdkv.Failed[Revision](err)
	}
	return etcdkv.Records(s.kv.List(ctx, etcdkv.Scan{Prefix: s.kv.Key("dep", string(uid), "rev") + "/"}), etcdkv.Decode[Revision])
}

// Placements returns where revision n places its apps, in publication order,
// each cluster once. NotFound if there is no such revision. The list is shared
// and must not be changed; its placements share their Apps.
func (s *RevisionStore) Placements(ctx context.Context, uid HeadID, n int64) ([]Placement, error) {
	r, err := s.stored(ctx, uid, n)
	if err != nil {
		return nil, err
	}
	return s.placementsOf(ctx, uid, r)
}

func (s *RevisionStore) placementsOf(ctx context.Context, uid HeadID, r storedRevision) ([]Placement, error) {
	prefix := placementPrefix(s.kv, uid, r.Number, r.Try)
	if known, ok := s.caches.placements.Get(prefix); ok {
		return known, nil
	}
	places, err := s.readPlacements(ctx, prefix, r.Chunks)
	if err == nil {
		s.caches.placements.Put(prefix, places, len(places)*placementSize)
	}
	return places, err
}

// readPlacements reads the placements below prefix, which must be in want values: a part
// of them would empty clusters.
func (s *RevisionStore) readPlacements(ctx context.Context, prefix string, want int) ([]Placement, error) {
	var out []Placement
	values, err := s.placementValues(ctx, prefix, want)
	for _, v := range values {
		chunk, err := v.chunk(ctx, s.lists.GetBlob)
		if err != nil {
			return nil, err
		}
		out = slices.AppendSeq(out, chunk.placements())
	}
	return out, err
}

// placementValues reads the values below prefix, which must be want.
func (s *RevisionStore) placementValues(ctx context.Context, prefix string, want int) (values []placementValue, err error) {
	for v, err := range etcdkv.Records(s.kv.List(ctx, etcdkv.Scan{Prefix: prefix}), etcdkv.Decode[placementValue]) {
		if err != nil {
			return nil, err
		}
		values = append(values, v)
	}
	if len(values) != want {
		return nil, etcdkv.Corrupt(prefix, fmt.Errorf("%d of %d values exist; the revision may have been removed meanwhile", len(values), want))
	}
	return values, nil
}

// RevisionCommit is a Git commit that carried a revision to clusters, or what was published
// of a revision for one cluster.
type RevisionCommit struct {
	Repository string        `json:"repository"`        // URL, without credentials
	Branch     string        `json:"branch"`            // empty for what is published
	Commit     string        `json:"commit"`            // or a digest, as "sha256:…"
	Clusters   int           `json:"clusters"`          // number of clusters that it is for
	Cluster    v2.ClusterKey `json:"cluster,omitempty"` // the one that it is for, of what is published
}

// same reports whether both are about the same commit, or the same publication.
func (c RevisionCommit) same(d RevisionCommit) bool {
	return c.Repository == d.Repository && c.Branch == d.Branch && c.Commit == d.Commit && c.Cluster == d.Cluster
}

// RecordCommit records that commits carried revision rev of the head uid. The clusters of
// a known commit are added up. NotFound if there is no such revision. It costs one read
// and one write.
func (s *RevisionStore) RecordCommit(ctx context.Context, uid HeadID, rev int64, c ...RevisionCommit) error {
	if err := etcdkv.CheckParts(string(uid)); err != nil {
		return err
	}
	for range commitAttempts {
		done, err := s.recordCommit(ctx, uid, rev, c)
		if done || err != nil {
			return err
		}
	}
	return errs.E(errs.Conflict, "record", fmt.Sprintf("commits of revision %d", rev), errors.New("others record commits all the time"))
}

func (s *RevisionStore) recordCommit(ctx context.Context, uid HeadID, rev int64, c []RevisionCommit) (done bool, err error) {
	key := commitKey(s.kv, uid, rev)
	known, kv, err := etcdkv.Read[[]RevisionCommit](ctx, s.kv, key)
	mod := int64(0)
	switch {
	case err == nil:
		mod = kv.ModRevision
	case !errs.Is(err, errs.NotFound):
		return false, err
	}
	all := mergeCommits(known, c)
	dropped, kept := all[:max(0, len(all)-maxCommits)], all[max(0, len(all)-maxCommits):]
	text, err := etcdkv.Encode(key, kept)
	if err != nil {
		return false, err
	}
	index, err := indexOps(s.kv, recordedRevision{uid, rev}, slices.Concat(c, dropped), kept)
	if err != nil {
		return false, err
	}
	_, done, err = s.kv.Commit(ctx, key, []clientv3.Cmp{
		clientv3.Compare(clientv3.ModRevision(key), "=", mod),
		clientv3.Compare(clientv3.CreateRevision(revisionKey(s.kv, uid, rev)), ">", 0),
	}, append(index, clientv3.OpPut(key, text)))
	if err != nil || done {
		return done, err
	}
	_, err = s.Revision(ctx, uid, rev)
	return false, err
}

// mergeCommits adds commits to the known ones.
func mergeCommits(known, commits []RevisionCommit) []RevisionCommit {
	for _, c := range commits {
		i := slices.IndexFunc(known, c.same)
		switch {
		case i < 0:
			known = append(known, c)
		case c.Cluster == "":
			known[i].Clusters += c.Clusters
		}
	}
	return known
}

// Commits returns the recorded commits of a deployment by revision, oldest first.
func (s *RevisionStore) Commits(ctx context.Context, uid HeadID) (map[int64][]RevisionCommit, error) {
	if err := etcdkv.CheckParts(string(uid)); err != nil {
		return nil, err
	}
	out := map[int64][]RevisionCommit{}
	for at, err := range s.kv.List(ctx, etcdkv.Scan{Prefix: s.kv.Key("dep", string(uid), "commit") + "/"}) {
		if err != nil {
			return nil, err
		}
		rev, commits, err := parseCommits(s.kv, at)
		if err != nil {
			return nil, err
		}
		out[rev] = commits
	}
	return out, nil
}

// parseCommits reads the commits of a revision, whose number is in the key.
func parseCommits(kv *etcdkv.Client, at *mvccpb.KeyValue) (rev int64, commits []RevisionCommit, err error) {
	if rev, err = strconv.ParseInt(kv.Split(at.Key)[3], 10, 64); err != nil {
		return 0, nil, etcdkv.Corrupt(string(at.Key), fmt.Errorf("the key names no revision: %w", err))
	}
	commits, err = etcdkv.Decode[[]RevisionCommit](at)
	return rev, commits, err
}
