// Package seal encrypts secrets, so that access to the store alone does not reveal them:
// AES-256-GCM with a random nonce for each sealing. Sealed bytes name their key and are bound
// to their place, so that they open nowhere else.
package seal

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

// Sealed bytes are: format, key id, nonce and ciphertext with its tag.
const (
	format   = 1
	idSize   = 8
	headSize = 1 + idSize
)

// Sealer seals with one key and opens with that one or others. It may be used by many goroutines.
type Sealer struct {
	keys atomic.Pointer[keys]
	load func(context.Context) error // calls Use with the keys of today; nil: the keys never change
}

// keys never change.
type keys struct {
	current []byte // head of newly sealed bytes: format and key id
	aeads   map[string]cipher.AEAD
}

// New returns a sealer that seals with current, and opens with current and older keys.
func New(current Key, older ...Key) *Sealer {
	s := &Sealer{}
	s.Use(current, older...)
	return s
}

// NewLoading returns a sealer without keys: Use gives it some before anything is sealed. When bytes name
// a key that it does not have, it calls load, which may call Use, and tries again.
func NewLoading(load func(context.Context) error) *Sealer {
	s := &Sealer{load: load}
	s.keys.Store(&keys{aeads: map[string]cipher.AEAD{}})
	return s
}

// Use replaces the keys: from now on it seals with current, and opens with current and others.
func (s *Sealer) Use(current Key, others ...Key) {
	next := &keys{current: head(current), aeads: map[string]cipher.AEAD{}}
	for _, k := range append([]Key{current}, others...) {
		next.aeads[string(k.id())] = newAEAD(k)
	}
	s.keys.Store(next)
}

func head(k Key) []byte { return append([]byte{format}, k.id()...) }

// newAEAD panics only if the standard library refuses a 32-byte key.
func newAEAD(k Key) cipher.AEAD {
	block, err := aes.NewCipher(k.bytes[:])
	if err != nil {
		panic(err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err)
	}
	return aead
}

// Seal encrypts plain for the place given, such as a document's key and uid.
// The same plain sealed twice gives different bytes.
func (s *Sealer) Seal(plain Secret, place ...string) []byte {
	k := s.keys.Load()
	aead := k.aeads[string(k.current[1:])]
	out := make([]byte, headSize, headSize+len(plain)+aead.Overhead())
	copy(out, k.current)
	return aead.Seal(out, nil, plain, bound(k.current, place))
}

// Open decrypts what Seal returned for the same place. The error is Unavailable
// when the sealer does not have the key, and names it; it is Internal when the bytes were
// changed or come from another place. Nothing is returned then.
func (s *Sealer) Open(ctx context.Context, sealed []byte, place ...string) (Secret, error) {
	k, err := s.having(ctx, sealed)
	if err != nil {
		return nil, err
	}
	return k.open(sealed, place)
}

// OpenForeign is Open for bytes that anyone may send: it never reads the keys again, so that wrong bytes cost
// nothing but their decryption.
func (s *Sealer) OpenForeign(sealed []byte, place ...string) (Secret, error) {
	k := s.keys.Load()
	if !Sealed(sealed) || !k.have(sealed) {
		return nil, errs.New(errs.Internal, "the bytes are not sealed with a key that is here")
	}
	return k.open(sealed, place)
}

func (k *keys) open(sealed []byte, place []string) (Secret, error) {
	aead := k.aeads[string(sealed[1:headSize])]
	plain, err := aead.Open([]byte{}, nil, sealed[headSize:], bound(sealed[:headSize], place))
	if err != nil {
		return nil, errs.New(errs.Internal, "the sealed bytes were changed, or belong to another document")
	}
	return plain, nil
}

// Check returns nil if the sealer has the key that sealed the bytes, without opening them;
// otherwise the error is Unavailable and names the key.
func (s *Sealer) Check(ctx context.Context, sealed []byte) error {
	_, err := s.having(ctx, sealed)
	return err
}

// having returns keys with the one that sealed the bytes.
func (s *Sealer) having(ctx context.Context, sealed []byte) (*keys, error) {
	if !Sealed(sealed) {
		return nil, errs.New(errs.Internal, "the bytes are not sealed in a known format")
	}
	k := s.keys.Load()
	if k.have(sealed) {
		return k, nil
	}
	if s.load != nil {
		if err := s.load(ctx); err != nil {
			return nil, errs.E(errs.Unavailable, "", "", fmt.Errorf("%w: sealed with key %s, and the keys cannot be read: %w", ErrNoKey, KeyID(sealed), err))
		}
		if k = s.keys.Load(); k.have(sealed) {
			return k, nil
		}
	}
	return nil, errs.E(errs.Unavailable, "", "", fmt.Errorf("%w: sealed with key %s, there is %s", ErrNoKey, KeyID(sealed), k.known()))
}

// Current reports whether bytes are sealed with the key that the sealer seals with.
func (s *Sealer) Current(sealed []byte) bool {
	return Sealed(sealed) && string(sealed[:headSize]) == string(s.keys.Load().current)
}

// Sealed reports whether bytes have the form of sealed ones. No text begins like them.
func Sealed(b []byte) bool { return len(b) >= headSize && b[0] == format }

// KeyID returns the id of the key that sealed the bytes.
func KeyID(sealed []byte) string { return hex.EncodeToString(sealed[1:headSize]) }

// ErrNoKey is in the error when the sealer does not have the key.
var ErrNoKey = errors.New("the sealing key is missing")

func (k *keys) have(sealed []byte) bool {
	_, ok := k.aeads[string(sealed[1:headSize])]
	return ok
}

func (k *keys) known() string {
	ids := make([]string, 0, len(k.aeads))
	for id := range k.aeads {
		ids = append(ids, hex.EncodeToString([]byte(id)))
	}
	slices.Sort(ids)
	return strings.Join(ids, ", ")
}

// bound returns the additional data that ties a ciphertext to its head and place.
// Each part carries its length, so that no two places give the same bytes.
func bound(head []byte, place []string) []byte {
	out := bytes.Clone(head)
	for _, p := range place {
		out = strconv.AppendInt(out, int64(len(p)), 10)
		out = append(append(out, ':'), p...)
	}
	return out
}
