package wrap

import (
	"context"

	"github.com/emco-orchestrator/emco/src/emco/internal/failpoint"
	"github.com/emco-orchestrator/emco/src/emco/internal/render"
)

// Renderer returns the renderer with points around its methods.
func Renderer(s *failpoint.Set, r render.Renderer) render.Renderer { return renderer{r, s} }

type renderer struct {
	render.Renderer
	set *failpoint.Set
}

// Render renders one app.
func (r renderer) Render(ctx context.Context, req render.Request) (render.Result, error) {
	if err := at(ctx, r.set, RenderBefore, "render", "chart"); err != nil {
		return render.Result{}, err
	}
	out, err := r.Renderer.Render(ctx, req)
	if err != nil {
		return out, err
	}
	return out, at(ctx, r.set, RenderAfter, "render", "chart")
}
