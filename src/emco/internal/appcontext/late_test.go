package appcontext

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"pgregory.net/rapid"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

// lateNetwork lies between a store and a real etcd. It has each transaction wait until the
// test says what becomes of it.
type lateNetwork struct {
	clientv3.KV
	sent chan *packet
}

// packet is a transaction on its way to etcd.
type packet struct {
	net          *lateNetwork
	cmps         []clientv3.Cmp
	then, orElse []clientv3.Op
	answer       chan answer
}

type answer struct {
	r   *clientv3.TxnResponse
	err error
}

// throughNetwork returns a store like s of which the transactions go through a network.
func throughNetwork(s *Store) (*Store, *lateNetwork) {
	n := &lateNetwork{KV: etcd.KV, sent: make(chan *packet)}
	c := clientv3.NewCtxClient(etcd.Ctx())
	c.KV, c.Lease, c.Watcher = n, etcd.Lease, etcd.Watcher
	return New(c, s.prefix), n
}

func (n *lateNetwork) Txn(context.Context) clientv3.Txn {
	return &packet{net: n, answer: make(chan answer, 1)}
}

func (p *packet) If(cs ...clientv3.Cmp) clientv3.Txn   { p.cmps = append(p.cmps, cs...); return p }
func (p *packet) Then(ops ...clientv3.Op) clientv3.Txn { p.then = append(p.then, ops...); return p }
func (p *packet) Else(ops ...clientv3.Op) clientv3.Txn { p.orElse = append(p.orElse, ops...); return p }

// Commit waits for what the test decides.
func (p *packet) Commit() (*clientv3.TxnResponse, error) {
	p.net.sent <- p
	a := <-p.answer
	return a.r, a.err
}

// arrive has etcd carry the transaction out.
func (p *packet) arrive(t failer) *clientv3.TxnResponse {
	t.Helper()
	r, err := etcd.Txn(t.Context()).If(p.cmps...).Then(p.then...).Else(p.orElse...).Commit()
	must(t, err)
	return r
}

// reach has the packet arrive, and the answer come back.
func (p *packet) reach(t failer) {
	t.Helper()
	p.answer <- answer{r: p.arrive(t)}
}

// miss lets the sender give up.
func (p *packet) miss() { p.answer <- answer{err: context.DeadlineExceeded} }

// slowWrites are the writes of one owner, by several goroutines, through a network that
// answers late or never.
type slowWrites struct {
	*rapid.T
	s       *Store // of the owner
	direct  *Store // to look, and of the next owner
	net     *lateNetwork
	own     *Ownership
	writers []*slowWriter
	held    []*packet // of which the senders have given up
	lost    bool      // some write was not answered
	over    bool      // there is another owner
}

// slowWriter counts in a pair of its own.
type slowWriter struct {
	key             PairKey
	tried, accepted int
	seen            int     // in etcd
	packets         int     // of the write that is under way
	pending         *packet // that is under way; nil: the writer rests
	done            chan error
}

func newSlowWrites(t *rapid.T, direct *Store) *slowWrites {
	w := &slowWrites{T: t, direct: direct}
	w.s, w.net = throughNetwork(direct)
	o, err := direct.Own(t.Context(), "all", "first", time.Hour)
	must(t, err)
	w.own = o
	for i := range 3 {
		w.writers = append(w.writers, &slowWriter{key: pairKeyOf(i), done: make(chan error, 1)})
	}
	return w
}

// begin starts a write.
func (w *slowWrites) begin(x *slowWriter) {
	x.tried++
	x.packets = 0
	put := []Pair{{Key: x.key, Step: x.tried}}
	go func() { x.done <- w.s.PutPairs(context.Background(), w.own.Fence(), put, nil) }()
	w.settle(x)
}

// settle waits until a writer has sent something, or has an answer.
func (w *slowWrites) settle(x *slowWriter) {
	x.pending = nil
	select {
	case x.pending = <-w.net.sent:
		if x.packets++; x.packets > 1 && !w.lost {
			w.Fatalf("%s sends %d transactions although all were answered", x.key.App, x.packets)
		}
	case err := <-x.done:
		w.finish(x, err)
	}
}

func (w *slowWrites) finish(x *slowWriter, err error) {
	switch {
	case err == nil:
		x.accepted = x.tried
	case errs.Is(err, errs.Unavailable), w.over && errors.Is(err, ErrFenced):
	default:
		w.Fatalf("%s: %v", x.key.App, err)
	}
}

// some draws a writer that is under way, or one that rests.
func (w *slowWrites) some(underWay bool) *slowWriter {
	fit := slices.DeleteFunc(slices.Clone(w.writers), func(x *slowWriter) bool { return (x.pending != nil) != underWay })
	if len(fit) == 0 {
		w.SkipNow()
	}
	return rapid.SampledFrom(fit).Draw(w.T, "writer")
}

// deliver has a packet arrive of which the sender has given up.
func (w *slowWrites) deliver() {
	if len(w.held) == 0 {
		w.SkipNow()
	}
	i := rapid.IntRange(0, len(w.held)-1).Draw(w.T, "packet")
	w.held[i].arrive(w.T)
	w.held = slices.Delete(w.held, i, i+1)
}

// pass hands the shard to another owner, who writes all pairs.
func (w *slowWrites) pass() {
	if w.over {
		w.SkipNow()
	}
	must(w.T, w.own.Release(w.Context()))
	w.over = true
	next, err := w.direct.Own(w.Context(), "all", "next", time.Hour)
	must(w.T, err)
	defer func() { must(w.T, next.Release(w.Context())) }()
	for _, x := range w.writers {
		must(w.T, w.direct.PutPairs(w.Context(), next.Fence(), []Pair{{Key: x.key, Step: passed}}, nil))
	}
}

// passed is what the next owner writes.
const passed = 1 << 30

// check holds what is there against what the owner was told: the last that was accepted, or a
// later try; and never less than there was.
func (w *slowWrites) check() {
	for _, x := range w.writers {
		have := 0
		found, err := w.direct.PairsAt(w.Context(), []PairKey{x.key})
		must(w.T, err)
		if len(found) > 0 {
			have = found[0].Step
		}
		switch {
		case w.over && have != passed:
			w.Fatalf("%s is at %d: the former owner wrote over its successor", x.key.App, have)
		case w.over:
		case have < x.accepted || have > x.tried:
			w.Fatalf("%s is at %d; %d was accepted and %d was tried", x.key.App, have, x.accepted, x.tried)
		case have < x.seen:
			w.Fatalf("%s is at %d, and was at %d", x.key.App, have, x.seen)
		}
		x.seen = have
	}
}

// Of several writers by one fence any write may be answered, be made without an answer, or
// be made long after its sender gave up, in any order. An older write never comes after
// a newer one that was answered, no write of a former owner comes after its successor's, and
// as long as all is answered a write is one transaction.
func TestLateWritesNeverUndoNewerOnes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		w := newSlowWrites(r, newStore(t))
		r.Repeat(map[string]func(*rapid.T){
			"begin": func(*rapid.T) { w.begin(w.some(false)) },
			"answer": func(t *rapid.T) {
				x := w.some(true)
				x.pending.reach(t)
				w.settle(x)
			},
			"lose the answer": func(t *rapid.T) {
				x := w.some(true)
				x.pending.arrive(t)
				w.lost = true
				x.pending.miss()
				w.settle(x)
			},
			"hold": func(*rapid.T) {
				x := w.some(true)
				w.held, w.lost = append(w.held, x.pending), true
				x.pending.miss()
				w.settle(x)
			},
			"deliver": func(*rapid.T) { w.deliver() },
			"pass": func(t *rapid.T) {
				if rapid.IntRange(0, 9).Draw(t, "chance") > 0 {
					t.SkipNow()
				}
				w.pass()
			},
			"": func(*rapid.T) { w.check() },
		})
		w.end()
	})
}

// end has all that is under way answered, one write more of each writer, and then all arrive
// that was held back.
func (w *slowWrites) end() {
	for _, x := range w.writers {
		w.drain(x)
		if w.begin(x); !w.over {
			w.drain(x)
			if x.accepted != x.tried {
				w.Fatalf("%s wrote %d, and %d was accepted", x.key.App, x.tried, x.accepted)
			}
		}
		w.drain(x)
	}
	for _, p := range w.held {
		p.arrive(w.T)
	}
	w.check()
	must(w.T, w.own.Release(context.Background()))
}

// drain answers a writer until it rests. It need not be asked more often than there are
// writers that raise the key before it.
func (w *slowWrites) drain(x *slowWriter) {
	for n := 0; x.pending != nil; n++ {
		if n > 2*len(w.writers) {
			w.Fatalf("%s sends transactions on and on", x.key.App)
		}
		x.pending.reach(w.T)
		w.settle(x)
	}
}

// The shard is the same owner's after the key was raised: its lease carries it, who waits for
// it waits on, and whoever asks is told so.
func TestARaisedKeyIsTheSameOwnership(t *testing.T) {
	t.Parallel()
	direct := newStore(t)
	s, net := throughNetwork(direct)
	first := own(t, direct, "first", time.Minute)
	before, name := first.Fence(), first.Fence().String()
	next := make(chan *Ownership)
	go func() {
		o, err := direct.Own(t.Context(), "all", "second", time.Minute)
		if err != nil {
			t.Error(err)
		}
		next <- o
	}()
	raise(t, s, net, first.Fence())
	r, err := direct.get(t.Context(), direct.key("own", "all"))
	must(t, err)
	kv := r.Kvs[0]
	if kv.Version != 2 || kv.ModRevision == kv.CreateRevision || kv.Lease != int64(first.lease.id) || string(kv.Value) != "first" {
		t.Errorf("the key is %v", kv)
	}
	if f := first.Fence(); f != before || f.String() != name || f.Token() != kv.CreateRevision {
		t.Errorf("the fence is %v, and was %v", f, before)
	}
	must(t, direct.Holds(t.Context(), first.Fence()))
	select {
	case <-next:
		t.Fatal("two own the same shard")
	default:
	}
	must(t, first.Release(t.Context()))
	must(t, wait(t, next, "the second owner").Release(t.Context()))
	wantFenced(t, direct.PutPairs(t.Context(), first.Fence(), []Pair{{Key: pairKeyOf(2)}}, nil))
}

// A write that is under way when the key is raised was not done, and is sent again; one that was
// given up is refused whenever it arrives.
func TestAWriteUnderWayIsSentAgain(t *testing.T) {
	t.Parallel()
	direct := newStore(t)
	s, net := throughNetwork(direct)
	o := own(t, direct, "first", time.Minute)
	done := make(chan error)
	write := func(key, step int) {
		done <- s.PutPairs(context.Background(), o.Fence(), []Pair{{Key: pairKeyOf(key), Step: step}}, nil)
	}
	go write(1, 1)
	late := wait(t, net.sent, "the write that is given up")
	go write(2, 1)
	underWay := wait(t, net.sent, "the write that is under way")
	late.miss()
	wantKind(t, wait(t, done, "its end"), errs.Unavailable)
	go write(1, 2)
	wait(t, net.sent, "the raise").reach(t)
	wait(t, net.sent, "the newer write").reach(t)
	must(t, wait(t, done, "its end"))

	if r := underWay.arrive(t); r.Succeeded {
		t.Error("what was sent before the key was raised was done after it")
	}
	underWay.reach(t)
	wait(t, net.sent, "it, again").reach(t)
	must(t, wait(t, done, "its end"))
	if r := late.arrive(t); r.Succeeded {
		t.Error("what was given up was done")
	}
	for i, p := range collect(t, direct.Pairs(t.Context())) {
		if p.Step != 2-i {
			t.Errorf("%s is at %d", p.Key.App, p.Step)
		}
	}
}

// A claim of a shard is not answered, and given up. It is not made after that: nobody would
// work on the shard, and nobody else could take it.
func TestALateClaimIsRefused(t *testing.T) {
	t.Parallel()
	direct := newStore(t)
	_, err := etcd.Put(t.Context(), direct.key("member", "shy", "one"), "of a former life")
	must(t, err)
	s, net := throughNetwork(direct)
	ctx, cancel := context.WithCancel(t.Context())
	working, ended := make(chan Fence), make(chan error)
	go func() {
		ended <- s.Share(Team{Kind: "shy", Shards: 1}, Member{Holder: "one", TTL: time.Minute}, func(ctx context.Context, _ int, own *Ownership) error {
			working <- own.Fence()
			<-ctx.Done()
			return ctx.Err()
		}).Run(ctx)
	}()
	wait(t, net.sent, "the member").reach(t)
	late := wait(t, net.sent, "the claim")
	late.miss()
	wait(t, net.sent, "the raise").reach(t)
	wait(t, net.sent, "the end of the claim").reach(t)
	if r := late.arrive(t); r.Succeeded {
		t.Error("the claim was made after it had been given up")
	}
	wait(t, net.sent, "the next claim").reach(t)
	must(t, direct.Holds(t.Context(), wait(t, working, "the work")))
	cancel()
	must(t, wait(t, ended, "the end"))
}

// raise has a write end without an answer, and the next one raise the key.
func raise(t *testing.T, s *Store, net *lateNetwork, f Fence) {
	t.Helper()
	done := make(chan error)
	write := func() { done <- s.PutPairs(context.Background(), f, []Pair{{Key: pairKeyOf(1)}}, nil) }
	go write()
	wait(t, net.sent, "the write").miss()
	wantKind(t, wait(t, done, "its end"), errs.Unavailable)
	go write()
	wait(t, net.sent, "the raise").reach(t)
	wait(t, net.sent, "the write").reach(t)
	must(t, wait(t, done, "its end"))
}
