package appcontext

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

// Limits of what is sent to etcd in one piece. etcd itself refuses requests above
// 1.5 MiB and transactions above 128 operations; we stay below both with room to spare.
const (
	maxValue    = 256 << 10 // bytes in one value
	maxOps      = 128       // operations in one transaction
	maxTxnBytes = 1 << 20   // bytes of keys and values in one transaction
	maxPage     = 1000      // keys in one page of a list
	pageBytes   = 2 << 20   // bytes that a page of values aims at
)

// requestTime bounds one request to etcd.
const requestTime = 10 * time.Second

// Store is the typed view of the shared state. It is safe for use by many
// goroutines, holds no goroutine of its own and does not own the client.
//
// Errors carry a kind: NotFound, Conflict (someone else was faster, or ErrFenced),
// Invalid and TooLarge for what cannot be stored, Unavailable when etcd could not be
// reached in time (a write may have happened nevertheless, or still happen: read before
// trying again; see Fence for when that ends), and Internal for records that cannot be read.
type Store struct {
	c        *clientv3.Client
	prefix   string
	fence    Fence
	onOp     func(kind string, bytes int)
	onFence  func()
	log      *slog.Logger
	now      func() time.Time
	grace    time.Duration
	patience time.Duration // with one request
	blobs    *lru[Digest, []byte]
	bundles  *lru[Digest, Bundle]
	places   *lru[string, []Placement] // by the key that theirs begin with
}

// Option changes how a Store works.
type Option func(*Store)

// WithOnOp has f called after each request to etcd with its kind ("get", "list",
// "txn", "watch", "lease") and the bytes of keys and values that it carried. f must be
// quick and safe for use by many goroutines.
func WithOnOp(f func(kind string, bytes int)) Option { return func(s *Store) { s.onOp = f } }

// WithOnFenced has f called for each write that was refused because its owner had lost
// the shard. f must be quick and safe for use by many goroutines.
func WithOnFenced(f func()) Option { return func(s *Store) { s.onFence = f } }

// WithCache bounds the memory for content and placements that were read or written, in bytes.
// The default is 64 MiB; 0 switches the cache off.
func WithCache(bytes int) Option {
	return func(s *Store) {
		s.blobs = newLRU[Digest, []byte](bytes / 2)
		s.bundles = newLRU[Digest, Bundle](bytes / 4)
		s.places = newLRU[string, []Placement](bytes / 4)
	}
}

// WithLog has lost watches and the like logged to l. The default logs nothing.
func WithLog(l *slog.Logger) Option { return func(s *Store) { s.log = l } }

// WithGrace sets how long Sweep keeps a revision that was replaced, and what a publish
// that never ended left behind. The default is one hour; it must be longer than any
// reader needs from reading a head to writing a pair.
func WithGrace(d time.Duration) Option { return func(s *Store) { s.grace = d } }

// WithClock replaces the clock that Sweep and Publish read.
func WithClock(now func() time.Time) Option { return func(s *Store) { s.now = now } }

// New returns the state that lives in etcd below prefix. The client stays the
// caller's to close, after everything that uses the Store has ended.
func New(c *clientv3.Client, prefix string, opts ...Option) *Store {
	s := &Store{
		c: c, prefix: strings.TrimSuffix(prefix, "/") + "/",
		onOp:     func(string, int) {},
		onFence:  func() {},
		log:      slog.New(slog.DiscardHandler),
		now:      time.Now,
		grace:    time.Hour,
		patience: requestTime,
	}
	WithCache(64 << 20)(s)
	for _, o := range opts {
		o(s)
	}
	return s
}

// Fenced returns a view of the same store of which every write is refused with
// ErrFenced once own was lost. The zero Fence changes nothing.
func (s *Store) Fenced(own Fence) *Store {
	if own == (Fence{}) {
		return s
	}
	view := *s
	view.fence = own
	return &view
}

// Ready says why the store cannot be used now: etcd does not answer, or has raised an
// alarm, as it does when its quota is used up and it only serves reads.
func (s *Store) Ready(ctx context.Context) error {
	if _, err := s.get(ctx, s.prefix, clientv3.WithKeysOnly()); err != nil {
		return err
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	alarms, err := s.c.AlarmList(ctx)
	if errors.Is(err, rpctypes.ErrPermissionDenied) {
		return nil // a user that may read and write our keys need not see alarms
	}
	if err != nil {
		return classify("read", "alarms", err)
	}
	for _, a := range alarms.Alarms {
		return errs.E(errs.Unavailable, "check", "etcd", alarmed(a.Alarm))
	}
	return nil
}

func alarmed(a etcdserverpb.AlarmType) error {
	if a == etcdserverpb.AlarmType_NOSPACE {
		return fmt.Errorf("alarm %s is raised: %w", a, ErrFull)
	}
	return fmt.Errorf("alarm %s is raised; see to the member that raised it, then disarm it", a)
}
