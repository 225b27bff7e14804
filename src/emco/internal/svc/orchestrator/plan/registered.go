package plan

import (
	"context"
	"fmt"
	"strings"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
)

// maxUnregistered bounds the clusters that one refusal names.
const maxUnregistered = 5

// CheckRegistered refuses, as Invalid, to restore the placements of an earlier revision if clusters of them are not registered
// any longer. Other errors are the store's.
func (p Planner) CheckRegistered(ctx context.Context, rev int64, placements []appcontext.Placement) error {
	fleet, err := p.inventory.Fleet(ctx)
	if err != nil {
		return err
	}
	var gone []string
	for _, place := range placements {
		if _, registered := fleet.Cluster(place.Cluster); !registered {
			gone = append(gone, string(place.Cluster))
		}
	}
	if len(gone) == 0 {
		return nil
	}
	named := strings.Join(gone[:min(len(gone), maxUnregistered)], ", ")
	if more := len(gone) - maxUnregistered; more > 0 {
		named += fmt.Sprintf(" and %d more", more)
	}
	return errs.New(errs.Invalid, fmt.Sprintf(
		"revision %d is not restored: it has apps on clusters that are not registered any longer: %s; register them again, or update, which uses the clusters that are registered now", rev, named))
}
