package auditlog_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/audit"
	"github.com/emco-orchestrator/emco/src/emco/internal/auditlog"
)

// receiver is a server that takes lines.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	refuse []int    // statuses of the next answers; guarded by mu
	spurn  string   // a text that no lines may have, if it is not empty
	lines  []string // guarded by mu
	most   int      // lines in one request; guarded by mu
	sent   int      // lines that a webhook knows have arrived; guarded by mu
	news   chan struct{}
}

func newReceiver(b *bed, refuse ...int) *receiver {
	r := &receiver{refuse: refuse, news: make(chan struct{}, 1)}
	r.Server = httptest.NewServer(r)
	b.Cleanup(r.Close)
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	body, err := io.ReadAll(q.Body)
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err != nil || q.Header.Get("Content-Type") != "application/x-ndjson" || !bytes.HasSuffix(body, []byte("\n")):
		w.WriteHeader(http.StatusBadRequest)
	case r.spurn != "" && bytes.Contains(body, []byte(r.spurn)):
		w.WriteHeader(http.StatusBadRequest)
	case len(r.refuse) > 0:
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(r.refuse[0])
		r.refuse = r.refuse[1:]
	default:
		got := strings.Split(strings.TrimSuffix(string(body), "\n"), "\n")
		r.lines, r.most = append(r.lines, got...), max(r.most, len(got))
	}
}

// arrived is Webhook.OnSent.
func (r *receiver) arrived(lines int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sent += lines
	select {
	case r.news <- struct{}{}:
	default:
	}
}

// await waits until a number of lines has arrived.
func (r *receiver) await(b *bed, lines int) {
	b.Helper()
	for limit := time.After(30 * time.Second); ; {
		r.mu.Lock()
		got := r.sent
		r.mu.Unlock()
		if got >= lines {
			return
		}
		select {
		case <-r.news:
		case <-limit:
			b.Fatalf("%d lines arrived of %d", got, lines)
		}
	}
}

// post runs the webhook of a process; the returned function stops it.
func (b *bed) post(log *auditlog.Log, r *receiver) (stop func()) {
	b.Helper()
	at, err := url.Parse(r.URL)
	b.must(err)
	w := &auditlog.Webhook{
		AuditLog: log, URL: at, Client: &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
		Pause: time.Millisecond, Log: slog.New(slog.DiscardHandler), OnSent: r.arrived, OnFailed: func() { b.failed.Add(1) },
	}
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan error, 1)
	go func() { over <- w.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-over; err != nil {
			b.Error(err)
		}
	})
	b.Cleanup(stop)
	return stop
}

// The server gets each line once and in order: from segments, over refusals, and from the next process when one stops.
func TestTheWebhookGetsAllLines(t *testing.T) {
	b := newBed(t)
	one, _ := b.start(b.options("a"))
	two, _ := b.start(b.options("b"))
	var clients sync.WaitGroup
	for range 16 {
		clients.Go(func() {
			for range 40 {
				b.serve(one, "/v2/projects/old")
			}
		})
	}
	clients.Wait()
	b.later.Store(int64(25 * time.Hour))
	b.tidy(one)
	b.serve(one, "/v2/projects/new")
	r := newReceiver(b, 503, 429, 302, 500)
	stop := b.post(one, r)
	waits := b.post(two, r) // the first one posts
	r.await(b, len(lines(b, b.export(one))))
	stop()
	b.serve(two, "/v2/projects/later")
	all := lines(b, b.export(two))
	r.await(b, len(all))
	waits()
	if b.failed.Load() != 4 {
		t.Errorf("%d failures, want 4", b.failed.Load())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.lines) != len(all) || r.most > 1000 {
		t.Errorf("%d lines arrived of %d, up to %d at once", len(r.lines), len(all), r.most)
	}
	if _, err := audit.Verify(strings.NewReader(strings.Join(r.lines, "\n"))); err != nil {
		t.Error(err)
	}
}

// A damaged position has lines posted again, and after a restore those that are new to the server.
func TestTheWebhookStartsAgain(t *testing.T) {
	b := newBed(t)
	log, _ := b.start(b.options("a"))
	b.serve(log, "/v2/projects/one")
	for _, position := range []string{"{", `{"00":1000}`, "null"} {
		b.edit(b.kv.Key("audit", "webhook"), func(string) string { return position })
		r := newReceiver(b)
		stop := b.post(log, r)
		r.await(b, len(lines(b, b.export(log))))
		stop()
	}
}

// Lines that the server refuses keep only those of their own stream.
func TestTheWebhookGoesOnWithOtherStreams(t *testing.T) {
	b := newBed(t)
	one, _ := b.start(b.options("a"))
	two, _ := b.start(b.options("b"))
	b.serve(one, "/v2/projects/refused")
	b.serve(two, "/v2/projects/taken")
	r := newReceiver(b)
	r.spurn = "refused"
	b.post(one, r)
	r.await(b, 3)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, text := range r.lines {
		if !strings.Contains(text, `"stream":"01"`) {
			t.Errorf("arrived is %s", text)
		}
	}
	if b.failed.Load() == 0 {
		t.Error("no refusal was counted")
	}
}
