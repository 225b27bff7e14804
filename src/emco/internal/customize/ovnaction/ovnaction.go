// Package ovnaction is the network controller: it gives the pods of workloads interfaces in networks of their
// clusters.
package ovnaction

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/customize"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/patch"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

// Name is the name of the controller in group intents.
const Name = "ovnaction"

// Limits of one intent.
const (
	maxWorkloads  = 500
	maxInterfaces = 2000 // of all workloads together
)

// New returns the controller of the documents in a store.
func New(db *store.DB) customize.Controller { return controller{db} }

type controller struct{ db *store.DB }

// workload is a workload of an app with the interfaces that its pods get.
type workload struct {
	app, kind, name string
	origin          string
	interfaces      []json.RawMessage
	origins         map[string]string // of interfaces, by name
}

// Customize implements customize.Controller.
func (o controller) Customize(ctx context.Context, d customize.Deployment) (out customize.Edits, err error) {
	workloads, err := o.workloads(ctx, d)
	if err != nil {
		return out, err
	}
	for _, w := range workloads {
		if !slices.ContainsFunc(d.Apps, func(a customize.App) bool { return a.Name == w.app }) {
			continue // the app is not deployed
		}
		if _, known := manifest.PodTemplate(w.kind); !known {
			out.Findings = append(out.Findings, customize.Finding{App: w.app, Text: w.origin + ": changes no workload, because EMCO does not know where a " + w.kind + " has its pods"})
			continue
		}
		text, err := json.Marshal(patch.PodNetworks{Interfaces: w.interfaces})
		if err != nil {
			return out, err
		}
		out.Edits = append(out.Edits, customize.Edit{
			App: w.app, Origin: w.origin,
			Patch: &customize.Patch{Target: customize.Target{Kind: w.kind, Name: w.name}, Type: patch.Networks, Text: text},
		})
	}
	return out, nil
}

// workloads reads the workloads of an intent that have interfaces, in order. Intents for the same workload
// are one.
func (o controller) workloads(ctx context.Context, d customize.Deployment) ([]*workload, error) {
	if err := d.CheckIntent(ctx, o.db, "NetControllerIntent", "network-controller-intent"); err != nil {
		return nil, err
	}
	intent := store.Key(d.Group + "/network-controller-intent/" + d.Intent)
	var out []*workload
	known, documents, interfaces := map[[3]string]*workload{}, 0, 0
	for doc, err := range store.All[v2.WorkloadIntent](ctx, o.db, intent+"/workload-intents", store.Query{Depth: 1}) {
		if err != nil {
			return nil, err
		}
		s := doc.Value.Spec
		id := [3]string{s.App, s.Type, s.Workload}
		w := known[id]
		if w == nil {
			w = &workload{app: s.App, kind: s.Type, name: s.Workload, origin: d.Origin(doc.Doc.Key), origins: map[string]string{}}
		}
		n, err := o.addInterfaces(ctx, d, doc.Doc.Key, w)
		if err != nil {
			return nil, err
		}
		if documents, interfaces = documents+1, interfaces+n; documents > maxWorkloads || interfaces > maxInterfaces {
			return nil, errs.New(errs.Invalid, fmt.Sprintf("intent %s has more than %d workloads or %d interfaces; divide it", d.Intent, maxWorkloads, maxInterfaces))
		}
		if known[id] == nil && n > 0 {
			known[id], out = w, append(out, w)
		}
	}
	slices.SortFunc(out, func(a, b *workload) int {
		return cmp.Or(cmp.Compare(a.app, b.app), cmp.Compare(a.kind, b.kind), cmp.Compare(a.name, b.name))
	})
	return out, nil
}

// addInterfaces adds the interfaces of a workload intent to a workload, and returns their number. Invalid if the
// workload has an interface of the same name already.
func (o controller) addInterfaces(ctx context.Context, d customize.Deployment, intent store.Key, w *workload) (n int, err error) {
	for doc, err := range store.All[v2.InterfaceIntent](ctx, o.db, intent+"/interfaces", store.Query{Depth: 1, Limit: maxInterfaces + 1}) {
		if err != nil {
			return n, err
		}
		s, origin := doc.Value.Spec, d.Origin(doc.Doc.Key)
		if other := w.origins[s.Interface]; other != "" {
			return n, errs.New(errs.Invalid, fmt.Sprintf("%s and %s both give %s %s of app %s the interface %s", other, origin, w.kind, w.name, w.app, s.Interface))
		}
		if s.DefaultGateway == "" {
			s.DefaultGateway = "false"
		}
		text, err := json.Marshal(s)
		if err != nil {
			return n, err
		}
		w.origins[s.Interface], w.interfaces = origin, append(w.interfaces, text)
		n++
	}
	return n, nil
}
