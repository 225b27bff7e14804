package flux

import (
	"cmp"

	sourcev1 "github.com/fluxcd/source-controller/api/v1"

	"github.com/emco-orchestrator/emco/src/emco/internal/syncer"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer/pointer"
)

// OCIOptions are those of clusters that read an artifact of a registry.
type OCIOptions struct {
	Options
	// Source is the name of the OCIRepository in flux-system that the cluster was
	// bootstrapped with; default emco.
	Source string `json:"sourceName,omitempty"`
}

// NewOCI returns the backend "oci". Its files are those of "fluxcd" without the
// GitRepository: all deployments of a cluster are in the one artifact that the cluster was
// bootstrapped with.
func NewOCI(o OCIOptions) (syncer.Backend, error) {
	if err := pointer.CheckName("oci", "sourceName", o.Source); err != nil {
		return nil, err
	}
	inner, err := New(o.Options)
	if err != nil {
		return nil, err
	}
	b := inner.(backend)
	b.sharedKind, b.shared = sourcev1.OCIRepositoryKind, cmp.Or(o.Source, "emco")
	return b, nil
}
