package pair

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/contain"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/batch"
)

const (
	FirstRetry  = time.Second // of reads and writes of our own stores
	MaxAttempts = 5           // attempts before a pair counts as failed and not as retrying
)

// Retry determines when a failed delivery is tried again: after First, then after twice the time
// of the attempt before, or when the server says (errs.RetryAfter). A permanent failure (see Permanent) is tried every Longest, because
// whatever refused the delivery may change.
type Retry struct{ First, Longest time.Duration }

// Fail notes a failure in a pair, and when to try again. spread, from 0 to 1, is how much of the
// random part of the backoff is used: pairs that failed together are tried again together.
func (r Retry) Fail(p appcontext.Pair, err error, now time.Time, spread float64) appcontext.Pair {
	p.At, p.Waiting = now, ""
	p.Attempt++
	p.Error, p.Reason = err.Error(), reasonOf(err)
	p.Phase = appcontext.Retrying
	if Permanent(err) || p.Attempt >= MaxAttempts {
		p.Phase = appcontext.Failed
	}
	p.NextRetry = now.Add(r.backoff(p.Attempt, err, spread))
	if p.Reason == WaitingForMerge {
		p.Phase, p.NextRetry = appcontext.Retrying, aligned(now, errs.RetryAfter(err))
	}
	return p
}

// Wait returns the time until the next attempt. It is never longer than the wait that Fail chose: the
// clock of this machine, or of the process that failed, may have jumped.
func Wait(p appcontext.Pair, now time.Time) time.Duration {
	wait := p.NextRetry.Sub(now)
	if !p.At.IsZero() && now.Before(p.At) {
		wait = min(wait, p.NextRetry.Sub(p.At))
	}
	return wait
}

// MayRetry reports whether the next attempt of a pair may be made. It may if the clock is behind the last
// attempt: it has jumped, and only Wait is known.
func MayRetry(p appcontext.Pair, now time.Time) bool {
	return p.NextRetry.Before(now) || !p.At.IsZero() && now.Before(p.At)
}

// aligned returns about now + in, and the same time for all who ask at about the same time.
func aligned(now time.Time, in time.Duration) time.Time {
	return now.Add(in).Truncate(in/4 + 1)
}

// The reasons of pairs that wait for an operator.
const (
	HistoryRewritten = "HistoryRewritten" // the history of their branch was rewritten
	WaitingForMerge  = "WaitingForMerge"  // their branch is protected; the change is proposed
	ProposalClosed   = "ProposalClosed"   // the proposal was closed
	ExternalEdit     = "ForeignEdit"      // the name that users and stored pairs know; an edit of their files by others is held
)

// reasonOf returns one word for a failure that an operator must decide about.
func reasonOf(err error) string {
	if _, ok := errors.AsType[*batch.RewrittenError](err); ok {
		return HistoryRewritten
	}
	if isExternalEdit(err) {
		return ExternalEdit
	}
	if p, ok := errors.AsType[*batch.ProposedError](err); ok {
		if p.Proposal.State == git.ProposalClosed {
			return ProposalClosed
		}
		return WaitingForMerge
	}
	return ""
}

// Permanent reports whether another attempt fails too unless something else changes: the error is
// Invalid, Forbidden, Unauthorized, NotFound or TooLarge, or it is a panic.
func Permanent(err error) bool {
	switch errs.KindOf(err) {
	case errs.Invalid, errs.Forbidden, errs.Unauthorized, errs.NotFound, errs.TooLarge:
		return true
	}
	return contain.Is(err)
}

// Backoff doubles from First to Longest. It adds up to a quarter at random, so that many
// pairs do not return together. A retry time from the server is obeyed.
func (r Retry) Backoff(attempt int, err error) time.Duration {
	return r.backoff(attempt, err, rand.Float64())
}

func (r Retry) backoff(attempt int, err error, spread float64) time.Duration {
	d := r.First
	for n := 1; n < attempt && d < r.Longest; n++ {
		d *= 2
	}
	if d > r.Longest || Permanent(err) {
		d = r.Longest
	}
	d += time.Duration(spread * float64(d/4))
	return max(d, errs.RetryAfter(err))
}
