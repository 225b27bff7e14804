package shards

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
)

// releaseTimeout bounds giving up a lease or a shard when the process is about to end.
const releaseTimeout = 5 * time.Second

// Ownership is a shard that is ours until its lease is lost or it is released.
type Ownership struct {
	kv     *etcdkv.Client
	fence  etcdkv.Fence
	lease  *lease
	shared bool // the lease carries other keys too
	once   sync.Once
	err    error // of the release; written within once
}

// Own waits, without polling, until the shard is ours, and keeps it by renewing a lease of
// ttl, rounded up to whole seconds (etcd's minimum is about two election timeouts). ctx
// bounds only the wait. Unavailable when etcd does not answer: call again.
//
// A key that holder itself holds is taken over at once, so that a restarted process need
// not wait for the lease of its previous run. holder must therefore be unique among the
// processes that run at the same time; a constant is right for a process that is alone on
// its embedded store.
func Own(ctx context.Context, kv *etcdkv.Client, shard, holder string, ttl time.Duration) (*Ownership, error) {
	if err := etcdkv.CheckParts(shard, holder); err != nil {
		return nil, err
	}
	for c := (claim{kv: kv, shard: shard, holder: holder}); ; {
		if err := c.awaitFree(ctx); err != nil {
			return nil, err
		}
		l, err := grantLease(ctx, kv, shard, ttl)
		if err != nil {
			return nil, err
		}
		o, err := c.acquire(ctx, l)
		if o != nil {
			return o, nil
		}
		_ = l.end(ctx)
		if err != nil {
			return nil, err
		}
	}
}

// Fence returns the proof of this ownership.
func (o *Ownership) Fence() etcdkv.Fence { return o.fence }

// Lost is closed once the lease that carries the ownership is gone: it expired, was
// revoked or ended.
func (o *Ownership) Lost() <-chan struct{} { return o.lease.lost }

// Release gives the shard up, so that the next owner need not wait. Calling it again
// returns the same answer.
func (o *Ownership) Release(ctx context.Context) error {
	o.once.Do(func() {
		if o.shared {
			o.err = o.deleteKey(ctx)
		} else {
			o.err = o.lease.end(ctx)
		}
	})
	return o.err
}

// deleteKey removes the shard's key and keeps the lease for its other keys.
func (o *Ownership) deleteKey(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	key := o.fence.Key()
	_, _, err := o.kv.Commit(ctx, key, []clientv3.Cmp{o.fence.Cmp()}, []clientv3.Op{clientv3.OpDelete(key)})
	return err
}

// claim is the attempt of one holder to own a shard.
type claim struct {
	kv     *etcdkv.Client
	shard  string
	holder string
	lease  *lease       // that carries all keys of this process; nil if each shard has its own
	member etcdkv.Fence // of the membership that lives on that lease
	onHeld func()       // called when another holder has the shard; may be nil
}

func (c claim) key() string { return c.kv.Key("own", c.shard) }

// awaitFree returns when the shard has no owner.
func (c claim) awaitFree(ctx context.Context) error {
	for {
		r, err := c.kv.Get(ctx, c.key())
		if err != nil || len(r.Kvs) == 0 {
			return err
		}
		if string(r.Kvs[0].Value) == c.holder {
			err = c.evict(ctx, r.Kvs[0])
		} else {
			if c.onHeld != nil {
				c.onHeld()
			}
			err = awaitDeletion(ctx, c.kv, c.key(), r.Header.Revision+1)
		}
		if err != nil {
			return err
		}
	}
}

// acquire creates the key on a lease; nil if another process was faster. After an error
// the key may exist, or may still be created: that ends with the lease, or when drop has
// returned nil.
func (c claim) acquire(ctx context.Context, l *lease) (*Ownership, error) {
	key := c.key()
	absent := clientv3.Compare(clientv3.CreateRevision(key), "=", 0)
	rev, ok, err := c.kv.Fenced(c.member).Commit(ctx, key, []clientv3.Cmp{absent}, []clientv3.Op{clientv3.OpPut(key, c.holder, clientv3.WithLease(l.id))})
	if err != nil || !ok {
		return nil, err
	}
	return &Ownership{kv: c.kv, fence: etcdkv.NewFence(key, c.shard, rev, rev), lease: l, shared: l == c.lease}, nil
}

// drop removes the key if it is on the lease of the membership. An acquire that was given
// up may have been made; once drop has returned nil, it can no longer be made.
func (c claim) drop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	key := c.key()
	ours := clientv3.Compare(clientv3.LeaseValue(key), "=", c.lease.id)
	_, _, err := c.kv.Fenced(c.member).Commit(ctx, key, []clientv3.Cmp{ours}, []clientv3.Op{clientv3.OpDelete(key)})
	return err
}

// evict removes the key of a previous run of this process, or one that it failed to
// release.
func (c claim) evict(ctx context.Context, kv *mvccpb.KeyValue) error {
	ours := c.lease != nil && clientv3.LeaseID(kv.Lease) == c.lease.id
	if kv.Lease != 0 && !ours {
		return revoke(ctx, c.kv, string(kv.Key), clientv3.LeaseID(kv.Lease))
	}
	same := clientv3.Compare(clientv3.ModRevision(string(kv.Key)), "=", kv.ModRevision)
	_, _, err := c.kv.Commit(ctx, string(kv.Key), []clientv3.Cmp{same}, []clientv3.Op{clientv3.OpDelete(string(kv.Key))})
	return err
}

// awaitDeletion returns once key was deleted at revision from or later, or can no longer
// be watched; the caller reads it again in both cases.
func awaitDeletion(ctx context.Context, kv *etcdkv.Client, key string, from int64) error {
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	for r := range kv.Stream(watching, key, clientv3.WithRev(from), clientv3.WithFilterPut()) {
		if err := r.Err(); err != nil && !errors.Is(err, rpctypes.ErrCompacted) {
			return etcdkv.Classify("own", key, err)
		}
		if len(r.Events) > 0 || r.CompactRevision != 0 {
			return nil
		}
	}
	if ctx.Err() != nil {
		return etcdkv.Classify("own", key, ctx.Err())
	}
	return errs.E(errs.Unavailable, "own", key, errors.New("the watch ended"))
}

// lease is a lease in etcd. A goroutine renews it until it is lost or ended.
type lease struct {
	kv      *etcdkv.Client
	id      clientv3.LeaseID
	purpose string             // for errors
	cancel  context.CancelFunc // ends the renewal
	lost    chan struct{}      // closed when the renewal has ended
}

func grantLease(ctx context.Context, kv *etcdkv.Client, purpose string, ttl time.Duration) (*lease, error) {
	granting, cancel := kv.Bounded(ctx)
	defer cancel()
	granted, err := kv.Etcd().Grant(granting, max(1, int64((ttl+time.Second-1)/time.Second)))
	if err != nil {
		return nil, etcdkv.Classify("own", purpose, err)
	}
	kv.CountRequest("lease", 0)
	l := &lease{kv: kv, id: granted.ID, purpose: purpose, lost: make(chan struct{})}
	ctx, l.cancel = context.WithCancel(context.WithoutCancel(ctx))
	renewals, err := kv.Etcd().KeepAlive(ctx, l.id)
	if err != nil {
		l.cancel()
		_ = revoke(ctx, kv, purpose, l.id)
		return nil, etcdkv.Classify("own", purpose, err)
	}
	go func() { // ends when etcd has ended the lease, or with l.cancel
		defer close(l.lost)
		defer l.cancel()
		for range renewals {
			kv.CountRequest("lease", 0)
		}
	}()
	return l, nil
}

// held reports whether the lease lives, as far as this process knows.
func (l *lease) held() bool {
	select {
	case <-l.lost:
		return false
	default:
		return true
	}
}

// retry calls write until etcd accepts it, or the lease is lost. On a full disk etcd refuses to write and grants
// leases, so a lease for each attempt would use up what is left.
func (l *lease) retry(ctx context.Context, write func() error) error {
	for {
		err := write()
		if !errs.Is(err, errs.Unavailable) {
			return err
		}
		l.kv.Log().Warn("a key on a lease cannot be written yet", "purpose", l.purpose, "err", err)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-l.lost:
			return errLeaseLost
		case <-time.After(retryPause):
		}
	}
}

// end stops the renewal and gives up all keys on the lease. A lease that was lost has
// ended, or ends soon without help.
func (l *lease) end(ctx context.Context) error {
	select {
	case <-l.lost:
		return nil
	default:
		l.cancel()
	}
	<-l.lost
	return revoke(ctx, l.kv, l.purpose, l.id)
}

// revoke ends a lease, and with it the keys on it. It is tried even if ctx has ended; if
// it fails, the lease expires after its ttl.
func revoke(ctx context.Context, kv *etcdkv.Client, purpose string, id clientv3.LeaseID) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	_, err := kv.Etcd().Revoke(ctx, id)
	if err == nil || errors.Is(err, rpctypes.ErrLeaseNotFound) {
		kv.CountRequest("lease", 0)
		return nil
	}
	return etcdkv.Classify("release", purpose, err)
}
