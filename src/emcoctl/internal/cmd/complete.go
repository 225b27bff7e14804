package cmd

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/emco-orchestrator/emco/src/api/client"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/anchor"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/config"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/kind"
)

// completeTime bounds the wait of a shell for names.
const completeTime = 300 * time.Millisecond

// completer offers what a shell may complete.
type completer struct{ *session }

// anchor offers the next segment of an anchor: collections below an item, or the
// names that a collection holds on the server.
func (p completer) anchor(c *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	const quiet = cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	base := anchor.Parent(word)
	var next []string
	switch {
	case base == "":
		next = kind.Below("")
	case strings.HasSuffix(base, "/"):
		return nil, quiet
	case anchor.IsCollection(base):
		next = p.names(c.Context(), base)
	default:
		next = kind.Below(anchor.Collection(base))
	}
	var out []string
	for _, name := range next {
		if path := strings.TrimPrefix(base+"/"+name, "/"); strings.HasPrefix(path, word) {
			out = append(out, path)
		}
	}
	slices.Sort(out)
	return slices.Compact(out), quiet
}

// context offers the names of contexts.
func (p completer) context(_ *cobra.Command, args []string, word string) (names []string, _ cobra.ShellCompDirective) {
	all, err := config.ReadContexts(p.contextsFile())
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	for _, name := range all.Names() {
		if strings.HasPrefix(name, word) {
			names = append(names, name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// described offers the kinds of describe, and then their names.
func (p completer) described(c *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	switch {
	case len(args) == 0:
		return []string{"cluster", "deployment"}, cobra.ShellCompDirectiveNoFileComp
	case len(args) == 1 && args[0] == "cluster":
		return p.cluster(c, nil, word)
	case len(args) == 1:
		return p.group(c, nil, word)
	}
	return nil, cobra.ShellCompDirectiveNoFileComp
}

// names lists the items of a collection; none if the server does not answer in
// time.
func (p completer) names(ctx context.Context, collection string) []string {
	ctx, cancel := context.WithTimeout(ctx, completeTime)
	defer cancel()
	c, err := p.dial(collection)
	if err != nil {
		return nil
	}
	items, err := client.Get[[]json.RawMessage](ctx, c, collection)
	if err != nil {
		return nil
	}
	var names []string
	for _, text := range items {
		var item struct {
			Metadata struct{ Name string }
			Spec     struct{ CompositeAppVersion string }
			Label    string `json:"clusterLabel"`
		}
		if json.Unmarshal(text, &item) != nil {
			continue
		}
		name := item.Metadata.Name + item.Label
		if anchor.Last(collection) == "composite-apps" {
			name += "/" + item.Spec.CompositeAppVersion
		}
		names = append(names, name)
	}
	return names
}

// group offers short names of deployment intent groups, PROJECT/COMPOSITEAPP/
// VERSION/GROUP, and anchors if the word begins as one.
func (p completer) group(c *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 || word != "" && strings.HasPrefix(word, "projects/") {
		return p.anchor(c, args, word)
	}
	s := strings.Split(word, "/")
	base, collection := "", "projects"
	switch len(s) {
	case 1:
	case 2, 3:
		base, collection = s[0]+"/", v2.ProjectStoreKey(s[0])+"/composite-apps"
	case 4:
		base = strings.Join(s[:3], "/") + "/"
		collection = anchor.Parent(anchor.Expand(base + "x"))
	default:
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var out []string
	for _, name := range p.names(c.Context(), collection) {
		if name = base + name; strings.HasPrefix(name, word) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	if len(s) == 4 {
		return out, cobra.ShellCompDirectiveNoFileComp
	}
	return out, cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
}

// branch offers repositories, and then their branches.
func (p completer) branch(c *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(c.Context(), completeTime)
	defer cancel()
	server, err := p.dial(gitBranches)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	all, err := client.Get[[]v2.GitBranch](ctx, server, gitBranches)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var out []string
	for _, b := range all {
		switch {
		case len(args) == 0 && strings.HasPrefix(b.URL, word):
			out = append(out, b.URL)
		case len(args) == 1 && b.URL == args[0] && strings.HasPrefix(b.Branch, word):
			out = append(out, b.Branch)
		}
	}
	slices.Sort(out)
	return slices.Compact(out), cobra.ShellCompDirectiveNoFileComp
}

// cluster offers PROVIDER/CLUSTER.
func (p completer) cluster(c *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	collection, prefix := "cluster-providers", ""
	if provider, _, inside := strings.Cut(word, "/"); inside {
		collection, prefix = v2.ProviderStoreKey(provider)+"/clusters", provider+"/"
	}
	var out []string
	for _, name := range p.names(c.Context(), collection) {
		if strings.HasPrefix(prefix+name, word) {
			out = append(out, prefix+name)
		}
	}
	slices.Sort(out)
	if prefix == "" {
		return out, cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

// token offers a cluster, and then the ids of its tokens.
func (p completer) token(c *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return p.cluster(c, args, word)
	}
	ctx, cancel := context.WithTimeout(c.Context(), completeTime)
	defer cancel()
	t, err := tokensOf(p.session, args[0])
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	all, err := client.Get[[]v2.ReportToken](ctx, t.server, t.path())
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var out []string
	for _, one := range all {
		if strings.HasPrefix(one.ID, word) && !slices.Contains(args[1:], one.ID) {
			out = append(out, one.ID)
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}
