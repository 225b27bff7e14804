package ncm

import v2 "github.com/emco-orchestrator/emco/src/api/v2"

// app is upstream's name for the app of a cluster's networks.
const app = "network-intents"

// namespace is where networks are, as in upstream EMCO.
const namespace = "default"

// apiVersion is that of the objects of Nodus.
const apiVersion = "k8s.plugin.opnfv.org/v1alpha1"

// object is a Kubernetes object with a spec.
type object[S any] struct {
	APIVersion string     `json:"apiVersion"`
	Kind       string     `json:"kind"`
	Metadata   objectMeta `json:"metadata"`
	Spec       S          `json:"spec"`
}

type objectMeta struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
}

// networkSpec is the spec of a Network. The list of IPv4 subnets is there even if it is empty.
type networkSpec struct {
	CNIType     string      `json:"cniType"`
	IPv4Subnets []v2.Subnet `json:"ipv4Subnets"`
	IPv6Subnets []v2.Subnet `json:"ipv6Subnets,omitempty"`
}

// providerNetworkSpec is the spec of a ProviderNetwork. Of VLAN and Direct it has the one of its type.
type providerNetworkSpec struct {
	networkSpec
	ProviderNetType string      `json:"providerNetType"`
	VLAN            *vlanSpec   `json:"vlan,omitempty"`
	Direct          *directSpec `json:"direct,omitempty"`
}

type vlanSpec struct {
	VLANID                string   `json:"vlanId"`
	ProviderInterfaceName string   `json:"providerInterfaceName"`
	LogicalInterfaceName  string   `json:"logicalInterfaceName,omitempty"`
	VLANNodeSelector      string   `json:"vlanNodeSelector"`
	NodeLabelList         []string `json:"nodeLabelList,omitempty"`
}

type directSpec struct {
	ProviderInterfaceName string   `json:"providerInterfaceName"`
	DirectNodeSelector    string   `json:"directNodeSelector"`
	NodeLabelList         []string `json:"nodeLabelList,omitempty"`
}

func networkOf(n v2.Network) object[networkSpec] {
	return object[networkSpec]{apiVersion, "Network", objectMeta{n.Metadata.Name, namespace}, specOf(n.Spec)}
}

func providerNetworkOf(n v2.ProviderNetwork) object[providerNetworkSpec] {
	s, v := providerNetworkSpec{networkSpec: specOf(n.Spec.NetworkSpec), ProviderNetType: n.Spec.Type()}, n.Spec.VLAN
	if s.ProviderNetType == v2.ProviderDirect {
		s.Direct = &directSpec{v.ProviderInterfaceName, v.VLANNodeSelector, v.NodeLabelList}
	} else {
		s.VLAN = &vlanSpec{v.VLANID, v.ProviderInterfaceName, v.LogicalInterfaceName, v.VLANNodeSelector, v.NodeLabelList}
	}
	return object[providerNetworkSpec]{apiVersion, "ProviderNetwork", objectMeta{n.Metadata.Name, namespace}, s}
}

func specOf(s v2.NetworkSpec) networkSpec {
	return networkSpec{s.CNIType, append([]v2.Subnet{}, s.IPv4Subnets...), s.IPv6Subnets}
}
