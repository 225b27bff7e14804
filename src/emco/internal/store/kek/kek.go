// Package kek wraps data keys with a key-encryption key: one in a file, in the environment, or of a KMS plugin.
package kek

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/seal"
)

// Wrapped is a data key that only the key-encryption key opens.
type Wrapped struct {
	KEK         string            `json:"kek"` // the id of the key-encryption key
	Key         []byte            `json:"key"`
	Annotations map[string][]byte `json:"annotations,omitempty"` // of a KMS plugin
}

// Wrapper wraps data keys. It may be used by many goroutines.
type Wrapper interface {
	// Wrap encrypts a data key and binds it to its id. The error is Unavailable if the key-encryption key
	// cannot be used now.
	Wrap(ctx context.Context, k seal.Key) (Wrapped, error)
	// Unwrap decrypts what Wrap returned for the data key of this id. The error names the key-encryption key
	// that is missing.
	Unwrap(ctx context.Context, id string, w Wrapped) (seal.Key, error)
}

// Schemes of addresses.
const (
	schemeFile = "file"
	schemeEnv  = "env"
	schemeKMS  = "kms"
)

// Check returns Invalid if address has no form that Open takes.
func Check(address string) error {
	u, err := url.Parse(address)
	switch {
	case err != nil || u.User != nil || u.RawQuery != "" || u.Fragment != "":
	case u.Scheme == schemeFile && u.Host == "" && filepath.IsAbs(u.Path):
		return nil
	case u.Scheme == schemeEnv && u.Host != "" && u.Path == "":
		return nil
	case u.Scheme == schemeKMS && kmsSocket(u) != "":
		return nil
	}
	return errs.New(errs.Invalid, "a key-encryption key is file:///PATH, env://VARIABLE or kms://unix:/PATH")
}

// Open returns the key-encryption key at an address: file:///PATH with 32 bytes in base64, env://VARIABLE with
// the same, or kms://unix:/PATH, the socket of a plugin of Kubernetes' KMS v2 protocol. The error is
// fs.ErrNotExist if there is no such file.
func Open(address string) (Wrapper, error) {
	if err := Check(address); err != nil {
		return nil, err
	}
	u, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	switch u.Scheme {
	case schemeKMS:
		return dialKMS(kmsSocket(u))
	case schemeEnv:
		text, ok := os.LookupEnv(u.Host)
		if !ok {
			return nil, errs.New(errs.Invalid, "the environment variable "+u.Host+" is not set")
		}
		k, err := seal.ParseKey(text)
		if err != nil {
			return nil, fmt.Errorf("the environment variable %s: %w", u.Host, err)
		}
		return Local(k), nil
	default:
		k, err := seal.LoadKey(u.Path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%s does not exist: %w", u.Path, fs.ErrNotExist)
		}
		return Local(k), err
	}
}

// Local returns a key-encryption key that is in memory.
func Local(k seal.Key) Wrapper { return localWrapper{k, seal.New(k)} }

// KeyOf returns the key of a key-encryption key that is in memory; false for one of a plugin.
func KeyOf(w Wrapper) (seal.Key, bool) {
	l, ok := w.(localWrapper)
	return l.key, ok
}

type localWrapper struct {
	key    seal.Key
	sealer *seal.Sealer
}

// keyPlace binds a wrapped data key to its id.
func keyPlace(id string) []string { return []string{"data key", id} }

// Wrap implements Wrapper.
func (l localWrapper) Wrap(_ context.Context, k seal.Key) (Wrapped, error) {
	return Wrapped{KEK: l.key.ID(), Key: l.sealer.Seal(k.Secret(), keyPlace(k.ID())...)}, nil
}

// Unwrap implements Wrapper.
func (l localWrapper) Unwrap(ctx context.Context, id string, w Wrapped) (seal.Key, error) {
	if w.KEK != l.key.ID() {
		return seal.Key{}, missing(id, w.KEK, l.key.ID())
	}
	plain, err := l.sealer.Open(ctx, w.Key, keyPlace(id)...)
	if err != nil {
		return seal.Key{}, errs.E(errs.KindOf(err), "unwrap", "data key "+id, err)
	}
	return keyOf(id, plain)
}

// missing is the error for a data key that another key-encryption key wrapped.
func missing(id, want, have string) error {
	return errs.E(errs.Unavailable, "unwrap", "data key "+id, fmt.Errorf("%w: it is wrapped with the key-encryption key %s, there is %s", seal.ErrNoKey, want, have))
}

func keyOf(id string, plain seal.Secret) (seal.Key, error) {
	k, err := seal.KeyOf(plain)
	if err == nil && k.ID() != id {
		err = errs.New(errs.Internal, "the key that was unwrapped has the id "+k.ID())
	}
	if err != nil {
		return seal.Key{}, errs.E(errs.KindOf(err), "unwrap", "data key "+id, err)
	}
	return k, nil
}
