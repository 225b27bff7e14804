package blobstore

import (
	"context"
	"encoding/json"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
)

// Bundle is what one app puts on a cluster. On direct clusters its objects are applied in
// their order, after definitions and namespaces; backends ignore the order. It is stored
// as a blob, under its digest.
type Bundle struct {
	Objects []Ref     `json:"objects"`
	CRDs    []Ref     `json:"crds,omitempty"`
	Hooks   []HookRef `json:"hooks,omitempty"`
}

// Ref refers to one object's content.
type Ref struct {
	manifest.ID
	Digest Digest `json:"digest"`
	Stamp  string `json:"stamp,omitempty"`  // manifest.Stamp of the content, which clusters report
	Sealed Digest `json:"sealed,omitempty"` // of an encrypted object: its source
}

// HookRef refers to a hook.
type HookRef struct {
	Ref
	Events         []string `json:"events"`
	Weight         int      `json:"weight,omitempty"`
	DeletePolicies []string `json:"deletePolicies,omitempty"`
}

// Common returns the objects that another bundle has, too, in order. Definitions and hooks do not count: apps share definitions.
func (b Bundle) Common(other Bundle) (ids []manifest.ID) {
	there := make(map[manifest.ObjectKey]bool, len(other.Objects))
	for _, ref := range other.Objects {
		there[ref.ID.Key()] = true
	}
	for _, ref := range b.Objects {
		if there[ref.ID.Key()] && !manifest.IsCRD(ref.ID) {
			ids = append(ids, ref.ID)
		}
	}
	return ids
}

// PutBundle stores b, if it does not exist yet, and returns its digest. Store the content
// that b refers to before anything refers to b.
func (s *Store) PutBundle(ctx context.Context, b Bundle) (Digest, error) {
	d, text, err := b.Blob()
	if err != nil {
		return "", err
	}
	return d, s.PutBlobs(ctx, map[Digest][]byte{d: text})
}

// Blob returns the bundle as it is stored, with its digest.
func (b Bundle) Blob() (Digest, []byte, error) {
	text, err := json.Marshal(b)
	if err != nil {
		return "", nil, errs.E(errs.Internal, "encode", "bundle", err)
	}
	return manifest.DigestOf(text), text, nil
}

// GetBundle returns the bundle of digest d, or NotFound. It is shared and must not be
// changed.
func (s *Store) GetBundle(ctx context.Context, d Digest) (Bundle, error) {
	if b, ok := s.cache.bundles.Get(d); ok {
		return b, nil
	}
	text, err := s.GetBlob(ctx, d)
	if err != nil {
		return Bundle{}, err
	}
	b, err := parseBundle(d, text)
	if err == nil {
		s.cache.bundles.Put(d, b, 2*len(text))
	}
	return b, err
}

func parseBundle(d Digest, text []byte) (Bundle, error) {
	var b Bundle
	if err := json.Unmarshal(text, &b); err != nil {
		return Bundle{}, etcdkv.Corrupt("bundle "+string(d), err)
	}
	return b, nil
}
