package documents

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/anchor"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/apply"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/complete"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/fetch"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/kind"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/output"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/overview"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/session"
)

// getCommand holds the flags of get.
type getCommand struct {
	labels, states []string
	project, sort  string
	every, watch   bool
	timeout        time.Duration
}

// newGetCommand returns the command that reads.
func newGetCommand(s *session.Session) *cobra.Command {
	var g getCommand
	c := &cobra.Command{
		Use: "get (-f FILE... | ANCHOR | clusters | deployments | KIND NAME)", Short: "Read documents, or list clusters and deployments with their states",
		Long: `Get reads each document of the files as it is stored, or an anchor with its query if any.

get clusters lists the clusters of all providers with their states, the worst first: when
they were last seen, and the number of apps on them. get deployments lists the deployment
intent groups of all projects, or of --project. -o wide has more columns.

get cluster PROVIDER/CLUSTER and get deployment PROJECT/COMPOSITEAPP/VERSION/GROUP read one
document, as get with its anchor does.

READY counts the apps on clusters that are ready; AGE is that of the revision.

get roles lists the roles that are documents. These are built in, and are none:
` + strings.Join(v2.BuiltInRoles(), ", ") + `.`,
		Example: `  emcoctl get projects
  emcoctl get deployments -A
  emcoctl get cluster edge/store-7
  emcoctl get clusters -l west,gpu --state failed,notReady -o wide
  emcoctl get cluster-providers/edge/clusters --sort-by .metadata.name -o json
  emcoctl get clusters -o jsonpath='{range .items[*]}{.cluster}{"\n"}{end}'
  emcoctl get deployments --watch`,
		Args:              cobra.MaximumNArgs(2),
		ValidArgsFunction: complete.New(s).Document,
		RunE:              s.Run(func(c *cobra.Command, args []string) error { return g.run(c.Context(), s, args) }),
	}
	f := c.Flags()
	f.StringArrayVarP(&g.labels, "label", "l", nil, "only clusters with this label; a,b is both; repeat -l for alternatives")
	f.StringSliceVar(&g.states, "state", nil, "only clusters or deployments in these states: "+strings.Join(v2.ViewStates(), ", "))
	f.StringVar(&g.project, "project", "", "only deployments of this project")
	f.BoolVarP(&g.every, "all-projects", "A", false, "deployments of all projects, also if the context has a project; clusters have none")
	f.StringVar(&g.sort, "sort-by", "", "order by the value at this path, such as .metadata.name")
	f.BoolVar(&g.watch, "watch", false, "then print what changes; -w is the flag of upstream's client")
	complete.Flag(c, "label", complete.New(s).Labels)
	complete.Flag(c, "state", complete.Fixed(v2.ViewStates()))
	complete.Flag(c, "project", complete.New(s).Projects())
	complete.Flag(c, "sort-by", completeSort)
	f.DurationVar(&g.timeout, "timeout", 0, "with --watch: duration; 0 is unlimited")
	return c
}

// completeSort offers the members of clusters and deployments in lists. Documents have too many.
func completeSort(_ *cobra.Command, args []string, word string) (out []string, _ cobra.ShellCompDirective) {
	if len(args) == 1 {
		o, _ := overview.Of(args[0])
		for _, member := range o.Members {
			if path := "." + member.Name; strings.HasPrefix(path, word) {
				out = append(out, path)
			}
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

// run reads what the arguments name.
func (g *getCommand) run(ctx context.Context, s *session.Session, args []string) error {
	args, err := byName("get", args)
	if err != nil {
		return err
	}
	if len(args) == 1 && len(s.Files) == 0 {
		if o, ok := overview.Of(args[0]); ok {
			s.KeepsExitCodes = true
			return g.overview(ctx, s, o)
		}
	}
	if o, inside, ok := g.listing(s, args); ok {
		if done, err := g.collection(ctx, s, o, inside); done {
			return err
		}
	}
	switch {
	case len(g.states) > 0 || g.project != "" || g.every:
		return session.Usagef("--state, --project and -A are for get clusters and get deployments")
	case len(g.labels) > 0:
		return session.Usagef("-l is for get clusters")
	case g.watch:
		return session.Usagef("--watch is for get clusters and get deployments; see emcoctl watch for a deployment")
	}
	err = runDocuments(ctx, s, anchor.Get, args, func(o *apply.Options) { o.SortBy = g.sort })
	if err == nil && len(args) == 1 && args[0] == "roles" {
		nameBuiltInRoles(s)
	}
	return err
}

// nameBuiltInRoles tells people who list the roles about those that are no documents.
func nameBuiltInRoles(s *session.Session) {
	servers, err := s.Servers()
	if format := s.FormatOfDocuments(servers); err == nil && (format == output.Human || format == output.Wide) {
		fmt.Fprintln(s.Sys.Err, "built in, and not listed:", strings.Join(v2.BuiltInRoles(), ", "))
	}
}

// byName returns the anchor of a cluster or a deployment that is given by its short name, and other arguments as
// they are.
func byName(verb string, args []string) (anchors []string, err error) {
	if len(args) != 2 {
		return args, nil
	}
	path := ""
	switch k, _ := kind.Named(args[0]); k.Collection {
	case "clusters":
		path, err = session.ClusterPath(args[1])
	case kind.Groups:
		path, err = session.Deployment(args[1])
	default:
		err = session.Usagef("%s KIND NAME is for cluster PROVIDER/CLUSTER and deployment PROJECT/COMPOSITEAPP/VERSION/GROUP; name others by their anchor, such as emcoctl %s projects/NAME", verb, verb)
	}
	return []string{path}, err
}

// listing returns the overview for an anchor of clusters or deployments, to print it as a table
// with their states; inside is the anchor.
func (g *getCommand) listing(s *session.Session, args []string) (o overview.List, inside string, ok bool) {
	if len(args) != 1 || len(s.Files) > 0 {
		return o, "", false
	}
	servers, err := s.Servers()
	if err != nil {
		return o, "", false
	}
	format := s.FormatOfDocuments(servers)
	inside = kind.Expand(args[0])
	if (format != output.Human && format != output.Wide) || strings.Contains(inside, "?") || !anchor.IsCollection(inside) || !strings.Contains(inside, "/") {
		return o, "", false
	}
	o, ok = overview.Of(anchor.Collection(inside))
	return o, inside, ok
}

// collection lists the clusters or deployments of one anchor. It is not done if the server has
// no views, unless labels or states select some, which only the views can.
func (g *getCommand) collection(ctx context.Context, s *session.Session, o overview.List, inside string) (done bool, err error) {
	above := map[string]string{"clusters": "provider", "deployments": "project"}
	o.Query.Set(above[o.View], strings.Split(inside, "/")[1])
	o.Query["label"], o.Query["state"] = g.labels, g.states
	selects := len(g.labels)+len(g.states) > 0
	c, err := s.Dial("views")
	if err != nil {
		return selects, err
	}
	items, err := o.Read(ctx, c)
	if err == nil && g.sort != "" {
		items, err = sortItems(o, items, g.sort)
	}
	if err != nil {
		return selects, err // without a selection the documents can be read all the same
	}
	items = slices.DeleteFunc(items, func(item json.RawMessage) bool {
		path, err := o.Path(item)
		return err != nil || anchor.Parent(path) != inside
	})
	if len(items) == 0 && !selects {
		return false, nil // the anchor may not exist
	}
	return true, o.Show(s.Sys.Out, s.RequestedFormat(), items)
}

// overview lists clusters or deployments.
func (g *getCommand) overview(ctx context.Context, s *session.Session, o overview.List) error {
	switch {
	case o.View != "clusters" && len(g.labels) > 0:
		return session.Usagef("-l is for get clusters")
	case o.View != "deployments" && g.project != "":
		return session.Usagef("--project is for get deployments")
	case g.project != "" && g.every:
		return session.Usagef("give --project or -A, not both")
	}
	if _, err := s.Printer(s.RequestedFormat(), true); err != nil {
		return err // an unknown format
	}
	o.Query["label"], o.Query["state"] = g.labels, g.states
	if err := g.selectProject(s, o); err != nil {
		return err
	}
	c, err := s.Dial("views")
	if err != nil {
		return err
	}
	ctx, cancel := fetch.Within(ctx, g.timeout)
	defer cancel()
	rows := func() ([]json.RawMessage, error) {
		items, err := o.Read(ctx, c)
		if err != nil || g.sort == "" {
			return items, err
		}
		return sortItems(o, items, g.sort)
	}
	items, err := rows()
	if err != nil {
		return err
	}
	if err := o.Show(s.Sys.Out, s.RequestedFormat(), items); err != nil || !g.watch {
		return err
	}
	for known := byPath(o, items); fetch.Pause(ctx, fetch.Interval) == nil; known = byPath(o, items) {
		if items, err = rows(); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		var changed []json.RawMessage
		for _, item := range items {
			if path, err := o.Path(item); err == nil && !bytes.Equal(known[path], item) {
				changed = append(changed, item)
			}
		}
		if len(changed) == 0 {
			continue
		}
		if err := o.Show(s.Sys.Out, s.RequestedFormat(), changed); err != nil {
			return err
		}
	}
	return nil
}

// selectProject restricts deployments to --project, or to the project of the context.
func (g *getCommand) selectProject(s *session.Session, o overview.List) error {
	project := g.project
	if project == "" && !g.every && o.View == "deployments" {
		servers, err := s.Servers()
		if err != nil {
			return err
		}
		context, err := s.CurrentContext(servers)
		if err != nil {
			return err
		}
		project = context.Project
	}
	if project != "" {
		o.Query.Set("project", project)
	}
	return nil
}

// byPath indexes rows.
func byPath(o overview.List, items []json.RawMessage) map[string]json.RawMessage {
	known := make(map[string]json.RawMessage, len(items))
	for _, item := range items {
		if path, err := o.Path(item); err == nil {
			known[path] = item
		}
	}
	return known
}

// sortItems orders rows by the value at a path.
func sortItems(o overview.List, items []json.RawMessage, path string) (sorted []json.RawMessage, err error) {
	text, err := json.Marshal(items)
	if err != nil {
		return nil, err
	}
	if text, err = output.Sort(text, "."+strings.TrimPrefix(path, "."), o.Members); err != nil {
		return nil, err
	}
	err = json.Unmarshal(text, &sorted)
	return sorted, err
}
