package tally

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
)

const (
	maxChanged  = 200              // clusters of an event; more are a resync
	streamPause = time.Second      // between two events of a topic
	aliveEvery  = 15 * time.Second // so that proxies keep a silent stream
)

// Topic is what a client follows: the fleet, a cluster, a group, or something that is not counted here.
type Topic struct {
	Name    string            // as the client gave it
	Cluster v2.ClusterKey     // of "cluster:…"
	Head    appcontext.HeadID // of the group of "group:…"
	Mark    func() string     // of what is not counted here: another text means that it has changed; else nil
}

// Follow sends events until ctx ends, at most one per topic and second. from is the number of
// the last event that the client has; below zero if it has none. At first it sends nil, because the first event of a client
// that goes on may be far away.
func (t *Tally) Follow(ctx context.Context, about []Topic, from int64, send func([]byte) error) error {
	if err := send(nil); err != nil {
		return err
	}
	marks := map[string]string{} // last marks, by name of the topic
	next, _, whole := t.changes(from)
	if from < 0 { // a client that goes on may have missed any of them
		newMarks(about, marks)
	}
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
		for _, name := range newMarks(about, marks) {
			events = append(events, event(next, "rows", v2.StreamEvent{Topic: name}))
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

// newMarks returns the names of the topics whose marks differ from the last ones, and keeps the new marks.
func newMarks(about []Topic, last map[string]string) (changed []string) {
	for _, s := range about {
		if s.Mark == nil {
			continue
		}
		mark := s.Mark()
		if before, known := last[s.Name]; !known || before != mark {
			last[s.Name], changed = mark, append(changed, s.Name)
		}
	}
	return changed
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
func (t *Tally) events(id int64, about []Topic, news map[newsItem]bool) (out [][]byte) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, s := range about {
		switch {
		case s.Mark != nil:
		case s.Name == "fleet":
			out = append(out, event(id, "fleet", t.fleetEventLocked(news)))
		case s.Head == "":
			if news[newsItem{cluster: s.Cluster}] {
				sum := t.clusters[s.Cluster].sum()
				out = append(out, event(id, "rows", v2.StreamEvent{Topic: s.Name, State: sum.State.String(), Counts: sum.Counts.View()}))
			}
		default:
			deployment := t.heads[s.Head].Deployment()
			if !news[newsItem{deployment: deployment}] {
				continue
			}
			e := v2.StreamEvent{Topic: s.Name, State: Idle.String(), Counts: v2.ViewCounts{}}
			if d := t.deployments[deployment]; d != nil {
				e.State, e.Counts = d.counts.Worst().String(), d.counts.View()
			}
			out = append(out, event(id, "rows", e))
		}
	}
	return out
}

// fleetEventLocked returns the clusters that have changed, with their states.
func (t *Tally) fleetEventLocked(news map[newsItem]bool) v2.StreamEvent {
	out := v2.StreamEvent{Pairs: t.pairs.View()}
	for item := range news {
		if item.cluster == "" {
			continue
		}
		if len(out.Clusters) == maxChanged {
			return v2.StreamEvent{Resync: true}
		}
		out.Clusters = append(out.Clusters, v2.ClusterChange{Cluster: item.cluster, State: t.clusters[item.cluster].sum().State.String()})
	}
	slices.SortFunc(out.Clusters, func(a, b v2.ClusterChange) int { return cmp.Compare(a.Cluster, b.Cluster) })
	return out
}
