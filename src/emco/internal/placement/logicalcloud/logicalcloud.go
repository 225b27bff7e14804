// Package logicalcloud is the placement filter that keeps an app within its logical cloud: other
// clusters have no namespace and no credential for the app.
package logicalcloud

import (
	"context"
	"fmt"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/placement"
)

// New returns a filter that admits the clusters of the logical cloud called name.
func New(name string, clusters []v2.ClusterKey) placement.Filter {
	f := &cloudFilter{name: name, member: make(map[v2.ClusterKey]bool, len(clusters))}
	for _, key := range clusters {
		f.member[key] = true
	}
	return f
}

type cloudFilter struct {
	name   string
	member map[v2.ClusterKey]bool
}

// Admit admits members.
func (f *cloudFilter) Admit(_ context.Context, _ placement.Request, c placement.Cluster) (placement.Verdict, error) {
	v := placement.Verdict{Cluster: c.Key(), Admitted: f.member[c.Key()]}
	if v.Admitted {
		v.Reason = fmt.Sprintf("belongs to logical cloud %s", f.name)
	} else {
		v.Reason = fmt.Sprintf("is not in logical cloud %s; add a cluster reference to use it", f.name)
	}
	return v, nil
}

// Objection returns upstream's text for mandatory clusters that are not in the logical
// cloud (400 in upstream EMCO), and what to do.
func (*cloudFilter) Objection() (text, remedy string) {
	return "The specified Logical Cloud doesn't provide the mandatory clusters", "add cluster references to the logical cloud, or take the label from these clusters"
}
