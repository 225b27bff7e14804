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
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
)

// Sweep removes what is no longer needed: revisions beyond the newest keep of each
// deployment (the orchestrator decides how many: keptRevisions), unless they are desired, a pair names them, or they were replaced less than
// the grace period ago; placements of interrupted publishes; the oldest events of each
// deployment; and content to which neither a kept revision nor a pair refers.
//
// One rule makes it safe: only work on an operation writes content before something
// refers to it, or finds existing content and then refers to it. So Sweep does not begin
// while operations wait, keeps what was written after it began, and removes content only
// while no head has changed since: each operation changes its deployment's head when it
// starts and when it ends. Otherwise it returns Conflict, and the next sweep does the rest.
// Operations may therefore run in other processes meanwhile; run one sweep at a time, on a
// store that is Fenced.
//
// It may be interrupted without harm. A bundle that cannot be read ends it before content
// is removed, because the references of that bundle are not known.
func (s *Store) Sweep(ctx context.Context, keep int) error {
	r, err := s.kv.Get(ctx, s.kv.Key("op")+"/", clientv3.WithPrefix(), clientv3.WithLimit(1), clientv3.WithKeysOnly())
	if err != nil {
		return err
	}
	if len(r.Kvs) > 0 {
		return errs.E(errs.Conflict, "sweep", "contexts", errors.New("operations wait; do them first"))
	}
	w := &sweeper{
		s: s, keep: max(1, keep), start: r.Header.Revision,
		inPairs: map[string]map[int64]bool{}, bundles: map[Digest]bool{}, blobs: map[Digest]bool{},
	}
	for _, phase := range []func(context.Context) error{w.markPairs, w.sweepDeployments, s.trimAll, w.markBundles, w.sweepBlobs} {
		if err := phase(ctx); err != nil {
			return err
		}
	}
	return nil
}

// sweeper is one run of Sweep; only its goroutine uses it.
type sweeper struct {
	s       *Store
	keep    int
	start   int64                     // etcd's revision at the start
	inPairs map[string]map[int64]bool // uid -> revisions that pairs name
	bundles map[Digest]bool           // needed bundles
	blobs   map[Digest]bool           // needed blobs, bundles included
}

func (w *sweeper) markPairs(ctx context.Context) error {
	for p, err := range w.s.Pairs(ctx) {
		if err != nil {
			return err
		}
		if w.inPairs[p.Key.UID] == nil {
			w.inPairs[p.Key.UID] = map[int64]bool{}
		}
		w.inPairs[p.Key.UID][p.Rev] = true
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
	uid  string
	revs []int64 // ascending
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
		if p[1] != d.uid {
			if err := w.sweepDeployment(ctx, d); err != nil {
				return err
			}
			d = deploymentKeys{uid: p[1]}
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
	if err := w.sweepTries(ctx, d); err != nil {
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
		if newest || fresh || n == head.Rev || w.inPairs[d.uid][n] || w.inPairs[head.Deployment()][n] {
			err = w.markRevision(ctx, d.uid, r)
		} else {
			err = w.removeRevision(ctx, head, d.uid, r)
		}
		if err != nil {
			return err
		}
		replaced = r.At
	}
	return nil
}

// removeRevision removes a revision, unless the head has changed: a rollback may need it.
func (w *sweeper) removeRevision(ctx context.Context, head Head, uid string, r storedRevision) error {
	kv := w.s.kv
	same := clientv3.Compare(clientv3.ModRevision(headKey(kv, uid)), "=", head.Mod)
	_, ok, err := kv.Commit(ctx, fmt.Sprintf("revision %d of %s", r.Number, uid), []clientv3.Cmp{same}, []clientv3.Op{
		clientv3.OpDelete(revisionKey(kv, uid, r.Number)),
		clientv3.OpDelete(commitKey(kv, uid, r.Number)),
		clientv3.OpDelete(placementPrefix(kv, uid, r.Number, r.Try), clientv3.WithPrefix()),
	})
	if err == nil && !ok {
		err = sweepOvertaken()
	}
	return err
}

func sweepOvertaken() error {
	return errs.E(errs.Conflict, "sweep", "contexts", errors.New("a deployment has changed meanwhile; sweep again later"))
}

func (w *sweeper) markRevision(ctx context.Context, uid string, r storedRevision) error {
	for _, app := range r.Apps {
		w.need(app.Bundles...)
	}
	places, err := w.s.readPlacements(ctx, placementPrefix(w.s.kv, uid, r.Number, r.Try), r.Chunks)
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

// sweepTries removes the placements of interrupted publishes, once they are older than the
// grace period. A published revision names its try, which stays.
func (w *sweeper) sweepTries(ctx context.Context, d deploymentKeys) error {
	for _, t := range d.try {
		if w.s.o.now().Sub(t.at()) < w.s.o.grace {
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

// markBundles marks all content to which the needed bundles refer.
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
	var unused []clientv3.Op
	for kv, err := range w.s.kv.List(ctx, etcdkv.Scan{Prefix: w.s.kv.Key("blob") + "/", KeysOnly: true}) {
		if err != nil {
			return err
		}
		if w.blobs[Digest(w.s.kv.Split(kv.Key)[1])] || kv.ModRevision > w.start {
			continue
		}
		if unused = append(unused, clientv3.OpDelete(string(kv.Key))); len(unused) == etcdkv.MaxOps {
			if err := w.removeBlobs(ctx, unused); err != nil {
				return err
			}
			unused = unused[:0]
		}
	}
	return w.removeBlobs(ctx, unused)
}

// removeBlobs removes content if no head has changed since the start.
func (w *sweeper) removeBlobs(ctx context.Context, unused []clientv3.Op) error {
	if len(unused) == 0 {
		return nil
	}
	quiet := clientv3.Compare(clientv3.ModRevision(w.s.kv.Key("head")+"/").WithPrefix(), "<", w.start+1)
	_, ok, err := w.s.kv.Commit(ctx, "blobs", []clientv3.Cmp{quiet}, unused)
	if err == nil && !ok {
		err = sweepOvertaken()
	}
	return err
}
