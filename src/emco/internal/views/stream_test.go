package views

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
)

func pairKey(cluster v2.ClusterKey, app string) appcontext.PairKey {
	return appcontext.PairKey{Cluster: cluster, Deployment: "1", App: app}
}

// follower collects the events of a stream in a bubble of time.
type follower struct {
	got  []string
	stop func()
}

func follow(t *testing.T, tally *Tally, from int64, about ...subject) *follower {
	ctx, cancel := context.WithCancel(t.Context())
	f, done := &follower{}, make(chan struct{})
	go func() {
		defer close(done)
		_ = tally.follow(ctx, about, from, func(e []byte) error {
			f.got = append(f.got, strings.ReplaceAll(strings.TrimSpace(string(e)), "\n", " | "))
			return nil
		})
	}()
	f.stop = func() { cancel(); <-done }
	return f
}

// tell lets the stream take in what has changed, and returns its events.
func (f *follower) tell() string {
	time.Sleep(streamPause)
	synctest.Wait()
	out := strings.Join(f.got, "\n")
	f.got = nil
	return out
}

func TestAStreamTellsWhatHasChanged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tally := NewTally(stale, time.Now)
		h := appcontext.Head{UID: "1", Rev: 1}
		tally.HeadChanged("1", &h)
		tally.PairChanged(pairKey("edge+a", "web"), ready(true, time.Now()))
		tally.Advanced(1)
		f := follow(t, tally, -1, subject{topic: "fleet"}, subject{topic: "cluster:edge+b", cluster: "edge+b"}, subject{topic: "group:g", head: "1"})
		defer func() { f.stop() }()
		if got := f.tell(); !strings.Contains(got, `event: resync | data: {"resync":true}`) || strings.Contains(got, "event: fleet") {
			t.Errorf("at first: %s", got)
		}
		if got := f.tell(); got != "" {
			t.Errorf("nothing has changed: %s", got)
		}
		for range 5 { // five changes in one second are one event
			tally.PairChanged(pairKey("edge+b", "web"), failed("no"))
			tally.PairChanged(pairKey("edge+b", "web"), ready(false, time.Now()))
		}
		got := strings.Split(f.tell(), "\n")
		if len(got) != 3 ||
			!strings.HasSuffix(got[0], `event: fleet | data: {"pairs":{"notReady":1,"ready":1},"clusters":[{"cluster":"edge+b","state":"notReady"}]}`) ||
			!strings.HasSuffix(got[1], `event: rows | data: {"topic":"cluster:edge+b","state":"notReady","counts":{"notReady":1}}`) ||
			!strings.HasSuffix(got[2], `event: rows | data: {"topic":"group:g","state":"notReady","counts":{"notReady":1,"ready":1}}`) {
			t.Errorf("after changes:\n%s", strings.Join(got, "\n"))
		}
		time.Sleep(aliveEvery)
		if got := f.tell(); got != ": alive" {
			t.Errorf("after a silence: %q", got)
		}
		var last int64
		if _, err := fmt.Sscanf(got[2], "id: %d", &last); err != nil {
			t.Fatal(err)
		}
		f.stop()
		tally.PairChanged(pairKey("edge+b", "web"), ready(true, time.Now()))
		f = follow(t, tally, last, subject{topic: "fleet"})
		if got := f.tell(); !strings.Contains(got, `{"cluster":"edge+b","state":"ready"}`) || strings.Contains(got, "resync") {
			t.Errorf("continued: %s", got)
		}
		for i := range maxChanged + 1 {
			tally.PairChanged(pairKey(v2.NewClusterKey("edge", fmt.Sprint("c", i)), "web"), failed("no"))
		}
		if got := f.tell(); !strings.Contains(got, `event: fleet | data: {"resync":true}`) {
			t.Errorf("too many changes: %.300s", got)
		}
		tally.Restarted()
		if got := f.tell(); !strings.Contains(got, "event: resync") {
			t.Errorf("after a restart: %.300s", got)
		}
		f.stop()
		f = follow(t, tally, 0, subject{topic: "fleet"})
		if got := f.tell(); !strings.Contains(got, "event: resync") {
			t.Errorf("news that are not kept: %.300s", got)
		}
	})
}

func TestTopicsOfStreamsAreChecked(t *testing.T) {
	t.Parallel()
	w, _ := shop(t)
	for query, want := range map[string]int{
		"":                                   http.StatusBadRequest,
		"?topics=moon":                       http.StatusBadRequest,
		"?topics=cluster:a":                  http.StatusBadRequest,
		"?topics=group:x":                    http.StatusBadRequest,
		"?topic=fleet":                       http.StatusBadRequest,
		"?topics=group:" + groupPath("none"): http.StatusNotFound,
		"?topics=fleet" + strings.Repeat(",fleet", maxTopics): http.StatusBadRequest,
	} {
		if got := w.get("/stream" + query); got.Code != want {
			t.Errorf("%s: %d %s, want %d", query, got.Code, got.Body, want)
		}
	}
}
