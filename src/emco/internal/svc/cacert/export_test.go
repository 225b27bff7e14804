package cacert

import "time"

// SetClock makes a read the time from now.
func (a *Authorities) SetClock(now func() time.Time) { a.now = now }
