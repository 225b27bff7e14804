package shards

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
	"github.com/emco-orchestrator/emco/src/emco/internal/pause"
)

// retryPause is how long a process waits before it joins, claims or gives up again.
const retryPause = time.Second

// Work does the work of a shard until ctx ends, and returns when all of it has stopped.
// ctx ends when the shard is lost, or is assigned to another member. Every write must
// carry own's Fence. If Work returns earlier it is called again.
type Work func(ctx context.Context, shard int, own *Ownership) error

// Runner is this process' part in a group. Make it with NewRunner.
type Runner struct {
	kv     *etcdkv.Client
	group  Group
	member Member
	work   Work

	mu      sync.Mutex
	joined  bool         // the members are known; guarded by mu
	left    bool         // it had joined before; guarded by mu
	members int          // of the group; guarded by mu
	phases  []shardPhase // by shard; guarded by mu
}

// shardPhase is how far this process is with a shard.
type shardPhase uint8

const (
	absent   shardPhase = iota // assigned to another member
	claiming                   // assigned to us; we are about to own it
	waiting                    // assigned to us; another process has not released it
	working
)

// Status is this process' part in the work of its group.
type Status struct {
	Known    bool // the members are known; if not, etcd has not been reached
	Left     bool // the members are not known any longer: etcd does not answer, or the lease ended
	Members  int
	Claiming int // shards that are about to be owned
	Waiting  int // shards that another process has not released yet
	Working  int // shards that are worked on
}

// NewRunner returns this process' part in a group; call its Run once.
func NewRunner(kv *etcdkv.Client, g Group, m Member, work Work) *Runner {
	return &Runner{kv: kv, group: g, member: m, work: work, phases: make([]shardPhase, g.Shards)}
}

// Status returns this process' part now.
func (r *Runner) Status() Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	st := Status{Known: r.joined, Left: r.left && !r.joined, Members: r.members}
	for _, p := range r.phases {
		switch p {
		case claiming:
			st.Claiming++
		case waiting:
			st.Waiting++
		case working:
			st.Working++
		}
	}
	return st
}

// String describes the status: "works on 9 of 16 shards, members: 2".
func (r *Runner) String() string {
	st := r.Status()
	switch {
	case st.Left:
		return "has lost its lease and joins its group again"
	case !st.Known:
		return "has not joined its group yet"
	}
	text := fmt.Sprintf("works on %d of %d shards, members: %d", st.Working, r.group.Shards, st.Members)
	if n := st.Claiming + st.Waiting; n > 0 {
		text += fmt.Sprintf(", taking over: %d", n)
	}
	return text
}

// Ready returns why this process does not do its part yet. It does when no shard is
// assigned to it, and when another process has not released a shard.
func (r *Runner) Ready() error {
	switch st := r.Status(); {
	case st.Left:
		return errors.New("has lost its lease and joins its group again; etcd may not answer")
	case !st.Known:
		return errors.New("has not joined its group yet; etcd may not answer")
	case st.Claiming > 0:
		return fmt.Errorf("is about to take over %d shards", st.Claiming)
	}
	return nil
}

// Run joins the group and works on the shards that are assigned to this process, until ctx
// ends. A lost lease ends all work that it carried, and the process joins again. Invalid
// for names that cannot be keys.
func (r *Runner) Run(ctx context.Context) error {
	if err := etcdkv.CheckParts(r.group.Kind, r.member.Holder); err != nil {
		return err
	}
	for ctx.Err() == nil {
		if err := r.join(ctx); ctx.Err() == nil {
			r.kv.Log().Warn("joining the group again", "kind", r.group.Kind, "err", err)
			_ = pause.For(ctx, retryPause)
		}
	}
	return nil
}

var errLeaseLost = errors.New("the lease was lost")

// join is one membership, from the lease to its end.
func (r *Runner) join(ctx context.Context) error {
	l, err := grantLease(ctx, r.kv, r.group.Kind, r.member.TTL)
	if err != nil {
		return err
	}
	defer func() { _ = l.end(ctx) }()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() { // ends with the lease
		<-l.lost
		cancel(errLeaseLost)
	}()
	m := &membership{Runner: r, lease: l, over: ctx.Done(), assignments: make([]assignment, r.group.Shards)}
	err = m.run(ctx)
	cancel(err)
	m.wg.Wait()
	r.setMembers(false, 0)
	return err
}

func (r *Runner) setMembers(known bool, members int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.joined, r.left, r.members = known, r.left || r.joined, members
}

func (r *Runner) setPhase(n int, p shardPhase) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.phases[n] = p
}

// membership is the time from joining a group to leaving it.
type membership struct {
	*Runner
	lease       *lease
	fence       etcdkv.Fence    // of the member's key; set by register, then read only
	over        <-chan struct{} // closed when the membership ends
	assignments []assignment    // by shard; only the goroutine of run
	wg          sync.WaitGroup  // of the goroutines that start begins
}

// assignment is a time during which a shard is assigned to this process.
type assignment struct {
	cancel context.CancelFunc // nil: the shard is assigned to another member
	done   chan struct{}      // closed when the work of the last assignment has ended; nil: there was none
}

// run follows the members and assigns the shards; it ends with ctx, or when the key of
// this member is removed.
func (m *membership) run(ctx context.Context) error {
	prefix := m.kv.Key("member", m.group.Kind) + "/"
	if err := m.register(ctx, prefix+m.member.Holder); err != nil {
		return err
	}
	members, synced := map[string]bool{}, false
	for c := range m.kv.Watch(ctx, prefix) {
		switch {
		case c.Synced:
			synced = true
		case c.Deleted:
			delete(members, m.kv.Split(c.KV.Key)[2])
		default:
			members[m.kv.Split(c.KV.Key)[2]] = true
		}
		if !synced {
			continue
		}
		if !members[m.member.Holder] {
			return errors.New("the key of this member was removed")
		}
		m.assign(ctx, slices.Collect(maps.Keys(members)))
	}
	return context.Cause(ctx)
}

// register writes the key of this member, and keeps its fence. The key of a previous run
// may exist.
func (m *membership) register(ctx context.Context, key string) error {
	put := clientv3.OpPut(key, time.Now().UTC().Format(time.RFC3339), clientv3.WithLease(m.lease.id))
	var r *clientv3.TxnResponse
	if err := m.lease.retry(ctx, func() (err error) {
		r, err = m.kv.Txn(ctx, key, nil, put, clientv3.OpGet(key))
		return err
	}); err != nil {
		return err
	}
	kv := r.Responses[1].GetResponseRange().Kvs[0]
	m.fence = etcdkv.NewFence(key, m.group.Kind, kv.CreateRevision, kv.ModRevision)
	return nil
}

// assign starts and ends assignments as the members require.
func (m *membership) assign(ctx context.Context, members []string) {
	for n := range m.assignments {
		mine := winner(members, m.group.Shard(n)) == m.member.Holder
		switch cancel := m.assignments[n].cancel; {
		case mine && cancel == nil:
			m.start(ctx, n)
		case !mine && cancel != nil:
			cancel()
			m.assignments[n].cancel = nil
		}
	}
	m.setMembers(true, len(members))
}

// start begins an assignment. It works once the work of the one before has ended.
func (m *membership) start(ctx context.Context, n int) {
	before, done := m.assignments[n].done, make(chan struct{})
	ctx, cancel := context.WithCancel(ctx)
	m.assignments[n] = assignment{cancel: cancel, done: done}
	if before == nil {
		m.setPhase(n, claiming)
	}
	m.wg.Go(func() {
		defer close(done)
		defer cancel()
		if before != nil {
			<-before
		}
		m.serve(ctx, n)
	})
}

// serve works on a shard until ctx ends.
func (m *membership) serve(ctx context.Context, n int) {
	defer m.setPhase(n, absent)
	for ctx.Err() == nil {
		m.setPhase(n, claiming)
		if err := m.serveOnce(ctx, n); ctx.Err() == nil {
			m.kv.Log().Warn("the work of a shard starts again", "shard", m.group.Shard(n), "err", err)
			_ = pause.For(ctx, retryPause)
		}
	}
}

// serveOnce owns a shard once, and works on it until that ends.
func (m *membership) serveOnce(ctx context.Context, n int) error {
	c := claim{
		kv: m.kv, shard: m.group.Shard(n), holder: m.member.Holder, lease: m.lease, member: m.fence,
		onHeld: func() { m.setPhase(n, waiting) },
	}
	defer m.release(ctx, c)
	var own *Ownership
	for own == nil {
		err := c.awaitFree(ctx)
		if err == nil {
			own, err = c.acquire(ctx, m.lease)
		}
		if err != nil {
			return err
		}
	}
	m.setPhase(n, working)
	return m.work(ctx, n, own)
}

// release gives a shard up, and tries until that is done: others may wait for it while the
// lease lives on. When the membership ends, the key goes with the lease.
func (m *membership) release(ctx context.Context, c claim) {
	for {
		select {
		case <-m.over:
			return
		default:
		}
		err := c.drop(ctx)
		if err == nil {
			return
		}
		m.kv.Log().Warn("a shard cannot be released yet", "shard", c.shard, "err", err)
		select {
		case <-m.over:
		case <-time.After(retryPause):
		}
	}
}
