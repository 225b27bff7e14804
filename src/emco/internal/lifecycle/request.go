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
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// tries is how often a request is carried out anew because others change the same
// deployment at the same time.
const maxAttempts = 10

// Request is a request for an event.
type Request struct {
	Event    Event
	Argument string // what the request names, in short: the revision that a rollback is to
	Actor    string
	Reason   string // in the user's words
	Key      string // by which requests are the same one, sent again; empty for none
	At       time.Time
}

// ReadRequest takes from a request all that does not stand in its body. A reason is given by
// the parameter of that name.
func ReadRequest(r *http.Request, e Event, now time.Time) (Request, error) {
	key, err := web.IdempotencyKey(r)
	reason := r.URL.Query().Get("reason")
	if err == nil && (len(reason) > v2.MaxDescription || !utf8.ValidString(reason) || strings.ContainsFunc(reason, unicode.IsControl)) {
		err = errs.New(errs.Invalid, "Invalid query reason: give one line of at most 1024 bytes")
	}
	return Request{Event: e, Actor: web.Actor(r.Context()), Reason: reason, Key: key, At: now}, err
}

// String says what is asked for, such as "rollback 3". It tells requests apart.
func (a Request) String() string { return strings.TrimSpace(a.Event.String() + " " + a.Argument) }

// NewAction is a line of the history that comes of the request.
func (a Request) NewAction(to appcontext.State, instance string, rev int64) appcontext.Action {
	return appcontext.Action{
		State: to, Instance: instance, Revision: rev, Time: a.At,
		Actor: a.Actor, Reason: a.Reason, Ask: a.String(),
	}
}

// NewEvent is a line of the event log that comes of the request.
func (a Request) NewEvent(reason, message string, rev int64) appcontext.Event {
	if a.Reason != "" {
		message += ": " + a.Reason
	}
	return appcontext.Event{At: a.At, Type: appcontext.Normal, Reason: reason, Message: message, Actor: a.Actor, Rev: rev}
}

// previous finds what came of the request when it was sent before. Malformed if the key was
// used for something else.
func (a Request) previous(acts []appcontext.Action) (act appcontext.Action, known bool, err error) {
	if a.Key == "" {
		return act, false, nil
	}
	for _, act := range acts {
		switch {
		case act.Key != a.Key:
		case act.Ask == a.String():
			return act, true, nil
		default:
			return act, true, errs.New(errs.Malformed, "Invalid header Idempotency-Key: the key was used for another request, "+act.Ask+"; give each request a key of its own")
		}
	}
	return act, false, nil
}

// Snapshot is what is known of a deployment when a request is carried out.
type Snapshot struct {
	Doc     store.Doc
	Head    appcontext.Head
	Actions []appcontext.Action // all so far; if there is no head yet, the one that is not written
}

// LastInstance returns the context id that was used last.
func (c Snapshot) LastInstance() string {
	for i := len(c.Actions) - 1; i >= 0; i-- {
		if c.Actions[i].Instance != "" {
			return c.Actions[i].Instance
		}
	}
	return ""
}

// Move is the way from the case's head to another one.
func (c Snapshot) Move(to appcontext.Head, acts ...appcontext.Action) appcontext.Move {
	if c.Head.Mod == 0 {
		acts = append(c.Actions[:len(c.Actions):len(c.Actions)], acts...)
	}
	return appcontext.Move{From: c.Head, To: to, Acts: acts}
}

// Executor carries requests out, each of them once.
type Executor struct {
	DB       *store.DB
	Contexts *appcontext.Store
}

// Load reads the case of a document.
func (d Executor) Load(ctx context.Context, doc store.Doc) (Snapshot, error) {
	head, acts, err := History(ctx, d.Contexts, doc)
	return Snapshot{Doc: doc, Head: head, Actions: acts}, err
}

// Execute has decide say which moves a request comes to, the first one that of doc, and
// makes them in one transaction; no moves mean that there is nothing to do. If others
// change the deployment meanwhile, decide is asked again about the new case. The last
// action of the first move carries the request's key, and is returned; a request that was
// carried out before is not carried out again, and its action is returned.
func (d Executor) Execute(ctx context.Context, doc store.Doc, ask Request, decide func(context.Context, Snapshot) ([]appcontext.Move, error)) (appcontext.Action, error) {
	for try := 1; ; try++ {
		act, err := d.attempt(ctx, doc, ask, decide)
		if errors.Is(err, appcontext.ErrOvertaken) && try < maxAttempts {
			continue
		}
		if err != nil && ask.Key != "" { // it may have been carried out nevertheless, by us or by its twin
			if acts, unread := d.Contexts.Actions(ctx, doc.UID); unread == nil {
				if before, known, refusal := ask.previous(acts); known {
					return before, refusal
				}
			}
		}
		return act, err
	}
}

func (d Executor) attempt(ctx context.Context, doc store.Doc, ask Request, decide func(context.Context, Snapshot) ([]appcontext.Move, error)) (appcontext.Action, error) {
	c, err := d.Load(ctx, doc)
	if err != nil {
		return appcontext.Action{}, err
	}
	if act, known, err := ask.previous(c.Actions); known {
		return act, err
	}
	moves, err := decide(ctx, c)
	if err != nil || len(moves) == 0 {
		return appcontext.Action{}, err
	}
	last := &moves[0].Acts[len(moves[0].Acts)-1]
	last.Key = ask.Key
	heads, err := d.Contexts.Move(ctx, moves...)
	if err != nil {
		return *last, err
	}
	if c.Head.Mod == 0 {
		err = d.confirmDocument(ctx, doc, heads[0])
	}
	return *last, err
}

// confirmDocument makes sure that a head which was just made has a document: a deletion that was
// under way did not see it. If not, the head is taken back.
func (d Executor) confirmDocument(ctx context.Context, doc store.Doc, head appcontext.Head) error {
	now, err := d.DB.Get(ctx, doc.Key)
	switch {
	case err == nil && now.UID == doc.UID && now.State == store.Live:
		return nil
	case err != nil && !errs.Is(err, errs.NotFound):
		return err
	}
	if err := d.Contexts.Remove(ctx, head); err != nil && !errs.Is(err, errs.Conflict) {
		return err
	}
	return errs.New(errs.NotFound, string(doc.Key)+" is being deleted")
}
