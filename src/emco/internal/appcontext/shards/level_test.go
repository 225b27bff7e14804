package shards

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/embedded"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdtest"
)

// levelProcess is a process that announces its level.
type levelProcess struct {
	*Level
	reads <-chan struct{} // gets one for each read of the process, if a receiver waits
	stop  func() error    // ends it as SIGTERM does, and returns what Run returned
}

const quickSettle = 120 * time.Millisecond

// newProcess returns a process before it joins.
func newProcess(kv *etcdkv.Client, name string, level int) *Level {
	return NewLevel(kv, Member{Holder: name, TTL: 10 * time.Second}, Program{Version: fmt.Sprintf("v%d", level), Level: level}, quickSettle)
}

// process starts a process.
func process(t *testing.T, kv *etcdkv.Client, name string, level int, with ...func(*Level)) levelProcess {
	t.Helper()
	reads := make(chan struct{})
	kv = etcdkv.New(kv.Etcd(), kv.Key(), etcdkv.Options{OnRequest: func(kind string, _ int) {
		if kind == "get" {
			select {
			case reads <- struct{}{}:
			default:
			}
		}
	}})
	l := newProcess(kv, name, level)
	for _, w := range with {
		w(l)
	}
	must(t, l.Join(t.Context()))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	over := false
	stop := func() error {
		if over {
			return nil
		}
		over = true
		cancel()
		return errors.Join(<-ended, l.Leave(context.Background()))
	}
	t.Cleanup(func() { _ = stop() })
	return levelProcess{l, reads, stop}
}

// eventually waits until something is.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !is(); time.Sleep(time.Millisecond) { //nolint:forbidigo // of etcd's clock
		if time.Now().After(end) {
			t.Fatalf("%s: it does not come", what)
		}
	}
}

// The services of a process that is alone announce themselves while it raises the level: it looks again at once, and not after a minute.
func TestALevelRisesWhileServicesStart(t *testing.T) {
	t.Parallel()
	prefix := etcdtest.Prefix(t)
	var started atomic.Int64
	kv := etcdkv.New(etcd, prefix, etcdkv.Options{OnRequest: func(kind string, _ int) {
		if n := started.Add(1); kind == "get" && n < 8 {
			_, err := etcd.Put(t.Context(), etcdkv.New(etcd, prefix, etcdkv.Options{}).Key("member", fmt.Sprintf("service-%d", n), "one"), "")
			must(t, err)
		}
	}})
	l := NewLevel(kv, Member{Holder: "one", TTL: 10 * time.Second}, Program{Version: "v2", Level: 2}, 0)
	must(t, l.Join(t.Context()))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	eventually(t, "level 2 in force", func() bool { return l.InForce() == 2 })
	cancel()
	must(t, errors.Join(<-ended, l.Leave(context.Background())))
}

// wantLevel waits until a process sees a level in force.
func (l levelProcess) wantLevel(t *testing.T, want int) {
	t.Helper()
	eventually(t, fmt.Sprintf("level %d in force", want), func() bool { return l.InForce() == want })
}

// staysAt wants that a level is in force after the process has looked so often that it would have raised the level
// several times.
func (l levelProcess) staysAt(t *testing.T, want int) {
	t.Helper()
	for range int(3*l.settle/l.interval) + 1 {
		<-l.reads
	}
	now, err := l.read(t.Context())
	must(t, err)
	if now.record.Level != want {
		t.Fatalf("level %d is in force, want %d: %s", now.record.Level, want, l.State())
	}
}

// The level in force is the lowest of the processes, and rises when the last one that knows less has ended. A
// process that knows less does not start afterwards; before, a downgrade works.
func TestTheLevelIsTheLowestOfTheProcesses(t *testing.T) {
	t.Parallel()
	kv := newKV(t)
	old := process(t, kv, "old", 1)
	old.wantLevel(t, 1)
	renewed := process(t, kv, "new", 2)
	renewed.staysAt(t, 1)
	must(t, renewed.stop())
	again := process(t, kv, "new", 1) // the way back
	again.staysAt(t, 1)
	must(t, again.stop())

	renewed = process(t, kv, "new", 2)
	other := process(t, kv, "other", 3)
	renewed.staysAt(t, 1)
	must(t, old.stop())
	renewed.wantLevel(t, 2)
	other.wantLevel(t, 2)
	if got, want := other.State(), "stores at 2, this version knows 3, the oldest of 2 processes knows 2"; got != want {
		t.Errorf("state %q, want %q", got, want)
	}

	late := newProcess(kv, "old", 1)
	err := late.Join(t.Context())
	if !errors.Is(err, ErrLevel) {
		t.Fatalf("a process that knows less: %v, want ErrLevel", err)
	}
	for _, text := range []string{"at level 2", "v1, knows level 1", "restore the backup from before the upgrade", "Start version v"} {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("%v, want %q in it", err, text)
		}
	}
	if r, err := kv.Get(t.Context(), kv.Key("member", "process", "old")); err != nil || len(r.Kvs) > 0 {
		t.Errorf("the refused process is announced: %v %v", r, err)
	}
	process(t, kv, "same", 2).wantLevel(t, 2)
}

// A level that is left to an operator rises only when the operator raises it, which takes effect at once. Stores without a level get one.
func TestAnOperatorRaisesTheLevel(t *testing.T) {
	t.Parallel()
	kv := newKV(t)
	byHand := func(l *Level) { l.ByHand() }
	old := process(t, kv, "old", 1, byHand)
	old.wantLevel(t, 1)
	renewed := process(t, kv, "new", 2, byHand)
	if _, _, err := renewed.Raise(t.Context()); !errs.Is(err, errs.Conflict) || !strings.Contains(err.Error(), "the stores are at 1, and the process old knows 1; replace it") {
		t.Errorf("got %v, want that the older process keeps the level", err)
	}
	must(t, old.stop())
	renewed.staysAt(t, 1)
	if got, want := renewed.State(), "stores at 1, this version knows 2, the oldest of 1 processes knows 2; emco level raise raises it"; got != want {
		t.Errorf("state %q, want %q", got, want)
	}
	must(t, renewed.stop())
	again := process(t, kv, "old", 1, byHand) // the way back, long after
	must(t, again.stop())

	renewed = process(t, kv, "new", 2, byHand)
	other := process(t, kv, "other", 3, byHand)
	if from, to, err := other.Raise(t.Context()); from != 1 || to != 2 || err != nil {
		t.Errorf("raised from %d to %d, %v", from, to, err)
	}
	renewed.wantLevel(t, 2)
	if err := newProcess(kv, "old", 1).Join(t.Context()); !errors.Is(err, ErrLevel) {
		t.Errorf("a process that knows less: %v, want ErrLevel", err)
	}
	if _, _, err := other.Raise(t.Context()); !errs.Is(err, errs.Conflict) {
		t.Errorf("raised twice: %v, want Conflict", err)
	}
}

// A process of a version without levels, which works and announces nothing, holds the level at 0.
func TestProcessesWithoutALevelHoldIt(t *testing.T) {
	t.Parallel()
	kv := newKV(t)
	_, _, err := kv.Commit(t.Context(), "x", nil, []clientv3.Op{clientv3.OpPut(kv.Key("member", "rsync", "ancient"), time.Now().Format(time.RFC3339))})
	must(t, err)
	l := process(t, kv, "new", 1)
	l.staysAt(t, 0)
	_, _, err = kv.Commit(t.Context(), "x", nil, []clientv3.Op{
		clientv3.OpDelete(kv.Key("member", "rsync", "ancient")), clientv3.OpPut(kv.Key("member", "rsync", "new"), "2026"),
	})
	must(t, err)
	l.wantLevel(t, 1)
}

// A process that comes after a look is not overlooked: the level does not rise above it.
func TestALevelDoesNotRiseAboveALateProcess(t *testing.T) {
	t.Parallel()
	kv := newKV(t)
	l := newProcess(kv, "new", 2)
	must(t, l.Join(t.Context()))
	seen, err := l.read(t.Context())
	must(t, err)
	late := newProcess(kv, "late", 1)
	must(t, late.Join(t.Context()))
	_, err = l.raise(t.Context(), seen)
	must(t, err)
	now, err := l.read(t.Context())
	must(t, err)
	if now.record.Level != 0 || now.lowest != 1 || now.members != 2 {
		t.Errorf("%+v, want level 0 in force", now)
	}
	must(t, errors.Join(l.Leave(t.Context()), late.Leave(t.Context())))
}

// A process that lost its lease while the level rose above it ends with the reason.
func TestAProcessBelowTheLevelEnds(t *testing.T) {
	t.Parallel()
	kv := newKV(t)
	l := newProcess(kv, "old", 1)
	must(t, l.Join(t.Context()))
	_, err := etcd.Revoke(t.Context(), l.lease.id) // as by a pause that is longer than the lease
	must(t, err)
	renewed := process(t, kv, "new", 2)
	renewed.wantLevel(t, 2)
	if err := l.Run(t.Context()); !errors.Is(err, ErrLevel) {
		t.Errorf("%v, want ErrLevel", err)
	}
}

// A process that lost its lease announces itself again.
func TestAProcessAnnouncesItselfAgain(t *testing.T) {
	t.Parallel()
	kv := newKV(t)
	l := process(t, kv, "one", 1)
	key := kv.Key("member", "process", "one")
	r, err := kv.Get(t.Context(), key)
	must(t, err)
	_, err = etcd.Revoke(t.Context(), clientv3.LeaseID(r.Kvs[0].Lease))
	must(t, err)
	eventually(t, "another announcement", func() bool {
		again, err := kv.Get(t.Context(), key)
		must(t, err)
		return len(again.Kvs) > 0 && again.Kvs[0].Lease != r.Kvs[0].Lease
	})
	l.wantLevel(t, 1)
}

// A process that is alone raises the level as soon as it runs, and not by a start that fails later.
func TestAProcessAloneRaisesTheLevelAtOnce(t *testing.T) {
	t.Parallel()
	kv := newKV(t)
	for _, level := range []int{1, 1, 3} {
		l := NewLevel(kv, Member{Holder: "embedded", TTL: 10 * time.Second}, Program{Version: "v", Level: level}, 0)
		must(t, l.Join(t.Context())) // finds the key of the run before, which was killed
		if l.InForce() >= level && level == 3 {
			t.Errorf("level %d before it runs", l.InForce())
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- l.Run(ctx) }()
		levelProcess{Level: l}.wantLevel(t, level)
		cancel()
		must(t, <-ended)
		t.Cleanup(func() { _ = l.Leave(context.Background()) })
	}
}

// fullLease refuses leases as an etcd whose quota is used up.
type fullLease struct {
	clientv3.Lease
	full *atomic.Bool
}

func (f fullLease) Grant(ctx context.Context, ttl int64) (*clientv3.LeaseGrantResponse, error) {
	if f.full.Load() {
		return nil, rpctypes.ErrNoSpace
	}
	return f.Lease.Grant(ctx, ttl)
}

// A full etcd does not keep a process from starting, unless it knows too little. It announces itself when there is
// space again.
func TestAProcessStartsWhileEtcdIsFull(t *testing.T) {
	t.Parallel()
	direct := newKV(t)
	var full atomic.Bool
	full.Store(true)
	c := clientv3.NewCtxClient(etcd.Ctx())
	c.KV, c.Lease, c.Watcher = etcd.KV, fullLease{etcd.Lease, &full}, etcd.Watcher
	kv := etcdkv.New(c, direct.Key(), etcdkv.Options{})
	first := process(t, direct, "first", 2)
	first.wantLevel(t, 2)
	if err := newProcess(kv, "old", 1).Join(t.Context()); !errors.Is(err, ErrLevel) {
		t.Errorf("a process that knows less: %v, want ErrLevel", err)
	}
	process(t, kv, "second", 3)
	full.Store(false)
	must(t, first.stop())
	process(t, direct, "third", 3).wantLevel(t, 3)
	eventually(t, "the announcement of a process that etcd refused", func() bool {
		r, err := direct.Get(t.Context(), direct.Key("member", "process", "second"))
		must(t, err)
		return len(r.Kvs) > 0
	})
}

// While etcd refuses to write, a process that raises the level starts to wait again: others start without being
// announced meanwhile, and need time to announce themselves.
func TestALevelWaitsAgainAfterAFullEtcd(t *testing.T) {
	t.Parallel()
	var full atomic.Bool
	c := clientv3.NewCtxClient(etcd.Ctx())
	c.KV, c.Lease, c.Watcher = fullKV{etcd.KV, &full}, etcd.Lease, etcd.Watcher
	kv := etcdkv.New(c, newKV(t).Key(), etcdkv.Options{})
	l := NewLevel(kv, Member{Holder: "new", TTL: 10 * time.Second}, Program{Version: "v2", Level: 2}, time.Hour)
	must(t, l.Join(t.Context()))
	defer func() { must(t, l.Leave(context.Background())) }()
	l.above = time.Now().Add(-2 * time.Hour)
	full.Store(true)
	if err := l.look(t.Context()); !errors.Is(err, etcdkv.ErrFull) {
		t.Fatalf("%v, want ErrFull", err)
	}
	full.Store(false)
	must(t, l.look(t.Context()))
	if got := l.InForce(); got != 0 {
		t.Errorf("level %d is in force as soon as there is space", got)
	}
	l.above = time.Now().Add(-2 * time.Hour)
	must(t, l.look(t.Context()))
	if got := l.InForce(); got != 2 {
		t.Errorf("level %d is in force an hour later, want 2", got)
	}
}

// fullKV refuses transactions as an etcd whose quota is used up.
type fullKV struct {
	clientv3.KV
	full *atomic.Bool
}

func (f fullKV) Txn(ctx context.Context) clientv3.Txn { return fullTxn{f.KV.Txn(ctx), f.full} }

type fullTxn struct {
	clientv3.Txn
	full *atomic.Bool
}

func (f fullTxn) If(cmps ...clientv3.Cmp) clientv3.Txn { return fullTxn{f.Txn.If(cmps...), f.full} }
func (f fullTxn) Then(ops ...clientv3.Op) clientv3.Txn { return fullTxn{f.Txn.Then(ops...), f.full} }

func (f fullTxn) Else(ops ...clientv3.Op) clientv3.Txn { return fullTxn{f.Txn.Else(ops...), f.full} }

func (f fullTxn) Commit() (*clientv3.TxnResponse, error) {
	if f.full.Load() {
		return nil, rpctypes.ErrNoSpace
	}
	return f.Txn.Commit()
}

// A process is ready while the others know of it: not before it has joined, and not after it has lost its lease. One
// that is alone always is.
func TestAProcessThatIsNotAnnouncedIsNotReady(t *testing.T) {
	t.Parallel()
	kv := newKV(t)
	l := newProcess(kv, "one", 1)
	wantKind(t, l.Ready(), errs.Unavailable)
	must(t, l.Join(t.Context()))
	must(t, l.Ready())
	_, err := etcd.Revoke(t.Context(), l.lease.id)
	must(t, err)
	<-l.lease.lost
	wantKind(t, l.Ready(), errs.Unavailable)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	eventually(t, "a process that is ready again", func() bool { return l.Ready() == nil })
	cancel()
	must(t, <-ended)
	must(t, l.Leave(t.Context()))
	wantKind(t, l.Ready(), errs.Unavailable)
	must(t, NewLevel(kv, Member{Holder: "alone"}, Program{Level: 1}, 0).Ready())
}

// While the disk is low, an embedded etcd grants leases and refuses to write. A process that announces itself, or joins
// a group, then tries again on the lease that it has: leases use up what is left of the disk.
func TestALowDiskCostsOneLease(t *testing.T) {
	t.Parallel()
	var refused atomic.Int64
	var low atomic.Bool
	server, err := embedded.Start(t.Context(), embedded.Options{Dir: t.TempDir(), NoFsync: true, Refuse: func() error {
		if !low.Load() {
			return nil
		}
		refused.Add(1)
		return errs.New(errs.Unavailable, "the disk is nearly full")
	}})
	must(t, err)
	defer func() { must(t, server.Close()) }()
	leases := &countedLease{Lease: server.Client().Lease}
	client := clientv3.NewCtxClient(server.Client().Ctx())
	client.KV, client.Lease, client.Watcher = server.Client().KV, leases, server.Client().Watcher
	kv, member := etcdkv.New(client, "/emco", etcdkv.Options{}), Member{Holder: "embedded", TTL: time.Minute}
	level := NewLevel(kv, member, Program{Version: "v", Level: 1}, 0)
	runner := NewRunner(kv, Group{Kind: "work", Shards: 1}, member, func(ctx context.Context, _ int, _ *Ownership) error {
		<-ctx.Done()
		return nil
	})
	for _, tt := range []struct {
		name string
		run  func(context.Context) error
		on   func() bool
	}{
		{"level", level.Run, func() bool { return level.InForce() == 1 }},
		{"runner", runner.Run, func() bool { return runner.Status().Working == 1 }},
	} {
		leases.granted.Store(0)
		refused.Store(0)
		low.Store(true)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- tt.run(ctx) }()
		eventually(t, tt.name+": three attempts", func() bool { return refused.Load() >= 3 })
		if got := leases.granted.Load(); got != 1 {
			t.Errorf("%s: %d leases for %d attempts, want 1", tt.name, got, refused.Load())
		}
		low.Store(false)
		eventually(t, tt.name+": what follows on a disk with space", tt.on)
		cancel()
		must(t, <-ended)
	}
	must(t, level.Leave(context.Background()))
}

// countedLease counts leases.
type countedLease struct {
	clientv3.Lease
	granted atomic.Int64
}

func (c *countedLease) Grant(ctx context.Context, ttl int64) (*clientv3.LeaseGrantResponse, error) {
	c.granted.Add(1)
	return c.Lease.Grant(ctx, ttl)
}
