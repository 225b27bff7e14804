package complete

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/emco-orchestrator/emco/src/api/client"
	"github.com/emco-orchestrator/emco/src/api/rest"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/printable"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/session"
)

// labelPage is how many clusters are read for their labels.
const labelPage = "200"

// Fixed offers these values.
func Fixed(values []string) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
		return begins(values, word), cobra.ShellCompDirectiveNoFileComp
	}
}

// Flag registers the values of a flag of a command. After a comma it offers the next value of a list.
func Flag(c *cobra.Command, flag string, values cobra.CompletionFunc) {
	_ = c.RegisterFlagCompletionFunc(flag, func(c *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) { // the flag is there
		before := word[:strings.LastIndex(word, ",")+1]
		found, directive := values(c, args, word[len(before):])
		found = slices.DeleteFunc(found, func(value string) bool { return slices.Contains(strings.Split(before, ","), value) })
		for i := range found {
			found[i] = before + found[i]
		}
		return found, directive
	})
}

// alone makes the completion of a first argument one of a flag, which has other arguments beside it.
func alone(values cobra.CompletionFunc) cobra.CompletionFunc {
	return func(c *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
		return values(c, nil, word)
	}
}

// Contexts offers the names of contexts for a flag.
func (p completer) Contexts() cobra.CompletionFunc { return alone(p.Context) }

// Clusters offers PROVIDER/CLUSTER for a flag.
func (p completer) Clusters() cobra.CompletionFunc { return alone(p.Cluster) }

// Projects offers the names of projects for a flag.
func (p completer) Projects() cobra.CompletionFunc { return alone(p.Documents("projects")) }

// Labels offers the labels of the first clusters.
func (p completer) Labels(c *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
	page, err := ask(c.Context(), p, rest.ClusterPages, "views/clusters", url.Values{"limit": {labelPage}})
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var all []string
	for _, cluster := range page.Items {
		all = append(all, cluster.Labels...)
	}
	return begins(all, word), cobra.ShellCompDirectiveNoFileComp
}

// Revisions offers the earlier revisions of the deployment in the first argument that a rollback can bring back, the newest first.
func (p completer) Revisions(c *cobra.Command, args []string, word string) (out []string, _ cobra.ShellCompDirective) {
	for _, r := range p.revisions(c, args) {
		if number := fmt.Sprint(r.Number); r.Kept && !r.Current && strings.HasPrefix(number, word) {
			out = append(out, strings.TrimSpace(fmt.Sprintf("%s\t%s %s %s", number, r.Kind, printable.Time(r.Time), r.Reason)))
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}

// CurrentRevision offers the revision that is desired of the deployment in the first argument.
func (p completer) CurrentRevision(c *cobra.Command, args []string, word string) (out []string, _ cobra.ShellCompDirective) {
	for _, r := range p.revisions(c, args) {
		if number := fmt.Sprint(r.Number); r.Current && strings.HasPrefix(number, word) {
			out = append(out, number)
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

// revisions returns the revisions of the deployment in the first argument; none if the server does not answer in time.
func (p completer) revisions(c *cobra.Command, args []string) []v2.Revision {
	key, ok := groupOf(args)
	if !ok {
		return nil
	}
	answer, err := ask(c.Context(), p, rest.Revisions, key.StoreKey(), nil, key.CompositeApp.Project, key.CompositeApp.Name, key.CompositeApp.Version, key.Name)
	if err != nil {
		return nil
	}
	return answer.Revisions
}

// Apps offers the apps of the deployment in the first argument.
func (p completer) Apps(c *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	key, ok := groupOf(args)
	if !ok {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return begins(p.names(c.Context(), key.CompositeApp.StoreKey()+"/apps"), word), cobra.ShellCompDirectiveNoFileComp
}

// Siblings offers VERSION/GROUP of the composite app of the deployment in the first argument.
func (p completer) Siblings(c *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	key, ok := groupOf(args)
	if !ok {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	app := key.CompositeApp.Project + "/" + key.CompositeApp.Name + "/"
	found, directive := p.Group(c, nil, app+word)
	for i := range found {
		found[i] = strings.TrimPrefix(found[i], app)
	}
	return found, directive
}

// groupOf returns the deployment that a command is about.
func groupOf(args []string) (v2.GroupKey, bool) {
	if len(args) != 1 {
		return v2.GroupKey{}, false
	}
	path, err := session.Deployment(args[0])
	if err != nil {
		return v2.GroupKey{}, false
	}
	return v2.GroupOf(path)
}

// ask asks a server, no longer than a shell may wait.
func ask[T any](ctx context.Context, p completer, q rest.Query[T], path string, query url.Values, names ...string) (out T, err error) {
	ctx, cancel := context.WithTimeout(ctx, CompletionTime)
	defer cancel()
	var c *client.Client
	if c, err = p.Dial(path); err != nil {
		return out, err
	}
	return q.Get(ctx, c, query, names...)
}

// begins returns the values that begin with a word, each once.
func begins(values []string, word string) (out []string) {
	for _, v := range values {
		if strings.HasPrefix(v, word) {
			out = append(out, v)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
