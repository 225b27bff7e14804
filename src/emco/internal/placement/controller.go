package placement

import (
	"context"
	"maps"
	"slices"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
)

// Controller is a placement controller. Group intents name it and an intent of it.
type Controller interface {
	// Demands returns what the apps of a deployment need, by app. Equal documents and equal candidates give equal
	// demands, unless they are momentary. Errors concern the whole group; they are Invalid or NotFound if users can correct the cause.
	Demands(ctx context.Context, d Deployment) (map[string]Demand, error)
}

// Demand is what an app needs of clusters, beyond its intent.
type Demand struct {
	Filters []Filter
	Scorers []Scorer
	// Momentary means that the demand depends on more than documents, such as what clusters have free now.
	Momentary bool
}

// Deployment is what a placement controller knows of a deployment.
type Deployment struct {
	Group     string // path of the deployment intent group, "projects/…"
	Intent    string // name of the controller's intent
	Inventory Inventory
	// Candidates returns the candidates of the apps that can be placed so far, in order of app.
	Candidates func(ctx context.Context) ([]Candidates, error)
	Facts      FactsOf // key-value pairs of clusters
	// Running returns the clusters that each app is placed on now, by app, sorted.
	Running func(ctx context.Context) (map[string][]v2.ClusterKey, error)
	// DocumentsOnly means that momentary demands are not used: nothing but documents has to be read for them.
	DocumentsOnly bool
}

// Candidates are the clusters that an app can be placed on: its intent selects them, and the filters
// that are known admit them.
type Candidates struct {
	App       string
	Mandatory []v2.ClusterKey   // sorted
	AnyOf     [][]v2.ClusterKey // each sorted, and not empty
	Count     int               // of clusters that are chosen of each AnyOf
}

// FindCandidates returns the candidates of a request. Errors are those of Decide.
func FindCandidates(ctx context.Context, req Request, filters []Filter) (Candidates, error) {
	e, g, err := admit(ctx, req, filters)
	if err != nil {
		return Candidates{}, err
	}
	out := Candidates{App: req.App, Mandatory: slices.Sorted(maps.Keys(g.mandatory)), Count: req.Preference.count()}
	for _, group := range g.anyOf {
		admitted := e.admitted(group)
		if len(admitted) == 0 {
			return Candidates{}, e.noneLeft(group)
		}
		out.AnyOf = append(out.AnyOf, admitted)
	}
	if len(out.Mandatory)+len(out.AnyOf) == 0 {
		return Candidates{}, errs.New(errs.Invalid, noClusters)
	}
	return out, nil
}
