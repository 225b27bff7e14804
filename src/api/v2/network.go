package v2

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Network is a virtual network of a cluster, which the cluster's network plugin Nodus makes.
type Network struct {
	Named
	Spec NetworkSpec `json:"spec"` // the network
}

// NetworkSpec describes a network.
type NetworkSpec struct {
	CNIType     string   `json:"cniType"`               // ovn4nfv
	IPv4Subnets []Subnet `json:"ipv4Subnets,omitempty"` // its IPv4 addresses
	IPv6Subnets []Subnet `json:"ipv6Subnets,omitempty"` // its IPv6 addresses
}

// Subnet is a range of addresses of a network.
type Subnet struct {
	Name       string `json:"name"`                 // unique in the network
	Subnet     string `json:"subnet"`               // the range, such as 10.20.0.0/24
	Gateway    string `json:"gateway,omitempty"`    // address of the gateway with the length of the range, such as 10.20.0.1/24
	ExcludeIPs string `json:"excludeIps,omitempty"` // addresses that pods do not get: 10.20.0.2 10.20.0.5..10.20.0.9
}

// ProviderNetwork is a network of a cluster that is connected to a network outside of it.
type ProviderNetwork struct {
	Named
	Spec ProviderNetworkSpec `json:"spec"` // the network, and its connection
}

// ProviderNetworkSpec describes a provider network.
type ProviderNetworkSpec struct {
	NetworkSpec
	ProviderNetType string      `json:"providerNetType"` // VLAN or DIRECT
	VLAN            NetworkVLAN `json:"vlan"`            // the interface outside of the cluster, and the nodes that have it
}

// NetworkVLAN describes how nodes reach a provider network.
type NetworkVLAN struct {
	VLANID                string   `json:"vlanID,omitempty"`               // 0 to 4095; needed for VLAN
	ProviderInterfaceName string   `json:"providerInterfaceName"`          // interface of the nodes that leads outside
	LogicalInterfaceName  string   `json:"logicalInterfaceName,omitempty"` // name of the interface with the VLAN
	VLANNodeSelector      string   `json:"vlanNodeSelector"`               // any: all nodes; specific: those with the labels
	NodeLabelList         []string `json:"nodeLabelList,omitempty"`        // KEY=VALUE of nodes; needed for specific
}

// The kinds of provider networks.
const (
	ProviderVLAN   = "VLAN"
	ProviderDirect = "DIRECT"
)

// The nodes of provider networks.
const (
	AnyNode       = "any"
	SpecificNodes = "specific"
)

// networkPlugin is the only network plugin that makes networks.
const networkPlugin = "ovn4nfv"

// Limits of networks.
const (
	maxSubnets       = 64   // of each kind of addresses
	maxExcluded      = 4096 // bytes of excludeIps
	maxNodeLabels    = 256
	maxNodeLabel     = 317 // prefix, "/", name, "=", value
	maxInterfaceName = 15  // of Linux
)

var (
	objectPattern    = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
	interfacePattern = regexp.MustCompile(`^[A-Za-z0-9][-A-Za-z0-9_.]*$`)
	nodeLabelPattern = regexp.MustCompile(`^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?=([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$`)
)

// Validate checks metadata and spec.
func (n *Network) Validate() error {
	c := beginNetwork(&n.Named)
	n.Spec.check(c)
	return c.err()
}

// Type returns the kind of the provider network, in upper case.
func (s ProviderNetworkSpec) Type() string { return strings.ToUpper(s.ProviderNetType) }

// Validate checks metadata and spec.
func (n *ProviderNetwork) Validate() error {
	c := beginNetwork(&n.Named)
	n.Spec.check(c)
	v := n.Spec.VLAN
	switch n.Spec.Type() {
	case ProviderVLAN:
		if id, err := strconv.ParseUint(v.VLANID, 10, 16); err != nil || id > 4095 || v.VLANID != strconv.FormatUint(id, 10) {
			c.fail("spec.vlan.vlanID", `%s is no number from "0" to "4095"`, quote(v.VLANID))
		}
	case ProviderDirect:
	default:
		c.fail("spec.providerNetType", "%s is neither VLAN nor DIRECT", quote(n.Spec.ProviderNetType))
	}
	c.interfaceName("spec.vlan.providerInterfaceName", v.ProviderInterfaceName)
	if v.LogicalInterfaceName != "" {
		c.interfaceName("spec.vlan.logicalInterfaceName", v.LogicalInterfaceName)
	}
	switch v.VLANNodeSelector {
	case AnyNode:
	case SpecificNodes:
		if len(v.NodeLabelList) == 0 {
			c.fail("spec.vlan.nodeLabelList", "missing; name the labels of the nodes, such as zone=a")
		}
	default:
		c.fail("spec.vlan.vlanNodeSelector", "%s is neither any nor specific", quote(v.VLANNodeSelector))
	}
	if len(v.NodeLabelList) > maxNodeLabels {
		c.fail("spec.vlan.nodeLabelList", "%d labels, at most %d are allowed", len(v.NodeLabelList), maxNodeLabels)
		return c.err()
	}
	for i, l := range v.NodeLabelList {
		if len(l) > maxNodeLabel || !nodeLabelPattern.MatchString(l) {
			c.fail(fmt.Sprintf("spec.vlan.nodeLabelList[%d]", i), "%s is no label; write KEY=VALUE", quote(l))
		}
	}
	return c.err()
}

// beginNetwork starts the check of a document that becomes an object of its name.
func beginNetwork(n *Named) *violationList {
	c := begin(n)
	if name := n.Metadata.Name; name != "" && (len(name) > maxLabelValue || !objectPattern.MatchString(name)) {
		c.fail("metadata.name", "%s is no name of an object; use at most %d lower-case letters, digits, '-' and '.'", quote(name), maxLabelValue)
	}
	return c
}

func (s NetworkSpec) check(c *violationList) {
	if s.CNIType != networkPlugin {
		c.fail("spec.cniType", "%s is not %s", quote(s.CNIType), networkPlugin)
	}
	if len(s.IPv4Subnets)+len(s.IPv6Subnets) == 0 {
		c.fail("spec.ipv4Subnets", "missing; give at least one subnet, here or in spec.ipv6Subnets")
	}
	names := map[string]bool{}
	c.subnets("spec.ipv4Subnets", s.IPv4Subnets, names, netip.Addr.Is4)
	c.subnets("spec.ipv6Subnets", s.IPv6Subnets, names, netip.Addr.Is6)
}

// subnets checks the subnets of one kind of addresses. names are those of the subnets before.
func (c *violationList) subnets(field string, all []Subnet, names map[string]bool, family func(netip.Addr) bool) {
	if len(all) > maxSubnets {
		c.fail(field, "%d subnets, at most %d are allowed", len(all), maxSubnets)
		return
	}
	for i, s := range all {
		at := fmt.Sprintf("%s[%d].", field, i)
		c.name(at+"name", s.Name)
		if names[s.Name] {
			c.fail(at+"name", "%s is the name of another subnet", quote(s.Name))
		}
		names[s.Name] = true
		subnet, err := netip.ParsePrefix(s.Subnet)
		if err != nil || !family(subnet.Addr()) {
			c.fail(at+"subnet", "%s is no range of addresses of this kind, such as 10.20.0.0/24", quote(s.Subnet))
			continue
		}
		if s.Gateway != "" {
			if gateway, err := netip.ParsePrefix(s.Gateway); err != nil || !subnet.Contains(gateway.Addr()) {
				c.fail(at+"gateway", "%s is no address in %s with a length, such as 10.20.0.1/24", quote(s.Gateway), subnet)
			}
		}
		if err := checkExcluded(s.ExcludeIPs, subnet); err != nil {
			c.fail(at+"excludeIps", "%v", err)
		}
	}
}

// checkExcluded checks addresses and ranges of addresses, separated by spaces.
func checkExcluded(text string, subnet netip.Prefix) error {
	if len(text) > maxExcluded {
		return fmt.Errorf("%d bytes long, at most %d are allowed", len(text), maxExcluded)
	}
	for entry := range strings.FieldsSeq(text) {
		first, last, isRange := strings.Cut(entry, "..")
		if !isRange {
			last = first
		}
		low, err := netip.ParseAddr(first)
		high, highErr := netip.ParseAddr(last)
		if err != nil || highErr != nil || !subnet.Contains(low) || !subnet.Contains(high) || high.Less(low) {
			return fmt.Errorf("%s is neither an address in %s nor a range such as 10.20.0.5..10.20.0.9", quote(entry), subnet)
		}
	}
	return nil
}

func (c *violationList) interfaceName(field, s string) {
	if len(s) > maxInterfaceName || !interfacePattern.MatchString(s) {
		c.fail(field, "%s is no name of an interface of at most %d characters, such as eth1", quote(s), maxInterfaceName)
	}
}

// NetControllerIntent is a set of workloads with networks. A group intent names it with the controller
// ovnaction.
type NetControllerIntent struct {
	Named
}

// WorkloadIntent is a workload of an app whose pods get interfaces.
type WorkloadIntent struct {
	Named
	Spec WorkloadIntentSpec `json:"spec"` // the workload
}

// WorkloadIntentSpec names the rendered workload.
type WorkloadIntentSpec struct {
	App      string `json:"app" alias:"app-name"` // the app that has the workload
	Workload string `json:"workloadResource"`     // metadata.name of the workload
	Type     string `json:"type"`                 // its kind, such as Deployment
}

// maxWorkload is the longest name of a workload, as in upstream's schema.
const maxWorkload = 254

// Validate checks metadata and spec.
func (r *WorkloadIntent) Validate() error {
	c := begin(&r.Named)
	c.name("spec.app", r.Spec.App)
	if len(r.Spec.Workload) > maxWorkload || !objectPattern.MatchString(r.Spec.Workload) {
		c.fail("spec.workloadResource", "%s is no name of a workload", quote(r.Spec.Workload))
	}
	c.name("spec.type", r.Spec.Type)
	return c.err()
}

// InterfaceIntent is an interface that the pods of a workload get.
type InterfaceIntent struct {
	Named
	Spec InterfaceIntentSpec `json:"spec"` // the interface
}

// InterfaceIntentSpec describes the interface. It is also its form in annotations of pods.
type InterfaceIntentSpec struct {
	Interface      string `json:"interface"`                // its name in the pods, such as net0
	Network        string `json:"name"`                     // the network or provider network that it is in
	DefaultGateway string `json:"defaultGateway,omitempty"` // "true": the default route of the pods leads there; "false" otherwise
	IPAddress      string `json:"ipAddress,omitempty"`      // fixed address; empty: the network chooses one
	MACAddress     string `json:"macAddress,omitempty"`     // fixed address; empty: the network chooses one
}

var macPattern = regexp.MustCompile(`^[0-9A-Fa-f]{2}([:-][0-9A-Fa-f]{2}){5}$`)

// Validate checks metadata and spec.
func (r *InterfaceIntent) Validate() error {
	c := begin(&r.Named)
	s := r.Spec
	c.interfaceName("spec.interface", s.Interface)
	if len(s.Network) > maxLabelValue || !objectPattern.MatchString(s.Network) {
		c.fail("spec.name", "%s is no name of a network", quote(s.Network))
	}
	if !slices.Contains([]string{"", "true", "false"}, s.DefaultGateway) {
		c.fail("spec.defaultGateway", `%s is neither "true" nor "false"`, quote(s.DefaultGateway))
	}
	if s.IPAddress != "" && !isInterfaceAddress(s.IPAddress) {
		c.fail("spec.ipAddress", "%s is no address, such as 10.20.0.7", quote(s.IPAddress))
	}
	if s.MACAddress != "" && !macPattern.MatchString(s.MACAddress) {
		c.fail("spec.macAddress", "%s is no address of six bytes, such as 02:00:00:00:00:01", quote(s.MACAddress))
	}
	return c.err()
}

// isInterfaceAddress reports whether s is an address, with or without a length.
func isInterfaceAddress(s string) bool {
	if a, err := netip.ParseAddr(s); err == nil {
		return a.Zone() == ""
	}
	_, err := netip.ParsePrefix(s)
	return err == nil
}
