package appcontext

import (
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdtest"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
)

// world is a store together with what a reader may rely on.
type world struct {
	s       *Store
	now     time.Time
	heads   map[HeadID]Head
	revs    map[HeadID][]Revision         // published and not swept, by the rules
	holds   map[HeadID]map[int64][]Digest // bundles of revisions
	pairs   map[PairKey]Pair              // as rsync wrote them
	content map[Digest][]Digest           // bundle -> content of its objects
	unused  map[Digest]bool               // content that was written and never referred to
	tries   map[string]time.Time          // publishes that never ended -> when they began
}

const grace = time.Hour

var worlds atomic.Int64

func newWorld() *world {
	w := &world{
		now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), heads: map[HeadID]Head{}, revs: map[HeadID][]Revision{},
		holds: map[HeadID]map[int64][]Digest{}, pairs: map[PairKey]Pair{}, content: map[Digest][]Digest{},
		unused: map[Digest]bool{}, tries: map[string]time.Time{},
	}
	w.s = New(etcd, fmt.Sprintf("/sweep-%d", worlds.Add(1)), WithCache(0), WithGrace(grace), WithClock(func() time.Time { return w.now }))
	return w
}

// bundle stores a bundle of one to three objects out of a few.
func (w *world) bundle(t *rapid.T) Digest {
	var b Bundle
	texts := rapid.SliceOfNDistinct(rapid.StringMatching("[a-l]"), 1, 3, rapid.ID).Draw(t, "objects")
	blobs := content(texts...)
	for i, d := range slices.Sorted(maps.Keys(blobs)) {
		switch i {
		case 0:
			b.Objects = append(b.Objects, Ref{Digest: d})
		case 1:
			b.CRDs = append(b.CRDs, Ref{Digest: d})
		default:
			b.Hooks = append(b.Hooks, HookRef{Ref: Ref{Digest: d}})
		}
	}
	must(t, w.s.PutBlobs(t.Context(), blobs))
	d, err := w.s.PutBundle(t.Context(), b)
	must(t, err)
	w.content[d] = slices.Sorted(maps.Keys(blobs))
	return d
}

func (w *world) uid(t *rapid.T) HeadID {
	return rapid.SampledFrom([]HeadID{"1", "10"}).Draw(t, "uid")
}

// head returns the head of a deployment, which is created if need be.
func (w *world) head(t *rapid.T, uid HeadID) Head {
	h, ok := w.heads[uid]
	if !ok {
		var err error
		h, err = w.s.ChangeHead(t.Context(), Head{}, Head{UID: uid}, []HistoryEntry{{State: Created}}, nil)
		must(t, err)
		w.heads[uid], w.holds[uid] = h, map[int64][]Digest{}
	}
	return h
}

func (w *world) publish(t *rapid.T) {
	uid := w.uid(t)
	h := w.head(t, uid)
	app, place := w.bundle(t), w.bundle(t)
	rev := Revision{Number: h.LastRev + 1, At: w.now, Apps: []App{{Name: "a", Bundles: []Digest{app}}}}
	next, err := w.s.Publish(t.Context(), h, rev, slices.Values(places(2, place)))
	must(t, err)
	w.heads[uid] = next
	w.revs[uid] = append(w.revs[uid], rev)
	w.holds[uid][rev.Number] = []Digest{app, place}
}

// crash leaves content and placements of a publish behind.
func (w *world) crash(t *rapid.T) {
	uid := w.uid(t)
	h := w.head(t, uid)
	d := w.bundle(t)
	w.unused[d] = true
	key := placementPrefix(w.s.kv, uid, h.LastRev+int64(rapid.IntRange(0, 1).Draw(t, "rev")), w.s.newTry())
	_, err := w.s.putPlacements(t.Context(), key, slices.Values(places(600, d)))
	must(t, err)
	w.tries[key] = w.now
}

// sync has rsync move a pair to the desired revision, while the cluster may still hold
// what it held.
func (w *world) sync(t *rapid.T) {
	uid := w.uid(t)
	h, ok := w.heads[uid]
	if !ok || h.Rev == 0 {
		return
	}
	k := PairKey{Cluster: v2.ClusterKey(rapid.StringMatching("p\\+[ab]").Draw(t, "cluster")), Deployment: uid.Deployment(), App: "a"}
	p := w.pairs[k]
	p.Key, p.Rev, p.Desired = k, h.Rev, w.holds[uid][h.Rev][1]
	if rapid.Bool().Draw(t, "settled") {
		p.Applied, p.Held = p.Desired, []Digest{p.Desired}
	} else {
		p.Held = append(slices.Clone(p.Held), p.Desired)
	}
	must(t, w.s.PutPairs(t.Context(), Fence{}, []Pair{p}, nil))
	w.pairs[k] = p
}

// back makes a revision desired again that was before.
func (w *world) back(t *rapid.T) {
	uid := w.uid(t)
	if len(w.revs[uid]) == 0 {
		return
	}
	to := w.heads[uid]
	to.Rev = rapid.SampledFrom(w.revs[uid]).Draw(t, "revision").Number
	next, err := w.s.ChangeHead(t.Context(), w.heads[uid], to, nil, nil)
	must(t, err)
	w.heads[uid] = next
}

func (w *world) delete(t *rapid.T) {
	uid := w.uid(t)
	must(t, w.s.Delete(t.Context(), uid))
	delete(w.heads, uid)
	delete(w.revs, uid)
	delete(w.holds, uid)
	maps.DeleteFunc(w.tries, func(key string, _ time.Time) bool { return w.s.kv.Split([]byte(key))[1] == string(uid) })
}

func (w *world) sweep(t *rapid.T) {
	keep := rapid.IntRange(1, 3).Draw(t, "keep")
	sweepAll(t, w.s, keep)
	for uid, revs := range w.revs {
		w.revs[uid] = w.kept(uid, revs, keep)
	}
	maps.DeleteFunc(w.tries, func(_ string, at time.Time) bool { return w.now.Sub(at) >= grace })
	clear(w.unused)
	w.check(t)
}

// kept returns the revisions that a sweep must keep, by the rules; it must remove all others.
func (w *world) kept(uid HeadID, revs []Revision, keep int) []Revision {
	var kept []Revision
	for i, r := range revs {
		told := false
		for k, p := range w.pairs {
			told = told || k.Deployment == uid.Deployment() && p.Rev == r.Number
		}
		fresh := i+1 < len(revs) && w.now.Sub(revs[i+1].At) < grace
		if i >= len(revs)-keep || told || fresh || r.Number == w.heads[uid].Rev {
			kept = append(kept, r)
		}
	}
	return kept
}

// check reads all that must be there, and finds nothing else.
func (w *world) check(t *rapid.T) {
	needed := map[Digest]bool{}
	for uid, revs := range w.revs {
		got := collect(t, w.s.Revisions(t.Context(), uid))
		if len(got) != len(revs) {
			t.Fatalf("%d revisions of %s are left, want %d", len(got), uid, len(revs))
		}
		for i, r := range revs {
			if got[i].Number != r.Number {
				t.Fatalf("revision %d of %s is left, want %d", got[i].Number, uid, r.Number)
			}
			for _, p := range placed(t)(w.s.Placements(t.Context(), uid, r.Number)) {
				needed[p.Apps["app"]] = true
			}
			needed[got[i].Apps[0].Bundles[0]] = true
		}
	}
	for _, p := range w.pairs {
		needed[p.Desired] = true
		for _, d := range p.Held {
			needed[d] = true
		}
	}
	for _, b := range slices.Collect(maps.Keys(needed)) {
		if _, err := w.s.GetBundle(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		for _, d := range w.content[b] {
			needed[d] = true
			if _, err := w.s.GetBlob(t.Context(), d); err != nil {
				t.Fatal(err)
			}
		}
	}
	for kv, err := range w.s.kv.List(t.Context(), etcdkv.Scan{Prefix: w.s.kv.Key("blob") + "/", KeysOnly: true}) {
		must(t, err)
		if d := Digest(w.s.kv.Split(kv.Key)[1]); !needed[d] {
			t.Fatalf("content %s is left although it is not needed", d)
		}
	}
	w.checkTries(t)
}

// checkTries looks for placements that belong neither to a revision nor to a publish
// that may still be going on.
func (w *world) checkTries(t *rapid.T) {
	known := maps.Clone(w.tries)
	for uid, revs := range w.revs {
		for _, r := range revs {
			p, _, err := etcdkv.Read[storedRevision](t.Context(), w.s.kv, revisionKey(w.s.kv, uid, r.Number))
			must(t, err)
			known[placementPrefix(w.s.kv, uid, r.Number, p.Try)] = w.now
		}
	}
	found := map[string]bool{}
	for kv, err := range w.s.kv.List(t.Context(), etcdkv.Scan{Prefix: w.s.kv.Key("dep") + "/", KeysOnly: true}) {
		must(t, err)
		if p := w.s.kv.Split(kv.Key); p[2] == "place" {
			found[w.s.kv.Key(p[:5]...)+"/"] = true
		}
	}
	if len(found) != len(known) {
		t.Fatalf("placements of %d publishes are left, want %d", len(found), len(known))
	}
}

// After any publishes, deliveries, deletions, sweeps and crashes, a sweep
// leaves all that a reader may need, and nothing else.
func TestSweepAgainstModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld()
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			step := rapid.SampledFrom([]func(*rapid.T){
				w.publish, w.publish, w.publish, w.sync, w.sync, w.crash, w.back, w.delete, w.sweep,
				func(t *rapid.T) {
					w.now = w.now.Add(time.Duration(rapid.IntRange(1, 3).Draw(t, "time")) * 40 * time.Minute)
				},
			}).Draw(t, "step")
			step(t)
		}
		w.sweep(t)
	})
}

// sweepAll sweeps until unused content is gone: content goes in two sweeps.
func sweepAll(t etcdtest.T, s *Store, keep int) {
	t.Helper()
	for range 2 {
		_, err := s.Sweep(t.Context(), keep)
		must(t, err)
	}
}

// Content that an operation may have found before it was marked stays until the operation has
// ended; operations that come later do not matter.
func TestSweepWaitsForOlderOperations(t *testing.T) {
	t.Parallel()
	s, ctx := newStore(t), t.Context()
	must(t, s.PutBlobs(ctx, content("found")))
	older, err := s.ChangeHead(ctx, create(t, s, "1"), Head{UID: "1"}, nil, &Operation{ID: "older"})
	must(t, err)
	sweepAll(t, s, 1)
	if _, err := uncached(s).GetBlob(ctx, manifest.DigestOf([]byte("found"))); err != nil {
		t.Errorf("content that a waiting operation may have found: %v", err)
	}
	_, err = s.ChangeHead(ctx, create(t, s, "2"), Head{UID: "2"}, nil, &Operation{ID: "later"})
	must(t, err)
	_, err = s.ChangeHead(ctx, older, Head{UID: "1"}, nil, nil)
	must(t, err)
	swept, err := s.Sweep(ctx, 1)
	must(t, err)
	if keys := keysBelow(t, s, "blob/"); len(keys) != 0 || swept.Removed != 1 {
		t.Errorf("content %q is left, %+v", keys, swept)
	}
}

// While a deployment changes all the time, and an operation always waits, each sweep goes to its
// end, and content that nothing needs is gone soon.
func TestF66SweepsEndUnderConstantChange(t *testing.T) {
	t.Parallel()
	ctx, changes := t.Context(), 0
	var change func()
	s := newStore(t, WithGrace(0), WithOnOp(func(kind string, _ int) {
		if kind == "list" && changes > 0 { // in the middle of a sweep
			now := changes - 1
			changes = 0
			change()
			changes = now
		}
	}))
	h := create(t, s, "1")
	next := int64(0)
	change = func() {
		next++
		object := fmt.Sprint("object ", next)
		must(t, s.PutBlobs(ctx, content(object)))
		b, err := s.PutBundle(ctx, Bundle{Objects: []Ref{{Digest: manifest.DigestOf([]byte(object))}}})
		must(t, err)
		h, err = s.Publish(ctx, h, Revision{Number: next}, slices.Values(places(1, b)))
		must(t, err)
		to := h
		h, err = s.ChangeHead(ctx, h, to, []HistoryEntry{{State: Instantiated}}, &Operation{ID: fmt.Sprint("update ", next+1)})
		must(t, err)
	}
	for n := range 20 {
		changes = 5
		swept, err := s.Sweep(ctx, 3)
		must(t, err)
		if n > 3 && swept.Removed < 8 { // five revisions, with a bundle and an object each
			t.Errorf("sweep %d: %+v, want as much removed as is written", n, swept)
		}
	}
	changes = 0
	if n := len(collect(t, s.Revisions(ctx, "1"))); next < 100 || n > 8 {
		t.Errorf("%d of %d revisions are left, want the newest few", n, next)
	}
	if n := len(keysBelow(t, s, "blob/")); n > 60 {
		t.Errorf("%d keys of content are left after %d revisions", n, next)
	}
	for r, err := range s.Revisions(ctx, "1") {
		must(t, err)
		for _, p := range placed(t)(uncached(s).Placements(ctx, "1", r.Number)) {
			for _, d := range p.Apps {
				b, err := uncached(s).GetBundle(ctx, d)
				must(t, err)
				_, err = uncached(s).GetBlob(ctx, b.Objects[0].Digest)
				must(t, err)
			}
		}
	}
}

// during returns a store that calls f in the middle of a sweep, when pairs and deployments have
// been looked at and content has not.
func during(t *testing.T, sweep int, f func(s *Store)) *Store {
	var s *Store
	lists := 0
	s = newStore(t, WithOnOp(func(kind string, _ int) {
		if kind != "list" {
			return
		}
		if lists++; lists == 4*(sweep-1)+3 { // pairs, deployments, events, content
			f(s)
		}
	}))
	return s
}

// Content that is written while a sweep is going on stays; later sweeps remove it.
func TestSweepKeepsWhatIsNew(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s := during(t, 2, func(s *Store) {
		must(t, s.PutBlobs(ctx, content("new")))
		_, err := s.Publish(ctx, create(t, s, "1"), Revision{Number: 1}, slices.Values(places(1, manifest.DigestOf([]byte("{}")))))
		must(t, err)
		must(t, s.PutBlobs(ctx, content("{}")))
	})
	must(t, s.PutBlobs(ctx, content("old")))
	sweepAll(t, s, 1)
	for d := range content("new", "{}") {
		if _, err := uncached(s).GetBlob(ctx, d); err != nil {
			t.Errorf("content that may be needed is gone: %v", err)
		}
	}
	_, err := uncached(s).GetBlob(ctx, manifest.DigestOf([]byte("old")))
	wantKind(t, err, errs.NotFound)
	sweepAll(t, s, 1)
	_, err = uncached(s).GetBlob(ctx, manifest.DigestOf([]byte("new")))
	wantKind(t, err, errs.NotFound)
	if places := placed(t)(s.Placements(ctx, "1", 1)); len(places) != 1 {
		t.Errorf("%d placements of the new revision are left, want 1", len(places))
	}
}

// Another process carries out an operation in the middle of the first or of the second sweep. It
// finds content that nothing refers to, and publishes. The sweeps leave that content.
func TestSweepLeavesWhatAnotherProcessFound(t *testing.T) {
	t.Parallel()
	for sweep := 1; sweep <= 2; sweep++ {
		t.Run(fmt.Sprint("sweep ", sweep), func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			object, bundle := content("object"), Bundle{Objects: []Ref{{Digest: manifest.DigestOf([]byte("object"))}}}
			s := during(t, sweep, func(s *Store) {
				must(t, s.PutBlobs(ctx, object))
				d, err := s.PutBundle(ctx, bundle)
				must(t, err)
				_, err = s.Publish(ctx, create(t, s, "1"), Revision{Number: 1}, slices.Values(places(1, d)))
				must(t, err)
			})
			must(t, s.PutBlobs(ctx, object)) // it is there
			_, err := s.PutBundle(ctx, bundle)
			must(t, err)
			sweepAll(t, s, 1)
			sweepAll(t, s, 1)
			if _, err := uncached(s).GetBlob(ctx, manifest.DigestOf([]byte("object"))); err != nil {
				t.Errorf("what the revision needs is gone: %v", err)
			}
			if keys := keysBelow(t, s, "blob/"); len(keys) != 2 {
				t.Errorf("keys of content are %q, want object and bundle without marks", keys)
			}
		})
	}
}

// A waiting rollback keeps its revision.
func TestSweepKeepsTheRevisionOfARollback(t *testing.T) {
	t.Parallel()
	s, ctx := newStore(t, WithGrace(0)), t.Context()
	b, err := s.PutBundle(ctx, Bundle{})
	must(t, err)
	h := create(t, s, "1")
	for n := range int64(4) {
		h, err = s.Publish(ctx, h, Revision{Number: n + 1}, slices.Values(places(1, b)))
		must(t, err)
	}
	_, err = s.ChangeHead(ctx, h, h, nil, &Operation{ID: "back", From: 2})
	must(t, err)
	sweepAll(t, s, 1)
	var left []int64
	for _, r := range collect(t, s.Revisions(ctx, "1")) {
		left = append(left, r.Number)
	}
	if !slices.Equal(left, []int64{2, 4}) {
		t.Errorf("revisions %v are left, want that of the rollback and the newest", left)
	}
}

// The history of a deployment has a bound, and the newest actions keep their numbers.
func TestF67OldActionsAreRemoved(t *testing.T) {
	t.Parallel()
	s, ctx := newStore(t), t.Context()
	h := create(t, s, "1")
	for n := range KeptHistory + 30 {
		var err error
		h, err = s.ChangeHead(ctx, h, h, []HistoryEntry{{State: Instantiated, Reason: fmt.Sprint(n)}}, nil)
		must(t, err)
	}
	sweepAll(t, s, 1)
	acts, err := s.History(ctx, "1")
	must(t, err)
	if last := acts[len(acts)-1]; len(acts) != KeptHistory || last.Seq != h.Seq || last.Reason != fmt.Sprint(KeptHistory+29) {
		t.Errorf("%d actions are left, the last is %+v", len(acts), last)
	}
}

// What the machine writes into the event log does not evict what people did.
func TestF24EventsOfPeopleAreKept(t *testing.T) {
	t.Parallel()
	s, ctx := newStore(t), t.Context()
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	must(t, s.AddEvents(ctx, Event{UID: "1", At: at, Reason: "Instantiated", Actor: "ada"}))
	var machine []Event
	for n := range maxEvents + 100 {
		machine = append(machine, Event{UID: "1", At: at.Add(time.Duration(n+1) * time.Second), Reason: "Ready"})
	}
	must(t, s.AddEvents(ctx, machine...))
	sweepAll(t, s, 1)
	events, err := s.Events(ctx, "1")
	must(t, err)
	if len(events) != maxEvents+1 || events[0].Actor != "ada" || !events[1].At.Equal(at.Add(101*time.Second)) {
		t.Errorf("%d events are left, the first is %+v", len(events), events[0])
	}
}

// A revision is not removed while its deployment changes: a rollback may want it.
func TestSweepLeavesRevisionsOfWhatChanges(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s := newStore(t)
	b, err := s.PutBundle(ctx, Bundle{})
	must(t, err)
	h := create(t, s, "1")
	for n := range int64(3) {
		h, err = s.Publish(ctx, h, Revision{Number: n + 1}, slices.Values(places(1, b)))
		must(t, err)
	}
	w := &sweeper{s: s, keep: 1}
	stale := h
	stale.Mod--
	back := h
	back.Rev = 1
	back, err = s.ChangeHead(ctx, h, back, nil, nil)
	must(t, err)
	for _, c := range []struct {
		head   Head // as it was read
		number int64
		want   bool
	}{{stale, 1, false}, {back, 1, false}, {stale, 2, true}} {
		removed, err := w.removeRevision(ctx, &c.head, "1", storedRevision{Revision: Revision{Number: c.number}})
		must(t, err)
		if removed != c.want || c.head.Mod != back.Mod {
			t.Errorf("revision %d was removed: %t; the head was read at %d, and is at %d", c.number, removed, c.head.Mod, back.Mod)
		}
	}
	if got := collect(t, s.Revisions(ctx, "1")); len(got) != 2 {
		t.Errorf("%d revisions are left, want 2", len(got))
	}
}

// What an unreadable bundle refers to is not known, so no content may be removed.
func TestSweepStopsAtABundleItCannotRead(t *testing.T) {
	t.Parallel()
	s, ctx := newStore(t), t.Context()
	must(t, s.PutBlobs(ctx, content("object")))
	d, err := s.PutBundle(ctx, Bundle{Objects: []Ref{{Digest: manifest.DigestOf([]byte("object"))}}})
	must(t, err)
	must(t, s.PutPairs(ctx, Fence{}, []Pair{{Key: pairKeyOf(1), Held: []Digest{d}}}, nil))
	_, err = etcd.Put(ctx, s.kv.Key("blob", string(d), "0000"), "spoiled")
	must(t, err)
	_, err = s.Sweep(ctx, 1)
	wantKind(t, err, errs.Internal)
	if keys := keysBelow(t, s, "blob/"); len(keys) != 2 {
		t.Errorf("content %q is left, want both", keys)
	}
}
