// Package overview reads the lists of "get clusters" and "get deployments" from the views of the server, and prints
// them.
package overview

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/emco-orchestrator/emco/src/api/client"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/anchor"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/fetch"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/kind"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/output"
)

// The limits of an overview: rows of a page, which the server bounds, and pages.
const (
	PageRows = 200
	maxPages = 100
)

// List is a list of clusters or deployments with their states, over all providers or
// projects.
type List struct {
	View    string // "clusters" or "deployments"
	Query   url.Values
	Members []v2.Member // of a row
	heads   []string
	wide    []string // more columns for -o wide
}

// Of returns the overview for an argument of get; ok is false for anchors.
func Of(word string) (o List, ok bool) {
	k, known := kind.Named(word)
	if !known {
		return o, false
	}
	o.Query = url.Values{"limit": {strconv.Itoa(PageRows)}}
	switch k.Collection {
	case "clusters":
		o.View, o.Members = "clusters", v2.MembersOf[v2.ClusterView]()
		o.heads = []string{"NAME", "STATE", "TYPE", "LABELS", "SEEN", "APPS"}
		o.wide = []string{"BRANCH", "COUNTS", "WHY"}
	case kind.Groups:
		o.View, o.Members = "deployments", v2.MembersOf[v2.DeploymentView]()
		o.heads = []string{"NAME", "STATE", "READY", "REVISION", "AGE", "CLUSTERS"}
		o.wide = []string{"HEALTH", "APPS", "AUTHOR", "WHY"}
	default:
		return o, false
	}
	return o, true
}

// Read returns all rows, as the server sent them.
func (o List) Read(ctx context.Context, c *client.Client) (items []json.RawMessage, err error) {
	q := url.Values{}
	for name, values := range o.Query {
		q[name] = values
	}
	for range maxPages {
		var page struct {
			Items    []json.RawMessage `json:"items"`
			Continue string            `json:"continue"`
		}
		if _, err := fetch.Document(ctx, c, "views/"+o.View+"?"+q.Encode(), &page); err != nil {
			return nil, err
		}
		items = append(items, page.Items...)
		if page.Continue == "" {
			return items, nil
		}
		q.Set("continue", page.Continue)
	}
	return nil, fmt.Errorf("there are more than %d; select some with --project, -l or --state", len(items))
}

// row returns the cells of a row, the wide ones at the end.
func (o List) row(item json.RawMessage, now time.Time) ([]string, error) {
	if o.View == "clusters" {
		var c v2.ClusterView
		err := json.Unmarshal(item, &c)
		return []string{
			c.Provider + "/" + c.Cluster, c.State, cmp.Or(c.Type, "direct"), strings.Join(c.Labels, ","), output.Age(c.LastHeard, now), strconv.Itoa(Sum(c.Counts)),
			c.Branch, Counts(c.Counts), c.Why,
		}, err
	}
	var d v2.DeploymentView
	err := json.Unmarshal(item, &d)
	return []string{
		anchor.Short(d.Path), cmp.Or(d.Deployed, d.Lifecycle), fmt.Sprintf("%d/%d", d.Counts[v2.ViewReady], Sum(d.Counts)), output.Number(d.Revision), output.Age(d.Since, now), strconv.Itoa(d.Clusters),
		d.State, strconv.Itoa(d.Apps), d.Author, d.Why,
	}, err
}

// Sum returns the number of all.
func Sum(counts v2.ViewCounts) (n int) {
	for _, count := range counts {
		n += count
	}
	return n
}

// Counts returns counts, sorted by state: "failed 1, ready 4".
func Counts(counts v2.ViewCounts) string {
	var parts []string
	for state, n := range counts {
		parts = append(parts, fmt.Sprintf("%s %d", state, n))
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}

// Path returns the path of a row's document.
func (o List) Path(item json.RawMessage) (string, error) {
	var at struct{ Path, Provider, Cluster string }
	err := json.Unmarshal(item, &at)
	if o.View == "clusters" {
		at.Path = v2.NewClusterKey(at.Provider, at.Cluster).StoreKey()
	}
	return at.Path, err
}

// Show prints rows in a format.
func (o List) Show(w io.Writer, format output.Format, items []json.RawMessage) error {
	switch {
	case format == output.Name:
		for _, item := range items {
			path, err := o.Path(item)
			if err != nil {
				return err
			}
			fmt.Fprintln(w, path)
		}
		return nil
	case format.Structured():
		if items == nil {
			items = []json.RawMessage{}
		}
		text, err := json.Marshal(map[string][]json.RawMessage{"items": items})
		if err != nil {
			return err
		}
		return output.Encode(w, format, text)
	case len(items) == 0:
		fmt.Fprintln(w, o.nothing())
		return nil
	}
	return o.table(w, format, items)
}

// nothing explains that there are no rows, with the filters that left none.
func (o List) nothing() string {
	var filters []string
	for _, name := range []string{"provider", "project", "label", "state"} {
		if values := o.Query[name]; len(values) > 0 {
			filters = append(filters, name+" "+strings.Join(values, " or "))
		}
	}
	if len(filters) == 0 {
		return "there are no " + o.View
	}
	return "no " + o.View + " match " + strings.Join(filters, " and ")
}

func (o List) table(w io.Writer, format output.Format, items []json.RawMessage) error {
	heads := o.heads
	if format == output.Wide {
		heads = slices.Concat(o.heads, o.wide)
	}
	t := output.NewTable(w)
	t.Row(heads...)
	for _, item := range items {
		cells, err := o.row(item, time.Now())
		if err != nil {
			return err
		}
		t.Row(cells[:len(heads)]...)
	}
	t.Flush()
	return nil
}
