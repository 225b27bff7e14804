package orchestrator

import (
	"cmp"
	"maps"
	"slices"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
)

func keysOf(uid string, places []appcontext.Placement) []appcontext.PairKey {
	var out []appcontext.PairKey
	for _, p := range places {
		for app := range p.Apps {
			out = append(out, appcontext.PairKey{Cluster: p.Cluster, UID: uid, App: app})
		}
	}
	return out
}

// placed is one app on one cluster, as wanted.
type placed struct {
	cluster string
	bundle  appcontext.Digest
}

// byApp turns placements around: app to clusters, in order.
func byApp(places []appcontext.Placement) map[string][]placed {
	out := map[string][]placed{}
	for _, p := range places {
		for app, bundle := range p.Apps {
			out[app] = append(out[app], placed{p.Cluster, bundle})
		}
	}
	for app := range maps.Keys(out) {
		slices.SortFunc(out[app], func(a, b placed) int { return cmp.Compare(a.cluster, b.cluster) })
	}
	return out
}

// object names an object without its version, which clusters may convert.
type object struct{ group, kind, namespace, name string }

func objectOf(id manifest.ID) object { return object{id.Group, id.Kind, id.Namespace, id.Name} }

func failureOf(a appcontext.App) *v2.AppFailure {
	if a.Failure == nil {
		return nil
	}
	return &v2.AppFailure{Stage: a.Failure.Stage, File: a.Failure.File, Reason: a.Failure.Reason}
}
