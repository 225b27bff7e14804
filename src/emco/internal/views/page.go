package views

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/views/tally"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

const (
	defaultRows = 50
	maxRows     = 200
)

// pageQuery is the part of a query that all pages have.
type pageQuery struct {
	limit  int
	after  string // sort key of the last row of the page before
	sort   string
	states map[tally.State]bool // nil: all
	text   string               // in lower case; part of a name
}

// pageParams are the parameters of a pageQuery.
var pageParams = []string{"limit", "continue", "sort", "state", "q"}

// readPage reads the parameters of a page. sorts are the orders that the page has, the
// default first; further are the parameters of the view.
func readPage(values url.Values, sorts []string, further ...string) (q pageQuery, err error) {
	if err := web.CheckQuery(values, slices.Concat(pageParams, further)...); err != nil {
		return q, err
	}
	q.limit = defaultRows
	if text := values.Get("limit"); text != "" {
		if q.limit, err = strconv.Atoi(text); err != nil || q.limit < 1 || q.limit > maxRows {
			return q, errs.New(errs.Invalid, "Invalid query limit: give a number from 1 to "+strconv.Itoa(maxRows))
		}
	}
	q.sort = sorts[0]
	if text := values.Get("sort"); text != "" {
		if q.sort = text; !slices.Contains(sorts, text) {
			return q, errs.New(errs.Invalid, "Invalid query sort: give one of "+strings.Join(sorts, ", "))
		}
	}
	if text := values.Get("continue"); text != "" {
		key, err := base64.RawURLEncoding.DecodeString(text)
		order, after, ok := strings.Cut(string(key), "\x00")
		if err != nil || !ok || order != q.sort {
			return q, errs.New(errs.Invalid, "Invalid query continue: no page with this sort order returned this token; read from the first page again")
		}
		q.after = after
	}
	for _, name := range values["state"] {
		s, ok := tally.ParseState(name)
		if !ok {
			return q, errs.New(errs.Invalid, "Invalid query state: give one of "+strings.Join(tally.Names(), ", "))
		}
		if q.states == nil {
			q.states = map[tally.State]bool{}
		}
		q.states[s] = true
	}
	q.text = strings.ToLower(values.Get("q"))
	return q, nil
}

// admits reports whether a row with a state and a name passes the filters.
func (q pageQuery) admits(s tally.State, name string) bool {
	return (q.states == nil || q.states[s]) && (q.text == "" || strings.Contains(strings.ToLower(name), q.text))
}

// readTimes reads the parameters that are times, by their names.
func readTimes(values url.Values, times map[string]*time.Time) (err error) {
	for _, name := range slices.Sorted(maps.Keys(times)) {
		text := values.Get(name)
		if text == "" {
			continue
		}
		if *times[name], err = time.Parse(time.RFC3339, text); err != nil {
			return errs.New(errs.Invalid, "Invalid query "+name+": "+strconv.Quote(text)+" is not a time such as 2026-11-21T12:00:00Z")
		}
	}
	return nil
}

// pageRow is a row of a page before it is filled in: its position in the order.
type pageRow struct{ key, name string }

// worstFirst is the sort key of a state and a name.
func worstFirst(s tally.State, name string) string { return string([]byte{'0' + byte(s), ' '}) + name }

// cut sorts the rows, returns those of the page, and the token of the next page.
func (q pageQuery) cut(rows []pageRow) (page []pageRow, next string) {
	slices.SortFunc(rows, func(a, b pageRow) int { return strings.Compare(a.key, b.key) })
	first, found := slices.BinarySearchFunc(rows, q.after, func(r pageRow, after string) int { return strings.Compare(r.key, after) })
	if found && q.after != "" {
		first++
	}
	rows = rows[first:]
	if len(rows) <= q.limit {
		return rows, ""
	}
	rows = rows[:q.limit]
	return rows, q.token(rows[q.limit-1].key)
}

// token returns the token of the page after the row with a key.
func (q pageQuery) token(key string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(q.sort + "\x00" + key))
}

// answer writes a view, or 304 if the client has it already. stamp sets the time of the
// answer, which is not part of its ETag.
func answer[T any](w http.ResponseWriter, r *http.Request, body *T, stamp func(*T)) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	if web.Unchanged(w, r, web.TagOf(text)) {
		return nil
	}
	stamp(body)
	return web.JSON(w, http.StatusOK, body)
}

// pageFilter is the parameters that choose clusters.
type pageFilter struct {
	providers []string
	labels    [][]string // a cluster has all labels of one of these
}

var filterParams = []string{"provider", "label"}

// readFilter reads the parameters that choose clusters. A value of label is several labels with commas between them.
func readFilter(values url.Values) (f pageFilter, err error) {
	f.providers = values["provider"]
	for _, value := range values["label"] {
		all := strings.Split(value, ",")
		for _, label := range all {
			if !v2.ValidName(label) {
				return f, errs.New(errs.Invalid, fmt.Sprintf("Invalid query label: %+q is not the name of a label; several labels that a cluster must all have are written as label=a,b", label))
			}
		}
		f.labels = append(f.labels, all)
	}
	return f, nil
}

// admits reports whether a cluster has one of the providers, and all labels of one of the values of label.
func (f pageFilter) admits(provider string, labels []string) bool {
	hasAll := func(all []string) bool {
		return !slices.ContainsFunc(all, func(l string) bool { return !slices.Contains(labels, l) })
	}
	return (len(f.providers) == 0 || slices.Contains(f.providers, provider)) &&
		(len(f.labels) == 0 || slices.ContainsFunc(f.labels, hasAll))
}
