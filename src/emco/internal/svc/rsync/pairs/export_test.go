package pairs

import (
	"time"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
)

// DueGates returns the deployments whose gates must be checked now, and when the next one
// must be checked if nothing happens.
func (s *Store) DueGates() (due []v2.DeploymentID, next time.Time) {
	return s.gates.queue.take(s.cfg.Now())
}
