package objectdiff

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
)

// maxBytes bounds what an overlay holds in memory.
const maxBytes = 256 << 20

// Overlay is content in memory, above that of the AppContext. It is safe for use by many
// goroutines.
type Overlay struct {
	contexts *appcontext.Store

	mu   sync.Mutex
	held map[appcontext.Digest][]byte // guarded by mu
	size int                          // of held, in bytes; guarded by mu
}

// NewOverlay returns an overlay that holds nothing yet.
func NewOverlay(contexts *appcontext.Store) *Overlay {
	return &Overlay{contexts: contexts, held: map[appcontext.Digest][]byte{}}
}

// PutBlobs keeps contents in memory; TooLarge above 256 MiB.
func (o *Overlay) PutBlobs(_ context.Context, contents map[appcontext.Digest][]byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for d, content := range contents {
		if _, ok := o.held[d]; !ok {
			o.held[d], o.size = content, o.size+len(content)
		}
	}
	if o.size > maxBytes {
		return errs.New(errs.TooLarge, "the apps render to more than a dry run can hold (256 MiB)")
	}
	return nil
}

func (o *Overlay) inMemory(d appcontext.Digest) ([]byte, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	content, ok := o.held[d]
	return content, ok
}

// GetBundle returns a bundle; an empty one for the empty digest.
func (o *Overlay) GetBundle(ctx context.Context, d appcontext.Digest) (b appcontext.Bundle, err error) {
	if d == "" {
		return b, nil
	}
	if text, ok := o.inMemory(d); ok {
		return b, json.Unmarshal(text, &b)
	}
	return o.contexts.GetBundle(ctx, d)
}

// object returns an object of a bundle.
func (o *Overlay) object(ctx context.Context, ref appcontext.Ref) (manifest.Object, error) {
	content, ok := o.inMemory(ref.Digest)
	if !ok {
		var err error
		if content, err = o.contexts.GetBlob(ctx, ref.Digest); err != nil {
			return manifest.Object{}, err
		}
	}
	return manifest.Object{ID: ref.ID, Digest: ref.Digest, Content: content}, nil
}
