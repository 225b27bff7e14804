// Package all lists the renderers.
package all

import (
	"github.com/emco-orchestrator/emco/src/emco/internal/render"
	"github.com/emco-orchestrator/emco/src/emco/internal/render/helm"
)

// Helm is the name of the renderer of Helm charts, the only kind of package that
// EMCO knows.
const Helm = "helm"

// Renderers returns a fresh renderer of each kind by name; adding one is adding a line.
func Renderers() (map[string]render.Renderer, error) {
	charts, err := helm.New(helm.Default())
	if err != nil {
		return nil, err
	}
	return map[string]render.Renderer{
		Helm: charts,
	}, nil
}
