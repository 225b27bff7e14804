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

// ErrFenced says that a write was refused because the shard has another owner now. It
// comes wrapped in a Conflict.
var ErrFenced = errors.New("ownership was lost")

// Fence proves an ownership to etcd: a write that carries it is refused once the
// ownership is gone, however long the writer was asleep. The zero Fence proves nothing
// and fences nothing.
type Fence struct {
	key string
	rev int64
}

// cmp holds as long as the ownership does.
func (f Fence) cmp() clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(f.key), "=", f.rev)
}

func (f Fence) holds(kvs []*mvccpb.KeyValue) bool {
	return len(kvs) == 1 && kvs[0].CreateRevision == f.rev
}

// Ownership is a shard that is ours until its lease is lost or released.
type Ownership struct {
	s      *Store
	fence  Fence
	lease  clientv3.LeaseID
	cancel context.CancelFunc // ends the renewal
	lost   chan struct{}
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
	for key := s.key("own", shard); ; {
		r, err := s.get(ctx, key)
		if err != nil {
			return nil, err
		}
		if len(r.Kvs) == 0 {
			o, err := s.claim(ctx, key, holder, ttl)
			if o != nil || err != nil {
				return o, err
			}
			continue
		}
		if string(r.Kvs[0].Value) == holder {
			err = s.evict(ctx, r.Kvs[0])
		} else {
			err = s.awaitGone(ctx, key, r.Header.Revision+1)
		}
		if err != nil {
			return nil, err
		}
	}
}

// claim creates the key on a lease of its own; nil if someone else was faster.
func (s *Store) claim(ctx context.Context, key, holder string, ttl time.Duration) (*Ownership, error) {
	seconds := max(1, int64((ttl+time.Second-1)/time.Second))
	lease, err := s.c.Grant(ctx, seconds)
	if err != nil {
		return nil, classify("own", key, err)
	}
	s.onOp("lease", 0)
	absent := clientv3.Compare(clientv3.CreateRevision(key), "=", 0)
	rev, ok, err := s.commit(ctx, key, []clientv3.Cmp{absent}, []clientv3.Op{clientv3.OpPut(key, holder, clientv3.WithLease(lease.ID))})
	if err != nil || !ok {
		s.revoke(ctx, key, lease.ID)
		return nil, err
	}
	return s.keep(Fence{key: key, rev: rev}, lease.ID)
}

// keep renews the lease in a goroutine that Release waits for.
func (s *Store) keep(f Fence, lease clientv3.LeaseID) (*Ownership, error) {
	ctx, cancel := context.WithCancel(context.Background())
	renewals, err := s.c.KeepAlive(ctx, lease)
	if err != nil {
		cancel()
		return nil, classify("own", f.key, err)
	}
	o := &Ownership{s: s, fence: f, lease: lease, cancel: cancel, lost: make(chan struct{})}
	go func() {
		defer close(o.lost)
		defer cancel()
		for range renewals {
			s.onOp("lease", 0)
		}
	}()
	return o, nil
}

// revoke ends a lease, and with it the key on it. It is tried even if ctx has ended;
// should it fail, the lease ends by itself after its ttl.
func (s *Store) revoke(ctx context.Context, key string, lease clientv3.LeaseID) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	_, err := s.c.Revoke(ctx, lease)
	if err == nil || errors.Is(err, rpctypes.ErrLeaseNotFound) {
		s.onOp("lease", 0)
		return nil
	}
	return classify("release", key, err)
}

// evict removes the key of a former life of ours.
func (s *Store) evict(ctx context.Context, kv *mvccpb.KeyValue) error {
	if kv.Lease != 0 {
		return s.revoke(ctx, string(kv.Key), clientv3.LeaseID(kv.Lease))
	}
	same := clientv3.Compare(clientv3.ModRevision(string(kv.Key)), "=", kv.ModRevision)
	_, _, err := s.commit(ctx, string(kv.Key), []clientv3.Cmp{same}, []clientv3.Op{clientv3.OpDelete(string(kv.Key))})
	return err
}

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

// Lost is closed once the ownership is gone: the lease ran out, was taken over or
// released.
func (o *Ownership) Lost() <-chan struct{} { return o.lost }

// Release gives the shard up, so that the next owner need not wait, and ends the
// renewal. Calling it again returns the same answer.
func (o *Ownership) Release(ctx context.Context) error {
	o.once.Do(func() {
		o.cancel()
		<-o.lost
		o.err = o.s.revoke(ctx, o.fence.key, o.lease)
	})
	return o.err
}
