package agentreports

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net/http"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/api/status"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/agents"
	"github.com/emco-orchestrator/emco/src/emco/internal/status/intake"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// reportClaim is a report that waits to be stored.
type reportClaim struct {
	cluster  v2.ClusterKey
	report   status.Report // only Cluster, Seq, At and Same are used
	received time.Time
	key      *tokenSum // nil: it arrived through Git, which authenticated it; it may repeat the last sequence, which its reader has checked

	digest string // status.Digest of the document; empty if the report carries none
	text   []byte // of the document
	gzip   bool

	tries int
	done  chan error
}

// tokenSum is the SHA-256 of the token in a request.
type tokenSum [sha256.Size]byte

// errDenied does not reveal why a caller may not report.
var errDenied = errs.New(errs.Unauthorized, "the token is not one of this cluster")

// errUnknownDigest refuses a "same" that names a document which is not stored.
var errUnknownDigest = web.WithStatus(http.StatusPreconditionFailed, errs.New(errs.Conflict, "the named document is not the stored one; send the content"))

// outdatedError is the refusal of a report that is not newer than the last one.
type outdatedError struct {
	error
	last uint64
}

func (b *outdatedError) Unwrap() error { return b.error }

// updateOf returns the update of a stored agent, or the reason why the claim is refused. The writer
// calls it again when another process has changed the agent.
func (c *reportClaim) updateOf(base agents.Agent) (agents.Update, error) {
	if c.key != nil && !matchesToken(base, *c.key, c.received) {
		return agents.Update{}, errDenied
	}
	if err := intake.CheckOrder(intake.Document{Cluster: c.cluster, First: c.key == nil}, c.report, base.Seq, c.received); err != nil {
		return agents.Update{}, &outdatedError{err, base.Seq}
	}
	if c.report.Same != "" && c.report.Same != base.DocumentID {
		return agents.Update{}, errUnknownDigest
	}
	at := c.received
	if c.key == nil && base.At.After(at) { // its time is that of the cluster's clock
		at = base.At
	}
	out := agents.Update{Agent: base}
	out.Agent.Seq, out.Agent.At, out.Agent.Sent = c.report.Seq, at, 0
	if c.digest != "" && c.digest != base.DocumentID {
		out.Agent.DocumentID = c.digest
		out.Document = &agents.Document{Cluster: c.cluster, Seq: c.report.Seq, At: at, Gzip: c.gzip, Text: c.text}
	} else {
		out.Agent.Sent = uint64(max(0, c.report.At.UnixMilli()))
	}
	return out, nil
}

// matchesToken reports whether a token of the agent is valid at the given time. It compares in
// constant time.
func matchesToken(a agents.Agent, k tokenSum, at time.Time) bool {
	found := 0
	for _, t := range a.Tokens {
		if t.Ends.IsZero() || at.Before(t.Ends) {
			found |= subtle.ConstantTimeCompare(t.Sum, k[:])
		}
	}
	return found == 1
}

// lastSequence returns the stored sequence if err refuses a report as outdated.
func lastSequence(err error) (last uint64, ok bool) {
	b, ok := errors.AsType[*outdatedError](err)
	if ok {
		last = b.last
	}
	return last, ok
}
