package views

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

const (
	maxTopics   = 20               // of a stream
	maxChanged  = 200              // clusters of an event; more are a resync
	streamPause = time.Second      // between two events of a topic
	aliveEvery  = 15 * time.Second // so that proxies keep a silent stream
)

// subject is what a topic of a stream is about.
type subject struct {
	topic   string            // as the client gave it
	cluster v2.ClusterKey     // of "cluster:…"
	head    appcontext.HeadID // of the group of "group:…"
}

// stream answers with server-sent events when what its topics are about has changed. The id of
// an event lets a client continue with the header Last-Event-ID.
func (v *Views) stream(w http.ResponseWriter, r *http.Request) error {
	values := r.URL.Query()
	if err := web.CheckQuery(values, "topics"); err != nil {
		return err
	}
	var about []subject
	for topic := range strings.SplitSeq(values.Get("topics"), ",") {
		s, err := v.subject(r.Context(), topic)
		if err != nil {
			return err
		}
		about = append(about, s)
	}
	if len(about) > maxTopics {
		return errs.New(errs.Invalid, fmt.Sprintf("Invalid query topics: give at most %d", maxTopics))
	}
	from := int64(-1)
	if text := r.Header.Get("Last-Event-ID"); text != "" {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return errs.New(errs.Invalid, "Invalid header Last-Event-ID: give the id of an event")
		}
		from = max(n, 0)
	}
	return v.streams.ServeEvents(w, r, func(ctx context.Context, send func([]byte) error) error {
		return v.Tally.follow(ctx, about, from, send)
	})
}

// subject reads a topic.
func (v *Views) subject(ctx context.Context, topic string) (subject, error) {
	kind, name, _ := strings.Cut(topic, ":")
	switch {
	case topic == "fleet":
		return subject{topic: topic}, nil
	case kind == "cluster":
		key, err := v2.ParseClusterKey(name)
		return subject{topic: topic, cluster: key}, err
	case kind == "group" && isGroup(name):
		doc, err := v.DB.Get(ctx, store.Key(name))
		if errs.Is(err, errs.NotFound) {
			err = errs.New(errs.NotFound, "DeploymentIntentGroup not found: "+name)
		}
		return subject{topic: topic, head: appcontext.HeadID(doc.UID)}, err
	}
	return subject{}, errs.New(errs.Invalid, "Invalid query topics: "+strconv.Quote(topic)+" is neither fleet, group:PATH nor cluster:PROVIDER+CLUSTER")
}

// follow sends events until ctx ends, at most one per topic and second. from is the number of
// the last event that the client has; below zero if it has none.
func (t *Tally) follow(ctx context.Context, about []subject, from int64, send func([]byte) error) error {
	next, _, whole := t.changes(from)
	if from >= 0 && !whole || from < 0 {
		if err := send(event(next, "resync", v2.StreamEvent{Resync: true})); err != nil {
			return err
		}
		from = next
	}
	tick := time.NewTicker(streamPause)
	defer tick.Stop()
	for last := time.Now(); ; {
		next, news, whole := t.changes(from)
		var events [][]byte
		switch {
		case !whole:
			events = [][]byte{event(next, "resync", v2.StreamEvent{Resync: true})}
		case len(news) > 0:
			events = t.events(next, about, news)
		}
		if len(events) == 0 && time.Since(last) >= aliveEvery {
			events = [][]byte{[]byte(": alive\n")}
		}
		for _, e := range events {
			if err := send(e); err != nil {
				return err
			}
			last = time.Now()
		}
		from = next
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// event returns the text of a server-sent event.
func event(id int64, name string, data v2.StreamEvent) []byte {
	text, err := json.Marshal(data)
	if err != nil {
		text = []byte(`{"resync":true}`)
	}
	return fmt.Appendf(nil, "id: %d\nevent: %s\ndata: %s\n", id, name, text)
}

// changes returns the number of the next piece of news, and the news since a number; false if
// some of them are not kept any longer.
func (t *Tally) changes(from int64) (next int64, news map[newsItem]bool, whole bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	news, whole = t.news.since(from)
	return t.news.next, news, whole
}

// events returns the events that news cause.
func (t *Tally) events(id int64, about []subject, news map[newsItem]bool) (out [][]byte) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, s := range about {
		switch {
		case s.topic == "fleet":
			out = append(out, event(id, "fleet", t.fleetEventLocked(news)))
		case s.head == "":
			if news[newsItem{cluster: s.cluster}] {
				sum := t.clusters[s.cluster].sum()
				out = append(out, event(id, "rows", v2.StreamEvent{Topic: s.topic, State: sum.state.String(), Counts: sum.counts.answer()}))
			}
		default:
			deployment := t.heads[s.head].Deployment()
			if !news[newsItem{deployment: deployment}] {
				continue
			}
			e := v2.StreamEvent{Topic: s.topic, State: Idle.String(), Counts: v2.ViewCounts{}}
			if d := t.deployments[deployment]; d != nil {
				e.State, e.Counts = d.counts.Worst().String(), d.counts.answer()
			}
			out = append(out, event(id, "rows", e))
		}
	}
	return out
}

// fleetEventLocked returns the clusters that have changed, with their states.
func (t *Tally) fleetEventLocked(news map[newsItem]bool) v2.StreamEvent {
	out := v2.StreamEvent{Pairs: t.pairs.answer()}
	for item := range news {
		if item.cluster == "" {
			continue
		}
		if len(out.Clusters) == maxChanged {
			return v2.StreamEvent{Resync: true}
		}
		out.Clusters = append(out.Clusters, v2.ClusterChange{Cluster: item.cluster, State: t.clusters[item.cluster].sum().state.String()})
	}
	slices.SortFunc(out.Clusters, func(a, b v2.ClusterChange) int { return cmp.Compare(a.Cluster, b.Cluster) })
	return out
}
