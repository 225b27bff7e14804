package status

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"time"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/anchor"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/fetch"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/output"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/printable"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/session"
)

// defaultEvents is the number of events of all deployments that are shown.
const defaultEvents = 50

// fleetEvents selects events of all deployments.
type fleetEvents struct {
	projects, actors, clusters, apps []string
	limit                            int
}

func (f fleetEvents) empty() bool {
	return len(f.projects)+len(f.actors)+len(f.clusters)+len(f.apps) == 0
}

// query returns the parameters of the view.
func (f fleetEvents) query(l *eventLog) (url.Values, error) {
	q := url.Values{"project": f.projects, "actor": f.actors, "app": f.apps, "limit": {strconv.Itoa(f.limit)}}
	for _, word := range f.clusters {
		key, err := session.ClusterKey(word)
		if err != nil {
			return nil, err
		}
		q.Add("cluster", string(key))
	}
	if l.kind != "" {
		q.Set("type", l.kind)
	}
	if !l.since.IsZero() {
		q.Set("after", l.since.UTC().Format(time.RFC3339Nano))
	}
	return q, nil
}

// list prints the newest events, the newest first.
func (f fleetEvents) list(ctx context.Context, l *eventLog) error {
	q, err := f.query(l)
	if err != nil {
		return err
	}
	c, err := l.Dial("views")
	if err != nil {
		return err
	}
	var page v2.EventViews
	text, err := fetch.Document(ctx, c, "views/events?"+q.Encode(), &page)
	if err != nil {
		return err
	}
	if l.form != output.Human {
		return output.Encode(l.Sys.Out, l.form, text)
	}
	if len(page.Items) == 0 {
		fmt.Fprintln(l.Sys.Out, "no events match")
	}
	if len(f.clusters) > 0 {
		fmt.Fprintln(l.Sys.Err, "an event about several clusters at once is of none of them; emcoctl describe cluster shows what runs on one")
	}
	if len(page.Items) == 0 {
		return nil
	}
	t := output.NewTable(l.Sys.Out)
	t.Row("TIME", "TYPE", "REASON", "DEPLOYMENT", "WHERE", "ACTOR", "MESSAGE")
	for _, e := range page.Items {
		t.Row(printable.Time(e.Time), e.Type, e.Reason, anchor.Short(e.Path), where(e.Event), e.Actor, e.Message)
	}
	t.Flush()
	if more := page.Total - len(page.Items); more > 0 {
		fmt.Fprintf(l.Sys.Err, "and %d older ones; --limit, --since and the other flags select\n", more)
	}
	return nil
}
