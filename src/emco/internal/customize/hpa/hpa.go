// Package hpa is the controller of hardware needs: it leaves out clusters that lack what workloads
// must have, prefers those that have what they should have (as placement controller), and writes
// requests, limits and node selectors into the workloads (as action controller).
package hpa

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/customize"
	"github.com/emco-orchestrator/emco/src/emco/internal/placement"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

// Names of the controller in group intents: the first has both roles. Group intents may add a
// number, as upstream's examples do: "hpa-placement-controller-1".
var (
	PlacementNames = []string{"hpa", "hpa-plc", "hpaplc", "hpa-placement-controller"}
	ActionNames    = []string{"hpa", "hpa-ac", "hpaac", "hpa-action-controller"}
)

// freePrefix begins the key-value pairs of clusters that say how much of a resource is free, such as
// "allocatable.memory".
const freePrefix = "allocatable."

// maxDocuments bounds the intents, consumers and requirements of a group together.
const maxDocuments = 3000

// Controller has both roles. Make it with New.
type Controller struct{ db *store.DB }

// New returns the controller of the documents in a store.
func New(db *store.DB) Controller { return Controller{db} }

// need is a requirement of a workload.
type need struct {
	v2.HPAResourceSpec
	app      string
	workload v2.HPAConsumerSpec
	origin   string
}

// needs reads all requirements of a group, whose intent must exist.
func (h Controller) needs(ctx context.Context, group, intent string) (out []need, err error) {
	const collection = "hpa-intents"
	if err := (customize.Deployment{Group: group, Intent: intent}).CheckIntent(ctx, h.db, "HpaIntent", collection); err != nil {
		return nil, err
	}
	all, read := store.Key(group+"/"+collection), 0
	count := func(err error) error {
		if read++; err == nil && read > maxDocuments {
			err = errs.New(errs.Invalid, fmt.Sprintf("%s has more than %d intents, consumers and requirements", all, maxDocuments))
		}
		return err
	}
	for i, err := range store.All[v2.HPAIntent](ctx, h.db, all, store.Query{Depth: 1}) {
		if err := count(err); err != nil {
			return nil, err
		}
		for c, err := range store.All[v2.HPAConsumer](ctx, h.db, i.Doc.Key+"/hpa-resource-consumers", store.Query{Depth: 1}) {
			if err := count(err); err != nil {
				return nil, err
			}
			for r, err := range store.All[v2.HPAResource](ctx, h.db, c.Doc.Key+"/resource-requirements", store.Query{Depth: 1}) {
				if err := count(err); err != nil {
					return nil, err
				}
				out = append(out, need{r.Value.Spec, i.Value.Spec.App, c.Value.Spec, strings.TrimPrefix(string(r.Doc.Key), group+"/")})
			}
		}
	}
	return out, nil
}

func (n need) isAmount() bool { return n.Allocatable != nil && *n.Allocatable }

// amount returns a number of the requirement as a quantity of Kubernetes.
func (n need) amount(number int64) (resource.Quantity, error) {
	q, err := resource.ParseQuantity(strconv.FormatInt(number, 10) + n.Resource.Unit())
	if err != nil {
		err = errs.New(errs.Invalid, fmt.Sprintf("%s: %d%s is no amount", n.origin, number, n.Resource.Unit()))
	}
	return q, err
}

// total returns what all pods of the workload request together.
func (n need) total() (float64, error) {
	q, err := n.amount(n.Resource.Requests)
	return q.AsApproximateFloat64() * float64(max(n.workload.Replicas, 1)), err
}

// free returns how much of a resource a cluster has free.
func free(name string, facts map[string]string) (float64, bool) {
	q, err := resource.ParseQuantity(strings.TrimSpace(facts[freePrefix+name]))
	return q.AsApproximateFloat64(), err == nil
}

// capable reports whether a cluster has a capability: a key-value pair with the value, also as one of
// several that are separated by commas, or, if the value is empty or "true", a label.
func (n need) capable(c placement.Cluster, facts map[string]string) bool {
	key, value := n.Resource.Key, n.Resource.Value
	if known, ok := facts[key]; ok {
		if value == "" {
			return true
		}
		for v := range strings.SplitSeq(known, ",") {
			if strings.TrimSpace(v) == value {
				return true
			}
		}
	}
	return (value == "" || value == "true") && slices.Contains(c.Labels, key)
}

// Demands implements placement.Controller.
func (h Controller) Demands(ctx context.Context, at placement.Deployment) (map[string]placement.Demand, error) {
	all, err := h.needs(ctx, at.Group, at.Intent)
	if err != nil {
		return nil, err
	}
	filters := map[string]*filter{} // by app
	out := map[string]placement.Demand{}
	for _, n := range all {
		d := out[n.app]
		if !n.Mandatory {
			s, err := n.scorer()
			if err != nil {
				return nil, err
			}
			d.Scorers = append(d.Scorers, s)
			out[n.app] = d
			continue
		}
		f := filters[n.app]
		if f == nil {
			f = &filter{amounts: map[string]float64{}}
			filters[n.app], d.Filters = f, []placement.Filter{f}
			out[n.app] = d
		}
		if !n.isAmount() {
			f.capabilities = append(f.capabilities, n)
			continue
		}
		total, err := n.total()
		if err != nil {
			return nil, err
		}
		f.amounts[n.Resource.Name] += total
	}
	return out, nil
}

// scorer prefers clusters that meet the requirement.
func (n need) scorer() (placement.Scorer, error) {
	out := placement.Scorer{Weight: float64(max(n.Weight, 1))}
	if !n.isAmount() {
		out.Name = n.Resource.Key + "=" + n.Resource.Value
		out.Value = func(c placement.Cluster, facts map[string]string) (float64, bool) {
			return met(n.capable(c, facts)), true
		}
		return out, nil
	}
	total, err := n.total()
	out.Name = "room for " + n.Resource.Name
	out.Value = func(_ placement.Cluster, facts map[string]string) (float64, bool) {
		has, known := free(n.Resource.Name, facts)
		return met(has >= total), known
	}
	return out, err
}

func met(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// filter leaves out clusters that lack what an app must have.
type filter struct {
	amounts      map[string]float64 // of all workloads together, by resource
	capabilities []need
}

// Admit implements placement.Filter.
func (f *filter) Admit(ctx context.Context, req placement.Request, c placement.Cluster) (placement.Verdict, error) {
	v := placement.Verdict{Cluster: c.Key()}
	var facts map[string]string
	if req.Facts != nil {
		var err error
		if facts, err = req.Facts(ctx, c.Key()); err != nil {
			return v, err
		}
	}
	for _, n := range f.capabilities {
		if !n.capable(c, facts) {
			v.Reason = fmt.Sprintf("has no capability %s=%s (hpa)", n.Resource.Key, n.Resource.Value)
			return v, nil
		}
	}
	for _, name := range slices.Sorted(maps.Keys(f.amounts)) {
		has, known := free(name, facts)
		switch {
		case !known:
			v.Reason = fmt.Sprintf("has no key-value pair %s%s that says how much is free (hpa)", freePrefix, name)
			return v, nil
		case has < f.amounts[name]:
			v.Reason = fmt.Sprintf("has %s of %s free, and %s are needed (hpa)", shown(has), name, shown(f.amounts[name]))
			return v, nil
		}
	}
	v.Admitted, v.Reason = true, "has what the workloads need"
	return v, nil
}

func shown(n float64) string {
	return strconv.FormatFloat(math.Round(n*1000)/1000, 'f', -1, 64)
}

// Customize implements customize.Controller. Workloads get the requests and limits of all
// requirements, and the mandatory capabilities as node selectors.
func (h Controller) Customize(ctx context.Context, d customize.Deployment) (out customize.Edits, err error) {
	all, err := h.needs(ctx, d.Group, d.Intent)
	if err != nil {
		return out, err
	}
	for _, n := range all {
		if !slices.ContainsFunc(d.Apps, func(a customize.App) bool { return a.Name == n.app }) {
			continue // the app is not deployed
		}
		p, finding, err := n.patch()
		if err != nil {
			return out, err
		}
		if finding != "" {
			out.Findings = append(out.Findings, customize.Finding{App: n.app, Text: n.origin + ": " + finding})
		}
		if p != nil {
			out.Edits = append(out.Edits, customize.Edit{App: n.app, Origin: n.origin, Patch: p})
		}
	}
	return out, nil
}

// podSpec is the part of a workload that requirements change.
type podSpec struct {
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	Containers   []container       `json:"containers,omitempty"`
}

type container struct {
	Name      string    `json:"name"`
	Resources resources `json:"resources"`
}

type resources struct {
	Requests map[string]string `json:"requests"`
	Limits   map[string]string `json:"limits,omitempty"`
}

// patch returns the change of the workload; nil with a finding if there is none.
func (n need) patch() (*customize.Patch, string, error) {
	var spec podSpec
	switch {
	case n.workload.Kind == "":
		return nil, "changes no workload, because the consumer names no kind", nil
	case n.isAmount() && n.workload.Container == "":
		return nil, "changes no workload, because the consumer names no container", nil
	case n.isAmount():
		requests, err := n.amount(n.Resource.Requests)
		if err != nil {
			return nil, "", err
		}
		r := resources{Requests: map[string]string{n.Resource.Name: requests.String()}}
		if n.Resource.Limits > 0 {
			limits, err := n.amount(n.Resource.Limits)
			if err != nil {
				return nil, "", err
			}
			r.Limits = map[string]string{n.Resource.Name: limits.String()}
		}
		spec.Containers = []container{{n.workload.Container, r}}
	case n.Mandatory:
		spec.NodeSelector = map[string]string{n.Resource.Key: n.Resource.Value}
	default:
		return nil, "", nil // a preference for clusters
	}
	pod, err := json.Marshal(struct {
		Spec podSpec `json:"spec"`
	}{spec})
	if err != nil {
		return nil, "", err
	}
	target := customize.Target{APIVersion: n.workload.APIVersion, Kind: n.workload.Kind, Name: n.workload.Name}
	p := target.PodPatch(pod)
	if p == nil {
		return nil, "changes no workload, because EMCO does not know where a " + n.workload.Kind + " has its pods", nil
	}
	return p, "", nil
}
