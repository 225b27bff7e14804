package lifecycle

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/tracing"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// maxAttempts bounds how often a request is decided again because others change the same
// deployment at the same time.
const maxAttempts = 10

// Request is a user's request for an action.
type Request struct {
	Action   Action
	Argument string // short form of what the body names, such as a rollback's revision
	Actor    string
	Reason   string // in the user's words
	Key      string // idempotency key: two requests with the same key are one; empty for none
	Plan     string // digest of the plan that the action must carry out; empty for any
	At       time.Time
	DryRun   bool // decide, and change nothing
}

// ReadRequest reads everything but the body. The query parameter "reason" holds the reason.
func ReadRequest(r *http.Request, a Action, now time.Time) (Request, error) {
	if err := web.CheckQuery(r.URL.Query(), "reason", "dryRun", "force", "output"); err != nil {
		return Request{}, err
	}
	key, err := web.IdempotencyKey(r)
	reason := r.URL.Query().Get("reason")
	if err == nil && (len(reason) > v2.MaxDescription || !utf8.ValidString(reason) || strings.ContainsFunc(reason, unicode.IsControl)) {
		err = errs.New(errs.Invalid, "Invalid query reason: give one line of at most 1024 bytes")
	}
	plan, planErr := web.IfPlan(r)
	if err == nil {
		err = planErr
	}
	dry, dryErr := web.AsksDryRun(r)
	if err == nil {
		err = dryErr
	}
	return Request{Action: a, Actor: web.Actor(r.Context()), Reason: reason, Key: key, Plan: plan, At: now, DryRun: dry}, err
}

// String returns the action with its argument, such as "rollback 3". Requests that differ
// have different strings.
func (r Request) String() string { return strings.TrimSpace(r.Action.String() + " " + r.Argument) }

// NewEntry returns the history entry that the request causes.
func (r Request) NewEntry(to appcontext.State, instance string, rev int64) appcontext.HistoryEntry {
	return appcontext.HistoryEntry{
		State: to, Instance: instance, Revision: rev, Time: r.At,
		Actor: r.Actor, Reason: r.Reason, Ask: r.String(),
	}
}

// NewEvent returns the event log entry that the request causes.
func (r Request) NewEvent(reason, message string, rev int64) appcontext.Event {
	if r.Reason != "" {
		message += ": " + r.Reason
	}
	return appcontext.Event{At: r.At, Type: appcontext.Normal, Reason: reason, Message: message, Actor: r.Actor, Rev: rev}
}

// previous finds the action of an earlier request with the same key. The error is
// Malformed if that request asked for something else.
func (r Request) previous(actions []appcontext.HistoryEntry) (action appcontext.HistoryEntry, found bool, err error) {
	if r.Key == "" {
		return action, false, nil
	}
	for _, a := range actions {
		switch {
		case a.Key != r.Key:
		case a.Ask == r.String():
			return a, true, nil
		default:
			return a, true, errs.New(errs.Malformed, "Invalid header Idempotency-Key: the key was used for another request, "+a.Ask+"; give each request a key of its own")
		}
	}
	return action, false, nil
}

// Snapshot is a deployment's document, head and history at one moment.
type Snapshot struct {
	Doc     store.Doc
	Head    appcontext.Head
	History []appcontext.HistoryEntry // all so far; without a stored head, the one to store with it
}

// LastInstance returns the context id that was used last.
func (s Snapshot) LastInstance() string {
	for i := len(s.History) - 1; i >= 0; i-- {
		if s.History[i].Instance != "" {
			return s.History[i].Instance
		}
	}
	return ""
}

// Change returns the change from the snapshot's head to another one.
func (s Snapshot) Change(to appcontext.Head, actions ...appcontext.HistoryEntry) appcontext.HeadChange {
	if s.Head.Mod == 0 {
		actions = append(s.History[:len(s.History):len(s.History)], actions...)
	}
	return appcontext.HeadChange{From: s.Head, To: to, Acts: actions}
}

// HeadWriter reads and changes heads.
type HeadWriter interface {
	HeadReader
	// ChangeHeads changes the heads of one or two deployments in one transaction.
	ChangeHeads(ctx context.Context, changes ...appcontext.HeadChange) ([]appcontext.Head, error)
	// Remove deletes a deployment if its head is still as it was read.
	Remove(ctx context.Context, h appcontext.Head) error
}

// Executor executes requests, each of them once.
type Executor struct {
	DB       *store.DB
	Contexts HeadWriter
}

// Load reads the snapshot of a document's deployment.
func (x Executor) Load(ctx context.Context, doc store.Doc) (Snapshot, error) {
	head, actions, err := History(ctx, x.Contexts, doc)
	return Snapshot{Doc: doc, Head: head, History: actions}, err
}

// DecideFunc returns the changes that a request causes, the requested deployment's first; no
// changes mean that nothing needs to change.
type DecideFunc func(context.Context, Snapshot) ([]appcontext.HeadChange, error)

// Execute calls decide and makes its changes in one transaction. If others change the
// deployment in the meantime, it calls decide again with a new snapshot. The last action
// of the first change stores the request's key and is returned. A request that was executed
// before is not executed again: Execute returns its action. A dry run ends before the change.
func (x Executor) Execute(ctx context.Context, doc store.Doc, req Request, decide DecideFunc) (appcontext.HistoryEntry, error) {
	for attempt := 1; ; attempt++ {
		action, err := x.attempt(ctx, doc, req, decide)
		if errors.Is(err, appcontext.ErrOvertaken) && attempt < maxAttempts {
			continue
		}
		if errors.Is(err, appcontext.ErrOvertaken) {
			err = errs.E(errs.Conflict, "change", string(doc.Key), appcontext.ErrOvertaken) // with its name, not its id
		}
		if err != nil && req.Key != "" { // we, or the same request sent twice, may have executed it anyway
			if actions, readErr := x.Contexts.History(ctx, appcontext.HeadID(doc.UID)); readErr == nil {
				if earlier, found, refusal := req.previous(actions); found {
					return earlier, refusal
				}
			}
		}
		return action, err
	}
}

func (x Executor) attempt(ctx context.Context, doc store.Doc, req Request, decide DecideFunc) (appcontext.HistoryEntry, error) {
	s, err := x.Load(ctx, doc)
	if err != nil {
		return appcontext.HistoryEntry{}, err
	}
	if earlier, found, err := req.previous(s.History); found {
		return earlier, err
	}
	changes, err := decide(ctx, s)
	if err != nil || len(changes) == 0 {
		return appcontext.HistoryEntry{}, err
	}
	last := &changes[0].Acts[len(changes[0].Acts)-1]
	last.Key = req.Key
	if req.DryRun {
		return *last, nil
	}
	Trace(ctx, changes)
	heads, err := x.Contexts.ChangeHeads(ctx, changes...)
	if err != nil {
		return *last, err
	}
	if s.Head.Mod == 0 {
		err = x.confirmDocument(ctx, doc, heads[0])
	}
	return *last, err
}

// Trace records in the changes of a user's action the span of ctx; none without one.
func Trace(ctx context.Context, changes []appcontext.HeadChange) {
	parent := tracing.Parent(ctx)
	for i := range changes {
		c := &changes[i]
		c.To.Traceparent = parent
		for _, op := range []*appcontext.Operation{c.To.Op, c.Op} {
			if op != nil && op != c.From.Op {
				op.Traceparent = parent
			}
		}
		for j := range c.Events {
			c.Events[j].Trace = tracing.ID(parent)
		}
	}
}

// confirmDocument checks that the document of a head that was just created still exists:
// a deletion that ran at the same time did not see the head. If it does not, the head is
// removed again.
func (x Executor) confirmDocument(ctx context.Context, doc store.Doc, head appcontext.Head) error {
	now, err := x.DB.Get(ctx, doc.Key)
	switch {
	case err == nil && now.UID == doc.UID && now.State == store.Live:
		return nil
	case err != nil && !errs.Is(err, errs.NotFound):
		return err
	}
	if err := x.Contexts.Remove(ctx, head); err != nil && !errs.Is(err, errs.Conflict) {
		return err
	}
	return errs.New(errs.NotFound, string(doc.Key)+" is being deleted")
}
