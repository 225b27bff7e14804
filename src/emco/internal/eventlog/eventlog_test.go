package eventlog

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/contexttest"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// logServer is the log of deployment 7, served.
type logServer struct {
	*testing.T
	contexts *appcontext.Store
	url      string
	stop     func() error // ends the server and returns its error
}

func newSite(t *testing.T) logServer {
	t.Helper()
	s := logServer{T: t, contexts: contexttest.New(t)}
	log := New(s.contexts)
	h := web.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		return log.Serve(w, r, "7", v2.StatusSubject{Name: "autumn"})
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	s.must(err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	quiet := slog.New(slog.DiscardHandler)
	go func() {
		ended <- web.Server{Log: quiet, Handler: web.Wrap(quiet, h), Limits: web.DefaultLimits()}.Serve(ctx, l)
	}()
	s.url = "http://" + l.Addr().String()
	s.stop = func() error { cancel(); return <-ended }
	return s
}

func (s logServer) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// happens adds an event some minutes after noon.
func (s logServer) happens(minutes int, kind, reason string) {
	s.Helper()
	s.must(s.contexts.AddEvents(s.Context(), appcontext.Event{
		UID: "7", At: noon.Add(time.Duration(minutes) * time.Minute), Type: kind, Reason: reason, Actor: "ada", Rev: int64(minutes),
	}))
}

func (s logServer) get(query string) *http.Response {
	s.Helper()
	res, err := http.Get(s.url + "/?" + query)
	s.must(err)
	s.Cleanup(func() { _ = res.Body.Close() })
	return res
}

func TestEventsAreListedAndNarrowed(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	defer func() { s.must(s.stop()) }()
	var answer v2.EventsAnswer
	res := s.get("")
	s.must(json.NewDecoder(res.Body).Decode(&answer))
	if answer.Name != "autumn" || answer.Events == nil || len(answer.Events) != 0 {
		t.Errorf("nothing happened: got %+v", answer)
	}
	s.happens(0, "Normal", "Approved")
	s.happens(1, "Warning", "AppFailed")
	s.happens(2, "Normal", "Terminated")
	for query, want := range map[string]string{
		"":                                  "Approved AppFailed Terminated",
		"type=Warning":                      "AppFailed",
		"since=2026-11-21T12:01:00Z":        "AppFailed Terminated",
		"since=2026-11-21T13:01:30%2B01:00": "Terminated",
		"type=Warning&since=2026-11-21T12:02:00Z": "",
	} {
		answer = v2.EventsAnswer{}
		s.must(json.NewDecoder(s.get(query).Body).Decode(&answer))
		var got []string
		for _, e := range answer.Events {
			got = append(got, e.Reason)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q: got %q, want %q", query, got, want)
		}
	}
	first, next := v2.EventsAnswer{}, v2.EventsAnswer{}
	s.must(json.NewDecoder(s.get("limit=2").Body).Decode(&first))
	s.happens(3, "Normal", "Later")
	s.must(json.NewDecoder(s.get("limit=2&continue=" + first.Continue).Body).Decode(&next))
	if len(first.Events) != 2 || len(next.Events) != 2 || next.Events[0].Reason != "Terminated" || next.Events[1].Reason != "Later" || next.Continue != "" {
		t.Errorf("pages: %+v, then %+v", first, next)
	}
	for _, query := range []string{"limit=0", "continue=!", "continue=eA", "limit=1&follow=true", "since=yesterday", "type=warning", "follow=maybe"} {
		if res := s.get(query); res.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: got %d", query, res.StatusCode)
		}
	}
}

func TestAStreamGoesOnUntilTheServerStops(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.happens(0, "Normal", "Old")
	s.happens(1, "Normal", "Approved")
	res := s.get("follow=true&since=2026-11-21T12:01:00Z")
	lines := bufio.NewScanner(res.Body)
	for i, want := range []string{"Approved", "Instantiated", "Terminated"} {
		if i > 0 {
			s.happens(i+1, "Normal", want)
		}
		var e v2.Event
		if !lines.Scan() || json.Unmarshal(lines.Bytes(), &e) != nil || e.Reason != want || e.Actor != "ada" || e.Revision != int64(i+1) {
			t.Fatalf("line %d is %q, %v; want %s", i, lines.Text(), lines.Err(), want)
		}
	}
	if kind := res.Header.Get("Content-Type"); kind != "application/x-ndjson" {
		t.Errorf("content type %q", kind)
	}
	s.must(s.stop()) // which waits for the requests under way
	if lines.Scan() {
		t.Errorf("after the end: %q", lines.Text())
	}
}

// A client that follows a deployment without events gets the header at once.
func TestAStreamWithoutEventsIsAnswered(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	res := s.get("follow=true") // returns when the header is there
	if res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != "application/x-ndjson" {
		t.Errorf("got %s, %v", res.Status, res.Header)
	}
	s.happens(0, "Normal", "Approved")
	lines := bufio.NewScanner(res.Body)
	if !lines.Scan() || !strings.Contains(lines.Text(), "Approved") {
		t.Errorf("the first line is %q, %v", lines.Text(), lines.Err())
	}
	s.must(s.stop())
}

// What waits for a client is bounded; when it is too much, the client gets nothing more.
func TestAClientThatIsTooSlowIsGivenUp(t *testing.T) {
	t.Parallel()
	b := newEventBuffer(t.Context())
	for range backlog {
		b.put(appcontext.Event{})
	}
	if b.ctx.Err() != nil {
		t.Fatalf("given up too early: %v", context.Cause(b.ctx))
	}
	b.put(appcontext.Event{})
	err := b.sendAll(func([]byte) error {
		t.Error("something was sent")
		return nil
	})
	if !errors.Is(err, errSlow) {
		t.Errorf("got %v, want that it is too slow", err)
	}
}

func TestASlowClientHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	contexts := contexttest.New(t)
	log := New(contexts)
	add := func(n int) {
		t.Helper()
		events := make([]appcontext.Event, n)
		for i := range events {
			events[i] = appcontext.Event{UID: "7", Reason: "Busy"}
		}
		if err := contexts.AddEvents(t.Context(), events...); err != nil {
			t.Fatal(err)
		}
	}
	follow := func(send func([]byte) error) (end func() error) {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- log.follow(ctx, "7", eventQuery{}, send) }()
		return func() error { cancel(); return <-ended }
	}
	add(1)
	stuck, leave := make(chan struct{}, 1), make(chan struct{})
	endSlow := follow(func(event []byte) error {
		if event == nil {
			return nil // the header
		}
		select {
		case stuck <- struct{}{}:
		default:
		}
		<-leave
		return nil
	})
	<-stuck
	got := make(chan struct{}, 2*backlog)
	endSwift := follow(func(event []byte) error {
		if event != nil {
			got <- struct{}{}
		}
		return nil
	})
	add(backlog + 1)
	for range 1 + backlog + 1 {
		<-got
	}
	if err := endSwift(); err != nil {
		t.Errorf("the swift client ended with %v", err)
	}
	close(leave)
	if err := endSlow(); err != nil && !errors.Is(err, errSlow) {
		t.Errorf("the slow client ended with %v", err)
	}
}
