package appcontext

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/shards"
)

// The limits of those who put load on a store: of the first try, of a later one, and of all
// tries of one thing to do. Whoever cannot write for so long has been forgotten.
const (
	tryTime  = 400 * time.Millisecond
	longTry  = 5 * time.Second
	loadTime = 25 * time.Second
)

// load are clients that step the same deployments, read them, and write pairs, each on
// and on, whatever happens to etcd. Their answers are compared with what etcd holds.
type load struct {
	t     *testing.T
	s     *Store
	own   *shards.Ownership // the fence of all writes of pairs
	clock atomic.Int64      // orders calls and returns
	stop  context.CancelFunc
	wg    sync.WaitGroup

	accepted atomic.Int64 // steps
	moved    chan struct{}

	mu    sync.Mutex
	steps []*stepped
	reads []readSeq
	pairs []*pairLine
}

// stepped is one try to step a deployment.
type stepped struct {
	uid       HeadID
	tag       string
	call, ret int64
	result    outcomeKind
}

type outcomeKind uint8

const (
	unknown outcomeKind = iota // no answer: it may have happened, or may not
	accepted
	refused
)

// readSeq is one answer to how many actions a deployment has.
type readSeq struct {
	uid       HeadID
	seq       int64
	call, ret int64
}

// pairLine is what one client wrote into its own pair: a counter.
type pairLine struct {
	key             PairKey
	tried, accepted int
}

// newLoad starts clients on n deployments.
func newLoad(t *testing.T, s *Store, clients, n int) *load {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	own, err := s.Own(t.Context(), "pairs", "load", time.Hour)
	must(t, err)
	l := &load{t: t, s: s, own: own, stop: cancel, moved: make(chan struct{}, 1)}
	for i := range n {
		create(t, s, uidOf(i))
	}
	for i := range clients {
		line := &pairLine{key: PairKey{Cluster: "p+c", Deployment: "7", App: fmt.Sprint("client", i)}}
		l.pairs = append(l.pairs, line)
		l.wg.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				l.step(ctx, uidOf((i+n)%2), fmt.Sprintf("%d-%d", i, n))
				l.write(ctx, line)
			}
		})
	}
	t.Cleanup(func() { cancel(); l.wg.Wait() })
	return l
}

func uidOf(i int) HeadID { return HeadID(fmt.Sprint("dep", i)) }

// progress waits until so many more steps were accepted.
func (l *load) progress(n int64) {
	l.t.Helper()
	want := l.accepted.Load() + n
	late := time.After(2 * loadTime)
	for l.accepted.Load() < want {
		select {
		case <-l.moved:
		case <-late:
			l.t.Fatalf("only %d of %d steps were accepted", l.accepted.Load()-want+n, n)
		}
	}
}

// until tries until there is an answer, each time with more patience: a busy machine may need
// it. It gives up when ctx ends.
func (l *load) until(ctx context.Context, what string, try func(ctx context.Context) error) {
	patience := tryTime
	for end := time.Now().Add(loadTime); ctx.Err() == nil; patience = min(2*patience, longTry) {
		one, cancel := context.WithTimeout(ctx, patience)
		err := try(one)
		cancel()
		if !errs.Is(err, errs.Unavailable) {
			if err != nil {
				l.t.Errorf("%s: %v", what, err)
			}
			return
		}
		if time.Now().After(end) {
			l.t.Errorf("%s: no answer for %s: %v", what, loadTime, err)
			return
		}
	}
}

// step reads a deployment and steps it, until it was the faster one. Each try has a tag
// of its own, so that one that was made without an answer differs from the next.
func (l *load) step(ctx context.Context, uid HeadID, tag string) {
	tries := 0
	l.until(ctx, "step "+tag, func(ctx context.Context) error {
		call := l.clock.Add(1)
		h, err := l.s.Head(ctx, uid)
		if err != nil {
			return err
		}
		tries++
		at := &stepped{uid: uid, tag: fmt.Sprintf("%s-%d", tag, tries), call: l.clock.Add(1)}
		l.note(at, readSeq{uid: uid, seq: h.Seq, call: call, ret: at.call})
		_, err = l.s.ChangeHead(ctx, h, h, []HistoryEntry{{State: h.State, Reason: at.tag}}, nil)
		l.mu.Lock()
		defer l.mu.Unlock()
		at.ret = l.clock.Add(1)
		switch {
		case err == nil:
			at.result = accepted
			l.accepted.Add(1)
			select {
			case l.moved <- struct{}{}:
			default:
			}
		case errs.Is(err, errs.Conflict):
			at.result = refused
			return errs.E(errs.Unavailable, "step", tag, err) // once more
		}
		return err
	})
}

func (l *load) note(s *stepped, r readSeq) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.steps, l.reads = append(l.steps, s), append(l.reads, r)
}

// write counts in the client's own pair.
func (l *load) write(ctx context.Context, line *pairLine) {
	l.until(ctx, "write "+line.key.App, func(ctx context.Context) error {
		line.tried++
		err := l.s.PutPairs(ctx, l.own.Fence(), []Pair{{Key: line.key, Step: line.tried}}, nil)
		if err == nil {
			line.accepted = line.tried
		}
		return err
	})
}

// check stops the clients and compares their answers with what etcd holds.
func (l *load) check() {
	l.t.Helper()
	l.stop()
	l.wg.Wait()
	place := map[string]int64{} // of a tag in its deployment's history
	for _, uid := range []HeadID{uidOf(0), uidOf(1)} {
		acts := l.settled(uid)
		for i, a := range acts[1:] {
			if place[a.Reason] != 0 {
				l.t.Errorf("%s is in the history twice", a.Reason)
			}
			place[a.Reason] = int64(i + 2)
		}
	}
	l.checkSteps(place)
	l.checkReads(place)
	l.checkPairs()
}

// settled reads the history of a deployment, whose length must match its head. Steps
// whose answers no client awaits may still be made, so the head is read before and
// after, until both are the same.
func (l *load) settled(uid HeadID) []HistoryEntry {
	l.t.Helper()
	for end := time.Now().Add(loadTime); time.Now().Before(end); {
		before, err := l.s.Head(l.t.Context(), uid)
		must(l.t, err)
		acts, err := l.s.History(l.t.Context(), uid)
		must(l.t, err)
		h, err := l.s.Head(l.t.Context(), uid)
		must(l.t, err)
		if h.Mod != before.Mod {
			continue
		}
		if h.Seq != int64(len(acts)) {
			l.t.Errorf("%s has %d actions, and the history has %d", uid, h.Seq, len(acts))
		}
		return acts
	}
	l.t.Fatalf("%s keeps changing, although no client steps it", uid)
	return nil
}

// checkSteps: what was accepted is there, what was refused is not, and who came after
// the answer to another comes after it in the history.
func (l *load) checkSteps(place map[string]int64) {
	l.t.Helper()
	count := map[outcomeKind]int{}
	for _, s := range l.steps {
		count[s.result]++
		if there := place[s.tag] != 0; s.result == accepted && !there || s.result == refused && there {
			l.t.Errorf("step %s was answered with %d, and is in the history: %v", s.tag, s.result, there)
		}
	}
	l.t.Logf("%d steps were accepted, %d refused, %d not answered", count[accepted], count[refused], count[unknown])
	made := slices.DeleteFunc(slices.Clone(l.steps), func(s *stepped) bool { return s.result != accepted })
	slices.SortFunc(made, func(a, b *stepped) int { return int(a.ret - b.ret) })
	for i, a := range made {
		for _, b := range made[i+1:] {
			if a.uid == b.uid && a.ret < b.call && place[a.tag] > place[b.tag] {
				l.t.Errorf("%s was answered before %s was asked for, but comes after it", a.tag, b.tag)
			}
		}
	}
}

// checkReads: a reader sees what was accepted before it asked, and nothing that was
// asked for after its answer.
func (l *load) checkReads(place map[string]int64) {
	l.t.Helper()
	for _, r := range l.reads {
		for _, s := range l.steps {
			at := place[s.tag]
			if s.uid != r.uid || at == 0 {
				continue
			}
			if s.result == accepted && s.ret < r.call && at > r.seq || s.call > r.ret && at <= r.seq {
				l.t.Fatalf("a reader saw %d actions of %s; step %s is number %d", r.seq, r.uid, s.tag, at)
			}
		}
	}
}

// checkPairs: what was accepted last is there, or a try after it; never an older one.
func (l *load) checkPairs() {
	l.t.Helper()
	have := map[string]int{}
	for _, p := range collect(l.t, l.s.Pairs(l.t.Context())) {
		have[p.Key.App] = p.Step
	}
	for _, line := range l.pairs {
		if n := have[line.key.App]; n < line.accepted || n > line.tried {
			l.t.Errorf("%s counted to %d; %d was accepted and %d was tried", line.key.App, n, line.accepted, line.tried)
		}
	}
}
