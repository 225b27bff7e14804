// Package spend stores what processes together have left of the limits of Git hosts.
//
//	spend/<name of a credential>   budget.SharedTokens, on a lease: it is gone one to two hours after the last change
//	spendsecret                    a random value, sealed, which makes the names
//
// After an hour without a change all limits are whole again, so the missing key means the same. A
// value changes only by compare-and-swap. It holds nothing of the credential, and its name reveals nothing of it to those
// who read etcd and have no data key: it is an HMAC with the secret.
package spend

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/seal"
	"github.com/emco-orchestrator/emco/src/git/budget"
)

const (
	keep     = 2 * time.Hour // of a lease; an hour is the longest period of a limit
	attempts = 50            // of a change, each beaten by another process

	secretPlace = "spendsecret"
)

// Store is a budget.Allowance in etcd. It is safe for use by many goroutines.
type Store struct {
	kv     *etcdkv.Client
	sealer *seal.Sealer

	mu      sync.Mutex
	secret  seal.Secret      // of the names; nil until it is read; guarded by mu
	lease   clientv3.LeaseID // of the values that this process writes; guarded by mu
	renewAt time.Time        // for the values written later; guarded by mu
}

// New returns the values below the client's prefix. All processes must have the same data keys.
func New(kv *etcdkv.Client, sealer *seal.Sealer) *Store { return &Store{kv: kv, sealer: sealer} }

// Change implements budget.Allowance.
func (s *Store) Change(ctx context.Context, credential string, change func(*budget.SharedTokens) bool) error {
	err := s.change(ctx, credential, change)
	if e, ok := errors.AsType[*errs.Error](err); ok { // tenants read it, so it must not hold the key
		return errs.E(e.Kind, e.Op, "what is left of a credential's limits", e.Err)
	}
	return err
}

func (s *Store) change(ctx context.Context, credential string, change func(*budget.SharedTokens) bool) error {
	for range attempts {
		key, err := s.key(ctx, credential)
		if err != nil {
			return err
		}
		done, err := s.try(ctx, key, change)
		if errors.Is(err, rpctypes.ErrLeaseNotFound) { // etcd was restored from a backup
			s.forget()
			continue
		}
		if err != nil || done {
			return err
		}
	}
	return errs.E(errs.Unavailable, "write", credential, fmt.Errorf("other processes changed the budget %d times meanwhile; try again", attempts))
}

// key returns the key of a credential.
func (s *Store) key(ctx context.Context, credential string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.secret == nil {
		secret, err := s.loadOrCreateSecret(ctx)
		if err != nil {
			return "", err
		}
		s.secret = secret
	}
	name := hmac.New(sha256.New, s.secret)
	name.Write([]byte(credential))
	return s.kv.Key("spend", hex.EncodeToString(name.Sum(nil))), nil
}

// loadOrCreateSecret returns the secret that the first process has made.
func (s *Store) loadOrCreateSecret(ctx context.Context) (seal.Secret, error) {
	key := s.kv.Key("spendsecret")
	for range attempts {
		r, err := s.kv.Get(ctx, key)
		if err != nil {
			return nil, err
		}
		if len(r.Kvs) > 0 {
			secret, err := s.sealer.Open(ctx, r.Kvs[0].Value, secretPlace)
			if err != nil {
				return nil, errs.E(errs.KindOf(err), "open", key, err)
			}
			return secret, nil
		}
		made := make(seal.Secret, sha256.Size)
		_, _ = rand.Read(made) // documented never to fail
		absent := clientv3.Compare(clientv3.CreateRevision(key), "=", 0)
		_, done, err := s.kv.Commit(ctx, key, []clientv3.Cmp{absent}, []clientv3.Op{clientv3.OpPut(key, string(s.sealer.Seal(made, secretPlace)))})
		if err != nil {
			return nil, err
		}
		if done {
			return made, nil
		}
	}
	return nil, errs.E(errs.Unavailable, "read", key, errors.New("the secret of the names of credentials comes and goes; try again"))
}

// try is one attempt; it is not done if another process was faster.
func (s *Store) try(ctx context.Context, key string, change func(*budget.SharedTokens) bool) (done bool, err error) {
	left, kv, err := etcdkv.Read[budget.SharedTokens](ctx, s.kv, key)
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

func (s *Store) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lease, s.secret = 0, nil
}
