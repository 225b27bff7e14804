// Package keyring keeps the data keys of a store: one seals, all open. A document of the store holds them,
// wrapped with a key-encryption key, so all processes that share the store have the same.
package keyring

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/kek"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/seal"
)

// The states of a data key.
const (
	Next    = "next"    // it seals soon, when all processes have it
	Current = "current" // it seals
	Former  = "former"  // it opens what it sealed
)

// Key is a data key as it is stored.
type Key struct {
	ID      string      `json:"id"`
	State   string      `json:"state"`
	Since   time.Time   `json:"since"` // when it got its state
	Wrapped kek.Wrapped `json:"wrapped"`
}

// Keys are the data keys of a store.
type Keys struct {
	Keys     []Key  `json:"keys"` // oldest first
	Resealed string `json:"resealed,omitempty"`
}

// Current returns the key that seals.
func (k Keys) Current() Key {
	for _, key := range k.Keys {
		if key.State == Current {
			return key
		}
	}
	return Key{}
}

// Pending reports whether values are sealed with another key than the current one, or not at all.
func (k Keys) Pending() bool { return k.Resealed != k.Current().ID }

func (k Keys) next() bool {
	return slices.ContainsFunc(k.Keys, func(key Key) bool { return key.State == Next })
}

// Options are what a ring needs.
type Options struct {
	Driver store.Driver
	// KEK returns the key-encryption key. It is created if first is set and there is none: then nothing is sealed.
	KEK func(first bool) (kek.Wrapper, error)
	// Former are keys; one of them may have sealed the documents itself, before there were data keys.
	Former []seal.Key
	// Wait is the time until every process has read changed keys: between the creation of a key and its first use,
	// and between that and the resealing of what was sealed with the key before.
	Wait time.Duration
	Now  func() time.Time
}

// Ring has the data keys in memory. It may be used by many goroutines.
type Ring struct {
	o      Options
	sealer *seal.Sealer

	// mu is held while a new key is unwrapped, which may ask a KMS: each key is unwrapped once. Sealing and
	// opening never wait for it, unless a value names a key that is not in memory.
	mu      sync.Mutex
	wrapper kek.Wrapper         // guarded by mu
	plain   map[string]seal.Key // guarded by mu; by id
	seen    int64               // guarded by mu; tag of the document that was read last
	stored  Keys                // guarded by mu; of that document
}

// tries bounds how often a change of the keys starts over because another process was faster.
const tries = 16

// New returns a ring without keys: Open reads them.
func New() *Ring {
	r := &Ring{plain: map[string]seal.Key{}}
	r.sealer = seal.NewLoading(r.Refresh)
	return r
}

// Open reads the keys, or makes the first one. The error is that of Unwrap if the key-encryption key is not
// that of the store. It is called once, before the sealer is used.
func (r *Ring) Open(ctx context.Context, o Options) error {
	r.o = o
	body, tag, err := store.KeysDoc(ctx, o.Driver)
	if errs.Is(err, errs.NotFound) {
		err = r.first(ctx)
		if errs.Is(err, errs.Exists) || errs.Is(err, errs.Conflict) { // another process was faster
			err = nil
		}
		if err == nil {
			body, tag, err = store.KeysDoc(ctx, o.Driver)
		}
	}
	if err != nil {
		return err
	}
	wrapper, err := o.KEK(false)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wrapper = wrapper
	return r.adoptLocked(ctx, body, tag)
}

// first stores the first data key: that which sealed the documents of an older version, or a new one.
func (r *Ring) first(ctx context.Context) error {
	sealed, err := store.AnySealed(ctx, r.o.Driver)
	if err != nil {
		return err
	}
	key := seal.NewKey()
	if sealed != nil {
		if key, err = r.former(seal.KeyID(sealed)); err != nil {
			return err
		}
	}
	wrapper, err := r.o.KEK(sealed == nil)
	if err != nil {
		return err
	}
	w, err := wrapper.Wrap(ctx, key)
	if err != nil {
		return err
	}
	return r.put(ctx, Keys{Keys: []Key{{key.ID(), Current, r.now(), w}}}, 0)
}

// former returns the key that sealed the documents of an older version.
func (r *Ring) former(id string) (seal.Key, error) {
	have := []string{}
	for _, k := range r.o.Former {
		if k.ID() == id {
			return k, nil
		}
		have = append(have, k.ID())
	}
	return seal.Key{}, errs.E(errs.Unavailable, "", "", fmt.Errorf("%w: documents are sealed with key %s, there is %s",
		seal.ErrNoKey, id, cmp.Or(strings.Join(have, ", "), "none")))
}

// Sealer returns the sealer with the keys of the ring.
func (r *Ring) Sealer() *seal.Sealer { return r.sealer }

// Refresh reads the keys again.
func (r *Ring) Refresh(ctx context.Context) error {
	_, err := r.Keys(ctx)
	return err
}

// Keys reads the keys again and returns them as they are stored.
func (r *Ring) Keys(ctx context.Context) (Keys, error) {
	body, tag, err := store.KeysDoc(ctx, r.o.Driver)
	if err != nil {
		return Keys{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	err = r.adoptLocked(ctx, body, tag)
	return r.stored, err
}

// adoptLocked takes over the keys of a document. Keys that are in memory are not unwrapped again, so only a new
// key needs the key-encryption key.
func (r *Ring) adoptLocked(ctx context.Context, body []byte, tag int64) error {
	if tag == r.seen {
		return nil
	}
	var k Keys
	if err := json.Unmarshal(body, &k); err != nil || k.Current().ID == "" {
		return errs.E(errs.Internal, "read", "the data keys of the store", errors.Join(err, errors.New("there is no current key: restore the documents from a backup")))
	}
	var others []seal.Key
	for _, key := range k.Keys {
		plain, ok := r.plain[key.ID]
		if !ok {
			var err error
			if plain, err = r.wrapper.Unwrap(ctx, key.ID, key.Wrapped); err != nil {
				return err
			}
			r.plain[key.ID] = plain
		}
		if key.State != Current {
			others = append(others, plain)
		}
	}
	r.sealer.Use(r.plain[k.Current().ID], others...)
	r.stored, r.seen = k, tag
	return nil
}

// Rotate adds a data key, which seals after a while; then Step has to be called until all is resealed.
// Conflict if another rotation has not ended.
func (r *Ring) Rotate(ctx context.Context) (Keys, error) {
	key := seal.NewKey()
	return r.change(ctx, func(k *Keys) error {
		if k.next() || k.Pending() {
			return errs.New(errs.Conflict, "the former rotation has not ended: wait until emco keys list shows nothing that waits")
		}
		w, err := r.current().Wrap(ctx, key)
		if err != nil {
			return err
		}
		k.Keys = append(k.Keys, Key{key.ID(), Next, r.now(), w})
		return nil
	})
}

// Rewrap wraps all data keys again, with the given key-encryption key, in one write. Nothing else changes.
func (r *Ring) Rewrap(ctx context.Context, w kek.Wrapper) (Keys, error) {
	k, err := r.change(ctx, func(k *Keys) error {
		for i := range k.Keys {
			wrapped, err := w.Wrap(ctx, r.key(k.Keys[i].ID))
			if err != nil {
				return err
			}
			if got, err := w.Unwrap(ctx, k.Keys[i].ID, wrapped); err != nil || got != r.key(k.Keys[i].ID) {
				return errors.Join(errs.New(errs.Unavailable, "the new key-encryption key does not open what it wrapped; nothing was changed"), err)
			}
			k.Keys[i].Wrapped = wrapped
		}
		return nil
	})
	if err == nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.wrapper = w
	}
	return k, err
}

// KEK returns the key-encryption key in use.
func (r *Ring) KEK() kek.Wrapper { return r.current() }

func (r *Ring) current() kek.Wrapper {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.wrapper
}

func (r *Ring) key(id string) seal.Key {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.plain[id]
}

// Step reads the keys and carries on a rotation. When there are values to reseal with the current key, it calls
// reseal, which returns whether it found none any more. It may be called by many processes.
func (r *Ring) Step(ctx context.Context, reseal func(context.Context) (bool, error)) error {
	k, err := r.Keys(ctx)
	if err != nil {
		return err
	}
	if k.next() {
		return r.promote(ctx)
	}
	othersSeal := len(k.Keys) > 1 && r.now().Sub(k.Current().Since) < r.o.Wait // perhaps, with the former key
	if !k.Pending() || othersSeal {
		return nil
	}
	done, err := reseal(ctx)
	if err != nil || !done {
		return err
	}
	id := k.Current().ID
	_, err = r.change(ctx, func(k *Keys) error {
		if k.Current().ID == id {
			k.Resealed = id
		}
		return nil
	})
	return err
}

// promote makes the next key the current one, when all processes had time to read it.
func (r *Ring) promote(ctx context.Context) error {
	_, err := r.change(ctx, func(k *Keys) error {
		n := slices.IndexFunc(k.Keys, func(key Key) bool { return key.State == Next && r.now().Sub(key.Since) >= r.o.Wait })
		if n < 0 {
			return nil
		}
		for i := range k.Keys {
			switch {
			case i == n:
				k.Keys[i].State, k.Keys[i].Since = Current, r.now()
			case k.Keys[i].State == Current:
				k.Keys[i].State, k.Keys[i].Since = Former, r.now()
			}
		}
		return nil
	})
	return err
}

// change writes changed keys unless another process changed them meanwhile; then it starts over.
func (r *Ring) change(ctx context.Context, f func(*Keys) error) (Keys, error) {
	for range tries {
		body, tag, err := store.KeysDoc(ctx, r.o.Driver)
		if err != nil {
			return Keys{}, err
		}
		if err := r.adopt(ctx, body, tag); err != nil {
			return Keys{}, err
		}
		var k Keys
		if err := json.Unmarshal(body, &k); err != nil {
			return Keys{}, err
		}
		before, err := json.Marshal(k)
		if err != nil {
			return Keys{}, err
		}
		if err := f(&k); err != nil {
			return Keys{}, err
		}
		if after, err := json.Marshal(k); err != nil || string(after) == string(before) {
			return k, err
		}
		err = r.put(ctx, k, tag)
		if errs.Is(err, errs.Conflict) || errs.Is(err, errs.Exists) {
			continue
		}
		if err != nil {
			return Keys{}, err
		}
		return r.Keys(ctx)
	}
	return Keys{}, errs.New(errs.Conflict, "other processes change the data keys all the time: try again")
}

func (r *Ring) adopt(ctx context.Context, body []byte, tag int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.adoptLocked(ctx, body, tag)
}

func (r *Ring) put(ctx context.Context, k Keys, at int64) error {
	body, err := json.Marshal(k)
	if err != nil {
		return err
	}
	return store.PutKeysDoc(ctx, r.o.Driver, body, at)
}

func (r *Ring) now() time.Time { return r.o.Now().UTC().Truncate(time.Millisecond) }
