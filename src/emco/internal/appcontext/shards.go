package appcontext

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Team is a number of processes that share work. The work is cut into shards, and each
// shard belongs to one of the members that are alive: to the one whose hash with the
// shard is highest. So all come to the same answer, and when a member comes or goes
// only its own shards move.
type Team struct {
	Kind   string // of work, such as "rsync"; shards are named after it
	Shards int    // in all; the same number in every process
}

// Member is a process as others see it.
type Member struct {
	Holder string        // its name, see Own
	TTL    time.Duration // of its lease, see Own: once it is gone it is replaced after so long
}

// Of returns the shard to which the work that key names belongs.
func (t Team) Of(key string) int {
	sum := sha256.Sum256([]byte(key))
	return int(binary.BigEndian.Uint64(sum[:]) % uint64(t.Shards))
}

// Shard names a shard as it is owned: "rsync-03".
func (t Team) Shard(n int) string { return fmt.Sprintf("%s-%02d", t.Kind, n) }

// winner returns the member to which a shard belongs.
func winner(members []string, shard string) (best string) {
	highest := uint64(0)
	for _, m := range members {
		if s := score(m, shard); best == "" || s > highest {
			best, highest = m, s
		}
	}
	return best
}

func score(member, shard string) uint64 {
	sum := sha256.Sum256([]byte(member + "\x00" + shard))
	return binary.BigEndian.Uint64(sum[:])
}

// Work does what belongs to a shard until ctx ends, and returns when nothing of it goes
// on. ctx ends when the shard is lost, or is another member's from now on. Every write
// must carry own's Fence. If it returns earlier it is called again.
type Work func(ctx context.Context, shard int, own *Ownership) error

// Sharing is this process' part in a team. Make it with Share.
type Sharing struct {
	s    *Store
	team Team
	me   Member
	work Work

	mu     sync.Mutex
	known  bool // who the members are
	size   int  // of the team
	stages []stage
}

// stage is how far a shard has come in this process.
type stage uint8

const (
	absent   stage = iota // it is another member's
	claiming              // it is ours, and about to be owned
	waiting               // it is ours, and another process has not let go of it
	working
)

// Standing is what a process has of its team's work.
type Standing struct {
	Known    bool // who the members are; if not, etcd has not been reached
	Members  int
	Claiming int // shards that are about to be owned
	Waiting  int // shards that another process has not let go of yet
	Working  int // shards that are worked on
}

// Share makes this process' part in a team; its Run is to be called once.
func (s *Store) Share(t Team, me Member, work Work) *Sharing {
	return &Sharing{s: s, team: t, me: me, work: work, stages: make([]stage, t.Shards)}
}

// Standing returns what this process has now.
func (sh *Sharing) Standing() Standing {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	st := Standing{Known: sh.known, Members: sh.size}
	for _, s := range sh.stages {
		switch s {
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

// String says it in words: "works on 9 of 16 shards, members: 2".
func (sh *Sharing) String() string {
	st := sh.Standing()
	if !st.Known {
		return "has not joined the others yet"
	}
	text := fmt.Sprintf("works on %d of %d shards, members: %d", st.Working, sh.team.Shards, st.Members)
	if n := st.Claiming + st.Waiting; n > 0 {
		text += fmt.Sprintf(", taking over: %d", n)
	}
	return text
}

// Ready says why this process does not play its part yet. It does when there is nothing
// for it to do, and when another process has not let go of a shard.
func (sh *Sharing) Ready() error {
	switch st := sh.Standing(); {
	case !st.Known:
		return errors.New("has not joined the others yet; etcd may not answer")
	case st.Claiming > 0:
		return fmt.Errorf("is about to take over %d shards", st.Claiming)
	}
	return nil
}

// Run joins the team and works on this process' shards until ctx ends. A lost lease ends
// all work that it carried, and the process joins anew. Invalid for names that cannot
// be keys.
func (sh *Sharing) Run(ctx context.Context) error {
	if err := checkParts(sh.team.Kind, sh.me.Holder); err != nil {
		return err
	}
	for ctx.Err() == nil {
		if err := sh.join(ctx); ctx.Err() == nil {
			sh.s.log.Warn("joining the others anew", "kind", sh.team.Kind, "err", err)
			pause(ctx, time.Second)
		}
	}
	return nil
}

var errLeaseLost = errors.New("the lease was lost")

// join is one membership, from the lease to its end.
func (sh *Sharing) join(ctx context.Context) error {
	l, err := sh.s.rent(ctx, sh.team.Kind, sh.me.TTL)
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
	m := &membership{Sharing: sh, lease: l, over: ctx.Done(), turns: make([]turn, sh.team.Shards)}
	err = m.run(ctx)
	cancel(err)
	m.wg.Wait()
	sh.learn(false, 0)
	return err
}

// learn notes how many members there are, if that is known.
func (sh *Sharing) learn(known bool, members int) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.known, sh.size = known, members
}

func (sh *Sharing) enter(n int, s stage) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.stages[n] = s
}

// membership is the time from joining a team to leaving it.
type membership struct {
	*Sharing
	lease *lease
	fence Fence           // proves it
	over  <-chan struct{} // closed when it ends
	turns []turn          // by shard
	wg    sync.WaitGroup
}

// turn is a time during which a shard is this process'.
type turn struct {
	cancel context.CancelFunc // nil: it is another's
	done   chan struct{}      // closed when the work of the last turn has ended; nil: there was none
}

// run follows who the members are and sees to the shards; it ends with ctx, or when
// somebody takes this process for gone.
func (m *membership) run(ctx context.Context) error {
	prefix := m.s.key("member", m.team.Kind) + "/"
	if err := m.enrol(ctx, prefix+m.me.Holder); err != nil {
		return err
	}
	members, synced := map[string]bool{}, false
	for c := range m.s.follow(ctx, prefix) {
		switch {
		case c.synced:
			synced = true
		case c.deleted:
			delete(members, m.s.split(c.kv.Key)[2])
		default:
			members[m.s.split(c.kv.Key)[2]] = true
		}
		if !synced {
			continue
		}
		if !members[m.me.Holder] {
			return errors.New("the key of this member was removed")
		}
		m.assign(ctx, slices.Collect(maps.Keys(members)))
	}
	return context.Cause(ctx)
}

// enrol writes the key of this member, and keeps what proves that it is there: there may be
// one of a former life.
func (m *membership) enrol(ctx context.Context, key string) error {
	put := clientv3.OpPut(key, m.s.now().UTC().Format(time.RFC3339), clientv3.WithLease(m.lease.id))
	r, err := m.s.send(ctx, request{subject: key, then: []clientv3.Op{put, clientv3.OpGet(key)}})
	if err != nil {
		return err
	}
	kv := r.Responses[1].GetResponseRange().Kvs[0]
	m.fence = newFence(key, m.team.Kind, kv.CreateRevision)
	m.fence.barrier.raised(kv.ModRevision)
	return nil
}

// assign begins and ends turns as the members say.
func (m *membership) assign(ctx context.Context, members []string) {
	for n := range m.turns {
		mine := winner(members, m.team.Shard(n)) == m.me.Holder
		switch cancel := m.turns[n].cancel; {
		case mine && cancel == nil:
			m.begin(ctx, n)
		case !mine && cancel != nil:
			cancel()
			m.turns[n].cancel = nil
		}
	}
	m.learn(true, len(members))
}

// begin starts a turn, which works when the work of the one before has ended.
func (m *membership) begin(ctx context.Context, n int) {
	before, done := m.turns[n].done, make(chan struct{})
	ctx, cancel := context.WithCancel(ctx)
	m.turns[n] = turn{cancel: cancel, done: done}
	if before == nil {
		m.enter(n, claiming)
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
	defer m.enter(n, absent)
	for ctx.Err() == nil {
		m.enter(n, claiming)
		if err := m.term(ctx, n); ctx.Err() == nil {
			m.s.log.Warn("a shard's work starts anew", "shard", m.team.Shard(n), "err", err)
			pause(ctx, time.Second)
		}
	}
}

// term is one time of ownership.
func (m *membership) term(ctx context.Context, n int) error {
	c := claim{s: m.s, shard: m.team.Shard(n), holder: m.me.Holder, lease: m.lease, member: m.fence, held: func() { m.enter(n, waiting) }}
	defer m.letGo(ctx, c)
	var own *Ownership
	for own == nil {
		err := c.awaitFree(ctx)
		if err == nil {
			own, err = c.take(ctx, m.lease)
		}
		if err != nil {
			return err
		}
	}
	m.enter(n, working)
	return m.work(ctx, n, own)
}

// letGo gives a shard up, and does not rest before that is done: others may wait for it,
// and the lease lives on. When the membership ends, all goes with the lease.
func (m *membership) letGo(ctx context.Context, c claim) {
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
		m.s.log.Warn("a shard cannot be given up yet", "shard", c.shard, "err", err)
		select {
		case <-m.over:
		case <-time.After(time.Second):
		}
	}
}
