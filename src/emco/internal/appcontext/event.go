package appcontext

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
)

// Event is one line of a deployment's event log, for people.
type Event struct {
	UID     HeadID        `json:"-"` // of the head
	At      time.Time     `json:"at"`
	Type    string        `json:"type"`   // "Normal" or "Warning"
	Reason  string        `json:"reason"` // one word in camel case: "Instantiated", "AppFailed", "Blocked"
	Message string        `json:"message"`
	Actor   string        `json:"actor,omitempty"` // who requested it; empty for what no user requested
	Rev     int64         `json:"rev,omitempty"`
	App     string        `json:"app,omitempty"`
	Cluster v2.ClusterKey `json:"cluster,omitempty"`
	Trace   string        `json:"trace,omitempty"` // id of the trace of the request that caused it, if it is recorded
}

// The types of events, as in Kubernetes.
const (
	Normal  = "Normal"
	Warning = "Warning"
)

// maxEvents is how many events of a deployment are kept: of those that a user requested, and of
// all others.
const maxEvents = 500

// EventStore stores the event logs of deployments.
type EventStore struct {
	kv  *etcdkv.Client
	now func() time.Time
}

// AddEvents appends events, batched. An error loses some of them and nothing else. A zero
// At becomes the present.
func (s *EventStore) AddEvents(ctx context.Context, events ...Event) error {
	b := s.kv.NewBatch("events")
	for _, e := range events {
		e = s.complete(e, e.UID)
		if err := etcdkv.CheckParts(string(e.UID)); err != nil {
			return err
		}
		key := s.newKey(e)
		text, err := etcdkv.Encode(key, e)
		if err != nil {
			return err
		}
		if err := b.Add(ctx, clientv3.OpPut(key, text)); err != nil {
			return err
		}
	}
	return b.Flush(ctx)
}

// complete fills in the deployment of an event, and its time if it is zero.
func (s *EventStore) complete(e Event, uid HeadID) Event {
	e.UID = uid
	if e.At.IsZero() {
		e.At = s.now()
	}
	e.At = e.At.UTC()
	return e
}

// requestedSuffix ends the keys of events that a user requested. Versions before it wrote none.
const requestedSuffix = "-user"

// newKey returns an unused key, which sorts by time; events of the same moment are in no
// order.
func (s *EventStore) newKey(e Event) string {
	name := fmt.Sprintf("%019d-%s", e.At.UnixNano(), rand.Text()[:6])
	if e.Actor != "" {
		name += requestedSuffix
	}
	return s.kv.Key("event", string(e.UID), name)
}

// Events returns a deployment's events, oldest first.
func (s *EventStore) Events(ctx context.Context, uid HeadID) ([]Event, error) {
	if err := etcdkv.CheckParts(string(uid)); err != nil {
		return nil, err
	}
	var out []Event
	for e, err := range etcdkv.Records(s.kv.List(ctx, etcdkv.Scan{Prefix: s.kv.Key("event", string(uid)) + "/"}), s.parse) {
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
}

func (s *EventStore) parse(kv *mvccpb.KeyValue) (Event, error) {
	e, err := etcdkv.Decode[Event](kv)
	e.UID = HeadID(s.kv.Split(kv.Key)[1])
	return e, err
}

// WatchEvents yields a deployment's events, oldest first, then new ones, each once. It
// ends only when ctx ends. An error stands for one event that cannot be read; the
// iteration goes on. Events that arrive while the consumer is busy wait in memory, so a
// consumer must be quick.
func (s *EventStore) WatchEvents(ctx context.Context, uid HeadID) iter.Seq2[Event, error] {
	if err := etcdkv.CheckParts(string(uid)); err != nil {
		return etcdkv.Failed[Event](err)
	}
	return func(yield func(Event, error) bool) {
		for c := range s.kv.Watch(ctx, s.kv.Key("event", string(uid))+"/") {
			if !c.Synced && !c.Deleted && !yield(s.parse(c.KV)) {
				return
			}
		}
	}
}

// EventChange is a change of the event logs of all deployments.
type EventChange struct {
	Event   Event  // UID alone if Gone
	ID      string // begins with the time of the event, so that it sorts by it; unique in its log
	Gone    bool   // the log does not keep it any longer
	Restart bool   // forget everything: all events follow again
	UpTo    int64  // all changes up to this revision of etcd have been yielded
}

// WatchAllEvents yields the events of all deployments, log by log, and then every change. It
// ends only when ctx ends. An error stands for one event that cannot be read; the iteration
// goes on.
func (s *EventStore) WatchAllEvents(ctx context.Context) iter.Seq2[EventChange, error] {
	return func(yield func(EventChange, error) bool) {
		prefix := s.kv.Key("event") + "/"
		for c := range s.kv.WatchRange(ctx, prefix, clientv3.GetPrefixRangeEnd(prefix)) {
			if c.Synced {
				continue // UpTo states the same
			}
			if out, err := s.eventChange(c); !yield(out, err) {
				return
			}
		}
	}
}

func (s *EventStore) eventChange(c etcdkv.Change) (out EventChange, err error) {
	if c.KV == nil {
		return EventChange{Restart: c.Restart, UpTo: c.UpTo}, nil
	}
	part := s.kv.Split(c.KV.Key)
	if len(part) != 3 {
		return out, errs.E(errs.Malformed, "read", string(c.KV.Key), errors.New("it is no key of an event"))
	}
	out = EventChange{Event: Event{UID: HeadID(part[1])}, ID: part[2], Gone: c.Deleted}
	if !c.Deleted {
		out.Event, err = s.parse(c.KV)
	}
	return out, err
}

// trimAll removes the oldest events of every deployment: beyond maxEvents of those that a user
// requested, and beyond maxEvents of all others, so that the machine's do not evict the users'.
func (s *EventStore) trimAll(ctx context.Context) error {
	var uid HeadID
	var requested, others []string // keys of one deployment's events, the oldest first
	trim := func() error {
		return errors.Join(s.removeOldest(ctx, "events", requested, maxEvents), s.removeOldest(ctx, "events", others, maxEvents))
	}
	for kv, err := range s.kv.List(ctx, etcdkv.Scan{Prefix: s.kv.Key("event") + "/", KeysOnly: true}) {
		if err != nil {
			return err
		}
		p := s.kv.Split(kv.Key)
		if HeadID(p[1]) != uid {
			if err := trim(); err != nil {
				return err
			}
			uid, requested, others = HeadID(p[1]), nil, nil
		}
		if strings.HasSuffix(p[2], requestedSuffix) {
			requested = append(requested, string(kv.Key))
		} else {
			others = append(others, string(kv.Key))
		}
	}
	return trim()
}

// removeOldest removes the first keys beyond keep.
func (s *EventStore) removeOldest(ctx context.Context, subject string, keys []string, keep int) error {
	b := s.kv.NewBatch(subject)
	for _, key := range keys[:max(0, len(keys)-keep)] {
		if err := b.Add(ctx, clientv3.OpDelete(key)); err != nil {
			return err
		}
	}
	return b.Flush(ctx)
}
