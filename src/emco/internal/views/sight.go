package views

import (
	"context"
	"strings"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/mirror"
	"github.com/emco-orchestrator/emco/src/emco/internal/authz"
)

// callerAccess is what the caller of a request may see. It remembers answers, because a view asks once for each
// cluster and deployment.
type callerAccess struct {
	authority *authz.Authority
	known     map[string]bool // by type and place
}

func sightOf(ctx context.Context) *callerAccess {
	return &callerAccess{authz.From(ctx), map[string]bool{}}
}

func (s *callerAccess) may(typ, place string) bool {
	if s.authority == nil {
		return true
	}
	key := typ + " " + place
	may, known := s.known[key]
	if !known {
		may = s.authority.May(authz.Get, typ, place)
		s.known[key] = may
	}
	return may
}

// provider reports whether the caller may see the clusters of a provider.
func (s *callerAccess) provider(name string) bool {
	return s.may("clusters", v2.ProviderStoreKey(name))
}

// path reports whether the caller may see what belongs to the project of a path, such as
// projects/shop/logical-clouds/stores.
func (s *callerAccess) path(path string) bool {
	const typ = "deployment-intent-groups"
	below, ok := strings.CutPrefix(path, "projects/")
	if !ok {
		return s.may(typ, "")
	}
	name, _, _ := strings.Cut(below, "/")
	return s.may(typ, v2.ProjectStoreKey(name))
}

// documents returns the keys of the documents that own deployments.
func (v *Views) documents() map[v2.DeploymentID]string {
	out := map[v2.DeploymentID]string{}
	for _, h := range v.Tally.Heads() {
		if h.Owns() {
			out[h.Deployment()] = h.Document
		}
	}
	return out
}

// pairs returns the pairs on a cluster that the caller may see.
func (v *Views) pairs(ctx context.Context, cluster v2.ClusterKey) []mirror.ClusterPair {
	all, sees := v.Pairs.Cluster(cluster), sightOf(ctx)
	if sees.authority == nil {
		return all
	}
	documents := v.documents()
	var out []mirror.ClusterPair
	for _, p := range all {
		if sees.path(documents[p.UID]) {
			out = append(out, p)
		}
	}
	return out
}
