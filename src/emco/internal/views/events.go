package views

import (
	"bytes"
	"cmp"
	"context"
	"encoding/csv"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/eventlog"
	"github.com/emco-orchestrator/emco/src/emco/internal/views/tally"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// Events reads the event logs of all deployments.
type Events interface {
	// WatchAllEvents yields all events, and then every change, until ctx ends.
	WatchAllEvents(ctx context.Context) iter.Seq2[appcontext.EventChange, error]
}

// The numbers of events that are kept in memory: events of the program do not displace those of
// users' actions.
const (
	keptActions = 10_000
	keptOthers  = 20_000
)

// eventIndex keeps the newest events of all deployments, in order of time.
type eventIndex struct {
	mu      sync.RWMutex
	actions []loggedEvent // with an actor; guarded by mu, as all below
	others  []loggedEvent
	mark    int64 // revision of etcd of the last change of events that was read; 0 before all were read
}

// loggedEvent is an event with its position in the order of all.
type loggedEvent struct {
	order string // time, then what makes it unique
	appcontext.Event
}

func (a loggedEvent) compare(order string) int { return cmp.Compare(a.order, order) }

// follow takes in the events until ctx ends.
func (x *eventIndex) follow(ctx context.Context, events Events) {
	for c, err := range events.WatchAllEvents(ctx) {
		if err == nil {
			x.apply(c)
		}
	}
}

func (x *eventIndex) apply(c appcontext.EventChange) {
	x.mu.Lock()
	defer x.mu.Unlock()
	order := c.ID + " " + string(c.Event.UID)
	switch {
	case c.Restart:
		x.actions, x.others, x.mark = nil, nil, 0
	case c.UpTo > 0:
		x.mark = c.UpTo
	case c.Gone:
		x.actions, x.others = without(x.actions, order), without(x.others, order)
	case c.Event.Actor != "":
		x.actions = with(x.actions, loggedEvent{order, c.Event}, keptActions)
	default:
		x.others = with(x.others, loggedEvent{order, c.Event}, keptOthers)
	}
}

// lastChange returns a text that changes with the events.
func (x *eventIndex) lastChange() string {
	x.mu.RLock()
	defer x.mu.RUnlock()
	last := ""
	for _, all := range [][]loggedEvent{x.actions, x.others} {
		if n := len(all); n > 0 {
			last = max(last, all[n-1].order)
		}
	}
	return last
}

// with adds an event. If there are a quarter too many, it drops the oldest ones, all at once: dropping
// them one by one would move the others every time.
func with(all []loggedEvent, e loggedEvent, kept int) []loggedEvent {
	i, found := slices.BinarySearchFunc(all, e.order, loggedEvent.compare)
	if found {
		return all
	}
	if all = slices.Insert(all, i, e); len(all) > kept+kept/4 {
		all = slices.Delete(all, 0, len(all)-kept)
	}
	return all
}

func without(all []loggedEvent, order string) []loggedEvent {
	if i, found := slices.BinarySearchFunc(all, order, loggedEvent.compare); found {
		all = slices.Delete(all, i, i+1)
	}
	return all
}

// newestFirst yields the events before a position, which is empty for all. The caller holds mu.
func (x *eventIndex) newestFirst(before string) iter.Seq[loggedEvent] {
	return func(yield func(loggedEvent) bool) {
		a, b := older(x.actions, before), older(x.others, before)
		for len(a)+len(b) > 0 {
			from := &a
			if len(a) == 0 || len(b) > 0 && b[len(b)-1].order > a[len(a)-1].order {
				from = &b
			}
			e := (*from)[len(*from)-1]
			if *from = (*from)[:len(*from)-1]; !yield(e) {
				return
			}
		}
	}
}

func older(all []loggedEvent, before string) []loggedEvent {
	if before == "" {
		return all
	}
	i, _ := slices.BinarySearchFunc(all, before, loggedEvent.compare)
	return all[:i]
}

// eventFilter is the parameters that choose events.
type eventFilter struct {
	before, after                    time.Time
	actors, projects, clusters, apps []string
	action                           bool   // only what people did
	kind                             string // Normal or Warning; empty for both
}

// actionType is the value of the parameter type for what people did.
const actionType = "action"

func readEventFilter(values url.Values) (f eventFilter, err error) {
	f = eventFilter{actors: values["actor"], projects: values["project"], clusters: values["cluster"], apps: values["app"]}
	if err := readTimes(values, map[string]*time.Time{"before": &f.before, "after": &f.after}); err != nil {
		return f, err
	}
	switch kind := values.Get("type"); kind {
	case "", appcontext.Normal, appcontext.Warning:
		f.kind = kind
	case actionType:
		f.action = true
	default:
		return f, errs.New(errs.Invalid, "Invalid query type: give action, Normal or Warning")
	}
	return f, nil
}

// admits reports whether an event of the subject with a path is chosen.
func (f eventFilter) admits(e appcontext.Event, path string) bool {
	among := func(chosen []string, name string) bool { return len(chosen) == 0 || slices.Contains(chosen, name) }
	return (f.before.IsZero() || e.At.Before(f.before)) && (f.after.IsZero() || e.At.After(f.after)) &&
		(!f.action || e.Actor != "") && (f.kind == "" || e.Type == f.kind) &&
		among(f.actors, e.Actor) && among(f.projects, v2.ProjectOf(path)) && among(f.clusters, string(e.Cluster)) && among(f.apps, e.App)
}

// events answers with a page of the events of all deployments and logical clouds, the newest
// first.
func (v *Views) events(w http.ResponseWriter, r *http.Request) error {
	values := r.URL.Query()
	q, err := readPage(values, []string{"-time"}, "before", "after", "actor", "type", "project", "cluster", "app")
	if err != nil {
		return err
	}
	if q.states != nil {
		return errs.New(errs.Invalid, "Invalid query state: events have none; use type")
	}
	f, err := readEventFilter(values)
	if err != nil {
		return err
	}
	out, whole := v.eventPage(q, f, sightOf(r.Context()))
	if !whole {
		return notYet("the events are still being read")
	}
	if out.Total == 0 { // apps that were deleted still have events
		if err := v.checkApps(r.Context(), f.apps); err != nil {
			return err
		}
	}
	if wantsCSV(r) {
		return writeCSV(w, out)
	}
	return answer(w, r, &out, func(o *v2.EventViews) { o.At = v.Now().UTC() })
}

// eventPage returns a page; false until all events were read.
func (v *Views) eventPage(q pageQuery, f eventFilter, sees *callerAccess) (out v2.EventViews, whole bool) {
	heads := v.Tally.Heads()
	v.log.mu.RLock()
	defer v.log.mu.RUnlock()
	out = v2.EventViews{ViewPage: v2.ViewPage{Mark: v.log.mark}, Items: []v2.EventView{}}
	last := ""
	for e := range v.log.newestFirst("") {
		head, known := heads[e.UID]
		if !known || !sees.path(head.Document) || !f.admits(e.Event, head.Document) || !q.admits(tally.None, e.Message+" "+e.Reason+" "+head.Document) {
			continue
		}
		out.Total++
		switch {
		case q.after != "" && e.order >= q.after:
		case len(out.Items) < q.limit:
			out.Items, last = append(out.Items, eventView(e.Event, head.Document)), e.order
		default:
			out.Continue = q.token(last)
		}
	}
	return out, v.log.mark > 0
}

func eventView(e appcontext.Event, path string) v2.EventView {
	return v2.EventView{Path: path, Event: eventlog.Shown(e)}
}

// wantsCSV reports whether the client accepts a table and not JSON.
func wantsCSV(r *http.Request) bool {
	accept := strings.Join(r.Header.Values("Accept"), ",")
	return strings.Contains(accept, "text/csv") && !strings.Contains(accept, "application/json")
}

// writeCSV writes a page as a table. The token of the next page is in a header.
func writeCSV(w http.ResponseWriter, page v2.EventViews) error {
	var text bytes.Buffer
	table := csv.NewWriter(&text)
	rows := [][]string{{"time", "type", "reason", "actor", "deployment", "revision", "app", "cluster", "message"}}
	for _, e := range page.Items {
		rows = append(rows, []string{
			e.Time.UTC().Format(time.RFC3339Nano), e.Type, e.Reason, harmless(e.Actor), e.Path, strconv.FormatInt(e.Revision, 10), e.App, e.Cluster, harmless(e.Message),
		})
	}
	if err := table.WriteAll(rows); err != nil {
		return err
	}
	if page.Continue != "" {
		w.Header().Set(web.HeaderContinue, page.Continue)
	}
	w.Header().Set("Content-Type", "text/csv; charset=utf-8")
	_, err := w.Write(text.Bytes())
	return err
}

// harmless keeps a spreadsheet from taking a text for a formula.
func harmless(text string) string {
	if text != "" && strings.ContainsRune("=+-@\t\r", rune(text[0])) {
		return "'" + text
	}
	return text
}
