package appcontext

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

// Ownership is a shard that is ours until its lease is lost or it is released.
type Ownership struct {
	s      *Store
	fence  Fence
	lease  *lease
	shared bool // the lease carries other things too
	once   sync.Once
	err    error // of the release
}

// Own waits until shard is ours, without polling, and keeps it by renewing a lease of
// ttl, rounded up to whole seconds (etcd's least is about two election timeouts). ctx
// bounds only the wait. Unavailable when etcd does not answer: call again.
//
// A key that holder itself holds is taken over at once, so that a process that was
// restarted need not wait for the lease of its former life. holder must therefore be
// unique among the processes that run at the same time; a constant is right for a
// process that is alone on its embedded store.
//
// A lease is no mutual exclusion: the former owner may not know yet that it lost. Every
// write must carry Fence, see PutPairs and Fenced.
func (s *Store) Own(ctx context.Context, shard, holder string, ttl time.Duration) (*Ownership, error) {
	if err := checkParts(shard, holder); err != nil {
		return nil, err
	}
	for c := (claim{s: s, shard: shard, holder: holder}); ; {
		if err := c.awaitFree(ctx); err != nil {
			return nil, err
		}
		l, err := s.rent(ctx, shard, ttl)
		if err != nil {
			return nil, err
		}
		o, err := c.take(ctx, l)
		if o != nil {
			return o, nil
		}
		_ = l.end(ctx)
		if err != nil {
			return nil, err
		}
	}
}

// claim is the wish to own a shard.
type claim struct {
	s      *Store
	shard  string
	holder string
	lease  *lease // that carries all that this process owns; nil if each shard has its own
	member Fence  // of the membership that lives on that lease
	held   func() // told when another holder is in the way; may be nil
}

func (c claim) key() string { return c.s.key("own", c.shard) }

// awaitFree returns when nobody owns the shard.
func (c claim) awaitFree(ctx context.Context) error {
	for {
		r, err := c.s.get(ctx, c.key())
		if err != nil || len(r.Kvs) == 0 {
			return err
		}
		if string(r.Kvs[0].Value) == c.holder {
			err = c.evict(ctx, r.Kvs[0])
		} else {
			if c.held != nil {
				c.held()
			}
			err = c.s.awaitGone(ctx, c.key(), r.Header.Revision+1)
		}
		if err != nil {
			return err
		}
	}
}

// take creates the key on a lease; nil if someone else was faster. After an error it may have
// been created, or still be: that ends with the lease, or when drop has returned.
func (c claim) take(ctx context.Context, l *lease) (*Ownership, error) {
	key := c.key()
	absent := clientv3.Compare(clientv3.CreateRevision(key), "=", 0)
	rev, ok, err := c.s.Fenced(c.member).commit(ctx, key, []clientv3.Cmp{absent}, []clientv3.Op{clientv3.OpPut(key, c.holder, clientv3.WithLease(l.id))})
	if err != nil || !ok {
		return nil, err
	}
	return &Ownership{s: c.s, fence: newFence(key, c.shard, rev), lease: l, shared: l == c.lease}, nil
}

// drop sees to it that the shard is not on the lease of the membership, whoever knows that
// it was. A claim that was called off may have been made; once drop has returned nil, it
// will not be any more.
func (c claim) drop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), letGo)
	defer cancel()
	key := c.key()
	ours := clientv3.Compare(clientv3.LeaseValue(key), "=", c.lease.id)
	_, _, err := c.s.Fenced(c.member).commit(ctx, key, []clientv3.Cmp{ours}, []clientv3.Op{clientv3.OpDelete(key)})
	return err
}

// evict removes the key of a former life of ours, or one that we failed to release.
func (c claim) evict(ctx context.Context, kv *mvccpb.KeyValue) error {
	ours := c.lease != nil && clientv3.LeaseID(kv.Lease) == c.lease.id
	if kv.Lease != 0 && !ours {
		return c.s.revoke(ctx, string(kv.Key), clientv3.LeaseID(kv.Lease))
	}
	same := clientv3.Compare(clientv3.ModRevision(string(kv.Key)), "=", kv.ModRevision)
	_, _, err := c.s.commit(ctx, string(kv.Key), []clientv3.Cmp{same}, []clientv3.Op{clientv3.OpDelete(string(kv.Key))})
	return err
}

// lease is a lease that is renewed in a goroutine until it is lost or ended.
type lease struct {
	s      *Store
	id     clientv3.LeaseID
	what   string             // it is for
	cancel context.CancelFunc // ends the renewal
	lost   chan struct{}      // closed when the renewal has ended
}

func (s *Store) rent(ctx context.Context, what string, ttl time.Duration) (*lease, error) {
	asking, cancel := s.bounded(ctx)
	defer cancel()
	granted, err := s.c.Grant(asking, max(1, int64((ttl+time.Second-1)/time.Second)))
	if err != nil {
		return nil, classify("own", what, err)
	}
	s.onOp("lease", 0)
	l := &lease{s: s, id: granted.ID, what: what, lost: make(chan struct{})}
	ctx, l.cancel = context.WithCancel(context.WithoutCancel(ctx))
	renewals, err := s.c.KeepAlive(ctx, l.id)
	if err != nil {
		l.cancel()
		_ = s.revoke(ctx, what, l.id)
		return nil, classify("own", what, err)
	}
	go func() {
		defer close(l.lost)
		defer l.cancel()
		for range renewals {
			s.onOp("lease", 0)
		}
	}()
	return l, nil
}

// end stops the renewal and gives up all that is on the lease. One that was lost is
// gone, or ends by itself.
func (l *lease) end(ctx context.Context) error {
	select {
	case <-l.lost:
		return nil
	default:
		l.cancel()
	}
	<-l.lost
	return l.s.revoke(ctx, l.what, l.id)
}

// revoke ends a lease, and with it the keys on it. It is tried even if ctx has ended;
// should it fail, the lease ends by itself after its ttl.
func (s *Store) revoke(ctx context.Context, what string, id clientv3.LeaseID) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), letGo)
	defer cancel()
	_, err := s.c.Revoke(ctx, id)
	if err == nil || errors.Is(err, rpctypes.ErrLeaseNotFound) {
		s.onOp("lease", 0)
		return nil
	}
	return classify("release", what, err)
}

// letGo bounds giving up a lease or a shard when the process is about to end.
const letGo = 5 * time.Second

// awaitGone returns once key was deleted at revision from or later, or cannot be
// watched any longer; the caller looks again in both cases.
func (s *Store) awaitGone(ctx context.Context, key string, from int64) error {
	watching, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	for r := range s.c.Watch(watching, key, clientv3.WithRev(from), clientv3.WithFilterPut()) {
		if err := r.Err(); err != nil && !errors.Is(err, rpctypes.ErrCompacted) {
			return classify("own", key, err)
		}
		if len(r.Events) > 0 || r.CompactRevision != 0 {
			return nil
		}
	}
	if ctx.Err() != nil {
		return classify("own", key, ctx.Err())
	}
	return errs.E(errs.Unavailable, "own", key, errors.New("the watch ended"))
}

// Fence returns the proof of this ownership.
func (o *Ownership) Fence() Fence { return o.fence }

// Lost is closed once the lease that carries the ownership is gone: it ran out, was
// taken over or ended.
func (o *Ownership) Lost() <-chan struct{} { return o.lease.lost }

// Release gives the shard up, so that the next owner need not wait. Calling it again
// returns the same answer.
func (o *Ownership) Release(ctx context.Context) error {
	o.once.Do(func() {
		if o.shared {
			o.err = o.leave(ctx)
		} else {
			o.err = o.lease.end(ctx)
		}
	})
	return o.err
}

// leave removes the shard's key and lets the lease live on for others.
func (o *Ownership) leave(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), letGo)
	defer cancel()
	_, _, err := o.s.commit(ctx, o.fence.key, []clientv3.Cmp{o.fence.cmp()}, []clientv3.Op{clientv3.OpDelete(o.fence.key)})
	return err
}
