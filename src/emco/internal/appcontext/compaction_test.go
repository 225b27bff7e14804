package appcontext

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdtest"
)

// view is what one who watches knows: records by name.
type view struct {
	mu    sync.Mutex
	known map[string]string
}

func (v *view) set(name, is string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if is == "" {
		delete(v.known, name)
		return
	}
	v.known[name] = is
}

func (v *view) agrees(want map[string]string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return maps.Equal(v.known, want)
}

// observe keeps a view up to date from a sequence until the test ends; each change is
// announced. gate holds the consumer back while it is locked.
func observe[T any](t *testing.T, gate *sync.RWMutex, told chan<- struct{}, seq func(ctx context.Context) func(yield func(T, error) bool), note func(v *view, e T)) *view {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	v, done := &view{known: map[string]string{}}, make(chan struct{})
	go func() {
		defer close(done)
		for e, err := range seq(ctx) {
			if err != nil {
				t.Error(err)
			}
			gate.RLock()
			note(v, e)
			gate.RUnlock()
			select {
			case told <- struct{}{}:
			default:
			}
		}
	}()
	t.Cleanup(func() { cancel(); etcdtest.Receive(t, done, "the end of the watch") })
	return v
}

// Heads, operations, pairs and reports change, watches are lost, those who watch fall
// behind, and etcd drops its history, in any order: in the end every watch
// has all records, and those of operations have received each one that waits.
func TestH35CompactionDuringWatch(t *testing.T) {
	t.Parallel()
	s, w := newCutStore(t)
	var gate sync.RWMutex
	told := make(chan struct{}, 1)
	heads := observe(t, &gate, told, func(ctx context.Context) func(func(HeadEvent, error) bool) { return s.WatchHeads(ctx) },
		func(v *view, e HeadEvent) {
			switch {
			case e.Deleted:
				v.set(string(e.Head.UID), "")
			case !e.Synced:
				v.set(string(e.Head.UID), fmt.Sprint(e.Head.Mod))
			}
		})
	ops := observe(t, &gate, told, func(ctx context.Context) func(func(Operation, error) bool) { return s.WatchOperations(ctx) },
		func(v *view, op Operation) { v.set(string(op.UID)+" "+op.ID, "waits") })
	all := observe(t, &gate, told, func(ctx context.Context) func(func(Record, error) bool) { return s.ChangeFeed().Records(ctx) }, noteRecord)

	c := churn{t: t, s: s, r: rand.New(rand.NewPCG(3, 5)), heads: map[string]Head{}, records: map[string]string{}}
	for i := range 300 {
		c.change()
		if i%20 != 19 {
			continue
		}
		gate.Lock() // consumers stop
		w.Lose(func() {
			for range c.r.IntN(40) {
				c.change()
			}
			if i%40 == 39 {
				compact(t)
			}
		})
		gate.Unlock()
	}
	wantHeads, wantOps := map[string]string{}, map[string]string{}
	for uid, h := range c.heads {
		wantHeads[uid] = fmt.Sprint(h.Mod)
		if h.Op != nil {
			wantOps[uid+" "+h.Op.ID] = "waits"
		}
	}
	toldOf := func() bool { // operations that are over may have been yielded, too
		ops.mu.Lock()
		defer ops.mu.Unlock()
		for op := range wantOps {
			if ops.known[op] == "" {
				return false
			}
		}
		return true
	}
	for !heads.agrees(wantHeads) || !all.agrees(c.records) || !toldOf() {
		etcdtest.Receive(t, told, "the last changes")
	}
}

// noteRecord keeps what a ChangeFeed yields, by space and key.
func noteRecord(v *view, r Record) {
	name := string(r.Space) + " " + strings.Join([]string{string(r.Key.Cluster), cmp.Or(string(r.HeadID), string(r.Key.Deployment)), r.Key.App}, "/")
	switch {
	case r.Restart:
		v.mu.Lock()
		clear(v.known)
		v.mu.Unlock()
	case r.Gone:
		v.set(name, "")
	case r.Head != nil:
		v.set(name, fmt.Sprint(r.Head.Mod))
	case r.Pair != nil:
		v.set(name, fmt.Sprint(r.Pair.Step))
	case r.Report != nil:
		v.set(name, fmt.Sprint(r.Report.Seq))
	}
}

// churn changes records at random and remembers what is there.
type churn struct {
	t       *testing.T
	s       *Store
	r       *rand.Rand
	n       int
	heads   map[string]Head
	records map[string]string // as a ChangeFeed yields them
}

func (c *churn) change() {
	c.t.Helper()
	c.n++
	uid := fmt.Sprint("d", c.r.IntN(8))
	head, key := HeadID(uid), PairKey{Cluster: "p+c", Deployment: v2.DeploymentID(uid), App: "a"}
	ctx := c.t.Context()
	switch c.r.IntN(6) {
	case 0:
		must(c.t, c.s.Delete(ctx, head))
		delete(c.heads, uid)
		delete(c.records, "head /"+uid+"/")
	case 1:
		must(c.t, c.s.PutPairs(ctx, Fence{}, []Pair{{Key: key, Step: c.n}}, nil))
		c.records["pair p+c/"+uid+"/a"] = fmt.Sprint(c.n)
	case 2:
		must(c.t, c.s.PutPairs(ctx, Fence{}, nil, []PairKey{key}))
		delete(c.records, "pair p+c/"+uid+"/a")
	case 3:
		must(c.t, c.s.PutReports(ctx, Fence{}, []Report{{Key: key, Seq: uint64(c.n)}}, nil))
		c.records["report p+c/"+uid+"/a"] = fmt.Sprint(c.n)
	default:
		h := c.heads[uid]
		next, err := c.s.ChangeHead(ctx, h, Head{UID: head}, nil, &Operation{ID: fmt.Sprint(c.n)})
		must(c.t, err)
		c.heads[uid], c.records["head /"+uid+"/"] = next, fmt.Sprint(next.Mod)
	}
}
