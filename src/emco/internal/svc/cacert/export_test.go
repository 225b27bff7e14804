package cacert

import (
	"context"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

// SetClock makes a read the time from now.
func (a *Authorities) SetClock(now func() time.Time) { a.now = now }

// Look looks at a certificate authority, as Run does.
func (r *Renewals) Look(ctx context.Context, ca store.Key) (time.Time, error) { return r.look(ctx, ca) }
