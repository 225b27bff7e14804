package rendertest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/emco-orchestrator/emco/src/emco/internal/render"
)

// Recorder is a Plain renderer that remembers the override values of each rendering.
type Recorder struct {
	Plain
	mu    sync.Mutex
	calls []string // guarded by mu
}

// Render remembers the override values and renders as Plain does.
func (r *Recorder) Render(ctx context.Context, req render.Request) (render.Result, error) {
	r.mu.Lock()
	r.calls = append(r.calls, fmt.Sprint(req.Overrides))
	r.mu.Unlock()
	return r.Plain.Render(ctx, req)
}

// Taken returns the renderings since the last call, sorted.
func (r *Recorder) Taken() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := strings.Join(slices.Sorted(slices.Values(r.calls)), " ")
	r.calls = nil
	return out
}
