// Package eventlog serves the events of one deployment: as a list, or as a stream that follows
// new ones. The code that changes a deployment also writes its events, with the change or after it; package appcontext
// stores them. Package views serves the events of all deployments.
package eventlog

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"iter"
	"net/http"
	"strconv"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

const (
	followers = 200  // streams at the same time
	backlog   = 1024 // events that wait for one client; more than are kept of a deployment
)

// EventReader reads events of deployments.
type EventReader interface {
	// Events returns the events of a deployment, oldest first.
	Events(ctx context.Context, head appcontext.HeadID) ([]appcontext.Event, error)
	// WatchEvents yields the events of a deployment, oldest first, and then new ones.
	WatchEvents(ctx context.Context, head appcontext.HeadID) iter.Seq2[appcontext.Event, error]
}

// Log serves the events of deployments.
type Log struct {
	events  EventReader
	streams *web.Streams
}

// New returns the log over events.
func New(events EventReader) *Log {
	return &Log{events: events, streams: web.NewStreams(followers)}
}

// eventQuery selects events of a log.
type eventQuery struct {
	since  time.Time
	kind   string // empty for all
	follow bool
	page   web.Page
}

// nameOf identifies an event in a token. Events have no names: two that are equal are one.
func nameOf(e v2.Event) string {
	sum := sha256.Sum256([]byte(e.Time.UTC().Format(time.RFC3339Nano) + "\x00" + e.Reason + "\x00" + e.App + "\x00" + e.Cluster + "\x00" + e.Message))
	return hex.EncodeToString(sum[:8])
}

// Serve answers with the events of the deployment head, oldest first: all that are kept, or
// those that ?since=TIME and ?type=TYPE select, in pages with ?limit=. With ?follow=true the answer is a stream
// that continues with new events. A client that reads too slowly is disconnected.
func (l *Log) Serve(w http.ResponseWriter, r *http.Request, head appcontext.HeadID, who v2.StatusSubject) error {
	q, err := parse(r)
	if err != nil {
		return err
	}
	if q.follow {
		return l.streams.Serve(w, r, func(ctx context.Context, send func([]byte) error) error { return l.follow(ctx, head, q, send) })
	}
	events, err := l.events.Events(r.Context(), head)
	if err != nil {
		return err
	}
	var chosen []v2.Event
	for _, e := range events {
		if q.admits(e) {
			chosen = append(chosen, Shown(e))
		}
	}
	out := v2.EventsAnswer{StatusSubject: who, Events: []v2.Event{}}
	page, next, err := web.Cut(q.page, chosen, nameOf)
	if err != nil {
		return err
	}
	out.Events, out.Continue = append(out.Events, page...), next
	return web.JSON(w, http.StatusOK, out)
}

func parse(r *http.Request) (q eventQuery, err error) {
	v := r.URL.Query()
	if err := web.CheckQuery(v, "since", "type", "follow", "limit", "continue"); err != nil {
		return q, err
	}
	if s := v.Get("since"); s != "" {
		if q.since, err = time.Parse(time.RFC3339, s); err != nil {
			return q, errs.New(errs.Invalid, "Invalid query since: "+strconv.Quote(s)+" is not a time such as 2026-11-21T12:00:00Z")
		}
	}
	if q.kind = v.Get("type"); q.kind != "" && q.kind != appcontext.Normal && q.kind != appcontext.Warning {
		return q, errs.New(errs.Invalid, "Invalid query type: "+strconv.Quote(q.kind)+" is neither Normal nor Warning")
	}
	if q.page, err = web.ReadPage(v); err != nil {
		return q, err
	}
	switch s := v.Get("follow"); s {
	case "", "false":
	case "true":
		q.follow = true
	default:
		return q, errs.New(errs.Invalid, "Invalid query follow: "+strconv.Quote(s)+" is neither true nor false")
	}
	if q.follow && q.page != (web.Page{}) {
		return q, errs.New(errs.Invalid, "Invalid query limit: a stream has no pages; leave limit and continue out, or follow")
	}
	return q, nil
}

func (q eventQuery) admits(e appcontext.Event) bool {
	return !e.At.Before(q.since) && (q.kind == "" || q.kind == e.Type)
}

var errSlow = errs.New(errs.Throttled, "the client takes events too slowly; ask again, with since")

// follow sends events until ctx ends. It reads the watch at full speed, however slow the
// client is.
func (l *Log) follow(ctx context.Context, head appcontext.HeadID, q eventQuery, send func([]byte) error) error {
	if err := send(nil); err != nil { // the first event may be far away
		return err
	}
	b := newEventBuffer(ctx)
	done := make(chan struct{})
	go func() { // ends with b.ctx
		defer close(done)
		l.watch(b.ctx, head, q, b.put)
	}()
	defer func() { b.end(nil); <-done }()
	return b.sendAll(send)
}

// eventBuffer holds the events that wait for one client.
type eventBuffer struct {
	ctx     context.Context // ends with the request, or when too many events wait
	end     context.CancelCauseFunc
	waiting chan appcontext.Event
}

func newEventBuffer(ctx context.Context) eventBuffer {
	b := eventBuffer{waiting: make(chan appcontext.Event, backlog)}
	b.ctx, b.end = context.WithCancelCause(ctx)
	return b
}

// put never blocks. A full buffer ends the stream.
func (b eventBuffer) put(e appcontext.Event) {
	select {
	case b.waiting <- e:
	default:
		b.end(errSlow)
	}
}

// sendAll sends buffered events until the buffer's context ends. The error is that of send, or errSlow.
func (b eventBuffer) sendAll(send func([]byte) error) error {
	for b.ctx.Err() == nil {
		select {
		case <-b.ctx.Done():
		case e := <-b.waiting:
			text, err := json.Marshal(Shown(e))
			if err == nil {
				err = send(text)
			}
			if err != nil {
				return err
			}
		}
	}
	if err := context.Cause(b.ctx); errors.Is(err, errSlow) {
		return err
	}
	return nil // the request is over
}

// watch yields the events that q admits until ctx ends. It skips those that cannot be read.
func (l *Log) watch(ctx context.Context, head appcontext.HeadID, q eventQuery, yield func(appcontext.Event)) {
	for e, err := range l.events.WatchEvents(ctx, head) {
		if err == nil && q.admits(e) {
			yield(e)
		}
	}
}

// Shown returns an event as clients see it.
func Shown(e appcontext.Event) v2.Event {
	return v2.Event{
		Time: e.At, Type: e.Type, Reason: e.Reason, Message: e.Message,
		Actor: e.Actor, Revision: e.Rev, App: e.App, Cluster: string(e.Cluster), Trace: e.Trace,
	}
}
