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

// topic reports whether the caller may see what a topic is about.
func (s *sight) topic(t tally.Topic) bool {
	kind, name, _ := strings.Cut(t.Name, ":")
	switch kind {
	case "cluster":
		return s.provider(t.Cluster.Provider())
	case "group":
		return s.path(name)
	case "events":
		return s.may("deployment-intent-groups", "")
	case "git":
		return s.authority.May(authz.List, "branches", "")
	}
	return s.may("clusters", "") // the fleet
}

// subject reads a topic.
func (v *Views) subject(ctx context.Context, topic string) (tally.Topic, error) {
	kind, name, _ := strings.Cut(topic, ":")
	sees := sightOf(ctx)
	switch {
	case topic == "fleet" && !sees.topic(tally.Topic{Name: topic}):
		return tally.Topic{}, errs.New(errs.Forbidden, "the topic fleet tells of all clusters; it needs a role that reads clusters everywhere")
	case topic == "fleet":
		return tally.Topic{Name: topic}, nil
	case topic == "events" && !sees.topic(tally.Topic{Name: topic}):
		return tally.Topic{}, errs.New(errs.Forbidden, "the topic events is about all deployments; it needs a role that reads deployment-intent-groups everywhere")
	case topic == "events":
		return tally.Topic{Name: topic, Mark: v.log.lastChange}, nil
	case topic == "git" && !sees.topic(tally.Topic{Name: topic}):
		return tally.Topic{}, errs.New(errs.Forbidden, "the topic git is about all branches; it needs a role that lists branches")
	case topic == "git" && v.Lanes == nil:
		return tally.Topic{}, errs.New(errs.NotFound, "this process writes no branches; ask one that runs rsync for the topic git")
	case topic == "git":
		return tally.Topic{Name: topic, Mark: func() string { return laneMark(v.Lanes.Lanes()) }}, nil
	case kind == "cluster":
		key, err := v2.ParseClusterKey(name)
		if err == nil && !sees.provider(key.Provider()) {
			err = errs.New(errs.NotFound, "Cluster not found: "+name)
		}
		return tally.Topic{Name: topic, Cluster: key}, err
	case kind == "group" && isGroup(name):
		doc, err := v.DB.Get(ctx, store.Key(name))
		if !sees.path(name) {
			err = errs.New(errs.NotFound, "hidden")
		}
		if errs.Is(err, errs.NotFound) {
			err = errs.New(errs.NotFound, "DeploymentIntentGroup not found: "+name)
		}
		return tally.Topic{Name: topic, Head: appcontext.HeadID(doc.UID)}, err
	}
	return tally.Topic{}, errs.New(errs.Invalid, "Invalid query topics: "+strconv.Quote(topic)+" is none of fleet, events, git, group:PATH and cluster:PROVIDER+CLUSTER")
}
