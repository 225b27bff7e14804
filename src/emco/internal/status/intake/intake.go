// Package intake is what the documents of agents go through, whichever way they come: they
// are checked, what becomes of them is counted and noted for people, and what they say of
// each pair is handed on.
//
//	document ──► Check ──► refused: counted, noted
//	               │
//	               └─► Teller ──► one report per pair, if it is news
//
// Whoever writes may be compromised. A document counts only for the cluster that it is
// known to come from, only if it is newer than the last one, and only within the limits of
// package api/status. What is refused changes nothing.
package intake

import (
	"errors"
	"fmt"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/api/status"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
)

// Pair is one app that a cluster is to hold.
type Pair struct {
	Key     appcontext.PairKey
	Objects []appcontext.Ref // of the desired bundle; those that are missing are reported as NotFound
	Hooks   []appcontext.Ref // of the same bundle; they come and go

	// Commit is one on the desired branch that holds these objects, and HookCommit one
	// that holds these hooks, or those of them that are to be there now. They are empty as
	// long as there is none. They matter for objects that the agent may not read.
	Commit, HookCommit string
}

// What becomes of a document.
const (
	Taken        = "taken"
	Forged       = "forged"       // it speaks for another cluster than the one that it comes from
	Replayed     = "replayed"     // it is not newer than what was taken in before
	TooLarge     = "toolarge"     // above the limits
	Schema       = "schema"       // of a form that is not known here: the agent is newer
	Malformed    = "malformed"    // no report at all
	Unregistered = "unregistered" // on the branch of no cluster, or for none that reports here
	Unauthorized = "unauthorized" // with no token of the cluster
)

// Results returns all that may become of a document.
func Results() []string {
	return []string{Taken, Forged, Replayed, TooLarge, Schema, Malformed, Unregistered, Unauthorized}
}

// Document is what came from a cluster.
type Document struct {
	Cluster string
	Where   string // commit that holds it, if it came by Git
	Text    []byte
	Err     error // why there is no text
	First   bool  // nothing came from the cluster before, to this process; then the last one may be met again
}

// Check reads a document, given the sequence of what was taken in last. The error says why
// it does not count; see ResultOf.
func Check(d Document, last uint64) (status.Report, error) {
	if d.Err != nil {
		return status.Report{}, d.Err
	}
	r, err := status.Decode(d.Text)
	if err != nil {
		return r, err
	}
	return r, InOrder(d, r, last)
}

// InOrder says whether a report that was read from a document may follow the one with the
// sequence last.
func InOrder(d Document, r status.Report, last uint64) error {
	switch {
	case r.Cluster != d.Cluster:
		return &refusal{Forged, fmt.Sprintf("it speaks for %s", r.Cluster)}
	case r.Seq < last || r.Seq == last && !d.First:
		return &refusal{Replayed, fmt.Sprintf("its sequence is %d, that of the last report was %d", r.Seq, last)}
	}
	return nil
}

// refusal says why a document does not count.
type refusal struct{ result, why string }

// Error returns the reason for people.
func (r *refusal) Error() string { return r.why }

// Refuse is an error that ResultOf understands.
func Refuse(result, why string) error { return &refusal{result, why} }

// ResultOf classifies what is wrong with a document.
func ResultOf(err error) string {
	if r, ok := errors.AsType[*refusal](err); ok {
		return r.result
	}
	switch {
	case errs.Is(err, errs.TooLarge):
		return TooLarge
	case errors.Is(err, status.ErrSchema):
		return Schema
	}
	return Malformed
}
