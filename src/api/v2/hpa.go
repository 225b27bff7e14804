package v2

import (
	"regexp"
	"slices"
	"strings"
)

// HPAIntent is what the workloads of an app need of clusters. A group intent names one with the
// controller hpa; all of the group count.
type HPAIntent struct {
	Named
	Spec HPAIntentSpec `json:"spec"` // the app
}

// HPAIntentSpec names the app.
type HPAIntentSpec struct {
	App string `json:"app" alias:"app-name"` // the app whose workloads have needs
}

// Validate checks metadata and spec.
func (r *HPAIntent) Validate() error {
	c := begin(&r.Named)
	c.name("spec.app", r.Spec.App)
	return c.err()
}

// HPAConsumer is a workload with needs.
type HPAConsumer struct {
	Named
	Spec HPAConsumerSpec `json:"spec"` // the workload
}

// HPAConsumerSpec names the rendered workload.
type HPAConsumerSpec struct {
	APIVersion string `json:"apiVersion,omitempty" alias:"api-version"`   // such as apps/v1
	Kind       string `json:"kind,omitempty"`                             // such as Deployment
	Name       string `json:"name"`                                       // metadata.name of the workload
	Replicas   int    `json:"replicas,omitempty"`                         // pods of the workload, for which the cluster must have room; 0 is 1
	Container  string `json:"container,omitempty" alias:"container-name"` // the container that gets requests and limits
}

// maxReplicas bounds the pods that are counted for one workload.
const maxReplicas = 10_000

// Validate checks metadata and spec.
func (r *HPAConsumer) Validate() error {
	c := begin(&r.Named)
	c.text("spec.apiVersion", r.Spec.APIVersion, MaxName)
	c.text("spec.kind", r.Spec.Kind, MaxName)
	c.name("spec.name", r.Spec.Name)
	c.between("spec.replicas", r.Spec.Replicas, 0, maxReplicas)
	c.optionalName("spec.container", r.Spec.Container)
	return c.err()
}

// HPAResource is one need of a workload.
type HPAResource struct {
	Named
	Spec HPAResourceSpec `json:"spec"` // the need
}

// HPAResourceSpec is an amount of a resource, or a capability of clusters.
type HPAResourceSpec struct {
	Allocatable *bool           `json:"allocatable"`         // true: an amount of a resource; false: a capability
	Mandatory   bool            `json:"mandatory,omitempty"` // true: clusters without it are left out; false: clusters with it are preferred
	Weight      int             `json:"weight,omitempty"`    // of a preference; 0 is 1
	Resource    HPARequirements `json:"resource"`            // what is needed
}

// HPARequirements are the amount or the capability.
type HPARequirements struct {
	Name     string `json:"name,omitempty"`     // of the resource, such as cpu, memory or vendor.example/gpu
	Requests int64  `json:"requests,omitempty"` // of each pod
	Limits   int64  `json:"limits,omitempty"`   // of each pod; 0: none
	Units    string `json:"units,omitempty"`    // m, K, M, G, T, Ki, Mi, Gi, Ti; empty is M for memory, else 1
	Key      string `json:"key,omitempty"`      // of the capability: a label of nodes, and a key-value pair or a label of clusters
	Value    string `json:"value,omitempty"`    // of the capability
}

var (
	resourceName = regexp.MustCompile(`^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`)
	hpaUnits     = []string{"", "m", "K", "k", "M", "MB", "G", "GB", "T", "Ki", "Mi", "Gi", "Ti"}
)

// Unit returns the suffix of amounts, in Kubernetes' form.
func (r HPARequirements) Unit() string {
	switch unit := strings.TrimSuffix(r.Units, "B"); {
	case unit == "" && r.Name == "memory":
		return "M"
	case unit == "K":
		return "k"
	default:
		return unit
	}
}

// Validate checks metadata and spec.
func (r *HPAResource) Validate() error {
	c := begin(&r.Named)
	s := r.Spec
	c.between("spec.weight", s.Weight, 0, maxWeight)
	switch {
	case s.Allocatable == nil:
		c.fail("spec.allocatable", "missing; write true for an amount of a resource, false for a capability")
	case *s.Allocatable:
		if len(s.Resource.Name) > maxObjectName || !resourceName.MatchString(s.Resource.Name) {
			c.fail("spec.resource.name", "%s is no name of a resource, such as cpu", quote(s.Resource.Name))
		}
		if s.Resource.Requests < 1 {
			c.fail("spec.resource.requests", "%d is below 1", s.Resource.Requests)
		}
		if s.Resource.Limits != 0 && s.Resource.Limits < s.Resource.Requests {
			c.fail("spec.resource.limits", "%d is below requests", s.Resource.Limits)
		}
		if !slices.Contains(hpaUnits, s.Resource.Units) {
			c.fail("spec.resource.units", "%s is none of %s", quote(s.Resource.Units), strings.Join(hpaUnits[1:], ", "))
		}
		if s.Resource.Key != "" || s.Resource.Value != "" {
			c.fail("spec.resource", "key and value belong to capabilities (allocatable: false)")
		}
	default:
		if len(s.Resource.Key) > maxObjectName || !resourceName.MatchString(s.Resource.Key) {
			c.fail("spec.resource.key", "%s is no label of nodes", quote(s.Resource.Key))
		}
		if len(s.Resource.Value) > maxLabelValue || s.Resource.Value != "" && !ValidName(s.Resource.Value) {
			c.fail("spec.resource.value", "%s is no value of a label", quote(s.Resource.Value))
		}
		if s.Resource.Name != "" || s.Resource.Requests != 0 || s.Resource.Limits != 0 {
			c.fail("spec.resource", "name, requests and limits belong to amounts (allocatable: true)")
		}
	}
	return c.err()
}
