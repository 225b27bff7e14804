package appcontext

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

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"pgregory.net/rapid"
)

// floor is where members of a team work; it notes who works on what, and finds fault
// with two that work on the same shard by right.
type floor struct {
	t *testing.T
	s *Store // by which the test looks

	mu     sync.Mutex
	at     map[int]string // shard -> holder
	fences map[int][]Fence
	moved  chan struct{} // closed and made anew with every change
}

func newFloor(t *testing.T) *floor {
	return &floor{t: t, s: newStore(t), at: map[int]string{}, fences: map[int][]Fence{}, moved: make(chan struct{})}
}

func (f *floor) note(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
	close(f.moved)
	f.moved = make(chan struct{})
}

// member is a process that shares 16 shards.
type member struct {
	*Sharing
	stop context.CancelFunc
	done chan struct{}
}

// join starts a member that reaches etcd by c. Its work is to write a pair, fenced, and
// then to wait.
func (f *floor) join(c *clientv3.Client, holder string, ttl time.Duration) *member {
	f.t.Helper()
	ctx, cancel := context.WithCancel(f.t.Context())
	s := New(c, f.s.prefix)
	m := &member{stop: cancel, done: make(chan struct{})}
	m.Sharing = s.Share(Team{Kind: "test", Shards: 16}, Member{Holder: holder, TTL: ttl}, func(ctx context.Context, n int, own *Ownership) error {
		if err := s.PutPairs(ctx, own.Fence(), []Pair{{Key: PairKey{Cluster: holder, UID: "7", App: fmt.Sprint(n)}}}, nil); err != nil {
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

func (m *member) leave(t *testing.T) {
	m.stop()
	wait(t, m.done, "the end of "+m.me.Holder)
}

// shares is who works on which shards, such as "a: 0 2, b: 1".
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
func (m *member) of(shares string) string {
	_, rest, _ := strings.Cut(shares, m.me.Holder+":")
	mine, _, _ := strings.Cut(rest, ",")
	return mine
}

// fair is how members share by right.
func fair(holders ...string) string {
	f := &floor{at: map[int]string{}}
	for n := range 16 {
		f.at[n] = winner(holders, Team{Kind: "test"}.Shard(n))
	}
	return f.shares()
}

// becomes waits until the shares are as wanted.
func (f *floor) becomes(want string) {
	f.t.Helper()
	f.until("shares "+want, func() bool { return f.shares() == want })
}

// until waits until something holds, and looks whenever something has moved.
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
	f.becomes(fair("a"))
	if err := a.Ready(); err != nil || a.String() != "works on 16 of 16 shards, members: 1" {
		t.Errorf("a %s, %v", a, err)
	}
	b := f.join(etcd, "b", time.Minute)
	f.becomes(fair("a", "b"))
	c := f.join(etcd, "c", time.Minute)
	f.becomes(fair("a", "b", "c"))
	if got, want := c.Standing(), (Standing{Known: true, Members: 3, Working: strings.Count(c.of(fair("a", "b", "c")), " ")}); got != want {
		t.Errorf("c stands at %+v, want %+v", got, want)
	}
	b.leave(t)
	f.becomes(fair("a", "c"))
	a.leave(t)
	f.becomes(fair("c"))
	c.leave(t)
	if left := append(keysBelow(t, f.s, "own/"), keysBelow(t, f.s, "member/")...); len(left) > 0 {
		t.Errorf("%q are left", left)
	}
	for n, fences := range f.fences {
		for _, old := range fences {
			wantFenced(t, f.s.PutPairs(t.Context(), old, []Pair{{Key: pairKeyOf(n)}}, nil))
		}
	}
}

// A member whose process is killed is replaced when its lease has run out.
func TestAKilledMemberIsReplaced(t *testing.T) {
	t.Parallel()
	endpoint := listen(t)
	f := newFloor(t)
	f.s = New(dial(t, endpoint), "/killed")
	own, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, Logger: zap.NewNop()})
	must(t, err)
	a := f.join(own, "a", time.Second)
	f.becomes(fair("a"))
	f.join(dial(t, endpoint), "b", time.Second)
	f.becomes(fair("a", "b"))
	must(t, own.Close()) // nothing of it reaches etcd any more
	f.becomes(fair("b"))
	a.stop()
}

// A member that loses its lease, because it slept too long, stops all its work and joins
// anew; what it wrote meanwhile is refused.
func TestASleeperJoinsAnew(t *testing.T) {
	t.Parallel()
	f := newFloor(t)
	f.join(etcd, "a", time.Minute)
	f.join(etcd, "b", time.Minute)
	f.becomes(fair("a", "b"))
	var before map[int][]Fence
	f.note(func() { before, f.fences = f.fences, map[int][]Fence{} })
	lost := slices.DeleteFunc(slices.Collect(maps.Keys(before)), func(n int) bool {
		return winner([]string{"a", "b"}, Team{Kind: "test"}.Shard(n)) != "a"
	})
	r, err := etcd.Get(t.Context(), f.s.key("member", "test", "a"))
	must(t, err)
	must(t, f.s.revoke(t.Context(), "", clientv3.LeaseID(r.Kvs[0].Lease)))
	f.until("the shards of a have new owners", func() bool {
		return !slices.ContainsFunc(lost, func(n int) bool { return len(f.fences[n]) == 0 })
	})
	f.becomes(fair("a", "b"))
	for _, n := range lost {
		wantFenced(t, f.s.PutPairs(t.Context(), before[n][len(before[n])-1], []Pair{{Key: pairKeyOf(n)}}, nil))
	}
}

// A process that is alone on its store takes over from its former life at once.
func TestARestartedMemberNeedNotWait(t *testing.T) {
	t.Parallel()
	f := newFloor(t)
	l, err := f.s.rent(t.Context(), "test", time.Hour)
	must(t, err)
	for n := range 16 {
		c := claim{s: f.s, shard: Team{Kind: "test"}.Shard(n), holder: "embedded", lease: l}
		_, err := c.take(t.Context(), l)
		must(t, err)
	}
	_, err = etcd.Put(t.Context(), f.s.key("member", "test", "embedded"), "", clientv3.WithLease(l.id))
	must(t, err)
	f.join(etcd, "embedded", time.Hour)
	f.becomes(fair("embedded"))
	left, err := etcd.TimeToLive(t.Context(), l.id) // l itself asks every third of an hour
	must(t, err)
	if left.TTL != -1 {
		t.Errorf("the lease of the former life is kept for %d s more", left.TTL)
	}
}

// What a member failed to release it takes up again, without losing all else.
func TestAnUnreleasedShardIsTakenAnew(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	l, err := s.rent(t.Context(), "test", time.Minute)
	must(t, err)
	first, second := claim{s: s, shard: "test-00", holder: "a", lease: l}, claim{s: s, shard: "test-01", holder: "a", lease: l}
	old, err := first.take(t.Context(), l)
	must(t, err)
	other, err := second.take(t.Context(), l)
	must(t, err)
	must(t, first.awaitFree(t.Context()))
	again, err := first.take(t.Context(), l)
	must(t, err)
	must(t, s.Holds(t.Context(), again.Fence()))
	must(t, s.Holds(t.Context(), other.Fence()))
	wantFenced(t, s.Holds(t.Context(), old.Fence()))
	must(t, again.Release(t.Context()))
	wantFenced(t, s.Holds(t.Context(), again.Fence()))
	must(t, s.Holds(t.Context(), other.Fence()))
	must(t, l.end(t.Context()))
	wantFenced(t, s.Holds(t.Context(), other.Fence()))
	must(t, s.Holds(t.Context(), Fence{}))
	if got := other.Fence().String(); !strings.HasPrefix(got, "test-01:") || (Fence{}).String() != "" {
		t.Errorf("a fence is called %q", got)
	}
}

// Work that fails is called again, with the shard owned anew.
func TestWorkThatFailsStartsAnew(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	calls := make(chan Fence)
	sh := s.Share(Team{Kind: "test", Shards: 1}, Member{Holder: "a", TTL: time.Minute}, func(ctx context.Context, _ int, own *Ownership) error {
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
	first, second := wait(t, calls, "work"), wait(t, calls, "work again")
	if first.rev >= second.rev {
		t.Errorf("the later owner has the lower number: %v, %v", first, second)
	}
	cancel()
	wg.Wait()
	if err := s.Share(Team{Kind: "a/b", Shards: 1}, Member{Holder: "a"}, nil).Run(t.Context()); err == nil {
		t.Error("a team with a slash in its name is taken")
	}
}

// Whoever comes or goes, only what is theirs moves, and all members get a share.
func TestOnlyTheSharesOfComersAndGoersMove(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		members := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z]{1,8}-[0-9]{1,6}`), 2, 6, rapid.ID[string]).Draw(t, "members")
		last := len(members) - 1
		shuffled := rapid.Permutation(members).Draw(t, "order")
		for n := range 64 {
			shard := Team{Kind: "test"}.Shard(n)
			before, after := winner(members[:last], shard), winner(members, shard)
			if after != before && after != members[last] {
				t.Fatalf("%s moved from %s to %s when %s came", shard, before, after, members[last])
			}
			if of := (Team{Shards: 64}).Of(shard); of < 0 || of > 63 {
				t.Fatalf("%s is in shard %d", shard, of)
			}
			if winner(shuffled, shard) != after {
				t.Fatalf("%s depends on the order of the members", shard)
			}
		}
	})
}

// forgetful is a client that loses the answer to its next transactions, after they were done.
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

// A turn that ends while the shard is being claimed leaves nothing behind that others
// would wait for: the claim may have been made.
func TestAClaimThatWasCalledOffIsGivenUp(t *testing.T) {
	t.Parallel()
	client := dial(t, listen(t))
	client.KV = &forgetful{KV: client.KV, lose: 1}
	s := New(client, "/called-off")
	l, err := s.rent(t.Context(), "test", time.Minute)
	must(t, err)
	sh := s.Share(Team{Kind: "test", Shards: 1}, Member{Holder: "a", TTL: time.Minute}, func(context.Context, int, *Ownership) error {
		t.Error("it works")
		return nil
	})
	m := &membership{Sharing: sh, lease: l, over: t.Context().Done(), turns: make([]turn, 1)}
	if err := m.term(t.Context(), 0); err == nil {
		t.Error("a claim without an answer is taken for made")
	}
	if keys := keysBelow(t, s, "own/"); len(keys) > 0 {
		t.Errorf("%q is left", keys)
	}
	must(t, l.end(t.Context()))
}
