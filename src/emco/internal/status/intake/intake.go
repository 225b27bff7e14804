// Package intake checks the status documents of agents and turns them into one report per
// pair, for documents that arrive through Git and by HTTPS alike.
//
//	document ──► Check ──► refused: counted, recorded for operators
//	               │
//	               └─► Notifier ──► one report per pair whose content changed
//
// An agent may be compromised. A document counts only for the cluster that sent it, only
// if it is newer than the last one, and only within the limits of package api/status. A
// refused document changes nothing.
//
// For objects that an agent may not read, Notifier asks History, which reads Git, whether the
// commit that the reconciler applied contains the commit that holds them as desired.
package intake

import (
	"errors"
	"fmt"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/api/status"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/contain"
)

// Pair is one app that a cluster must hold.
type Pair struct {
	Key     appcontext.PairKey
	Objects []appcontext.Ref // of the desired bundle; missing ones are reported as NotFound
	Hooks   []appcontext.Ref // of the same bundle; a finished hook is absent

	// Commit is a commit of the desired branch that holds these objects, HookCommit one that
	// holds the hooks of the current step. Empty means that no such commit exists yet. They
	// prove the content of objects that the agent may not read.
	Commit, HookCommit string

	// Proof is that of the last report, zero if none is known. It may be about an earlier commit.
	Proof appcontext.Proof
}

// Results of the check of a document. The values are labels of a metric.
const (
	Accepted     = "taken"
	Forged       = "forged"       // it names another cluster than the one that sent it
	Replayed     = "replayed"     // it is not newer than the last accepted document
	Ahead        = "ahead"        // its sequence leaves no room for later ones
	TooLarge     = "toolarge"     // above the limits
	Schema       = "schema"       // its schema is unknown here: the agent is newer
	Malformed    = "malformed"    // it is not a report
	Unregistered = "unregistered" // no cluster of that name reports this way
	Fault        = "fault"        // it caused a panic; the next document of the cluster is tried again
	Unauthorized = "unauthorized" // it came without a token of the cluster
)

// Results returns every result of a check.
func Results() []string {
	return []string{Accepted, Forged, Replayed, Ahead, TooLarge, Schema, Malformed, Fault, Unregistered, Unauthorized}
}

// Document is one status document of a cluster.
type Document struct {
	Cluster v2.ClusterKey
	Where   string // commit that holds it; empty if it arrived by HTTPS
	Text    []byte
	Err     error // why Text could not be read
	First   bool  // this process has accepted no document of the cluster before, so the last sequence may repeat
}

// Received is a document that was checked, for the store that all processes share.
type Received struct {
	Report status.Report
	Text   []byte    // of the document
	At     time.Time // when the report was received
	First  bool      // see Document
}

// Check decodes a document and compares its sequence with last, that of the last accepted
// document. ResultOf classifies the error.
func Check(d Document, last uint64, now time.Time) (status.Report, error) {
	if d.Err != nil {
		return status.Report{}, d.Err
	}
	r, err := status.Decode(d.Text)
	if err != nil {
		return r, err
	}
	if r.Same != "" && d.Where != "" {
		return r, &refusedError{Malformed, "it has a digest in place of its content, which only reports by HTTPS may have"}
	}
	return r, CheckOrder(d, r, last, now)
}

// maxAhead is how far a sequence may be above the time in seconds, which agents count from. It
// allows any clock of an agent or of this machine, and rises by one per second: a report at the
// limit delays later ones by a second.
const maxAhead = 1 << 32

// CheckOrder reports whether r may follow the report with the sequence last. It returns an error
// of result Forged, Ahead or Replayed if not. A last sequence above the limit, which versions
// without a limit accepted, does not count.
func CheckOrder(d Document, r status.Report, last uint64, now time.Time) error {
	limit := uint64(max(0, now.Unix())) + maxAhead
	if last > limit {
		last = 0
	}
	switch {
	case r.Cluster != string(d.Cluster):
		return &refusedError{Forged, fmt.Sprintf("the report names cluster %s", r.Cluster)}
	case r.Seq > limit:
		return &refusedError{Ahead, fmt.Sprintf("the sequence is %d; the limit is now %d, because later reports need higher ones", r.Seq, limit)}
	case r.Seq < last || r.Seq == last && !d.First:
		return &refusedError{Replayed, fmt.Sprintf("the sequence is %d; the last report had %d", r.Seq, last)}
	}
	return nil
}

// refusedError is the reason why a document does not count.
type refusedError struct{ result, why string }

// Error returns the reason.
func (r *refusedError) Error() string { return r.why }

// NewRefusal returns an error that ResultOf classifies as result.
func NewRefusal(result, why string) error { return &refusedError{result, why} }

// IsRefusal reports whether err concerns the document, so that it will never be accepted.
func IsRefusal(err error) bool {
	_, refused := errors.AsType[*refusedError](err)
	return refused || errs.Is(err, errs.TooLarge)
}

// ResultOf classifies an error of Check.
func ResultOf(err error) string {
	if r, ok := errors.AsType[*refusedError](err); ok {
		return r.result
	}
	switch {
	case contain.Is(err):
		return Fault
	case errs.Is(err, errs.TooLarge):
		return TooLarge
	case errors.Is(err, status.ErrSchema):
		return Schema
	}
	return Malformed
}
