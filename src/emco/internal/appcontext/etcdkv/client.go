// Package etcdkv reads, writes and watches values in etcd, below one prefix. It bounds each
// request, gives errors a kind, fences writes by an ownership, and keeps a watch going over
// lost connections and compactions. Each transaction drops the read point of its context.
// Encode, Decode, Read and Records are for records in JSON. The package does not know the
// content of records.
//
// Errors carry a kind: NotFound, Conflict (with ErrFenced), Invalid and TooLarge for what
// cannot be stored, Unavailable when etcd did not answer in time (a write may have been
// made, or may still be made: read before trying again; see Fence for when that ends), and
// Internal for records that cannot be read.
package etcdkv

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
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

// Limits of one request. etcd refuses requests above 1.5 MiB and transactions above 128
// operations.
const (
	MaxValue    = 256 << 10 // bytes in one value
	MaxOps      = 128       // operations in one transaction
	MaxTxnBytes = 1 << 20   // bytes of keys and values in one transaction

	firstPage = 32      // keys in the first page of a list of values
	maxPage   = 1000    // keys in one page of a list
	pageBytes = 2 << 20 // bytes that a page of values aims at
)

// requestTimeout is the default of Options.Timeout.
const requestTimeout = 10 * time.Second

// Options configures a Client. The functions must be quick and safe for use by many
// goroutines.
type Options struct {
	OnRequest func(kind string, bytes int) // called after each request: "get", "list", "txn", "watch" or "lease", and the bytes of its keys and values
	OnFenced  func()                       // called for each write that was refused because its owner had lost the shard
	Log       *slog.Logger                 // gets interrupted watches; nil is none
	Timeout   time.Duration                // of one request; 0 is ten seconds
}

// Client is a view of the keys below one prefix. It is safe for use by many goroutines,
// starts none, and does not own the etcd client.
type Client struct {
	etcd   *clientv3.Client
	prefix string // ends in "/"
	fence  Fence  // of all writes; zero: they are not fenced
	o      Options
}

// New returns a client for the keys below prefix.
func New(etcd *clientv3.Client, prefix string, o Options) *Client {
	if o.OnRequest == nil {
		o.OnRequest = func(string, int) {}
	}
	if o.OnFenced == nil {
		o.OnFenced = func() {}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Timeout == 0 {
		o.Timeout = requestTimeout
	}
	return &Client{etcd: etcd, prefix: strings.TrimSuffix(prefix, "/") + "/", o: o}
}

// Etcd returns the underlying client, for leases and the like.
func (c *Client) Etcd() *clientv3.Client { return c.etcd }

// Log returns the logger.
func (c *Client) Log() *slog.Logger { return c.o.Log }

// CountRequest reports a request that was made with Etcd to Options.OnRequest.
func (c *Client) CountRequest(kind string, bytes int) { c.o.OnRequest(kind, bytes) }

// Bounded returns the context of one request. A server that is stopped or cut off keeps
// its connections and never answers.
func (c *Client) Bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, c.o.Timeout)
}

// Ready returns why etcd cannot be used now: it does not answer, or an alarm is raised.
// When its quota is used up it raises one, and serves only reads.
func (c *Client) Ready(ctx context.Context) error {
	if _, err := c.Get(ctx, c.prefix, clientv3.WithKeysOnly()); err != nil {
		return err
	}
	ctx, cancel := c.Bounded(ctx)
	defer cancel()
	alarms, err := c.etcd.AlarmList(ctx)
	if errors.Is(err, rpctypes.ErrPermissionDenied) {
		return nil // a user with access to our keys alone may not read alarms
	}
	if err != nil {
		return Classify("read", "alarms", err)
	}
	for _, a := range alarms.Alarms {
		return errs.E(errs.Unavailable, "check", "etcd", alarmError(a.Alarm))
	}
	return nil
}

func alarmError(a etcdserverpb.AlarmType) error {
	if a == etcdserverpb.AlarmType_NOSPACE {
		return fmt.Errorf("alarm %s is raised: %w", a, ErrFull)
	}
	return fmt.Errorf("alarm %s is raised; repair the member that raised it, then disarm it", a)
}

// ErrFull means that etcd's quota is used up. It comes wrapped in an Unavailable.
var ErrFull = errors.New("etcd is full: only reads are served until it is compacted and defragmented, or gets a larger quota, and the alarm is disarmed")

// Classify gives etcd's errors a kind. What may pass without help is Unavailable.
func Classify(op, subject string, err error) error {
	kind := errs.Internal
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errs.Is(err, errs.Unavailable):
		kind = errs.Unavailable
	case errors.Is(err, rpctypes.ErrNoSpace):
		kind, err = errs.Unavailable, fmt.Errorf("%w (%w)", ErrFull, err)
	case errors.Is(err, rpctypes.ErrPermissionDenied):
		err = fmt.Errorf("%w: the user of etcd, the common name of the client's certificate, must be allowed to read and write what begins with etcd.prefix", err)
	case errors.Is(err, rpctypes.ErrRequestTooLarge), errors.Is(err, rpctypes.ErrTooManyOps):
		kind = errs.TooLarge
	default:
		switch codeOf(err) {
		case codes.Unavailable, codes.DeadlineExceeded, codes.ResourceExhausted, codes.Canceled:
			kind = errs.Unavailable
		}
	}
	return errs.E(kind, op, subject, err)
}

func codeOf(err error) codes.Code {
	if e, ok := errors.AsType[rpctypes.EtcdError](err); ok {
		return e.Code()
	}
	return status.Code(err)
}
