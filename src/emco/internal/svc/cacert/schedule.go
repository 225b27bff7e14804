package cacert

import (
	"context"
	"encoding/json"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

// renewalSchedule is the body of a stage's document: what follows from the certificates of a revision. It is written before the
// revision is published, so whoever sees the revision sees its schedule.
type renewalSchedule struct {
	Rev      int64         `json:"rev,omitzero"`      // the revision; the rest does not count for another one
	RenewAt  time.Time     `json:"renewAt,omitzero"`  // when the stage must be updated; zero: not known
	NotAfter time.Time     `json:"notAfter,omitzero"` // of the distribution: when the first certificate on clusters ends
	Life     time.Duration `json:"life,omitzero"`     // of the enrollment: how long certificates last, if the issuer shortens it
	Problem  string        `json:"problem,omitempty"` // why the last renewal was refused
}

// maxScheduling bounds attempts to write a schedule that others write at the same time.
const maxScheduling = 5

// reschedule changes the schedule of a stage. change returns the next one.
func (a *Authorities) reschedule(ctx context.Context, stage store.Key, change func(renewalSchedule) renewalSchedule) error {
	for attempt := 1; ; attempt++ {
		doc, err := a.db.Get(ctx, stage)
		if err != nil {
			return err
		}
		now, err := store.Decode[renewalSchedule](doc)
		if err != nil {
			return err
		}
		next := change(now)
		if next == now {
			return nil
		}
		body, err := json.Marshal(next)
		if err != nil {
			return errs.E(errs.Internal, "encode", string(stage), err)
		}
		_, err = a.db.Replace(ctx, store.Write{Key: doc.Key, Parent: doc.Parent, UID: doc.UID, Body: body}, doc.Rev)
		if !errs.Is(err, errs.Conflict) || attempt == maxScheduling {
			return err
		}
	}
}

// lifeOf returns how long a certificate of an authority lasts from its request, if known is how long those of its
// issuer last; zero: the whole time that they are asked for.
func lifeOf(ca authority, known time.Duration) time.Duration {
	if known > 0 {
		return min(known, ca.Spec.Valid())
	}
	return ca.Spec.Valid()
}

// renewal returns when a certificate that was requested at a time must be renewed: after two thirds of its life.
func renewal(requested time.Time, life time.Duration) time.Time { return requested.Add(life / 3 * 2) }

// earlier returns the earlier of two times; zero is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// of returns the schedule of the revision that a head names. Without one, the times are not known.
func (s renewalSchedule) of(head appcontext.Head) renewalSchedule {
	if s.Rev != head.Rev {
		s.RenewAt, s.NotAfter = time.Time{}, time.Time{}
	}
	return s
}

// view returns the schedule as a status shows it; nil if nothing is scheduled.
func (s renewalSchedule) view() *v2.Renewal {
	out := v2.Renewal{At: s.RenewAt, NotAfter: s.NotAfter, Problem: s.Problem}
	if out == (v2.Renewal{}) {
		return nil
	}
	return &out
}
