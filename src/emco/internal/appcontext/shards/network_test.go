package shards

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"pgregory.net/rapid"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdtest"
)

// lateNetwork lies between a client and a real etcd. Each transaction waits until the test
// decides what happens to it.
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

// throughNetwork returns a client like kv whose transactions go through a network.
func throughNetwork(kv *etcdkv.Client) (*etcdkv.Client, *lateNetwork) {
	n := &lateNetwork{KV: etcd.KV, sent: make(chan *packet)}
	c := clientv3.NewCtxClient(etcd.Ctx())
	c.KV, c.Lease, c.Watcher = n, etcd.Lease, etcd.Watcher
	return etcdkv.New(c, kv.Key(), etcdkv.Options{}), n
}

func (n *lateNetwork) Txn(context.Context) clientv3.Txn {
	return &packet{net: n, answer: make(chan answer, 1)}
}

func (p *packet) If(cs ...clientv3.Cmp) clientv3.Txn   { p.cmps = append(p.cmps, cs...); return p }
func (p *packet) Then(ops ...clientv3.Op) clientv3.Txn { p.then = append(p.then, ops...); return p }
func (p *packet) Else(ops ...clientv3.Op) clientv3.Txn { p.orElse = append(p.orElse, ops...); return p }

// Commit waits for the decision of the test.
func (p *packet) Commit() (*clientv3.TxnResponse, error) {
	p.net.sent <- p
	a := <-p.answer
	return a.r, a.err
}

// arrive has etcd make the transaction.
func (p *packet) arrive(t etcdtest.T) *clientv3.TxnResponse {
	t.Helper()
	r, err := etcd.Txn(t.Context()).If(p.cmps...).Then(p.then...).Else(p.orElse...).Commit()
	must(t, err)
	return r
}

// reach has the transaction arrive, and the answer come back.
func (p *packet) reach(t etcdtest.T) {
	t.Helper()
	p.answer <- answer{r: p.arrive(t)}
}

// miss lets the sender give up.
func (p *packet) miss() { p.answer <- answer{err: context.DeadlineExceeded} }

// slowWrites are the writes of one owner, by several goroutines, through a network that
// answers late or never.
type slowWrites struct {
	*rapid.T
	kv      *etcdkv.Client // of the owner
	direct  *etcdkv.Client // of the test, and of the next owner
	net     *lateNetwork
	own     *Ownership
	writers []*slowWriter
	held    []*packet // whose senders have given up
	lost    bool      // a write was not answered
	over    bool      // there is another owner
}

// slowWriter counts in a key of its own.
type slowWriter struct {
	key             string
	tried, accepted int
	seen            int     // in etcd
	packets         int     // of the current write
	pending         *packet // the current one; nil: the writer rests
	done            chan error
}

func newSlowWrites(t *rapid.T, direct *etcdkv.Client) *slowWrites {
	w := &slowWrites{T: t, direct: direct}
	w.kv, w.net = throughNetwork(direct)
	o, err := Own(t.Context(), direct, "all", "first", time.Hour)
	must(t, err)
	w.own = o
	for i := range 3 {
		w.writers = append(w.writers, &slowWriter{key: fmt.Sprint(i), done: make(chan error, 1)})
	}
	return w
}

// begin starts a write.
func (w *slowWrites) begin(x *slowWriter) {
	x.tried++
	x.packets = 0
	tried := x.tried
	go func() { x.done <- write(context.Background(), w.kv, w.own.Fence(), x.key, tried) }()
	w.settle(x)
}

// settle waits until a writer has sent something, or has an answer.
func (w *slowWrites) settle(x *slowWriter) {
	x.pending = nil
	select {
	case x.pending = <-w.net.sent:
		if x.packets++; x.packets > 1 && !w.lost {
			w.Fatalf("%s sends %d transactions although all were answered", x.key, x.packets)
		}
	case err := <-x.done:
		w.finish(x, err)
	}
}

func (w *slowWrites) finish(x *slowWriter, err error) {
	switch {
	case err == nil:
		x.accepted = x.tried
	case errs.Is(err, errs.Unavailable), w.over && errors.Is(err, etcdkv.ErrFenced):
	default:
		w.Fatalf("%s: %v", x.key, err)
	}
}

// some draws a writer that is busy, or one that rests.
func (w *slowWrites) some(underWay bool) *slowWriter {
	fit := slices.DeleteFunc(slices.Clone(w.writers), func(x *slowWriter) bool { return (x.pending != nil) != underWay })
	if len(fit) == 0 {
		w.SkipNow()
	}
	return rapid.SampledFrom(fit).Draw(w.T, "writer")
}

// deliver has a packet arrive whose sender has given up.
func (w *slowWrites) deliver() {
	if len(w.held) == 0 {
		w.SkipNow()
	}
	i := rapid.IntRange(0, len(w.held)-1).Draw(w.T, "packet")
	w.held[i].arrive(w.T)
	w.held = slices.Delete(w.held, i, i+1)
}

// pass gives the shard to another owner, which writes all keys.
func (w *slowWrites) pass() {
	if w.over {
		w.SkipNow()
	}
	must(w.T, w.own.Release(w.Context()))
	w.over = true
	next, err := Own(w.Context(), w.direct, "all", "next", time.Hour)
	must(w.T, err)
	defer func() { must(w.T, next.Release(w.Context())) }()
	for _, x := range w.writers {
		must(w.T, write(w.Context(), w.direct, next.Fence(), x.key, passed))
	}
}

// passed is what the next owner writes.
const passed = 1 << 30

// check compares the keys with the answers: a key holds the last accepted number, or a later
// one that was tried, and never less than before.
func (w *slowWrites) check() {
	for _, x := range w.writers {
		have := read(w.T, w.direct, x.key)
		switch {
		case w.over && have != passed:
			w.Fatalf("%s is at %d: the former owner wrote over its successor", x.key, have)
		case w.over:
		case have < x.accepted || have > x.tried:
			w.Fatalf("%s is at %d; %d was accepted and %d was tried", x.key, have, x.accepted, x.tried)
		case have < x.seen:
			w.Fatalf("%s is at %d, and was at %d", x.key, have, x.seen)
		}
		x.seen = have
	}
}

// Several writers share a fence. Any write may be answered, be made without an answer, or be
// made long after its sender gave up, in any order. An older write is never made after a
// newer one that was answered, no write of a former owner is made after its successor's, and
// a write is one transaction while all are answered.
func TestLateWritesNeverUndoNewerOnes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		w := newSlowWrites(r, newKV(t))
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

// end answers all current writes and one more of each writer; then all held packets arrive.
func (w *slowWrites) end() {
	for _, x := range w.writers {
		w.drain(x)
		if w.begin(x); !w.over {
			w.drain(x)
			if x.accepted != x.tried {
				w.Fatalf("%s wrote %d, and %d was accepted", x.key, x.tried, x.accepted)
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

// drain answers a writer until it rests. That takes no more transactions than there are
// writers that renew the key before it.
func (w *slowWrites) drain(x *slowWriter) {
	for n := 0; x.pending != nil; n++ {
		if n > 2*len(w.writers) {
			w.Fatalf("%s sends transactions on and on", x.key)
		}
		x.pending.reach(w.T)
		w.settle(x)
	}
}

// Renewing the key keeps the ownership: the key stays on its lease, the next owner keeps
// waiting, and Holds confirms it.
func TestARenewedKeyIsTheSameOwnership(t *testing.T) {
	t.Parallel()
	direct := newKV(t)
	kv, net := throughNetwork(direct)
	first := own(t, direct, "first", time.Minute)
	before, name := first.Fence(), first.Fence().String()
	next := make(chan *Ownership)
	go func() {
		o, err := Own(t.Context(), direct, "all", "second", time.Minute)
		if err != nil {
			t.Error(err)
		}
		next <- o
	}()
	renew(t, kv, net, first.Fence())
	r, err := direct.Get(t.Context(), direct.Key("own", "all"))
	must(t, err)
	pair := r.Kvs[0]
	if pair.Version != 2 || pair.ModRevision == pair.CreateRevision || pair.Lease != int64(first.lease.id) || string(pair.Value) != "first" {
		t.Errorf("the key is %v", pair)
	}
	if f := first.Fence(); f != before || f.String() != name || f.Token() != pair.CreateRevision {
		t.Errorf("the fence is %v, and was %v", f, before)
	}
	must(t, direct.Holds(t.Context(), first.Fence()))
	select {
	case <-next:
		t.Fatal("two own the same shard")
	default:
	}
	must(t, first.Release(t.Context()))
	must(t, etcdtest.Receive(t, next, "the second owner").Release(t.Context()))
	wantFenced(t, write(t.Context(), direct, first.Fence(), "2", 1))
}

// A current write that the renewal of the key refuses is sent again; one that was given up is
// refused whenever it arrives.
func TestAWriteThatARenewalRefusesIsSentAgain(t *testing.T) {
	t.Parallel()
	direct := newKV(t)
	kv, net := throughNetwork(direct)
	o := own(t, direct, "first", time.Minute)
	done := make(chan error)
	send := func(name string, n int) { done <- write(context.Background(), kv, o.Fence(), name, n) }
	go send("1", 1)
	late := etcdtest.Receive(t, net.sent, "the write that is given up")
	go send("2", 1)
	underWay := etcdtest.Receive(t, net.sent, "the write that is under way")
	late.miss()
	wantKind(t, etcdtest.Receive(t, done, "its end"), errs.Unavailable)
	go send("1", 2)
	etcdtest.Receive(t, net.sent, "the renewal").reach(t)
	etcdtest.Receive(t, net.sent, "the newer write").reach(t)
	must(t, etcdtest.Receive(t, done, "its end"))

	if r := underWay.arrive(t); r.Succeeded {
		t.Error("a write from before the renewal was made after it")
	}
	underWay.reach(t)
	etcdtest.Receive(t, net.sent, "it, again").reach(t)
	must(t, etcdtest.Receive(t, done, "its end"))
	if r := late.arrive(t); r.Succeeded {
		t.Error("a write that was given up was made")
	}
	for name, want := range map[string]int{"1": 2, "2": 1} {
		if got := read(t, direct, name); got != want {
			t.Errorf("%s is at %d, want %d", name, got, want)
		}
	}
}

// An acquire that was not answered is given up, and can no longer be made: nothing would work
// on the shard, and no other member could acquire it.
func TestALateClaimIsRefused(t *testing.T) {
	t.Parallel()
	direct := newKV(t)
	_, err := etcd.Put(t.Context(), direct.Key("member", "shy", "one"), "of a previous run")
	must(t, err)
	kv, net := throughNetwork(direct)
	ctx, cancel := context.WithCancel(t.Context())
	working, ended := make(chan etcdkv.Fence), make(chan error)
	go func() {
		ended <- NewRunner(kv, Group{Kind: "shy", Shards: 1}, Member{Holder: "one", TTL: time.Minute}, func(ctx context.Context, _ int, own *Ownership) error {
			working <- own.Fence()
			<-ctx.Done()
			return ctx.Err()
		}).Run(ctx)
	}()
	etcdtest.Receive(t, net.sent, "the member").reach(t)
	late := etcdtest.Receive(t, net.sent, "the claim")
	late.miss()
	etcdtest.Receive(t, net.sent, "the renewal").reach(t)
	etcdtest.Receive(t, net.sent, "the end of the claim").reach(t)
	if r := late.arrive(t); r.Succeeded {
		t.Error("the acquire was made after it was given up")
	}
	etcdtest.Receive(t, net.sent, "the next claim").reach(t)
	must(t, direct.Holds(t.Context(), etcdtest.Receive(t, working, "the work")))
	cancel()
	must(t, etcdtest.Receive(t, ended, "the end"))
}

// renew has a write end without an answer, so that the next one renews the key.
func renew(t *testing.T, kv *etcdkv.Client, net *lateNetwork, f etcdkv.Fence) {
	t.Helper()
	done := make(chan error)
	send := func() { done <- write(context.Background(), kv, f, "1", 1) }
	go send()
	etcdtest.Receive(t, net.sent, "the write").miss()
	wantKind(t, etcdtest.Receive(t, done, "its end"), errs.Unavailable)
	go send()
	etcdtest.Receive(t, net.sent, "the renewal").reach(t)
	etcdtest.Receive(t, net.sent, "the write").reach(t)
	must(t, etcdtest.Receive(t, done, "its end"))
}
