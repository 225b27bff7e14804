package orchestrator

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/lifecycle"
)

// promote lets the rollouts of the desired revision go on after a pause. It makes no revision.
func (g *Groups) promote(ctx context.Context, s lifecycle.Snapshot, req actionRequest) ([]appcontext.HeadChange, error) {
	if err := g.checkAllowed(ctx, s.Head, lifecycle.Promote); err != nil {
		return nil, err
	}
	if err := checkLevel(g.level, "a promotion"); err != nil {
		return nil, err
	}
	if s.Head.Op != nil {
		return nil, errs.New(errs.Conflict, fmt.Sprintf("revision %d is being made; promote it then", s.Head.Op.Rev))
	}
	if s.Head.Rev == 0 {
		return nil, errs.New(errs.Conflict, "there is no revision to promote; update the deployment first")
	}
	rev, err := g.contexts.DesiredRevision(ctx, s.Head.UID, s.Head.Rev)
	if err != nil {
		return nil, err
	}
	to := s.Head
	if to.Promoted, err = promoted(rev, s.Head.Promotion(), req.promote); err != nil {
		return nil, err
	}
	what := fmt.Sprintf("revision %d goes on after wave %d of its rollouts", rev.Number, to.Promoted.Wave)
	if to.Promoted.Full {
		what = fmt.Sprintf("revision %d no longer waits for waves", rev.Number)
	}
	entry := req.request.NewEntry(s.Head.State, s.LastInstance(), 0) // it makes no revision
	return []appcontext.HeadChange{withEvents(s.Change(to, entry), req.request.NewEvent(v2.EventReasonPromoted, what, rev.Number))}, nil
}

// promoted returns the next promotion of a revision. It is a Conflict if there is nothing to promote.
func promoted(rev appcontext.Revision, now appcontext.Promotion, asked v2.PromoteSpec) (next appcontext.Promotion, err error) {
	refuse := func(format string, args ...any) (appcontext.Promotion, error) {
		return now, errs.New(errs.Conflict, fmt.Sprintf("revision %d ", rev.Number)+fmt.Sprintf(format, args...))
	}
	pauses, waves := pausesOf(rev)
	next = now
	next.Rev = rev.Number
	switch {
	case asked.Revision != 0 && asked.Revision != rev.Number:
		return refuse("is desired, not %d; look at it, and promote it if it is right", asked.Revision)
	case now.Full:
		return refuse("no longer waits for waves: it was promoted in full")
	case !waves:
		return refuse("has no app that changes in waves, so nothing waits for a promotion")
	case asked.Full:
		next.Full = true
		return next, nil
	case len(pauses) == 0:
		return refuse("does not pause: its waves begin when the ones before are ready; to let all clusters change now, promote it in full")
	case asked.Wave > 0 && !slices.Contains(pauses, asked.Wave):
		return refuse("does not pause after wave %d, but after %s", asked.Wave, listOf(pauses))
	case asked.Wave > 0:
		next.Wave = asked.Wave
	case pauses[len(pauses)-1] <= now.Wave:
		return refuse("was promoted after wave %d already, its last pause", now.Wave)
	case len(pauses) == 1:
		next.Wave = pauses[0]
	case now.Wave > 0:
		return refuse("pauses after wave %s, and was promoted after wave %d; name the wave to promote", listOf(pauses), now.Wave)
	default: // of two requests at the same time, one must not end the pause after the one that it means
		return refuse("pauses after wave %s; name the wave to promote", listOf(pauses))
	}
	if next.Wave <= now.Wave {
		return refuse("was promoted after wave %d already", next.Wave)
	}
	return next, nil
}

// pausesOf returns the waves after which rollouts of a revision pause, in order and counted from 1, and whether there are any waves. A
// rollback does not pause.
func pausesOf(rev appcontext.Revision) (pauses []int, waves bool) {
	for _, a := range rev.Apps {
		if a.Rollout == nil {
			continue
		}
		waves = true
		for i, w := range a.Rollout.Waves {
			if w.Pause && rev.Kind != lifecycle.Rollback.String() {
				pauses = append(pauses, i+1)
			}
		}
	}
	slices.Sort(pauses)
	return slices.Compact(pauses), waves
}

// listOf returns "1, 2 and 4".
func listOf(waves []int) string {
	var words []string
	for _, w := range waves {
		words = append(words, fmt.Sprint(w))
	}
	last := len(words) - 1
	if last == 0 {
		return words[0]
	}
	return strings.Join(words[:last], ", ") + " and " + words[last]
}
