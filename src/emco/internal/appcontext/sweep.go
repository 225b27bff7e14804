package appcontext

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/blobstore"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
)

// KeptHistory is how many of the newest entries of a deployment's history Sweep keeps. What is looked up in the
// history is found only there: idempotency keys of requests (package lifecycle), what the last review covers
// (orchestrator), and the instance ids of revisions (package statusview).
const KeptHistory = 200

// removeAttempts is how often a sweep tries to remove a revision while the head changes.
const removeAttempts = 3

// Sweep removes what is no longer needed: revisions beyond the newest keep of each
// deployment (the orchestrator decides how many: keptRevisions), unless they are desired, a pair
// names them, a rollback waits for them, or they were replaced less than the grace period ago;
// placements of interrupted publishes; the oldest entries of the history of clusters; commits of revisions that are gone, from the index; the oldest actions and events of each deployment; and
// content that neither a kept revision nor a pair names.
//
// Content goes in two sweeps, so that operations need not stop. Only work on an operation refers to
// content that nothing referred to before: it writes it, or finds it. The first sweep marks
// unused content. From then on, an operation that finds it writes it again and removes the mark
// (PutBlobs). A later sweep removes content that still has its mark and is still unused, once
// every operation that was queued before the mark has ended: what those published is seen. etcd's
// revisions order what came before what.
//
// Operations may therefore run meanwhile, in any process; run one sweep at a time, on a store
// that is Fenced. It may be interrupted without harm. A bundle that cannot be read ends it before
// content is marked or removed, because the references of that bundle are not known.
func (s *Store) Sweep(ctx context.Context, keep int) (Swept, error) {
	w := &sweeper{
		s: s, keep: max(1, keep),
		existing: map[v2.DeploymentID]bool{}, inPairs: map[v2.DeploymentID]map[int64]bool{}, recorded: map[recordedRevision]bool{}, bundles: map[Digest]bool{}, lists: map[Digest]bool{},
	}
	if _, err := s.NoteProgress(ctx); err != nil {
		return Swept{}, err
	}
	for _, phase := range []func(context.Context) error{w.begin, w.markPairs, w.sweepDeployments, w.sweepIndex, s.trimAll, w.trimClusterHistory} {
		if err := phase(ctx); err != nil {
			return Swept{}, err
		}
	}
	needed, err := s.References(ctx, w.bundles)
	if err != nil {
		return Swept{}, err
	}
	maps.Copy(needed, w.lists)
	return s.SweepContent(ctx, blobstore.SweepInput{Needed: needed, Start: w.start, Oldest: w.oldest})
}

// sweeper is one run of Sweep; only its goroutine uses it.
type sweeper struct {
	s        *Store
	keep     int
	start    int64                              // etcd's revision at the start
	oldest   int64                              // etcd's revision at which the oldest waiting operation was queued
	existing map[v2.DeploymentID]bool           // deployments that a head owns
	inPairs  map[v2.DeploymentID]map[int64]bool // the revisions that pairs name
	recorded map[recordedRevision]bool          // revisions with recorded commits
	bundles  map[Digest]bool                    // needed bundles
	lists    map[Digest]bool                    // needed lists of clusters
}

// begin reads which operations wait.
func (w *sweeper) begin(ctx context.Context) error {
	w.oldest = math.MaxInt64
	r, err := w.s.kv.Get(ctx, w.s.kv.Key("op")+"/", clientv3.WithPrefix(), clientv3.WithLimit(1), clientv3.WithKeysOnly(),
		clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
	if err != nil {
		return err
	}
	w.start = r.Header.Revision
	if len(r.Kvs) > 0 {
		w.oldest = r.Kvs[0].CreateRevision
	}
	return nil
}

// keptAfterDeletion is how long the history of clusters names deployments that were deleted.
const keptAfterDeletion = 90 * 24 * time.Hour

func (w *sweeper) trimClusterHistory(ctx context.Context) error {
	exists := func(id v2.DeploymentID) bool { return w.existing[id] }
	return w.s.TrimClusterHistory(ctx, exists, w.s.o.now().Add(-keptAfterDeletion))
}

func (w *sweeper) markPairs(ctx context.Context) error {
	for p, err := range w.s.Pairs(ctx) {
		if err != nil {
			return err
		}
		if w.inPairs[p.Key.Deployment] == nil {
			w.inPairs[p.Key.Deployment] = map[int64]bool{}
		}
		w.inPairs[p.Key.Deployment][p.Rev] = true
		w.need(p.Desired, p.Applied)
		w.need(p.Held...)
	}
	return nil
}

func (w *sweeper) need(bundles ...Digest) {
	for _, d := range bundles {
		if d != "" {
			w.bundles[d] = true
		}
	}
}

// deploymentKeys is what the keys below dep/<uid>/ name.
type deploymentKeys struct {
	uid  HeadID
	revs []int64  // ascending
	acts []string // keys of the history, the oldest first
	try  []publishTry
}

// publishTry is one try to publish a revision.
type publishTry struct {
	rev int64
	try string
}

// sweepDeployments walks the keys of all deployments, one deployment at a time.
func (w *sweeper) sweepDeployments(ctx context.Context) error {
	var d deploymentKeys
	for kv, err := range w.s.kv.List(ctx, etcdkv.Scan{Prefix: w.s.kv.Key("dep") + "/", KeysOnly: true}) {
		if err != nil {
			return err
		}
		p := w.s.kv.Split(kv.Key)
		if HeadID(p[1]) != d.uid {
			if err := w.sweepDeployment(ctx, d); err != nil {
				return err
			}
			d = deploymentKeys{uid: HeadID(p[1])}
		}
		if p[2] == "act" {
			d.acts = append(d.acts, string(kv.Key))
		}
		if n, err := strconv.ParseInt(p[len(p)-1], 10, 64); p[2] == "commit" && err == nil {
			w.recorded[recordedRevision{d.uid, n}] = true
		}
		if err := d.add(p); err != nil {
			return etcdkv.Corrupt(string(kv.Key), err)
		}
	}
	return w.sweepDeployment(ctx, d)
}

func (d *deploymentKeys) add(parts []string) error {
	if len(parts) < 4 || parts[2] == "act" || parts[2] == "commit" {
		return nil
	}
	n, err := strconv.ParseInt(parts[3], 10, 64)
	if err != nil {
		return err
	}
	switch {
	case parts[2] == "rev":
		d.revs = append(d.revs, n)
	case len(parts) == 6:
		if a := (publishTry{rev: n, try: parts[4]}); !slices.Contains(d.try, a) {
			d.try = append(d.try, a)
		}
	}
	return nil
}

// sweepDeployment removes the revisions of d that are not needed and marks the others.
func (w *sweeper) sweepDeployment(ctx context.Context, d deploymentKeys) error {
	if d.uid == "" {
		return nil
	}
	head, err := w.s.Head(ctx, d.uid)
	if err != nil && !errs.Is(err, errs.NotFound) {
		return err
	}
	if err == nil && head.Owns() {
		w.existing[head.Deployment()] = true
	}
	if err := w.sweepTries(ctx, d); err != nil {
		return err
	}
	if err := w.s.removeOldest(ctx, "actions", d.acts, KeptHistory); err != nil {
		return err
	}
	var replaced time.Time // when the revision at hand was replaced; zero for the newest
	for i, n := range slices.Backward(d.revs) {
		r, err := w.s.stored(ctx, d.uid, n)
		if errs.Is(err, errs.NotFound) {
			continue // the deployment was deleted meanwhile
		}
		if err != nil {
			return err
		}
		newest := len(d.revs)-i <= w.keep
		fresh := w.s.o.now().Sub(replaced) < w.s.o.grace
		removed := false
		if !newest && !fresh && !w.inPairs[d.uid.Deployment()][n] && !w.inPairs[head.Deployment()][n] {
			removed, err = w.removeRevision(ctx, &head, d.uid, r)
		}
		if removed {
			delete(w.recorded, recordedRevision{d.uid, n})
		}
		if err == nil && !removed {
			err = w.markRevision(ctx, d.uid, r)
		}
		if err != nil {
			return err
		}
		replaced = r.At
	}
	return nil
}

// removeRevision removes a revision unless the head needs it: it is desired, or a rollback waits
// for it. It reads the head again when it has changed; false if it changes all the time.
func (w *sweeper) removeRevision(ctx context.Context, head *Head, uid HeadID, r storedRevision) (bool, error) {
	kv := w.s.kv
	for range removeAttempts {
		if r.Number == head.Rev || head.Op != nil && head.Op.From == r.Number {
			return false, nil
		}
		same := clientv3.Compare(clientv3.ModRevision(headKey(kv, uid)), "=", head.Mod)
		_, ok, err := kv.Commit(ctx, fmt.Sprintf("revision %d of %s", r.Number, uid), []clientv3.Cmp{same}, []clientv3.Op{
			clientv3.OpDelete(revisionKey(kv, uid, r.Number)),
			clientv3.OpDelete(commitKey(kv, uid, r.Number)),
			clientv3.OpDelete(placementPrefix(kv, uid, r.Number, r.Try), clientv3.WithPrefix()),
		})
		if ok || err != nil {
			return ok, err
		}
		now, err := w.s.Head(ctx, uid)
		if err != nil && !errs.Is(err, errs.NotFound) {
			return false, err
		}
		*head = now
	}
	return false, nil
}

func (w *sweeper) markRevision(ctx context.Context, uid HeadID, r storedRevision) error {
	for _, app := range r.Apps {
		w.need(app.Bundles...)
	}
	values, err := w.s.placementValues(ctx, placementPrefix(w.s.kv, uid, r.Number, r.Try), r.Chunks)
	if err != nil {
		return err
	}
	for _, v := range values {
		list, err := v.refers()
		if err != nil {
			return etcdkv.Corrupt("placements", err)
		}
		if list != "" {
			w.lists[list] = true
		}
		for _, set := range v.Sets {
			w.need(slices.Collect(maps.Values(set))...)
		}
	}
	return nil
}

// sweepTries removes the placements of interrupted publishes, once they are older than the
// grace period. A published revision names its try, which stays.
func (w *sweeper) sweepTries(ctx context.Context, d deploymentKeys) error {
	for _, t := range d.try {
		if w.s.o.now().Sub(t.at()) < w.s.o.tries {
			continue
		}
		r, err := w.s.stored(ctx, d.uid, t.rev)
		if err != nil && !errs.Is(err, errs.NotFound) {
			return err
		}
		if err == nil && r.Try == t.try {
			continue
		}
		key := placementPrefix(w.s.kv, d.uid, t.rev, t.try)
		if _, _, err := w.s.kv.Commit(ctx, key, nil, []clientv3.Op{clientv3.OpDelete(key, clientv3.WithPrefix())}); err != nil {
			return err
		}
	}
	return nil
}

// at is when the try began; the year 1970 if its name contains no time.
func (t publishTry) at() time.Time {
	ms, err := strconv.ParseInt(t.try[:min(13, len(t.try))], 16, 64)
	if err != nil {
		return time.Unix(0, 0)
	}
	return time.UnixMilli(ms)
}
