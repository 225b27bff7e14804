package appcontext

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

// Sweep removes what nobody needs any more: revisions beyond the newest keep of each
// deployment, unless they are desired, some pair was last told to hold them, or they
// were replaced less than the grace period ago; placements of publishes that never
// ended; and content to which neither a kept revision nor a pair refers.
//
// One rule makes it safe: only work on an operation writes content before something
// refers to it, or finds content that is there already and refers to that. So Sweep does
// not begin while there are operations, keeps whatever was written after it began, and
// removes content only as long as no head has changed since: each operation changes its
// deployment's head when it comes and when it ends. Otherwise it returns Conflict: the
// next one does the rest. Operations may therefore run in other processes meanwhile;
// the sweep itself is to run once at a time, on a store view that is Fenced.
//
// It is interrupted without harm. A bundle that cannot be read ends it before content
// is removed, because what that bundle refers to is not known.
func (s *Store) Sweep(ctx context.Context, keep int) error {
	r, err := s.get(ctx, s.key("op")+"/", clientv3.WithPrefix(), clientv3.WithLimit(1), clientv3.WithKeysOnly())
	if err != nil {
		return err
	}
	if len(r.Kvs) > 0 {
		return errs.E(errs.Conflict, "sweep", "contexts", errors.New("operations wait; do them first"))
	}
	w := &sweeper{
		s: s, keep: max(1, keep), start: r.Header.Revision,
		told: map[string]map[int64]bool{}, bundles: map[Digest]bool{}, blobs: map[Digest]bool{},
	}
	for _, phase := range []func(context.Context) error{w.markPairs, w.sweepDeployments, w.sweepEvents, w.markBundles, w.sweepBlobs} {
		if err := phase(ctx); err != nil {
			return err
		}
	}
	return nil
}

// sweeper is one run of Sweep.
type sweeper struct {
	s       *Store
	keep    int
	start   int64                     // etcd's revision at the start
	told    map[string]map[int64]bool // uid -> revisions that pairs name
	bundles map[Digest]bool           // that are needed
	blobs   map[Digest]bool           // that are needed, bundles included
}

func (w *sweeper) markPairs(ctx context.Context) error {
	for p, err := range w.s.Pairs(ctx) {
		if err != nil {
			return err
		}
		if w.told[p.Key.UID] == nil {
			w.told[p.Key.UID] = map[int64]bool{}
		}
		w.told[p.Key.UID][p.Rev] = true
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

// deployment is what the keys below dep/<uid>/ say.
type deployment struct {
	uid  string
	revs []int64 // ascending
	try  []attempt
}

// attempt is one try to publish a revision.
type attempt struct {
	rev int64
	try string
}

// sweepDeployments walks the keys of all deployments, one deployment at a time.
func (w *sweeper) sweepDeployments(ctx context.Context) error {
	var d deployment
	for kv, err := range w.s.list(ctx, &scan{prefix: w.s.key("dep") + "/", keysOnly: true}) {
		if err != nil {
			return err
		}
		p := w.s.split(kv.Key)
		if p[1] != d.uid {
			if err := w.sweepDeployment(ctx, d); err != nil {
				return err
			}
			d = deployment{uid: p[1]}
		}
		if err := d.add(p); err != nil {
			return corrupt(string(kv.Key), err)
		}
	}
	return w.sweepDeployment(ctx, d)
}

func (d *deployment) add(parts []string) error {
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
		if a := (attempt{rev: n, try: parts[4]}); !slices.Contains(d.try, a) {
			d.try = append(d.try, a)
		}
	}
	return nil
}

// sweepDeployment removes the revisions of d that are not needed and marks the others.
func (w *sweeper) sweepDeployment(ctx context.Context, d deployment) error {
	if d.uid == "" {
		return nil
	}
	head, err := w.s.Head(ctx, d.uid)
	if err != nil && !errs.Is(err, errs.NotFound) {
		return err
	}
	if err := w.sweepTries(ctx, d); err != nil {
		return err
	}
	var next time.Time // when the revision after the one at hand was published
	for i, n := range slices.Backward(d.revs) {
		p, _, err := one[published](ctx, w.s, w.s.revKey(d.uid, n))
		if errs.Is(err, errs.NotFound) {
			continue // the deployment was deleted meanwhile
		}
		if err != nil {
			return err
		}
		newest := len(d.revs)-i <= w.keep
		fresh := w.s.now().Sub(next) < w.s.grace
		if newest || fresh || n == head.Rev || w.told[d.uid][n] || w.told[head.Deployment()][n] {
			err = w.markRevision(ctx, d.uid, p)
		} else {
			err = w.removeRevision(ctx, head, d.uid, p)
		}
		if err != nil {
			return err
		}
		next = p.At
	}
	return nil
}

// removeRevision removes a revision, unless the head has changed: a rollback may want it.
func (w *sweeper) removeRevision(ctx context.Context, head Head, uid string, p published) error {
	same := clientv3.Compare(clientv3.ModRevision(w.s.headKey(uid)), "=", head.Mod)
	_, ok, err := w.s.commit(ctx, fmt.Sprintf("revision %d of %s", p.Number, uid), []clientv3.Cmp{same}, []clientv3.Op{
		clientv3.OpDelete(w.s.revKey(uid, p.Number)),
		clientv3.OpDelete(w.s.commitKey(uid, p.Number)),
		clientv3.OpDelete(w.s.placeKey(uid, p.Number, p.Try), clientv3.WithPrefix()),
	})
	if err == nil && !ok {
		err = w.overtaken()
	}
	return err
}

func (w *sweeper) overtaken() error {
	return errs.E(errs.Conflict, "sweep", "contexts", errors.New("a deployment has changed meanwhile; sweep again later"))
}

func (w *sweeper) markRevision(ctx context.Context, uid string, p published) error {
	for _, app := range p.Apps {
		w.need(app.Bundles...)
	}
	places, err := w.s.placements(ctx, w.s.placeKey(uid, p.Number, p.Try), p.Chunks)
	if err != nil {
		return err
	}
	for _, place := range places {
		for _, d := range place.Apps {
			w.need(d)
		}
	}
	return nil
}

// sweepTries removes the placements of publishes that ended badly, once they are older
// than the grace period. That of a published revision is named by it, and stays.
func (w *sweeper) sweepTries(ctx context.Context, d deployment) error {
	for _, a := range d.try {
		if w.s.now().Sub(a.at()) < w.s.grace {
			continue
		}
		p, _, err := one[published](ctx, w.s, w.s.revKey(d.uid, a.rev))
		if err != nil && !errs.Is(err, errs.NotFound) {
			return err
		}
		if err == nil && p.Try == a.try {
			continue
		}
		key := w.s.placeKey(d.uid, a.rev, a.try)
		if _, _, err := w.s.commit(ctx, key, nil, []clientv3.Op{clientv3.OpDelete(key, clientv3.WithPrefix())}); err != nil {
			return err
		}
	}
	return nil
}

// at is when the try began; the year 1970 if its name does not say so.
func (a attempt) at() time.Time {
	ms, err := strconv.ParseInt(a.try[:min(13, len(a.try))], 16, 64)
	if err != nil {
		return time.Unix(0, 0)
	}
	return time.UnixMilli(ms)
}

// markBundles marks all that the needed bundles refer to.
func (w *sweeper) markBundles(ctx context.Context) error {
	for d := range w.bundles {
		w.blobs[d] = true
		text, err := w.s.readBlob(ctx, d)
		if err != nil {
			return err
		}
		b, err := parseBundle(d, text)
		if err != nil {
			return err
		}
		for _, refs := range [][]Ref{b.Objects, b.CRDs} {
			for _, r := range refs {
				w.blobs[r.Digest] = true
			}
		}
		for _, h := range b.Hooks {
			w.blobs[h.Digest] = true
		}
	}
	return nil
}

// sweepBlobs removes content that is not marked, unless it was written after the start.
func (w *sweeper) sweepBlobs(ctx context.Context) error {
	var gone []clientv3.Op
	for kv, err := range w.s.list(ctx, &scan{prefix: w.s.key("blob") + "/", keysOnly: true}) {
		if err != nil {
			return err
		}
		if w.blobs[Digest(w.s.split(kv.Key)[1])] || kv.ModRevision > w.start {
			continue
		}
		if gone = append(gone, clientv3.OpDelete(string(kv.Key))); len(gone) == maxOps {
			if err := w.removeBlobs(ctx, gone); err != nil {
				return err
			}
			gone = gone[:0]
		}
	}
	return w.removeBlobs(ctx, gone)
}

// removeBlobs removes content as long as no head has changed since the start.
func (w *sweeper) removeBlobs(ctx context.Context, gone []clientv3.Op) error {
	if len(gone) == 0 {
		return nil
	}
	quiet := clientv3.Compare(clientv3.ModRevision(w.s.key("head")+"/").WithPrefix(), "<", w.start+1)
	_, ok, err := w.s.commit(ctx, "blobs", []clientv3.Cmp{quiet}, gone)
	if err == nil && !ok {
		err = w.overtaken()
	}
	return err
}
