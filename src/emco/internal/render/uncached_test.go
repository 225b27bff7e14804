package render_test

import (
	"testing"

	"github.com/emco-orchestrator/emco/src/emco/internal/render"
	"github.com/emco-orchestrator/emco/src/emco/internal/render/rendertest"
)

func TestUncachedChangesTheClassOfEachRequest(t *testing.T) {
	t.Parallel()
	r, req := render.Uncached(rendertest.Plain{}), render.Request{App: "web"}
	if a, b := render.Class(r.Edition(), req), render.Class(r.Edition(), req); a == b {
		t.Error("two requests have the same class: the second one would not be rendered")
	}
}
