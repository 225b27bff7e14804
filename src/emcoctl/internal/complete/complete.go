// Package complete lists names of anchors, documents and contexts for the completion of a shell.
package complete

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
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/session"
)

// CompletionTime bounds the wait of a shell for names.
const CompletionTime = 300 * time.Millisecond

// completer offers what a shell may complete.
type completer struct{ *session.Session }

// New returns the completions of a session.
func New(s *session.Session) completer { return completer{s} }

// Document offers an anchor, and after "cluster" and "deployment" their short names.
func (p completer) Document(c *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 1 {
		switch k, _ := kind.Named(args[0]); k.Collection {
		case "clusters":
			return p.Cluster(c, nil, word)
		case kind.Groups:
			return p.Group(c, nil, word)
		}
	}
	return p.Anchor(c, args, word)
}

// Anchor offers the next segment of an anchor: collections below an item, or the
// names that a collection holds on the server.
func (p completer) Anchor(c *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
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

// Context offers the names of contexts.
func (p completer) Context(_ *cobra.Command, args []string, word string) (names []string, _ cobra.ShellCompDirective) {
	all, err := config.ReadContexts(p.ContextsFile())
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

// Documents offers the names of the documents of a collection, without those that are given already.
func (p completer) Documents(collection string) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, word string) (names []string, _ cobra.ShellCompDirective) {
		for _, name := range p.names(c.Context(), collection) {
			if strings.HasPrefix(name, word) && !slices.Contains(args, name) {
				names = append(names, name)
			}
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// names lists the items of a collection; none if the server does not answer in
// time.
func (p completer) names(ctx context.Context, collection string) []string {
	ctx, cancel := context.WithTimeout(ctx, CompletionTime)
	defer cancel()
	c, err := p.Dial(collection)
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

// Group offers short names of deployment intent groups, PROJECT/COMPOSITEAPP/
// VERSION/GROUP, and anchors if the word begins as one.
func (p completer) Group(c *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 || word != "" && strings.HasPrefix(word, "projects/") {
		return p.Anchor(c, args, word)
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

// Cluster offers PROVIDER/CLUSTER.
func (p completer) Cluster(c *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
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
