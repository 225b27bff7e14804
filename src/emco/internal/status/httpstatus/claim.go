package httpstatus

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net/http"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/api/status"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/status/intake"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// reportClaim is a report that waits to be written down.
type reportClaim struct {
	cluster  string
	report   status.Report // of which Cluster, Seq and Same matter here
	received time.Time
	key      *tokenSum // nil: it came another way, by which it was proved who said it

	digest string // what the document says, see status.Digest; empty if there is none
	text   []byte // of the document
	gzip   bool

	tries int
	done  chan error
}

// tokenSum is what a request shows to say who it is.
type tokenSum [sha256.Size]byte

// errDenied is the same for all who may not report, whatever the reason.
var errDenied = errs.New(errs.Unauthorized, "the token is not one of this cluster")

// errUnheard says that the document is not known that all is still as.
var errUnknownDigest = web.WithStatus(http.StatusPreconditionFailed, errs.New(errs.Conflict, "that document is not the one that is known here; send it whole"))

// outdatedError is the refusal of a report that is not newer than the last one.
type outdatedError struct {
	error
	last uint64
}

func (b *outdatedError) Unwrap() error { return b.error }

// updateOf returns what is to be written when base is what is known, or why the claim does not
// hold. It is asked again whenever base turns out to be another one.
func (c *reportClaim) updateOf(base appcontext.Agent) (appcontext.Words, error) {
	if c.key != nil && !matchesToken(base, *c.key, c.received) {
		return appcontext.Words{}, errDenied
	}
	if err := intake.CheckOrder(intake.Document{Cluster: c.cluster}, c.report, base.Seq); err != nil {
		return appcontext.Words{}, &outdatedError{err, base.Seq}
	}
	if c.report.Same != "" && c.report.Same != base.Said {
		return appcontext.Words{}, errUnknownDigest
	}
	out := appcontext.Words{Agent: base}
	out.Agent.Seq, out.Agent.At = c.report.Seq, c.received
	if c.digest != "" && c.digest != base.Said {
		out.Agent.Said = c.digest
		out.Said = &appcontext.Saying{Cluster: c.cluster, Seq: c.report.Seq, At: c.received, Gzip: c.gzip, Text: c.text}
	}
	return out, nil
}

// matchesToken reports whether a key is one of the agent's at some time. It takes as long for
// wrong ones as for right ones.
func matchesToken(a appcontext.Agent, k tokenSum, at time.Time) bool {
	found := 0
	for _, t := range a.Tokens {
		if t.Ends.IsZero() || at.Before(t.Ends) {
			found |= subtle.ConstantTimeCompare(t.Sum, k[:])
		}
	}
	return found == 1
}

// lastSequence returns the last sequence if err refuses a report for its own.
func lastSequence(err error) (last uint64, ok bool) {
	b, ok := errors.AsType[*outdatedError](err)
	if ok {
		last = b.last
	}
	return last, ok
}
