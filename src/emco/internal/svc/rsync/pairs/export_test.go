package pairs

import "time"

// DueGates returns the deployments whose gates must be checked now, and when the next one
// must be checked if nothing happens.
func (s *Store) DueGates() (due []string, next time.Time) { return s.gates.take(s.cfg.Now()) }
