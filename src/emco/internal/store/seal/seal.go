// Package seal encrypts secrets, so that access to the store alone does not reveal them:
// AES-256-GCM with a random nonce for each sealing. Sealed bytes name their key and are bound
// to their place, so that they open nowhere else.
package seal

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

// Sealed bytes are: format, key id, nonce and ciphertext with its tag.
const (
	format   = 1
	idSize   = 8
	headSize = 1 + idSize
)

// Sealer seals with one key and opens with that one or older ones. It may be used
// by many goroutines.
type Sealer struct {
	current []byte // head of newly sealed bytes: format and key id
	aeads   map[string]cipher.AEAD
}

// New returns a sealer that seals with current, and opens with current and older keys.
func New(current Key, older ...Key) *Sealer {
	s := &Sealer{current: head(current), aeads: map[string]cipher.AEAD{}}
	for _, k := range append([]Key{current}, older...) {
		s.aeads[string(k.id())] = newAEAD(k)
	}
	return s
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
	out := bytes.Clone(s.current)
	aead := s.aeads[string(s.current[1:])]
	return aead.Seal(out, nil, plain, bound(s.current, place))
}

// Open decrypts what Seal returned for the same place. The error is Unavailable
// when the sealer does not have the key, and names it; it is Internal when the bytes were
// changed or come from another place. Nothing is returned then.
func (s *Sealer) Open(sealed []byte, place ...string) (Secret, error) {
	if err := s.Check(sealed); err != nil {
		return nil, err
	}
	aead := s.aeads[string(sealed[1:headSize])]
	plain, err := aead.Open([]byte{}, nil, sealed[headSize:], bound(sealed[:headSize], place))
	if err != nil {
		return nil, errs.New(errs.Internal, "the sealed bytes were changed, or belong to another document")
	}
	return plain, nil
}

// Check returns nil if the sealer has the key that sealed the bytes, without opening them;
// otherwise the error is Unavailable and names the key.
func (s *Sealer) Check(sealed []byte) error {
	if len(sealed) < headSize || sealed[0] != format {
		return errs.New(errs.Internal, "the bytes are not sealed in a known format")
	}
	if _, ok := s.aeads[string(sealed[1:headSize])]; !ok {
		return errs.E(errs.Unavailable, "", "", fmt.Errorf("%w: sealed with key %s, there is %s",
			ErrNoKey, hex.EncodeToString(sealed[1:headSize]), s.known()))
	}
	return nil
}

// ErrNoKey is in the error when the sealer does not have the key.
var ErrNoKey = errors.New("the sealing key is missing")

func (s *Sealer) known() string {
	ids := make([]string, 0, len(s.aeads))
	for id := range s.aeads {
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
		out = fmt.Appendf(out, "%d:%s", len(p), p)
	}
	return out
}
