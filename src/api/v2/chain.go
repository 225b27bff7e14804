package v2

import (
	"cmp"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
)

// NetworkChain is a chain of network functions, through which Nodus routes the traffic of clients. A group
// intent names one with the controller sfc; all of the group count.
type NetworkChain struct {
	Named
	Spec NetworkChainSpec `json:"spec"` // how Nodus routes
}

// NetworkChainSpec describes the chain as a whole.
type NetworkChainSpec struct {
	ChainType string `json:"chainType"` // Routing
	Namespace string `json:"namespace"` // of the pods of the links; empty is the namespace of the deployment
}

// chainRouting is the only type of chains.
const chainRouting = "Routing"

// Validate checks metadata and spec.
func (r *NetworkChain) Validate() error {
	c := beginTraffic(&r.Named)
	if r.Spec.ChainType != chainRouting {
		c.fail("spec.chainType", "%s is not %q", quote(r.Spec.ChainType), chainRouting)
	}
	c.namespace("spec.namespace", r.Spec.Namespace)
	return c.err()
}

// ChainLink is a network function of a chain: it gets the traffic of the network to its left and passes it on to
// the network to its right.
type ChainLink struct {
	Named
	Spec ChainLinkSpec `json:"spec"` // the function and its networks
}

// ChainLinkSpec names the pods and the networks of a link.
type ChainLinkSpec struct {
	LeftNet          string `json:"leftNet"`                      // the network to the left
	RightNet         string `json:"rightNet"`                     // the network to the right, which is the next link's leftNet
	LinkLabel        string `json:"linkLabel"`                    // label that the link's pods get, KEY=VALUE; a value alone is that of the label app
	App              string `json:"app" alias:"appName,app-name"` // the app of the link
	WorkloadResource string `json:"workloadResource"`             // metadata.name of the rendered workload
	ResourceType     string `json:"resourceType"`                 // kind of the workload, such as Deployment
}

// Validate checks metadata and spec.
func (r *ChainLink) Validate() error {
	c := beginTraffic(&r.Named)
	s := r.Spec
	c.network("spec.leftNet", s.LeftNet)
	c.network("spec.rightNet", s.RightNet)
	if s.LeftNet == s.RightNet && s.LeftNet != "" {
		c.fail("spec.rightNet", "%s is spec.leftNet, too; a link joins two networks", quote(s.RightNet))
	}
	c.appLabel("spec.linkLabel", s.LinkLabel)
	c.chainWorkload(s.App, s.WorkloadResource, s.ResourceType)
	return c.err()
}

// ChainClientSelector selects pods at an end of a chain, whose traffic goes through it.
type ChainClientSelector struct {
	Named
	Spec ChainClientSelectorSpec `json:"spec"` // the end and the pods
}

// ChainClientSelectorSpec selects pods by their labels and those of their namespaces.
type ChainClientSelectorSpec struct {
	ChainEnd          string        `json:"chainEnd"`          // left or right
	PodSelector       LabelSelector `json:"podSelector"`       // labels of the pods; empty: all pods of the namespaces
	NamespaceSelector LabelSelector `json:"namespaceSelector"` // labels of the namespaces; empty: the namespace of the deployment
}

// Validate checks metadata and spec.
func (r *ChainClientSelector) Validate() error {
	c := beginTraffic(&r.Named)
	c.chainEnd(r.Spec.ChainEnd)
	r.Spec.PodSelector.check(c, "spec.podSelector")
	r.Spec.NamespaceSelector.check(c, "spec.namespaceSelector")
	if r.Spec.PodSelector.Empty() && r.Spec.NamespaceSelector.Empty() {
		c.fail("spec.podSelector", "missing, and so is spec.namespaceSelector; say which pods use the chain")
	}
	return c.err()
}

// ChainProviderNetwork is a network of the provider at an end of a chain.
type ChainProviderNetwork struct {
	Named
	Spec ChainProviderNetworkSpec `json:"spec"` // the end and the network
}

// ChainProviderNetworkSpec names the network, and the gateway to the chain within it.
type ChainProviderNetworkSpec struct {
	ChainEnd        string `json:"chainEnd"`                            // left or right
	ProviderNetwork string `json:"providerNetwork" alias:"networkName"` // name of the provider network on the clusters
	GatewayIP       string `json:"gatewayIp"`                           // address of the gateway
	Subnet          string `json:"subnet"`                              // range of addresses of the network
}

// Validate checks metadata and spec.
func (r *ChainProviderNetwork) Validate() error {
	c := beginTraffic(&r.Named)
	s := r.Spec
	c.chainEnd(s.ChainEnd)
	c.network("spec.providerNetwork", s.ProviderNetwork)
	gateway, err := netip.ParseAddr(s.GatewayIP)
	if err != nil || gateway.Zone() != "" {
		c.fail("spec.gatewayIp", "%s is no address", quote(s.GatewayIP))
	}
	switch subnet, wrong := netip.ParsePrefix(s.Subnet); {
	case wrong != nil || subnet != subnet.Masked():
		c.fail("spec.subnet", "%s is no range of addresses; write the first address and the length, such as 10.1.0.0/16", quote(s.Subnet))
	case err == nil && !subnet.Contains(gateway):
		c.fail("spec.gatewayIp", "%s is not in spec.subnet", quote(s.GatewayIP))
	}
	return c.err()
}

// ChainClient makes pods of an app clients of a chain, which may be that of another deployment of the project.
type ChainClient struct {
	Named
	Spec ChainClientSpec `json:"spec"` // the chain and the pods
}

// ChainClientSpec names the chain, and the workload whose pods become clients.
type ChainClientSpec struct {
	ChainEnd         string `json:"chainEnd"`                        // left or right
	Chain            string `json:"sfcIntent"`                       // the chain
	CompositeApp     string `json:"compositeApp,omitempty"`          // of the chain's deployment; empty is that of the client
	Version          string `json:"compositeAppVersion,omitempty"`   // as compositeApp
	Group            string `json:"deploymentIntentGroup,omitempty"` // as compositeApp
	App              string `json:"app" alias:"appName,app-name"`    // the app of the client
	WorkloadResource string `json:"workloadResource"`                // metadata.name of the rendered workload
	ResourceType     string `json:"resourceType"`                    // kind of the workload, such as Deployment
}

// Validate checks metadata and spec.
func (r *ChainClient) Validate() error {
	c := beginTraffic(&r.Named)
	s := r.Spec
	c.chainEnd(s.ChainEnd)
	c.name("spec.sfcIntent", s.Chain)
	c.optionalName("spec.compositeApp", s.CompositeApp)
	c.optionalName("spec.compositeAppVersion", s.Version)
	c.optionalName("spec.deploymentIntentGroup", s.Group)
	c.chainWorkload(s.App, s.WorkloadResource, s.ResourceType)
	return c.err()
}

// ChainGroup returns the group of the chain of a client that is in a group.
func (s ChainClientSpec) ChainGroup(client GroupKey) GroupKey {
	k := client
	k.CompositeApp.Name = cmp.Or(s.CompositeApp, k.CompositeApp.Name)
	k.CompositeApp.Version = cmp.Or(s.Version, k.CompositeApp.Version)
	k.Name = cmp.Or(s.Group, k.Name)
	return k
}

// ChainStoreKey returns the key of the document of the chain of a client that is in a group.
func (s ChainClientSpec) ChainStoreKey(client GroupKey) string {
	return s.ChainGroup(client).StoreKey() + "/network-chains/" + s.Chain
}

// The ends of a chain.
const (
	ChainLeft  = "left"
	ChainRight = "right"
)

func (c *violationList) chainEnd(end string) {
	if end != ChainLeft && end != ChainRight {
		c.fail("spec.chainEnd", "%s is neither %s nor %s", quote(end), ChainLeft, ChainRight)
	}
}

// chainKinds are the kinds of workloads whose pods EMCO can label.
var chainKinds = []string{"Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job", "CronJob", "Pod"}

// objectNamePattern is the form of names of objects of Kubernetes.
var objectNamePattern = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)

// chainWorkload checks what names a workload.
func (c *violationList) chainWorkload(app, name, kind string) {
	c.name("spec.app", app)
	if len(name) > maxObjectName || !objectNamePattern.MatchString(name) {
		c.fail("spec.workloadResource", "%s is no name of a workload", quote(name))
	}
	if !slices.Contains(chainKinds, kind) {
		c.fail("spec.resourceType", "%s is none of %s", quote(kind), strings.Join(chainKinds, ", "))
	}
}

// network checks the name of a network, which is an object of the cluster.
func (c *violationList) network(field, s string) {
	if len(s) > maxObjectName || !objectNamePattern.MatchString(s) {
		c.fail(field, "%s is no name of a network; use lower-case letters, digits, '-' and '.'", quote(s))
	}
}

// LabelSelector selects objects whose labels meet all of its conditions.
type LabelSelector struct {
	MatchLabels      map[string]string  `json:"matchLabels,omitempty"`      // labels with their values
	MatchExpressions []LabelRequirement `json:"matchExpressions,omitempty"` // further conditions
}

// LabelRequirement is a condition on one label.
type LabelRequirement struct {
	Key      string   `json:"key"`              // of the label
	Operator string   `json:"operator"`         // In, NotIn, Exists or DoesNotExist
	Values   []string `json:"values,omitempty"` // of In and NotIn
}

// maxSelector bounds the conditions of a selector, and the values of one of them.
const maxSelector = 20

// Empty reports whether the selector has no condition.
func (s LabelSelector) Empty() bool { return len(s.MatchLabels) == 0 && len(s.MatchExpressions) == 0 }

func (s LabelSelector) check(c *violationList, field string) {
	if n := len(s.MatchLabels) + len(s.MatchExpressions); n > maxSelector {
		c.fail(field, "%d conditions, at most %d are allowed", n, maxSelector)
		return
	}
	for _, key := range sortedKeys(s.MatchLabels) {
		c.labelKey(field+".matchLabels", key)
		c.labelValue(join(field+".matchLabels", key), s.MatchLabels[key])
	}
	for i, e := range s.MatchExpressions {
		at := fmt.Sprintf("%s.matchExpressions[%d].", field, i)
		c.labelKey(at+"key", e.Key)
		listed := e.Operator == "In" || e.Operator == "NotIn"
		if !listed && e.Operator != "Exists" && e.Operator != "DoesNotExist" {
			c.fail(at+"operator", "%s is none of In, NotIn, Exists, DoesNotExist", quote(e.Operator))
		}
		if listed != (len(e.Values) > 0) || len(e.Values) > maxSelector {
			c.fail(at+"values", "In and NotIn need 1 to %d values, and other operators none", maxSelector)
			continue
		}
		for j, v := range e.Values {
			c.labelValue(fmt.Sprintf("%svalues[%d]", at, j), v)
		}
	}
}

// labelKey checks the key of a label of Kubernetes: a name of at most 63 characters, after a domain and a slash or not.
func (c *violationList) labelKey(field, key string) {
	domain, name, prefixed := strings.Cut(key, "/")
	if !prefixed {
		domain, name = "", key
	}
	if prefixed && (len(domain) > maxObjectName || !objectNamePattern.MatchString(domain)) || len(name) > maxLabelValue || !ValidName(name) {
		c.fail(field, "%s is no key of a label", quote(key))
	}
}

// labelValue checks the value of a label of Kubernetes.
func (c *violationList) labelValue(field, value string) {
	if len(value) > maxLabelValue || value != "" && !ValidName(value) {
		c.fail(field, "%s is no value of a label", quote(value))
	}
}

// appLabel checks a label KEY=VALUE, or the value of the label app.
func (c *violationList) appLabel(field, s string) {
	if len(s) > maxAppLabel || !appLabelPattern.MatchString(s) {
		c.fail(field, "%s is no label; write KEY=VALUE", quote(s))
		return
	}
	key, value := TrafficLabel(s)
	c.labelKey(field, key)
	c.labelValue(field, value)
}
