// Package eventlog answers what happened to a deployment: as a list, or as a stream of
// what comes.
package eventlog

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

const (
	followers = 200 // streams at the same time
	backlog   = 512 // events that wait for one client; above the number that is kept of a deployment
)

// Log serves the events of deployments.
type Log struct {
	contexts *appcontext.Store
	streams  *web.Streams
}

// New returns the log over the shared state.
func New(contexts *appcontext.Store) *Log {
	return &Log{contexts: contexts, streams: web.NewStreams(followers)}
}

// query is what of a log is asked for.
type query struct {
	since  time.Time
	kind   string // empty for all
	follow bool
}

// Serve answers with the events of the deployment uid, oldest first: all that are kept, or
// those that ?since=TIME and ?type=TYPE let pass. With ?follow=true the answer is a
// stream that goes on with what comes. A client that takes them too slowly is cut off,
// and nobody waits for it.
func (l *Log) Serve(w http.ResponseWriter, r *http.Request, uid string, who v2.Identity) error {
	q, err := parse(r)
	if err != nil {
		return err
	}
	if q.follow {
		return l.streams.Serve(w, r, func(ctx context.Context, send func([]byte) error) error { return l.follow(ctx, uid, q, send) })
	}
	events, err := l.contexts.Events(r.Context(), uid)
	if err != nil {
		return err
	}
	out := v2.EventsAnswer{Identity: who, Events: []v2.Event{}}
	for _, e := range events {
		if q.admits(e) {
			out.Events = append(out.Events, event(e))
		}
	}
	return web.JSON(w, http.StatusOK, out)
}

func parse(r *http.Request) (q query, err error) {
	v := r.URL.Query()
	if s := v.Get("since"); s != "" {
		if q.since, err = time.Parse(time.RFC3339, s); err != nil {
			return q, errs.New(errs.Invalid, "Invalid query since: "+strconv.Quote(s)+" is no time such as 2026-11-21T12:00:00Z")
		}
	}
	if q.kind = v.Get("type"); q.kind != "" && q.kind != appcontext.Normal && q.kind != appcontext.Warning {
		return q, errs.New(errs.Invalid, "Invalid query type: "+strconv.Quote(q.kind)+" is neither Normal nor Warning")
	}
	switch s := v.Get("follow"); s {
	case "", "false":
	case "true":
		q.follow = true
	default:
		return q, errs.New(errs.Invalid, "Invalid query follow: "+strconv.Quote(s)+" is neither true nor false")
	}
	return q, nil
}

func (q query) admits(e appcontext.Event) bool {
	return !e.At.Before(q.since) && (q.kind == "" || q.kind == e.Type)
}

var errSlow = errs.New(errs.Throttled, "the client takes events too slowly; ask again, with since")

// follow sends events until ctx ends. The watch is drained however slow the client is.
func (l *Log) follow(ctx context.Context, uid string, q query, send func([]byte) error) error {
	b := newBox(ctx)
	over := make(chan struct{})
	go func() {
		defer close(over)
		l.watch(b.ctx, uid, q, b.put)
	}()
	defer func() { b.end(nil); <-over }()
	return b.empty(send)
}

// box holds the events that wait for one client.
type box struct {
	ctx     context.Context // ends with the request, or when too many wait
	end     context.CancelCauseFunc
	waiting chan appcontext.Event
}

func newBox(ctx context.Context) box {
	b := box{waiting: make(chan appcontext.Event, backlog)}
	b.ctx, b.end = context.WithCancelCause(ctx)
	return b
}

// put never waits. If the box is full, the client is given up.
func (b box) put(e appcontext.Event) {
	select {
	case b.waiting <- e:
	default:
		b.end(errSlow)
	}
}

// empty sends what is put into the box until its context ends.
func (b box) empty(send func([]byte) error) error {
	for b.ctx.Err() == nil {
		select {
		case <-b.ctx.Done():
		case e := <-b.waiting:
			text, err := json.Marshal(event(e))
			if err == nil {
				err = send(text)
			}
			if err != nil {
				return err
			}
		}
	}
	return context.Cause(b.ctx)
}

// watch tells what q lets pass until ctx ends. What cannot be read is passed over.
func (l *Log) watch(ctx context.Context, uid string, q query, tell func(appcontext.Event)) {
	for e, err := range l.contexts.WatchEvents(ctx, uid) {
		if err == nil && q.admits(e) {
			tell(e)
		}
	}
}

func event(e appcontext.Event) v2.Event {
	return v2.Event{
		Time: e.At, Type: e.Type, Reason: e.Reason, Message: e.Message,
		Actor: e.Actor, Revision: e.Rev, App: e.App, Cluster: e.Cluster,
	}
}
