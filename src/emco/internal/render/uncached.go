package render

import (
	"fmt"
	"sync/atomic"
	"time"
)

// Uncached returns a renderer whose results are never reused: its edition differs in each
// call, and after a restart.
func Uncached(r Renderer) Renderer { return &uncachedRenderer{Renderer: r} }

type uncachedRenderer struct {
	Renderer
	calls atomic.Int64
}

// Edition differs in each call.
func (u *uncachedRenderer) Edition() string {
	return fmt.Sprint(u.Renderer.Edition(), time.Now().UnixNano(), u.calls.Add(1))
}
