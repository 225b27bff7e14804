package views

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/authz"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/views/tally"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// maxTopics bounds the topics of a stream.
const maxTopics = 20

// stream answers with server-sent events when what its topics are about has changed. The id of
// an event lets a client continue with the header Last-Event-ID.
func (v *Views) stream(w http.ResponseWriter, r *http.Request) error {
	values := r.URL.Query()
	if err := web.CheckQuery(values, "topics"); err != nil {
		return err
	}
	var about []tally.Topic
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
	if ctx := r.Context(); authz.From(ctx) != nil {
		r = r.WithContext(web.WithRecheck(ctx, func() error { return seesAll(ctx, about) }))
	}
	return v.streams.ServeEvents(w, r, func(ctx context.Context, send func([]byte) error) error {
		return v.Tally.Follow(ctx, about, from, send)
	})
}

// seesAll reports whether the caller may still see what its topics are about.
func seesAll(ctx context.Context, about []tally.Topic) error {
	authority, err := authz.Renewed(ctx)
	if err != nil {
		return err
	}
	sees := sightOf(authz.With(ctx, authority))
	for _, topic := range about {
		if !sees.topic(topic) {
			return errs.New(errs.NotFound, "hidden")
		}
	}
	return nil
}

// wholeTopics are the topics about everything, and what their readers need everywhere.
var wholeTopics = map[string]authz.Permission{
	"fleet":  {Verb: authz.Get, Type: "clusters"},
	"events": {Verb: authz.Get, Type: "deployment-intent-groups"},
	"git":    {Verb: authz.List, Type: "branches"},
}

// topic reports whether the caller may see what a topic is about.
func (s *callerAccess) topic(t tally.Topic) bool {
	if need, whole := wholeTopics[t.Name]; whole {
		return s.authority.May(need.Verb, need.Type, "")
	}
	if t.Cluster != "" {
		return s.provider(t.Cluster.Provider())
	}
	return s.path(strings.TrimPrefix(t.Name, "group:"))
}

// subject reads a topic. What the caller may not see is like what does not exist.
func (v *Views) subject(ctx context.Context, topic string) (tally.Topic, error) {
	kind, name, _ := strings.Cut(topic, ":")
	need, whole := wholeTopics[topic]
	t := tally.Topic{Name: topic}
	switch {
	case whole && !sightOf(ctx).topic(t):
		return t, errs.New(errs.Forbidden, "the topic "+topic+" is about everything; it needs a role with "+need.String()+" everywhere")
	case topic == "fleet":
		return t, nil
	case topic == "events":
		t.Mark = v.log.lastChange
		return t, nil
	case topic == "git" && v.Lanes == nil:
		return t, errs.New(errs.NotFound, "this process writes no branches; ask one that runs rsync for the topic git")
	case topic == "git":
		t.Mark = func() string { return laneMark(v.Lanes.Writers.Lanes()) }
		return t, nil
	case kind == "cluster":
		key, err := v2.ParseClusterKey(name)
		if t.Cluster = key; err == nil && !sightOf(ctx).topic(t) {
			err = errs.New(errs.NotFound, "Cluster not found: "+name)
		}
		return t, err
	case kind == "group" && isGroup(name):
		doc, err := v.DB.Get(ctx, store.Key(name))
		if errs.Is(err, errs.NotFound) || !sightOf(ctx).topic(t) {
			err = errs.New(errs.NotFound, "DeploymentIntentGroup not found: "+name)
		}
		t.Head = appcontext.HeadID(doc.UID)
		return t, err
	}
	return t, errs.New(errs.Invalid, "Invalid query topics: "+strconv.Quote(topic)+" is none of fleet, events, git, group:PATH and cluster:PROVIDER+CLUSTER")
}
