package mongo

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

// The journal against a model of the database. Writers and followers, each a process, take single steps in
// a random order; writers die or sleep between an announcement and its write. Whoever follows must know each
// acknowledged write after its next question.
func TestFollowersKnowEveryAcknowledgedWriteInTheModel(t *testing.T) {
	t.Parallel()
	total := modelCounts{}
	for seed := range uint64(150) {
		m := newModel(seed)
		if err := m.play(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		total.add(m.counts)
	}
	t.Logf("%+v", total)
	if total.writes < 3000 || total.questions < 1000 || total.late < 50 || total.raised < 20 || total.dropped < 1000 {
		t.Errorf("the model played too little: %+v", total)
	}
}

// The model finds journals that are broken.
func TestTheModelFindsBrokenJournals(t *testing.T) {
	t.Parallel()
	for name, weaken := range map[string]func(*model){
		"late writes are not stopped":     func(m *model) { m.noRaise = true },
		"open lines are taken as settled": func(m *model) { m.allSettled = true },
		"a number is given twice":         func(m *model) { m.overwrite = true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(1000) {
				m := newModel(seed)
				weaken(m)
				if err := m.play(); err != nil {
					t.Logf("found by seed %d: %v", seed, err)
					return
				}
			}
			t.Error("the model finds nothing")
		})
	}
}

type modelCounts struct{ writes, questions, late, raised, dropped int }

func (c *modelCounts) add(o modelCounts) {
	c.writes += o.writes
	c.questions += o.questions
	c.late += o.late
	c.raised += o.raised
	c.dropped += o.dropped
}

// model is a database of documents and lines. One actor at a time runs, so nothing is locked.
type model struct {
	random *rand.Rand
	now    time.Time
	table  []line // in order
	docs   map[store.Key]modelDoc
	ver    map[store.Key]int // how often a document was written
	acked  map[store.Key]int // the same, of the last acknowledged write that readers can see
	counts modelCounts

	noRaise, allSettled, overwrite bool // how the database is broken

	yields chan int        // an actor waits for its next step
	ended  chan error      // an actor has ended
	permit []chan struct{} // by actor
}

type modelDoc struct {
	tag  int64
	live bool
}

func newModel(seed uint64) *model {
	return &model{
		random: rand.New(rand.NewPCG(seed, 7)), now: time.UnixMilli(1_700_000_000_000),
		docs: map[store.Key]modelDoc{}, ver: map[store.Key]int{}, acked: map[store.Key]int{},
		yields: make(chan int), ended: make(chan error),
	}
}

// step lets other actors run.
func (m *model) step(actor int) {
	m.yields <- actor
	<-m.permit[actor]
	m.now = m.now.Add(time.Duration(m.random.IntN(40)) * time.Millisecond)
}

// play runs some writers and followers to their end.
func (m *model) play() error {
	actors := []func(int) error{m.writer, m.writer, m.writer, m.writer, m.follower, m.follower}
	for i, act := range actors {
		m.permit = append(m.permit, make(chan struct{}))
		go func() {
			m.yields <- i
			<-m.permit[i]
			m.ended <- act(i)
		}()
	}
	var all []error
	var ready []int
	for range actors {
		ready = append(ready, <-m.yields)
	}
	slices.Sort(ready) // what follows depends on the seed alone
	for len(ready) > 0 {
		at := m.random.IntN(len(ready))
		m.permit[ready[at]] <- struct{}{}
		select {
		case <-m.yields:
		case err := <-m.ended:
			all = append(all, err)
			ready = slices.Delete(ready, at, at+1)
		}
	}
	return errors.Join(all...)
}

// view is the database as one actor uses it.
type view struct {
	m     *model
	actor int
}

func (m *model) journal(actor int) *journal {
	j := newJournal(view{m, actor}, &reachability{}, func() time.Time { return m.now })
	j.kept, j.trim = 12, 4
	return j
}

func (v view) newest(context.Context) (int64, error) {
	v.m.step(v.actor)
	if len(v.m.table) == 0 {
		return 0, nil
	}
	return v.m.table[len(v.m.table)-1].N, nil
}

func (v view) insert(_ context.Context, all []line) (int, error) {
	for i, l := range all {
		v.m.step(v.actor)
		at, taken := slices.BinarySearchFunc(v.m.table, l.N, func(l line, n int64) int { return int(l.N - n) })
		if taken && !v.m.overwrite {
			return i, errTaken
		}
		if taken {
			v.m.table[at] = l
			continue
		}
		v.m.table = slices.Insert(v.m.table, at, l)
	}
	return len(all), nil
}

func (v view) from(_ context.Context, n int64) ([]line, error) {
	v.m.step(v.actor)
	return slices.DeleteFunc(slices.Clone(v.m.table), func(l line) bool { return l.N < n }), nil
}

func (v view) tags(_ context.Context, keys []store.Key) (map[store.Key]int64, error) {
	out := map[store.Key]int64{}
	for _, k := range keys {
		v.m.step(v.actor)
		if d, there := v.m.docs[k]; there {
			out[k] = d.tag
		}
		if v.m.allSettled {
			out[k] = -1
		}
	}
	return out, nil
}

func (v view) raise(_ context.Context, k store.Key, at int64) error {
	v.m.step(v.actor)
	if d, there := v.m.docs[k]; there && d.tag == at && !v.m.noRaise {
		d.tag = newTag()
		v.m.docs[k] = d
		v.m.counts.raised++
	}
	return nil
}

func (v view) drop(_ context.Context, upTo int64) error {
	v.m.step(v.actor)
	before := len(v.m.table)
	v.m.table = slices.DeleteFunc(v.m.table, func(l line) bool { return l.N <= upTo })
	v.m.counts.dropped += before - len(v.m.table)
	return nil
}

// writer creates, replaces and removes documents.
func (m *model) writer(actor int) error {
	j := m.journal(actor)
	for range 30 {
		m.step(actor)
		k := store.Key(fmt.Sprint("k", m.random.IntN(4)))
		old, next, removes := m.docs[k], modelDoc{tag: newTag(), live: true}, false
		switch {
		case old.tag == 0:
			next.live = false // Pending
		case old.live && m.random.IntN(4) == 0:
			next, removes = modelDoc{}, true
		}
		if err := j.announce(context.Background(), k, old.tag, next.tag); err != nil {
			return err
		}
		switch m.random.IntN(8) {
		case 0:
			continue // it has died, and starts again
		case 1:
			m.now = m.now.Add(time.Duration(m.random.IntN(12)) * time.Second)
			for range 20 {
				m.step(actor)
			}
			m.counts.late++
		}
		m.step(actor)
		if m.docs[k].tag != old.tag {
			continue // refused
		}
		m.docs[k] = next
		if removes {
			delete(m.docs, k)
		}
		m.ver[k]++
		m.counts.writes++
		mine := m.ver[k]
		m.step(actor)
		if next.live || removes {
			m.acked[k] = max(m.acked[k], mine)
		}
	}
	return nil
}

// follower reads what has changed, as the inventory does.
func (m *model) follower(actor int) error {
	j, known := m.journal(actor), map[store.Key]int{}
	var mark int64
	for range 30 {
		m.step(actor)
		wanted := maps.Clone(m.acked)
		c, err := j.changes(context.Background(), mark)
		if err != nil {
			return err
		}
		mark = c.Mark
		if c.All {
			c.Keys = slices.Sorted(maps.Keys(m.ver))
		}
		for _, k := range c.Keys {
			m.step(actor)
			known[k] = m.ver[k]
		}
		m.counts.questions++
		for k, ver := range wanted {
			if known[k] < ver {
				return fmt.Errorf("a follower knows write %d of %s, although write %d was acknowledged before its question", known[k], k, ver)
			}
		}
	}
	return nil
}
