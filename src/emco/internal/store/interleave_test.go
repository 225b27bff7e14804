package store_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/seal"
)

// The documents of the scenarios: child is below parent, holder may refer to target.
const (
	parent = store.Key("parents/p")
	child  = store.Key("parents/p/children/c")
	child2 = store.Key("parents/p/children/d")
	target = store.Key("targets/t")
	holder = store.Key("holders/h")
)

// concurrentCall is one call on a DB of its own, as in a process of its own.
type concurrentCall struct {
	name string
	call func(context.Context, *store.DB) error
	may  []error // how it may fail, by reason or kind
}

// callScenario has documents and actors that work on them at the same time.
type callScenario struct {
	name   string
	setup  []store.Write
	actors []concurrentCall
	check  func(results []error, docs map[store.Key]store.Doc) error // beyond what always holds; may be nil

	creates bool // each driver is a store.Creator
}

// kindError lets a kind stand in a list of errors.
type kindError errs.Kind

func (k kindError) Error() string { return errs.Kind(k).String() }

func createActor(w store.Write, may ...error) concurrentCall {
	return concurrentCall{"create " + string(w.Key), func(ctx context.Context, db *store.DB) error {
		_, err := db.Create(ctx, w)
		return err
	}, may}
}

func replaceActor(w store.Write, at int64, may ...error) concurrentCall {
	return concurrentCall{"replace " + string(w.Key), func(ctx context.Context, db *store.DB) error {
		_, err := db.Replace(ctx, w, at)
		return err
	}, may}
}

func deleteActor(k store.Key, may ...error) concurrentCall {
	return concurrentCall{"delete " + string(k), func(ctx context.Context, db *store.DB) error {
		return db.Delete(ctx, k, nil)
	}, may}
}

func refTo(k store.Key, must bool) []store.Ref { return []store.Ref{{Key: k, Must: must}} }

var (
	notFound = kindError(errs.NotFound)
	exists   = kindError(errs.Exists)
	conflict = kindError(errs.Conflict)
)

// scenarios with two actors are tried in every interleaving, those with more in
// many random ones.
func scenarios() []callScenario {
	p, tgt := store.Write{Key: parent}, store.Write{Key: target}
	c := store.Write{Key: child, Parent: parent}
	d := store.Write{Key: child2, Parent: parent}
	h := store.Write{Key: holder}
	hr := store.Write{Key: holder, Refs: refTo(target, false)}
	hm := store.Write{Key: holder, Refs: refTo(target, true)}
	cm := store.Write{Key: child, Parent: parent, Refs: refTo(target, true)}
	protocol := []callScenario{
		{
			"a child comes while its parent goes",
			[]store.Write{p},
			[]concurrentCall{createActor(c, store.ErrNoParent), deleteActor(parent, store.ErrHasChildren)},
			oneOf,
			false,
		},
		{
			"a holder comes while its target goes",
			[]store.Write{tgt},
			[]concurrentCall{createActor(hm, store.ErrNoTarget), deleteActor(target, store.ErrReferenced)},
			oneOf,
			false,
		},
		{
			"a holder that tolerates comes while its target goes",
			[]store.Write{tgt},
			[]concurrentCall{createActor(hr, store.ErrNoTarget), deleteActor(target, store.ErrReferenced)},
			nil,
			false,
		},
		{
			"a holder that tolerates comes while its target comes", nil,
			[]concurrentCall{createActor(hr), createActor(tgt)},
			allOf,
			false,
		},
		{
			"a replacement refers to what goes",
			[]store.Write{tgt, h},
			[]concurrentCall{replaceActor(hm, 0, store.ErrNoTarget), deleteActor(target, store.ErrReferenced)},
			oneOf,
			false,
		},
		{
			"a replacement refers to what goes, and tolerates",
			[]store.Write{tgt, h},
			[]concurrentCall{replaceActor(hr, 1, store.ErrNoTarget), deleteActor(target, store.ErrReferenced)},
			nil,
			false,
		},
		{
			"a replacement lets go of what goes",
			[]store.Write{tgt, hm},
			[]concurrentCall{replaceActor(h, 1), deleteActor(target, store.ErrReferenced)},
			nil,
			false,
		},
		{
			"a replacement keeps what is tried to go",
			[]store.Write{tgt, hm},
			[]concurrentCall{replaceActor(hm, 1), deleteActor(target, store.ErrReferenced)},
			oneOf,
			false,
		},
		{
			"a document is replaced while it goes",
			[]store.Write{h},
			[]concurrentCall{replaceActor(h, 0, notFound, conflict), deleteActor(holder)},
			nil,
			false,
		},
		{
			"two replace one revision",
			[]store.Write{h},
			[]concurrentCall{replaceActor(h, 1, conflict), replaceActor(h, 1, conflict)},
			oneOf,
			false,
		},
		{
			"two replace whatever is there",
			[]store.Write{tgt, h},
			[]concurrentCall{replaceActor(hm, 0), replaceActor(hr, 0)},
			revision(holder, 3),
			false,
		},
		{
			"two replace with references of their own",
			[]store.Write{tgt, p, h},
			[]concurrentCall{replaceActor(hm, 0), replaceActor(store.Write{Key: holder, Refs: refTo(parent, true)}, 0)},
			revision(holder, 3),
			false,
		},
		{
			"two remove one document",
			[]store.Write{h},
			[]concurrentCall{deleteActor(holder, notFound), deleteActor(holder, notFound)},
			oneOf,
			false,
		},
		{
			"two create one document", nil,
			[]concurrentCall{createActor(h, exists), createActor(h, exists)},
			oneOf,
			false,
		},
		{
			"two children come while their parent goes",
			[]store.Write{p},
			[]concurrentCall{createActor(c, store.ErrNoParent), createActor(d, store.ErrNoParent), deleteActor(parent, store.ErrHasChildren)},
			nil,
			false,
		},
		{
			"a parent is deleted and created again while a child is created",
			[]store.Write{p},
			[]concurrentCall{createActor(c, store.ErrNoParent), deleteActor(parent, store.ErrHasChildren), createActor(p, exists)},
			nil,
			false,
		},
		{
			"two remove a parent while a child comes",
			[]store.Write{p},
			[]concurrentCall{
				createActor(c, store.ErrNoParent), deleteActor(parent, store.ErrHasChildren, notFound, conflict),
				deleteActor(parent, store.ErrHasChildren, notFound, conflict),
			},
			nil,
			false,
		},
		{
			"parent and target go while a child comes",
			[]store.Write{p, tgt},
			[]concurrentCall{
				createActor(cm, store.ErrNoParent, store.ErrNoTarget), deleteActor(parent, store.ErrHasChildren),
				deleteActor(target, store.ErrReferenced),
			},
			nil,
			false,
		},
		{
			"a child is replaced while parent and target go",
			[]store.Write{p, tgt, c},
			[]concurrentCall{
				replaceActor(cm, 0, store.ErrNoTarget), deleteActor(parent, store.ErrHasChildren),
				deleteActor(target, store.ErrReferenced),
			},
			nil,
			false,
		},
		{
			"two replace while the target goes",
			[]store.Write{tgt, h},
			[]concurrentCall{
				replaceActor(hm, 0, store.ErrNoTarget), replaceActor(hm, 0, store.ErrNoTarget),
				deleteActor(target, store.ErrReferenced),
			},
			nil,
			false,
		},
	}
	all := protocol
	for _, s := range protocol {
		s.name, s.creates = s.name+"; creations are one write", true
		all = append(all, s)
	}
	return all
}

// oneOf demands that just one actor succeeded.
func oneOf(results []error, _ map[store.Key]store.Doc) error {
	n := 0
	for _, err := range results {
		if err == nil {
			n++
		}
	}
	if n != 1 {
		return fmt.Errorf("%d actors succeeded, want 1", n)
	}
	return nil
}

// allOf demands that all actors succeeded.
func allOf(results []error, _ map[store.Key]store.Doc) error { return errors.Join(results...) }

// revision requires that no replacement was lost.
func revision(k store.Key, want int64) func([]error, map[store.Key]store.Doc) error {
	return func(_ []error, docs map[store.Key]store.Doc) error {
		if got := docs[k].Rev; got != want {
			return fmt.Errorf("%s is at revision %d, want %d", k, got, want)
		}
		return nil
	}
}

func TestEveryInterleavingOfTwoKeepsTheStoreSound(t *testing.T) {
	t.Parallel()
	for _, s := range scenarios() {
		if len(s.actors) > 2 || strings.HasPrefix(s.name, "two remove") || strings.HasPrefix(s.name, "two create") {
			continue // who waits for another reads on and on: there is no end of interleavings
		}
		inBubble(t, s, func(t *testing.T) {
			n := 0
			for next := (interleavingPath{}); next != nil; n++ {
				plan := next
				if err := play(t.Context(), s, time.Minute, plan.choose(&next), false); err != nil {
					t.Fatalf("interleaving %d: %v", n, err)
				}
			}
			least := 6
			if s.creates {
				least = 3 // two creations of two steps each
			}
			if n < least {
				t.Errorf("only %d interleavings were tried", n)
			}
		})
	}
}

func TestRandomInterleavingsKeepTheStoreSound(t *testing.T) {
	t.Parallel()
	for _, s := range scenarios() {
		inBubble(t, s, func(t *testing.T) { playRandomly(t, s, time.Minute, false) })
	}
}

// With a lease of 0 everyone takes every write under way for one left behind: the
// worst that clocks and slow processes can do. Promises must hold all the same; a
// writer may have to try again.
func TestNoPromiseHangsOnClocks(t *testing.T) {
	t.Parallel()
	settler := concurrentCall{"settle", func(ctx context.Context, db *store.DB) error { return db.Settle(ctx) }, nil}
	for _, s := range scenarios() {
		s.actors = append(s.actors, settler)
		s.check = nil
		inBubble(t, s, func(t *testing.T) { playRandomly(t, s, 0, true) })
	}
}

// inBubble runs f for a scenario where waiting takes no time.
func inBubble(t *testing.T, s callScenario, f func(*testing.T)) {
	t.Run(s.name, func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, f)
	})
}

func playRandomly(t *testing.T, s callScenario, lease time.Duration, busy bool) {
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 1))
		if err := play(t.Context(), s, lease, r.IntN, busy); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

// play runs a scenario in the interleaving that choose picks and checks what is
// left. busy allows any Conflict and NotFound as a result.
func play(ctx context.Context, s callScenario, lease time.Duration, choose func(n int) int, busy bool) error {
	mem := newMemory()
	sealer := seal.New(seal.Key{})
	for _, w := range s.setup {
		if _, err := store.New(mem, nil, sealer).Create(ctx, w); err != nil {
			return err
		}
	}
	st := newStage(len(s.actors))
	for _, d := range mem.all() {
		st.existed[d.Key] = true
	}
	results := make([]error, len(s.actors))
	for i, a := range s.actors {
		db := store.New(stepped(mem, st, i, s.creates), nil, sealer)
		db.SetLease(lease)
		go func() {
			results[i] = a.call(ctx, db)
			st.events <- event{i, true}
		}()
	}
	trace := st.direct(s.actors, choose)
	if err := cmp.Or(st.broken, judge(s, mem, results, busy)); err != nil {
		return fmt.Errorf("%w\nresults: %v\nsteps: %s", err, results, strings.Join(trace, ", "))
	}
	return nil
}

// judge checks the results and the documents after a play.
func judge(s callScenario, mem *memoryDriver, results []error, busy bool) error {
	for i, err := range results {
		if err != nil && !allowed(err, s.actors[i].may) && !(busy && allowed(err, []error{conflict, notFound})) {
			return fmt.Errorf("%s: unexpected error %w", s.actors[i].name, err)
		}
	}
	docs := map[store.Key]store.Doc{}
	for _, d := range mem.all() {
		docs[d.Key] = d
	}
	if err := sound(docs); err != nil {
		return err
	}
	for i, a := range s.actors {
		verb, key, _ := strings.Cut(a.name, " ")
		if _, there := docs[store.Key(key)]; results[i] == nil && !there && (verb == "create" || verb == "replace") && !deleted(s, key) {
			return fmt.Errorf("%s succeeded, but there is no document", a.name)
		}
	}
	if s.check != nil {
		return s.check(results, docs)
	}
	return nil
}

func deleted(s callScenario, key string) bool {
	for _, a := range s.actors {
		if a.name == "delete "+key {
			return true
		}
	}
	return false
}

func allowed(err error, may []error) bool {
	for _, m := range may {
		k, isKind := m.(kindError)
		if errors.Is(err, m) || isKind && errs.Is(err, errs.Kind(k)) {
			return true
		}
	}
	return false
}

// sound checks what holds while no process writes: no document is unfinished, no
// child without its parent.
func sound(docs map[store.Key]store.Doc) error {
	for _, d := range docs {
		if d.State != store.Live || len(d.Claims) > 0 {
			return fmt.Errorf("%s was left %s with claims %q", d.Key, d.State, d.Claims)
		}
		if _, there := docs[d.Parent]; d.Parent != "" && !there {
			return fmt.Errorf("%s is there without its parent", d.Key)
		}
	}
	return nil
}

// stepScheduler lets one actor at a time take one step: a call of the driver.
type stepScheduler struct {
	events chan event
	permit []chan struct{}

	existed map[store.Key]bool // keys that have been live
	broken  error              // the last promise seen broken
}

// event notes that an actor waits for its next step, or has finished.
type event struct {
	actor int
	done  bool
}

func newStage(n int) *stepScheduler {
	s := &stepScheduler{events: make(chan event), existed: map[store.Key]bool{}}
	for range n {
		s.permit = append(s.permit, make(chan struct{}))
	}
	return s
}

// step waits for the permission to take the next step.
func (s *stepScheduler) step(actor int) {
	s.events <- event{actor, false}
	<-s.permit[actor]
}

// direct gives permissions until all actors have finished. A choice is made only
// when all of them wait, so the same choices lead to the same play.
func (s *stepScheduler) direct(actors []concurrentCall, choose func(int) int) (trace []string) {
	waiting := make([]bool, len(actors))
	for running, busy := len(actors), len(actors); ; busy = 1 {
		for ; busy > 0; busy-- {
			e := <-s.events
			waiting[e.actor] = !e.done
			if e.done {
				running--
			}
		}
		if running == 0 {
			return trace
		}
		var able []int
		for i, w := range waiting {
			if w {
				able = append(able, i)
			}
		}
		next := able[0]
		if len(able) > 1 {
			next = able[choose(len(able))]
		}
		waiting[next] = false
		trace = append(trace, actors[next].name)
		s.permit[next] <- struct{}{}
	}
}

// steppedDriver makes a driver wait for permission before each call, and before each
// document of a listing.
type steppedDriver struct {
	inner *memoryDriver
	stage *stepScheduler
	actor int
}

// steppedCreator is a steppedDriver that is a store.Creator.
type steppedCreator struct{ *steppedDriver }

func (s steppedCreator) Create(ctx context.Context, d store.Doc, others map[store.Key]int64) error {
	s.stage.step(s.actor)
	err := creatingMemory{s.inner}.Create(ctx, d, others)
	if err == nil {
		s.stage.existed[d.Key] = true
	}
	return err
}

func stepped(m *memoryDriver, s *stepScheduler, actor int, creates bool) store.Driver {
	d := &steppedDriver{m, s, actor}
	if creates {
		return steppedCreator{d}
	}
	return d
}

func (s *steppedDriver) Get(ctx context.Context, k store.Key) (store.Doc, error) {
	s.stage.step(s.actor)
	return s.inner.Get(ctx, k)
}

func (s *steppedDriver) Put(ctx context.Context, d store.Doc, at int64) error {
	s.stage.step(s.actor)
	err := s.inner.Put(ctx, d, at)
	if err == nil && d.State != store.Pending {
		s.stage.existed[d.Key] = true
	}
	return err
}

// Remove notes in the stage when a document goes that a live one needs. The others
// stand still meanwhile.
func (s *steppedDriver) Remove(ctx context.Context, k store.Key, at int64) error {
	s.stage.step(s.actor)
	err := s.inner.Remove(ctx, k, at)
	for _, d := range s.inner.all() {
		if err == nil && d.State != store.Pending && (d.Parent == k || slices.Contains(d.Refs, k)) && s.stage.existed[k] {
			s.stage.broken = fmt.Errorf("%s was removed while %s needs it", k, d.Key)
		}
	}
	return err
}

func (s *steppedDriver) List(ctx context.Context, under store.Key, q store.Query) iter.Seq2[store.Doc, error] {
	q.Limit = 1
	return func(yield func(store.Doc, error) bool) {
		for more := true; more; {
			s.stage.step(s.actor)
			more = false
			for d, err := range s.inner.List(ctx, under, q) {
				if !yield(d, err) || err != nil {
					return
				}
				more, q.After = true, d.Key
			}
		}
	}
}

// interleavingPath is a path through the tree of all interleavings: at each choice, what was
// chosen and among how many.
type interleavingPath []struct{ chosen, of int }

// choose returns a chooser that follows w, then always takes the first. After the
// play, next is the path that comes after the one taken, nil after the last.
func (w interleavingPath) choose(next *interleavingPath) func(int) int {
	path := interleavingPath{}
	*next = nil
	return func(n int) int {
		chosen := 0
		if len(path) < len(w) {
			chosen = w[len(path)].chosen
		}
		path = append(path, struct{ chosen, of int }{chosen, n})
		*next = path.successor()
		return chosen
	}
}

// successor counts up the last choice that has another option left.
func (w interleavingPath) successor() interleavingPath {
	for i := len(w) - 1; i >= 0; i-- {
		if w[i].chosen+1 < w[i].of {
			s := append(interleavingPath{}, w[:i+1]...)
			s[i].chosen++
			return s
		}
	}
	return nil
}
