// Package spend stores what processes together have left of the limits of Git hosts.
//
//	spend/<sha256 of a credential>   budget.Left, on a lease: it is gone one to two hours after the last change
//
// After an hour without a change all limits are whole again, so the missing key means the same. A
// value changes only by compare-and-swap. It holds nothing of the credential.
package spend

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
	"github.com/emco-orchestrator/emco/src/git/budget"
)

const (
	keep     = 2 * time.Hour // of a lease; an hour is the longest period of a limit
	attempts = 50            // of a change, each beaten by another process
)

// Store is a budget.Allowance in etcd. It is safe for use by many goroutines.
type Store struct {
	kv *etcdkv.Client

	mu      sync.Mutex
	lease   clientv3.LeaseID // of the values that this process writes; guarded by mu
	renewAt time.Time        // for the values written later; guarded by mu
}

// New returns the values below the client's prefix.
func New(kv *etcdkv.Client) *Store { return &Store{kv: kv} }

// Change implements budget.Allowance.
func (s *Store) Change(ctx context.Context, credential string, change func(*budget.Left) bool) error {
	key := s.kv.Key("spend", credential)
	for range attempts {
		done, err := s.try(ctx, key, change)
		if errors.Is(err, rpctypes.ErrLeaseNotFound) { // etcd was restored from a backup
			s.forgetLease()
			continue
		}
		if err != nil || done {
			return err
		}
	}
	return errs.E(errs.Unavailable, "write", key, fmt.Errorf("other processes changed the budget %d times meanwhile; try again", attempts))
}

// try is one attempt; it is not done if another process was faster.
func (s *Store) try(ctx context.Context, key string, change func(*budget.Left) bool) (done bool, err error) {
	left, kv, err := etcdkv.Read[budget.Left](ctx, s.kv, key)
	if err != nil && !errs.Is(err, errs.NotFound) {
		return false, err
	}
	if !change(&left) {
		return true, nil
	}
	text, err := etcdkv.Encode(key, left)
	if err != nil {
		return false, err
	}
	lease, err := s.currentLease(ctx)
	if err != nil {
		return false, err
	}
	mod := int64(0)
	if kv != nil {
		mod = kv.ModRevision
	}
	same := clientv3.Compare(clientv3.ModRevision(key), "=", mod)
	_, done, err = s.kv.Commit(ctx, key, []clientv3.Cmp{same}, []clientv3.Op{clientv3.OpPut(key, text, clientv3.WithLease(lease))})
	return done, err
}

// currentLease returns a lease that lasts another hour at least. One lease carries many values, so there are
// three of a process at any time at most.
func (s *Store) currentLease(ctx context.Context) (clientv3.LeaseID, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if s.lease != 0 && now.Before(s.renewAt) {
		return s.lease, nil
	}
	ctx, cancel := s.kv.Bounded(ctx)
	defer cancel()
	granted, err := s.kv.Etcd().Grant(ctx, int64(keep.Seconds()))
	if err != nil {
		return 0, etcdkv.Classify("write", "a lease of budgets", err)
	}
	s.kv.CountRequest("lease", 0)
	s.lease, s.renewAt = granted.ID, now.Add(keep/2)
	return s.lease, nil
}

func (s *Store) forgetLease() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lease = 0
}
