package cacert

import (
	"context"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/lifecycle"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

// SetHeads makes a change the heads of stages with w.
func (a *Authorities) SetHeads(w lifecycle.HeadWriter) { a.addons.Executor.Contexts = w }

// Known returns how many authorities wait for an issuer, and how many stages were renewed.
func (r *Renewals) Known() (waiting, asked int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.waiting), len(r.asked)
}

// SetClock makes a read the time from now.
func (a *Authorities) SetClock(now func() time.Time) { a.now = now }

// Look looks at a certificate authority, as Run does.
func (r *Renewals) Look(ctx context.Context, ca store.Key) (time.Time, error) { return r.look(ctx, ca) }
