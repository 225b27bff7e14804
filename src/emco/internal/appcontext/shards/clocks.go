package shards

import (
	"context"
	"fmt"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
	"github.com/emco-orchestrator/emco/src/emco/internal/pause"
)

// clocks is the first part of the keys with which processes publish the time.
const clocks = "clock"

// ClockTolerance is the difference between the clocks of two processes above which they log it.
const ClockTolerance = 2 * time.Second

// clockRecord is what a process publishes.
type clockRecord struct {
	At time.Time `json:"at"` // by the clock of the process, when it wrote this
}

// Clocks compares the clock of this process with those of the others: each publishes its time regularly, and the others
// compare it with theirs when it arrives. No write depends on clocks that agree, but ages, times in answers, and the end of
// tokens do. Make it with NewClocks.
type Clocks struct {
	kv       *etcdkv.Client
	member   Member
	interval time.Duration // between two times that a process publishes
	now      func() time.Time

	mu    sync.Mutex
	known map[string]clockDifference // by process; guarded by mu
}

// clockDifference is how far the clock of another process is ahead of ours.
type clockDifference struct {
	last    time.Duration // by the newest time
	arrived time.Time     // when that came, with the monotonic clock
	ahead   time.Duration // the smaller of two that followed each other
	checked bool          // two have arrived
	logged  bool          // that ahead is above the tolerance
}

// NewClocks returns the comparison for a process, which publishes its time once in each life of its lease.
func NewClocks(kv *etcdkv.Client, m Member) *Clocks {
	return &Clocks{kv: kv, member: m, interval: m.TTL, now: time.Now, known: map[string]clockDifference{}}
}

// Name is "clocks".
func (c *Clocks) Name() string { return "clocks" }

// Ready returns nil: a process serves whatever its clock shows.
func (c *Clocks) Ready() error { return nil }

// Run publishes the time, and watches those of the other processes, until ctx ends.
func (c *Clocks) Run(ctx context.Context) error {
	if err := etcdkv.CheckParts(c.member.Holder); err != nil {
		return err
	}
	for ctx.Err() == nil {
		if err := c.compare(ctx); ctx.Err() == nil {
			c.kv.Log().Warn("publishing the time for other processes again", "err", err)
			_ = pause.For(ctx, retryPause)
		}
	}
	return nil
}

// compare publishes and watches until ctx ends or the lease of this process' key is lost.
func (c *Clocks) compare(ctx context.Context) error {
	lease, err := grantLease(ctx, c.kv, clocks, 2*c.interval)
	if err != nil {
		return err
	}
	defer func() { _ = lease.end(ctx) }()
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	watching.Go(func() { c.watch(ctx) })
	every := time.NewTicker(c.interval)
	defer every.Stop()
	for {
		if err := c.publish(ctx, lease); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-lease.lost:
			return errLeaseLost
		case <-every.C:
		}
	}
}

func (c *Clocks) publish(ctx context.Context, l *lease) error {
	key := c.kv.Key(clocks, c.member.Holder)
	text, err := etcdkv.Encode(key, clockRecord{At: c.now().UTC()})
	if err != nil {
		return err
	}
	_, _, err = c.kv.Commit(ctx, key, nil, []clientv3.Op{clientv3.OpPut(key, text, clientv3.WithLease(l.id))})
	return err
}

// watch takes the times of the other processes until ctx ends. A time from before the watch began is of no use.
func (c *Clocks) watch(ctx context.Context) {
	live := false
	for change := range c.kv.Watch(ctx, c.kv.Key(clocks)+"/") {
		if change.Synced {
			live = true
			continue
		}
		process := c.kv.Split(change.KV.Key)[1]
		switch {
		case process == c.member.Holder:
		case change.Deleted:
			c.forget(process)
		case live:
			r, err := etcdkv.Decode[clockRecord](change.KV)
			if err != nil {
				c.kv.Log().Warn("the time of a process cannot be read", "process", process, "err", err)
				continue
			}
			c.observe(process, r.At)
		}
	}
}

// observe notes the difference to a process. etcd, or the network, may have held one message up, and it seems that the process
// is behind; two messages that came apart from each other were hardly both held up, so the smaller difference counts.
func (c *Clocks) observe(process string, at time.Time) {
	now := time.Now()
	ahead := at.Sub(c.now())
	c.mu.Lock()
	defer c.mu.Unlock()
	before, again := c.known[process]
	d := clockDifference{last: ahead, arrived: now, ahead: before.ahead, checked: before.checked, logged: before.logged}
	if again && now.Sub(before.arrived) >= c.interval/2 {
		d.ahead, d.checked = smaller(before.last, ahead), true
	}
	switch wrong := d.ahead.Abs() > ClockTolerance; {
	case wrong && !d.logged:
		c.kv.Log().Warn("the clocks of two processes differ; synchronise them (NTP): ages, times in answers, and the end of tokens are wrong on one of them",
			"process", process, "ahead", d.ahead.Round(time.Millisecond))
		d.logged = true
	case !wrong && d.logged:
		c.kv.Log().Info("the clock of another process agrees with ours again", "process", process)
		d.logged = false
	}
	c.known[process] = d
}

// smaller returns the difference that is nearer to zero; zero if their signs differ.
func smaller(a, b time.Duration) time.Duration {
	switch {
	case a < 0 != (b < 0):
		return 0
	case a.Abs() < b.Abs():
		return a
	}
	return b
}

func (c *Clocks) forget(process string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.known, process)
}

// Skew returns how far the clock of another process is ahead of this one's: of the process whose clock differs most. It is
// 0 before two times of another process have arrived.
func (c *Clocks) Skew() time.Duration {
	_, most := c.most()
	return most
}

// State describes the differences: "2 other processes, at most 13ms apart".
func (c *Clocks) State() string {
	others, most := c.most()
	if others == 0 {
		return "no other process is known"
	}
	return fmt.Sprintf("%d other processes, at most %s apart", others, most.Abs().Round(time.Millisecond))
}

// most returns the number of processes whose clock is known, and the largest difference.
func (c *Clocks) most() (others int, most time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, d := range c.known {
		if !d.checked {
			continue
		}
		others++
		if d.ahead.Abs() > most.Abs() {
			most = d.ahead
		}
	}
	return others, most
}
