//go:build failpoints

package app

import (
	"fmt"
	"os"

	"github.com/emco-orchestrator/emco/src/emco/internal/failpoint"
	"github.com/emco-orchestrator/emco/src/emco/internal/failpoint/wrap"
)

// failpointsVariable holds the rules that are armed from the start.
const failpointsVariable = "EMCO_FAILPOINTS"

// failpoints arms what the environment asks for. It is only in programs that were built
// for tests, with the tag "failpoints".
func failpoints() ([]Option, error) {
	set := failpoint.New(wrap.Points()...)
	if err := set.Arm(os.Getenv(failpointsVariable)); err != nil {
		return nil, fmt.Errorf("%s: %w", failpointsVariable, err)
	}
	return []Option{WithFailpoints(set)}, nil
}
