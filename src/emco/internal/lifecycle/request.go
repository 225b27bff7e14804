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
const tries = 10

// Ask is a request for an event.
type Ask struct {
	Event  Event
	Names  string // what the request names, in short: the revision that a rollback is to
	Actor  string
	Reason string // in the user's words
	Key    string // by which requests are the same one, sent again; empty for none
	At     time.Time
}

// Read takes from a request all that does not stand in its body. A reason is given by
// the parameter of that name.
func Read(r *http.Request, e Event, now time.Time) (Ask, error) {
	key, err := web.IdempotencyKey(r)
	reason := r.URL.Query().Get("reason")
	if err == nil && (len(reason) > v2.MaxDescription || !utf8.ValidString(reason) || strings.ContainsFunc(reason, unicode.IsControl)) {
		err = errs.New(errs.Invalid, "Invalid query reason: give one line of at most 1024 bytes")
	}
	return Ask{Event: e, Actor: web.Actor(r.Context()), Reason: reason, Key: key, At: now}, err
}

// String says what is asked for, such as "rollback 3". It tells requests apart.
func (a Ask) String() string { return strings.TrimSpace(a.Event.String() + " " + a.Names) }

// Act is a line of the history that comes of the request.
func (a Ask) Act(to appcontext.State, instance string, rev int64) appcontext.Action {
	return appcontext.Action{
		State: to, Instance: instance, Revision: rev, Time: a.At,
		Actor: a.Actor, Reason: a.Reason, Ask: a.String(),
	}
}

// Note is a line of the event log that comes of the request.
func (a Ask) Note(reason, message string, rev int64) appcontext.Event {
	if a.Reason != "" {
		message += ": " + a.Reason
	}
	return appcontext.Event{At: a.At, Type: appcontext.Normal, Reason: reason, Message: message, Actor: a.Actor, Rev: rev}
}

// done finds what came of the request when it was sent before. Malformed if the key was
// used for something else.
func (a Ask) done(acts []appcontext.Action) (act appcontext.Action, known bool, err error) {
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

// Case is what is known of a deployment when a request is carried out.
type Case struct {
	Doc  store.Doc
	Head appcontext.Head
	Acts []appcontext.Action // all so far; if there is no head yet, the one that is not written
}

// Last returns the context id that was used last.
func (c Case) Last() string {
	for i := len(c.Acts) - 1; i >= 0; i-- {
		if c.Acts[i].Instance != "" {
			return c.Acts[i].Instance
		}
	}
	return ""
}

// Move is the way from the case's head to another one.
func (c Case) Move(to appcontext.Head, acts ...appcontext.Action) appcontext.Move {
	if c.Head.Mod == 0 {
		acts = append(c.Acts[:len(c.Acts):len(c.Acts)], acts...)
	}
	return appcontext.Move{From: c.Head, To: to, Acts: acts}
}

// Desk carries requests out, each of them once.
type Desk struct {
	DB       *store.DB
	Contexts *appcontext.Store
}

// Look reads the case of a document.
func (d Desk) Look(ctx context.Context, doc store.Doc) (Case, error) {
	head, acts, err := History(ctx, d.Contexts, doc)
	return Case{Doc: doc, Head: head, Acts: acts}, err
}

// Once has decide say which moves a request comes to, the first one that of doc, and
// makes them in one transaction; no moves mean that there is nothing to do. If others
// change the deployment meanwhile, decide is asked again about the new case. The last
// action of the first move carries the request's key, and is returned; a request that was
// carried out before is not carried out again, and its action is returned.
func (d Desk) Once(ctx context.Context, doc store.Doc, ask Ask, decide func(context.Context, Case) ([]appcontext.Move, error)) (appcontext.Action, error) {
	for try := 1; ; try++ {
		act, err := d.try(ctx, doc, ask, decide)
		if errors.Is(err, appcontext.ErrOvertaken) && try < tries {
			continue
		}
		if err != nil && ask.Key != "" { // it may have been carried out nevertheless, by us or by its twin
			if acts, unread := d.Contexts.Actions(ctx, doc.UID); unread == nil {
				if before, known, refusal := ask.done(acts); known {
					return before, refusal
				}
			}
		}
		return act, err
	}
}

func (d Desk) try(ctx context.Context, doc store.Doc, ask Ask, decide func(context.Context, Case) ([]appcontext.Move, error)) (appcontext.Action, error) {
	c, err := d.Look(ctx, doc)
	if err != nil {
		return appcontext.Action{}, err
	}
	if act, known, err := ask.done(c.Acts); known {
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
		err = d.adopt(ctx, doc, heads[0])
	}
	return *last, err
}

// adopt makes sure that a head which was just made has a document: a deletion that was
// under way did not see it. If not, the head is taken back.
func (d Desk) adopt(ctx context.Context, doc store.Doc, head appcontext.Head) error {
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
