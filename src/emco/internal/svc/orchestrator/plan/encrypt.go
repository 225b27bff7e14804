package plan

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/customize"
	"github.com/emco-orchestrator/emco/src/emco/internal/route"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncobjects"
)

// encrypt adds the edits that encrypt Secrets for the clusters that read files, by the recipients of these
// clusters.
func (p Planner) encrypt(ctx context.Context, policy string, apps []App) error {
	all := map[v2.ClusterKey]bool{}
	for _, a := range apps {
		for _, c := range a.Decision.Clusters {
			all[c] = true
		}
	}
	recipients, err := p.Recipients(ctx, slices.Sorted(maps.Keys(all)))
	if err != nil {
		return err
	}
	for i := range apps {
		a := &apps[i]
		at := map[string]int{} // indexes of the edits by their recipients
		for _, c := range a.Decision.Clusters {
			keys, reads := recipients[c]
			if !reads {
				continue
			}
			id := strings.Join(keys, ",")
			n, known := at[id]
			if !known {
				n = len(a.Edits)
				at[id] = n
				a.Edits = append(a.Edits, customize.Edit{App: a.Name, Origin: "policy " + policy, Encryption: &customize.Encryption{Recipients: keys}})
			}
			a.Edits[n].Clusters = append(a.Edits[n].Clusters, c)
		}
	}
	return nil
}

// Recipients returns the public keys that Secrets are encrypted for, of those clusters that read files. A
// cluster without keys, or whose sync objects cannot be used as they are, has none; a direct cluster is left
// out. Errors are the store's.
func (p Planner) Recipients(ctx context.Context, clusters []v2.ClusterKey) (map[v2.ClusterKey][]string, error) {
	resolver := route.Resolver{DB: p.db, Rules: syncobjects.Rules{AllowFile: true, PlainHTTP: true}} // whoever delivers checks the address
	lookup, out := resolver.Lookup(), map[v2.ClusterKey][]string{}
	lookup.Prefetch(ctx, slices.Values(clusters))
	for _, key := range clusters {
		c, err := lookup.Registration(ctx, key)
		if errs.Is(err, errs.NotFound) || err == nil && c.Direct() {
			continue
		}
		var s syncobjects.Settings
		if err == nil {
			s, err = lookup.Settings(ctx, key, c.GitOps)
		}
		if err != nil && !errs.Is(err, errs.Invalid) && !errs.Is(err, errs.NotFound) {
			return nil, err
		}
		out[key] = s.Recipients
	}
	return out, nil
}
