package appcontext

import (
	"context"
	"crypto/rand"
	"fmt"
	"iter"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Event is one line of what happened to a deployment, for people who read.
type Event struct {
	UID     string    `json:"-"` // of the head
	At      time.Time `json:"at"`
	Type    string    `json:"type"`   // "Normal" or "Warning"
	Reason  string    `json:"reason"` // one word in camel case: "Instantiated", "AppFailed", "Blocked"
	Message string    `json:"message"`
	Actor   string    `json:"actor,omitempty"` // who asked for it; empty if it happened by itself
	Rev     int64     `json:"rev,omitempty"`
	App     string    `json:"app,omitempty"`
	Cluster string    `json:"cluster,omitempty"`
}

// The types of events, as in Kubernetes.
const (
	Normal  = "Normal"
	Warning = "Warning"
)

// maxEvents is how many events of a deployment are kept.
const maxEvents = 500

// AddEvents appends events, batched. They are written for people: an error loses some of
// them and nothing else. At is set to now where it is not given.
func (s *Store) AddEvents(ctx context.Context, events ...Event) error {
	b := &batch{s: s, subject: "events"}
	for _, e := range events {
		e = s.stamped(e, e.UID)
		if err := checkParts(e.UID); err != nil {
			return err
		}
		key := s.eventKey(e)
		text, err := encode(key, e)
		if err != nil {
			return err
		}
		if err := b.add(ctx, clientv3.OpPut(key, text)); err != nil {
			return err
		}
	}
	return b.flush(ctx)
}

// stamped returns an event of a deployment with its time, now if it has none.
func (s *Store) stamped(e Event, uid string) Event {
	e.UID = uid
	if e.At.IsZero() {
		e.At = s.now()
	}
	e.At = e.At.UTC()
	return e
}

// eventKey sorts by time; events of the same moment are in no order.
func (s *Store) eventKey(e Event) string {
	return s.key("event", e.UID, fmt.Sprintf("%019d-%s", e.At.UnixNano(), rand.Text()[:6]))
}

// Events returns a deployment's events, oldest first.
func (s *Store) Events(ctx context.Context, uid string) ([]Event, error) {
	if err := checkParts(uid); err != nil {
		return nil, err
	}
	var out []Event
	sc := &scan{prefix: s.key("event", uid) + "/"}
	for e, err := range records(s.list(ctx, sc), s.parseEvent) {
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
}

func (s *Store) parseEvent(kv *mvccpb.KeyValue) (Event, error) {
	e, err := decode[Event](kv)
	e.UID = s.split(kv.Key)[1]
	return e, err
}

// WatchEvents yields a deployment's events, oldest first, then new ones as they come,
// each once. It ends only when ctx ends. An error stands for one event that cannot be
// read; the iteration goes on. What comes while the consumer is busy waits in memory, so
// a consumer must be quick.
func (s *Store) WatchEvents(ctx context.Context, uid string) iter.Seq2[Event, error] {
	if err := checkParts(uid); err != nil {
		return failed[Event](err)
	}
	return func(yield func(Event, error) bool) {
		for c := range s.follow(ctx, s.key("event", uid)+"/") {
			if !c.synced && !c.deleted && !yield(s.parseEvent(c.kv)) {
				return
			}
		}
	}
}

// trimEvents removes the oldest events of a deployment beyond maxEvents. keys are all
// that it has, in order.
func (s *Store) trimEvents(ctx context.Context, keys []string) error {
	b := &batch{s: s, subject: "events"}
	for _, key := range slices.Clip(keys)[:max(0, len(keys)-maxEvents)] {
		if err := b.add(ctx, clientv3.OpDelete(key)); err != nil {
			return err
		}
	}
	return b.flush(ctx)
}

// sweepEvents trims the events of every deployment.
func (w *sweeper) sweepEvents(ctx context.Context) error {
	var uid string
	var keys []string
	for kv, err := range w.s.list(ctx, &scan{prefix: w.s.key("event") + "/", keysOnly: true}) {
		if err != nil {
			return err
		}
		if p := w.s.split(kv.Key); p[1] != uid {
			if err := w.s.trimEvents(ctx, keys); err != nil {
				return err
			}
			uid, keys = p[1], nil
		}
		keys = append(keys, string(kv.Key))
	}
	return w.s.trimEvents(ctx, keys)
}
