package appcontext

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

// ErrFenced says that a write was refused because the shard has another owner now. It
// comes wrapped in a Conflict.
var ErrFenced = errors.New("ownership was lost")

// Fence proves an ownership to etcd: a write that carries it is refused once the
// ownership is gone, however long the writer was asleep. The zero Fence proves nothing
// and fences nothing.
//
// It also keeps the writes of one owner in order: one that etcd did not answer may still
// be made, but not any more once a later one that carries the same Fence was answered.
type Fence struct {
	key     string
	shard   string
	rev     int64    // at which the key was created
	barrier *barrier // shared by all who write by this ownership
}

// Shard is what is owned, "" for the zero Fence.
func (f Fence) Shard() string { return f.shard }

// Token is higher for each later owner of the shard.
func (f Fence) Token() int64 { return f.rev }

// String names the shard and a number that is higher for each later owner of it:
// "rsync-03:4711". It is empty for the zero Fence.
func (f Fence) String() string {
	if f == (Fence{}) {
		return ""
	}
	return fmt.Sprintf("%s:%d", f.shard, f.rev)
}

// newFence is the proof of a key that was created at a revision, and not written since.
func newFence(key, shard string, rev int64) Fence {
	return Fence{key: key, shard: shard, rev: rev, barrier: &barrier{at: rev}}
}

// cmp holds as long as the ownership does.
func (f Fence) cmp() clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(f.key), "=", f.rev)
}

func (f Fence) holds(kvs []*mvccpb.KeyValue) bool {
	return len(kvs) == 1 && kvs[0].CreateRevision == f.rev
}

// Holds asks etcd whether an ownership still stands, for what is written elsewhere;
// ErrFenced if it does not. The zero Fence always holds.
func (s *Store) Holds(ctx context.Context, f Fence) error {
	if f == (Fence{}) {
		return nil
	}
	r, err := s.get(ctx, f.key, clientv3.WithKeysOnly())
	if err == nil && !f.holds(r.Kvs) {
		err = errs.E(errs.Conflict, "own", f.shard, ErrFenced)
	}
	return err
}

// barrier is how far the key of an ownership was raised. Each write demands that the key
// was last written at the revision that its sender knew. Writing the key once more, as it
// is, therefore ends all that was sent before, wherever it is: that is what the owner does
// when nobody told it what became of a write.
type barrier struct {
	mu   sync.Mutex
	at   int64 // etcd revision at which the key was written last, as far as is known
	open int64 // the newest such revision by which a write was sent that was not answered
}

// stand returns the revision to write by, and whether the key must be raised first.
func (b *barrier) stand() (at int64, raise bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.at, b.open >= b.at
}

// doubt notes that a write by a revision was not answered.
func (b *barrier) doubt(at int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open = max(b.open, at)
}

// raised notes that the key was written at a revision.
func (b *barrier) raised(at int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.at = max(b.at, at)
}

// fenced runs a transaction as commit does, by the store's fence. What is refused only
// because the key was raised meanwhile was not done, and is sent again.
func (s *Store) fenced(ctx context.Context, q request) (rev int64, ok bool, err error) {
	for again := true; again; {
		at, err := s.calm(ctx, q.subject)
		if err != nil {
			return 0, false, err
		}
		if rev, ok, again, err = s.sendBy(ctx, at, q); err != nil {
			return 0, false, err
		}
	}
	return rev, ok, nil
}

// Calm returns once no write by own that was not answered can be made any more: what is
// read afterwards stays until somebody writes anew. ErrFenced if own was lost; the zero
// Fence promises nothing.
func (s *Store) Calm(ctx context.Context, own Fence) error {
	if own == (Fence{}) {
		return nil
	}
	_, err := s.Fenced(own).calm(ctx, own.shard)
	return err
}

// calm returns the revision to write by, once nothing that was not answered can be made
// any more. Of several that raise the key at a time one does it, and the others see that.
func (s *Store) calm(ctx context.Context, subject string) (int64, error) {
	b := s.fence.barrier
	for {
		at, raise := b.stand()
		if !raise {
			return at, nil
		}
		same := clientv3.OpPut(s.fence.key, "", clientv3.WithIgnoreValue(), clientv3.WithIgnoreLease())
		rev, ok, _, err := s.sendBy(ctx, at, request{subject: subject, then: []clientv3.Op{same}})
		if err != nil {
			return 0, err
		}
		if ok {
			b.raised(rev)
		}
	}
}

// sendBy sends a transaction that is refused unless the key of the ownership is as it was
// written at a revision. moved says that it was refused although the ownership stands,
// because the key was raised.
func (s *Store) sendBy(ctx context.Context, at int64, q request) (rev int64, ok, moved bool, err error) {
	f := s.fence
	q.cmps = append(q.cmps[:len(q.cmps):len(q.cmps)], clientv3.Compare(clientv3.ModRevision(f.key), "=", at))
	q.orElse = []clientv3.Op{clientv3.OpGet(f.key, clientv3.WithKeysOnly())}
	r, err := s.send(ctx, q)
	if err != nil {
		if !refusal(err) {
			f.barrier.doubt(at)
		}
		return 0, false, false, err
	}
	if r.Succeeded {
		return r.Header.Revision, true, false, nil
	}
	kvs := r.Responses[0].GetResponseRange().Kvs
	if !f.holds(kvs) {
		s.onFence()
		return 0, false, false, errs.E(errs.Conflict, "write", q.subject, ErrFenced)
	}
	f.barrier.raised(kvs[0].ModRevision)
	return r.Header.Revision, false, kvs[0].ModRevision != at, nil
}

// refusal reports whether an error is etcd's own word that a transaction was not and will
// not be made. Whatever else ends a request leaves that open.
func refusal(err error) bool {
	e, ok := errors.AsType[rpctypes.EtcdError](err)
	if !ok {
		return false
	}
	switch e.Code() {
	case codes.InvalidArgument, codes.FailedPrecondition, codes.OutOfRange, codes.NotFound,
		codes.PermissionDenied, codes.Unauthenticated, codes.ResourceExhausted:
		return true
	}
	return false
}
