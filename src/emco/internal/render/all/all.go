// Package all lists the renderers.
package all

import (
	"github.com/emco-orchestrator/emco/src/emco/internal/render"
	"github.com/emco-orchestrator/emco/src/emco/internal/render/helm"
)

// Helm is the name of the renderer of Helm charts, upstream's only kind of package.
const Helm = "helm"

// Renderers returns a new renderer of each kind by name. To add a renderer, add a line.
func Renderers() (map[string]render.Renderer, error) {
	charts, err := helm.New(helm.Default())
	if err != nil {
		return nil, err
	}
	return map[string]render.Renderer{
		Helm: charts,
	}, nil
}
