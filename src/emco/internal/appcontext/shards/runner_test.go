package shards

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdtest"
	clientv3 "go.etcd.io/etcd/client/v3"
	"pgregory.net/rapid"
)

// floor is where the members of a group work. It records which member works on which shard.
type floor struct {
	t  *testing.T
	kv *etcdkv.Client // of the test

	mu     sync.Mutex
	at     map[int]string // shard -> holder
	fences map[int][]etcdkv.Fence
	moved  chan struct{} // closed and replaced with every change
}

func newFloor(t *testing.T) *floor {
	return &floor{t: t, kv: newKV(t), at: map[int]string{}, fences: map[int][]etcdkv.Fence{}, moved: make(chan struct{})}
}

func (f *floor) note(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
	close(f.moved)
	f.moved = make(chan struct{})
}

// testMember is a process in a group with 16 shards.
type testMember struct {
	*Runner
	stop context.CancelFunc
	done chan struct{}
}

// join starts a member that reaches etcd by c. Its work writes a number, fenced, and waits.
func (f *floor) join(c *clientv3.Client, holder string, ttl time.Duration) *testMember {
	f.t.Helper()
	ctx, cancel := context.WithCancel(f.t.Context())
	kv := etcdkv.New(c, f.kv.Key(), etcdkv.Options{})
	m := &testMember{stop: cancel, done: make(chan struct{})}
	m.Runner = NewRunner(kv, Group{Kind: "test", Shards: 16}, Member{Holder: holder, TTL: ttl}, func(ctx context.Context, n int, own *Ownership) error {
		if err := write(ctx, kv, own.Fence(), fmt.Sprint(holder, n), 1); err != nil {
			return err
		}
		f.note(func() { f.at[n] = holder; f.fences[n] = append(f.fences[n], own.Fence()) })
		<-ctx.Done()
		f.note(func() {
			if f.at[n] == holder {
				delete(f.at, n)
			}
		})
		return nil
	})
	go func() {
		defer close(m.done)
		if err := m.Run(ctx); err != nil {
			f.t.Error(err)
		}
	}()
	f.t.Cleanup(func() { m.leave(f.t) })
	return m
}

func (m *testMember) leave(t *testing.T) {
	m.stop()
	etcdtest.Receive(t, m.done, "the end of "+m.member.Holder)
}

// shares is which member works on which shards, such as "a: 00 02, b: 01".
func (f *floor) shares() string {
	by := map[string][]string{}
	for n, holder := range f.at {
		by[holder] = append(by[holder], fmt.Sprintf("%02d", n))
	}
	var out []string
	for holder, list := range by {
		slices.Sort(list)
		out = append(out, holder+": "+strings.Join(list, " "))
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// of returns the member's part of shares: " 00 07".
func (m *testMember) of(shares string) string {
	_, rest, _ := strings.Cut(shares, m.member.Holder+":")
	mine, _, _ := strings.Cut(rest, ",")
	return mine
}

// assigned is the shares that the members must have.
func assigned(holders ...string) string {
	f := &floor{at: map[int]string{}}
	for n := range 16 {
		f.at[n] = winner(holders, Group{Kind: "test"}.Shard(n))
	}
	return f.shares()
}

// becomes waits until the shares are as wanted.
func (f *floor) becomes(want string) {
	f.t.Helper()
	f.until("shares "+want, func() bool { return f.shares() == want })
}

// until waits until something holds.
func (f *floor) until(what string, holds func() bool) {
	f.t.Helper()
	end := time.After(30 * time.Second)
	for {
		f.mu.Lock()
		ok, got, moved := holds(), f.shares(), f.moved
		f.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-moved:
		case <-end:
			f.t.Fatalf("%s did not come; shares are %s", what, got)
		}
	}
}

func TestMembersShareAndTakeOver(t *testing.T) {
	t.Parallel()
	f := newFloor(t)
	a := f.join(etcd, "a", time.Minute)
	f.becomes(assigned("a"))
	if err := a.Ready(); err != nil || a.String() != "works on 16 of 16 shards, members: 1" {
		t.Errorf("a %s, %v", a, err)
	}
	b := f.join(etcd, "b", time.Minute)
	f.becomes(assigned("a", "b"))
	c := f.join(etcd, "c", time.Minute)
	f.becomes(assigned("a", "b", "c"))
	if got, want := c.Status(), (Status{Known: true, Members: 3, Working: strings.Count(c.of(assigned("a", "b", "c")), " ")}); got != want {
		t.Errorf("c stands at %+v, want %+v", got, want)
	}
	b.leave(t)
	f.becomes(assigned("a", "c"))
	a.leave(t)
	f.becomes(assigned("c"))
	c.leave(t)
	if left := append(etcdtest.KeysBelow(t, f.kv, "own/"), etcdtest.KeysBelow(t, f.kv, "member/")...); len(left) > 0 {
		t.Errorf("%q are left", left)
	}
	for n, fences := range f.fences {
		for _, old := range fences {
			wantFenced(t, write(t.Context(), f.kv, old, fmt.Sprint(n), 2))
		}
	}
}

// A member whose process is killed is replaced when its lease has expired.
func TestAKilledMemberIsReplaced(t *testing.T) {
	t.Parallel()
	f := newFloor(t)
	own := dial(t)
	a := f.join(own, "a", time.Second)
	f.becomes(assigned("a"))
	f.join(etcd, "b", time.Second)
	f.becomes(assigned("a", "b"))
	must(t, own.Close()) // it no longer reaches etcd
	f.becomes(assigned("b"))
	a.stop()
}

// A member that loses its lease, because it slept too long, stops all its work and joins
// again; its writes in between are refused.
func TestAMemberThatLosesItsLeaseJoinsAgain(t *testing.T) {
	t.Parallel()
	f := newFloor(t)
	f.join(etcd, "a", time.Minute)
	f.join(etcd, "b", time.Minute)
	f.becomes(assigned("a", "b"))
	var before map[int][]etcdkv.Fence
	f.note(func() { before, f.fences = f.fences, map[int][]etcdkv.Fence{} })
	lost := slices.DeleteFunc(slices.Collect(maps.Keys(before)), func(n int) bool {
		return winner([]string{"a", "b"}, Group{Kind: "test"}.Shard(n)) != "a"
	})
	r, err := etcd.Get(t.Context(), f.kv.Key("member", "test", "a"))
	must(t, err)
	must(t, revoke(t.Context(), f.kv, "", clientv3.LeaseID(r.Kvs[0].Lease)))
	f.until("the shards of a have new owners", func() bool {
		return !slices.ContainsFunc(lost, func(n int) bool { return len(f.fences[n]) == 0 })
	})
	f.becomes(assigned("a", "b"))
	for _, n := range lost {
		wantFenced(t, write(t.Context(), f.kv, before[n][len(before[n])-1], fmt.Sprint(n), 2))
	}
}

// A process that is alone on its store takes over from its previous run at once.
func TestARestartedMemberNeedNotWait(t *testing.T) {
	t.Parallel()
	f := newFloor(t)
	l, err := grantLease(t.Context(), f.kv, "test", time.Hour)
	must(t, err)
	for n := range 16 {
		c := claim{kv: f.kv, shard: Group{Kind: "test"}.Shard(n), holder: "embedded", lease: l}
		_, err := c.acquire(t.Context(), l)
		must(t, err)
	}
	_, err = etcd.Put(t.Context(), f.kv.Key("member", "test", "embedded"), "", clientv3.WithLease(l.id))
	must(t, err)
	f.join(etcd, "embedded", time.Hour)
	f.becomes(assigned("embedded"))
	left, err := etcd.TimeToLive(t.Context(), l.id) // l itself is renewed every third of an hour
	must(t, err)
	if left.TTL != -1 {
		t.Errorf("the lease of the previous run lives for %d s more", left.TTL)
	}
}

// A member acquires a shard again that it failed to release, and keeps all others.
func TestAnUnreleasedShardIsAcquiredAgain(t *testing.T) {
	t.Parallel()
	kv := newKV(t)
	l, err := grantLease(t.Context(), kv, "test", time.Minute)
	must(t, err)
	first, second := claim{kv: kv, shard: "test-00", holder: "a", lease: l}, claim{kv: kv, shard: "test-01", holder: "a", lease: l}
	old, err := first.acquire(t.Context(), l)
	must(t, err)
	other, err := second.acquire(t.Context(), l)
	must(t, err)
	must(t, first.awaitFree(t.Context()))
	again, err := first.acquire(t.Context(), l)
	must(t, err)
	must(t, kv.Holds(t.Context(), again.Fence()))
	must(t, kv.Holds(t.Context(), other.Fence()))
	wantFenced(t, kv.Holds(t.Context(), old.Fence()))
	must(t, again.Release(t.Context()))
	wantFenced(t, kv.Holds(t.Context(), again.Fence()))
	must(t, kv.Holds(t.Context(), other.Fence()))
	must(t, l.end(t.Context()))
	wantFenced(t, kv.Holds(t.Context(), other.Fence()))
	must(t, kv.Holds(t.Context(), etcdkv.Fence{}))
	if got := other.Fence().String(); !strings.HasPrefix(got, "test-01:") || (etcdkv.Fence{}).String() != "" {
		t.Errorf("a fence is called %q", got)
	}
}

// Work that fails is called again, with a new ownership.
func TestWorkThatFailsStartsAgain(t *testing.T) {
	t.Parallel()
	kv := newKV(t)
	calls := make(chan etcdkv.Fence)
	sh := NewRunner(kv, Group{Kind: "test", Shards: 1}, Member{Holder: "a", TTL: time.Minute}, func(ctx context.Context, _ int, own *Ownership) error {
		select {
		case calls <- own.Fence():
		case <-ctx.Done():
		}
		return errors.New("broken")
	})
	if err := sh.Ready(); err == nil {
		t.Error("it is ready before it has joined")
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	wg.Go(func() { must(t, sh.Run(ctx)) })
	first, second := etcdtest.Receive(t, calls, "work"), etcdtest.Receive(t, calls, "work again")
	if first.Token() >= second.Token() {
		t.Errorf("the later owner has the lower number: %v, %v", first, second)
	}
	cancel()
	wg.Wait()
	if err := NewRunner(kv, Group{Kind: "a/b", Shards: 1}, Member{Holder: "a"}, nil).Run(t.Context()); err == nil {
		t.Error("a group with a slash in its name is accepted")
	}
}

// When a member joins, shards move only to it; when it leaves, only its own shards move.
func TestOnlyTheShardsOfTheMemberThatJoinsOrLeavesMove(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		members := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z]{1,8}-[0-9]{1,6}`), 2, 6, rapid.ID[string]).Draw(t, "members")
		last := len(members) - 1
		shuffled := rapid.Permutation(members).Draw(t, "order")
		for n := range 64 {
			shard := Group{Kind: "test"}.Shard(n)
			before, after := winner(members[:last], shard), winner(members, shard)
			if after != before && after != members[last] {
				t.Fatalf("%s moved from %s to %s when %s came", shard, before, after, members[last])
			}
			if of := (Group{Shards: 64}).Of(shard); of < 0 || of > 63 {
				t.Fatalf("%s is in shard %d", shard, of)
			}
			if winner(shuffled, shard) != after {
				t.Fatalf("%s depends on the order of the members", shard)
			}
		}
	})
}

// forgetful loses the answers to its next transactions, after they were made.
type forgetful struct {
	clientv3.KV
	lose int
}

func (f *forgetful) Txn(ctx context.Context) clientv3.Txn { return &lostTxn{f.KV.Txn(ctx), f} }

type lostTxn struct {
	clientv3.Txn
	f *forgetful
}

func (t *lostTxn) If(cs ...clientv3.Cmp) clientv3.Txn   { t.Txn = t.Txn.If(cs...); return t }
func (t *lostTxn) Then(ops ...clientv3.Op) clientv3.Txn { t.Txn = t.Txn.Then(ops...); return t }
func (t *lostTxn) Else(ops ...clientv3.Op) clientv3.Txn { t.Txn = t.Txn.Else(ops...); return t }

func (t *lostTxn) Commit() (*clientv3.TxnResponse, error) {
	r, err := t.Txn.Commit()
	if t.f.lose--; t.f.lose >= 0 {
		return nil, context.Canceled
	}
	return r, err
}

// An assignment that ends while the shard is being acquired leaves no key behind that
// others would wait for: the key may have been created.
func TestAnAcquireWithoutAnAnswerIsUndone(t *testing.T) {
	t.Parallel()
	client := dial(t)
	client.KV = &forgetful{KV: client.KV, lose: 1}
	kv := etcdkv.New(client, newKV(t).Key(), etcdkv.Options{})
	l, err := grantLease(t.Context(), kv, "test", time.Minute)
	must(t, err)
	sh := NewRunner(kv, Group{Kind: "test", Shards: 1}, Member{Holder: "a", TTL: time.Minute}, func(context.Context, int, *Ownership) error {
		t.Error("it works")
		return nil
	})
	m := &membership{Runner: sh, lease: l, over: t.Context().Done(), assignments: make([]assignment, 1)}
	if err := m.serveOnce(t.Context(), 0); err == nil {
		t.Error("an acquire without an answer counts as made")
	}
	if keys := etcdtest.KeysBelow(t, kv, "own/"); len(keys) > 0 {
		t.Errorf("%q is left", keys)
	}
	must(t, l.end(t.Context()))
}
