// Package hpa is the controller of hardware platform awareness: what workloads need of CPU, memory, devices and node
// labels. It leaves out clusters that lack what workloads must have, prefers those that have what they should have (as
// placement controller), and writes requests, limits and node selectors into the workloads (as action controller).
package hpa

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/api/status"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/customize"
	"github.com/emco-orchestrator/emco/src/emco/internal/placement"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/kubehealth/capacity"
	"github.com/emco-orchestrator/emco/src/kubehealth/quantity"
)

// Names of the controller in group intents: the first has both roles. Group intents may add a
// number, as upstream's examples do: "hpa-placement-controller-1".
var (
	PlacementNames = []string{"hpa", "hpa-plc", "hpaplc", "hpa-placement-controller"}
	ActionNames    = []string{"hpa", "hpa-ac", "hpaac", "hpa-action-controller"}
)

// freePrefix begins the keys of clusters' key-value pairs with the free amount of a resource, such as
// "allocatable.memory".
const freePrefix = "allocatable."

// maxDocuments bounds the intents, consumers and requirements of a group together.
const maxDocuments = 3000

// FreeOf returns what the nodes of clusters have free. Every cluster has an answer.
type FreeOf func(ctx context.Context, clusters []v2.ClusterKey) (map[v2.ClusterKey]status.Capacity, error)

// Controller has both roles. Make it with New.
type Controller struct {
	db   *store.DB
	free FreeOf
}

// New returns the controller of the documents in a store. As an action controller it does not call free.
func New(db *store.DB, free FreeOf) Controller { return Controller{db, free} }

// requirement is a requirement of a workload.
type requirement struct {
	v2.HPAResourceSpec
	app      string
	workload v2.HPAConsumerSpec
	origin   string
}

// needs reads all requirements of a group, whose intent must exist.
func (h Controller) needs(ctx context.Context, group, intent string) (out []requirement, err error) {
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
				out = append(out, requirement{r.Value.Spec, i.Value.Spec.App, c.Value.Spec, strings.TrimPrefix(string(r.Doc.Key), group+"/")})
			}
		}
	}
	return out, nil
}

func (n requirement) isAmount() bool { return n.Allocatable != nil && *n.Allocatable }

// amount returns a number of the requirement as a quantity of Kubernetes.
func (n requirement) amount(number int64) (resource.Quantity, error) {
	q, err := resource.ParseQuantity(strconv.FormatInt(number, 10) + n.Resource.Unit())
	if err != nil {
		err = errs.New(errs.Invalid, fmt.Sprintf("%s: %d%s is no amount", n.origin, number, n.Resource.Unit()))
	}
	return q, err
}

// perPod returns what each pod of the workload requests of a node, in the unit of status.NodeResource.
func (n requirement) perPod() (int64, error) {
	q, err := n.amount(n.Resource.Requests)
	return capacity.Amount(n.Resource.Name, q), err
}

// total returns what all pods of the workload request together.
func (n requirement) total() (float64, error) {
	q, err := n.amount(n.Resource.Requests)
	return q.AsApproximateFloat64() * float64(n.replicas()), err
}

func (n requirement) replicas() int { return max(n.workload.Replicas, 1) }

// free returns how much of a resource a cluster has free by its key-value pairs.
func free(name string, facts map[string]string) (float64, bool) {
	q, err := quantity.Parse(strings.TrimSpace(facts[freePrefix+name]))
	return q.AsApproximateFloat64(), err == nil
}

// capable reports whether a cluster has a capability: a key-value pair with the value, also as one of
// several that are separated by commas, or, if the value is empty or "true", a label.
func (n requirement) capable(c placement.Cluster, facts map[string]string) bool {
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
func (n requirement) patch() (*customize.Patch, string, error) {
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
