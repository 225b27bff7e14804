package etcdkv

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

// ErrFenced reports that a write was refused because the shard has another owner now. It
// comes wrapped in a Conflict.
var ErrFenced = errors.New("ownership was lost")

// Fence proves an ownership to etcd: a write that carries it is refused once the
// ownership is lost, however long the writer slept. The zero Fence fences nothing.
//
// It also keeps the writes of one owner in order: a write that etcd did not answer may
// still be made, but no longer once a later write with the same Fence was answered.
type Fence struct {
	key   string
	shard string
	rev   int64       // at which the key was created
	state *fenceState // shared by all who write by this ownership
}

// fenceState tracks when the key of an ownership was last written. Each write requires
// that the key was last written at the revision that its sender knew. Writing the key once
// more, unchanged, therefore ends all writes that were sent before, wherever they are: the
// owner does that after a write that was not answered.
type fenceState struct {
	mu         sync.Mutex
	written    int64 // etcd revision at which the key was last written, as far as is known; guarded by mu
	unanswered int64 // the newest value of written that an unanswered write was sent with; guarded by mu
}

// NewFence returns the proof of a key that was created at one revision and last written at
// another.
func NewFence(key, shard string, created, written int64) Fence {
	return Fence{key: key, shard: shard, rev: created, state: &fenceState{written: written}}
}

// IsZero reports whether f fences nothing.
func (f Fence) IsZero() bool { return f == Fence{} }

// Key is the key whose life is the ownership.
func (f Fence) Key() string { return f.key }

// Shard is the shard that is owned, "" for the zero Fence.
func (f Fence) Shard() string { return f.shard }

// Token is higher for each later owner of the shard.
func (f Fence) Token() int64 { return f.rev }

// String returns the shard and the token: "rsync-03:4711". It is empty for the zero Fence.
func (f Fence) String() string {
	if f.IsZero() {
		return ""
	}
	return fmt.Sprintf("%s:%d", f.shard, f.rev)
}

// Cmp holds while the ownership does.
func (f Fence) Cmp() clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(f.key), "=", f.rev)
}

func (f Fence) holds(kvs []*mvccpb.KeyValue) bool {
	return len(kvs) == 1 && kvs[0].CreateRevision == f.rev
}

// next returns the revision to write by, and whether the key must be written first.
func (s *fenceState) next() (at int64, renew bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.written, s.unanswered >= s.written
}

// notAnswered records that a write by a revision was not answered.
func (s *fenceState) notAnswered(at int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unanswered = max(s.unanswered, at)
}

// renewed records that the key was written at a revision.
func (s *fenceState) renewed(at int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.written = max(s.written, at)
}

// Fenced returns a view whose writes are refused with ErrFenced once own is lost. The
// zero Fence changes nothing.
func (c *Client) Fenced(own Fence) *Client {
	if own.IsZero() {
		return c
	}
	view := *c
	view.fence = own
	return &view
}

// Holds asks etcd whether an ownership still stands, for writes elsewhere; ErrFenced if it
// does not. The zero Fence always holds.
func (c *Client) Holds(ctx context.Context, f Fence) error {
	if f.IsZero() {
		return nil
	}
	r, err := c.Get(ctx, f.key, clientv3.WithKeysOnly())
	if err == nil && !f.holds(r.Kvs) {
		err = errs.E(errs.Conflict, "own", f.shard, ErrFenced)
	}
	return err
}

// Barrier returns once no unanswered write by own can still be made: what is read
// afterwards changes only by later writes. ErrFenced if own is lost; the zero Fence
// promises nothing.
func (c *Client) Barrier(ctx context.Context, own Fence) error {
	if own.IsZero() {
		return nil
	}
	_, err := c.Fenced(own).barrier(ctx, own.shard)
	return err
}

// commitFenced runs a transaction by the client's fence. A transaction that was refused
// only because the fence key was renewed meanwhile was not made, and is sent again.
func (c *Client) commitFenced(ctx context.Context, t transaction) (rev int64, ok bool, err error) {
	for again := true; again; {
		at, err := c.barrier(ctx, t.subject)
		if err != nil {
			return 0, false, err
		}
		if rev, ok, again, err = c.sendAt(ctx, at, t); err != nil {
			return 0, false, err
		}
	}
	return rev, ok, nil
}

// barrier returns the revision to write by, once no unanswered write can still be made. Of
// several callers one renews the key, and the others see that.
func (c *Client) barrier(ctx context.Context, subject string) (int64, error) {
	state := c.fence.state
	for {
		at, renew := state.next()
		if !renew {
			return at, nil
		}
		same := clientv3.OpPut(c.fence.key, "", clientv3.WithIgnoreValue(), clientv3.WithIgnoreLease())
		rev, ok, _, err := c.sendAt(ctx, at, transaction{subject: subject, then: []clientv3.Op{same}})
		if err != nil {
			return 0, err
		}
		if ok {
			state.renewed(rev)
		}
	}
}

// sendAt sends a transaction that is refused unless the fence key was last written at a
// revision. renewed reports that it was refused although the ownership stands, because the
// key was renewed.
func (c *Client) sendAt(ctx context.Context, at int64, t transaction) (rev int64, ok, renewed bool, err error) {
	f := c.fence
	t.cmps = append(t.cmps[:len(t.cmps):len(t.cmps)], clientv3.Compare(clientv3.ModRevision(f.key), "=", at))
	t.orElse = []clientv3.Op{clientv3.OpGet(f.key, clientv3.WithKeysOnly())}
	r, err := c.send(ctx, t)
	if err != nil {
		if !isRefusal(err) {
			f.state.notAnswered(at)
		}
		return 0, false, false, err
	}
	if r.Succeeded {
		return r.Header.Revision, true, false, nil
	}
	kvs := r.Responses[0].GetResponseRange().Kvs
	if !f.holds(kvs) {
		c.o.OnFenced()
		return 0, false, false, errs.E(errs.Conflict, "write", t.subject, ErrFenced)
	}
	f.state.renewed(kvs[0].ModRevision)
	return r.Header.Revision, false, kvs[0].ModRevision != at, nil
}

// isRefusal reports whether an error is etcd's own answer that a transaction was not made
// and will not be made. Every other end of a request leaves that open.
func isRefusal(err error) bool {
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
