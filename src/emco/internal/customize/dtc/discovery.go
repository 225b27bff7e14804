package dtc

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
)

// serviceAddress is the key-value pair of clusters with the address at which other clusters
// reach their Services.
const serviceAddress = "serviceAddress"

// service is the spec of a Service without pods.
type service struct {
	Type         string        `json:"type,omitempty"`
	ExternalName string        `json:"externalName,omitempty"`
	Ports        []servicePort `json:"ports"`
}

type servicePort struct {
	Name     string `json:"name"`
	Protocol string `json:"protocol"`
	Port     int    `json:"port"`
}

// endpointSlice lists addresses of a Service. It has no spec.
type endpointSlice struct {
	APIVersion  string         `json:"apiVersion"`
	Kind        string         `json:"kind"`
	Metadata    metadata       `json:"metadata"`
	AddressType string         `json:"addressType"`
	Endpoints   []endpoint     `json:"endpoints"`
	Ports       []endpointPort `json:"ports"`
}

func (*endpointSlice) kubeObject() {}

type endpoint struct {
	Addresses []string `json:"addresses"`
}

type endpointPort struct {
	Name     string `json:"name"`
	Protocol string `json:"protocol"`
	Port     int    `json:"port"`
}

// portName is the name of a server's port. Istio reads the protocol from it.
func (s server) portName() string {
	return fmt.Sprintf("%s-%d", strings.ToLower(s.Spec.Protocol), s.Spec.Port)
}

// service returns the Service that clients on other clusters find the server by.
func (s server) service(spec service) kubeObject {
	spec.Ports = []servicePort{{s.portName(), s.Spec.Transport(), s.Spec.Port}}
	return &object[service]{"v1", "Service", metadata{Name: s.Spec.ServiceName}, spec}
}

// addDiscovery adds a Service with the addresses of the server's clusters on clusters that have
// clients alone. Istio needs other objects; see addIstio.
func (l *editList) addDiscovery(s server) error {
	if s.Spec.Meshed() || len(s.remotes()) == 0 {
		return nil
	}
	var addresses, names []string
	for _, c := range s.app.Clusters {
		address, err := l.fact(c, serviceAddress, "")
		if err != nil {
			return err
		}
		if address == "" {
			continue
		}
		if _, err := netip.ParseAddr(address); err != nil {
			names = append(names, address)
		} else {
			addresses = append(addresses, address)
		}
	}
	slices.Sort(addresses)
	addresses, names = slices.Compact(addresses), slices.Compact(slices.Sorted(slices.Values(names)))
	switch {
	case len(addresses)+len(names) == 0:
		for _, r := range s.remotes() {
			l.find(r.app, fmt.Sprintf("%s: clients on cluster %s do not find %s, because no cluster of app %s has the key-value pair %s", s.origin, r.cluster, s.Spec.ServiceName, s.app.Name, serviceAddress))
		}
		return nil
	case len(names) > 1 || len(names) > 0 && len(addresses) > 0:
		return errs.New(errs.Invalid, fmt.Sprintf("the key-value pairs %s of the clusters of app %s are several, and one of them is a host name; give addresses", serviceAddress, s.app.Name))
	case len(names) == 1:
		return l.addRemote(s, s.service(service{Type: "ExternalName", ExternalName: names[0]}))
	}
	if err := l.addRemote(s, s.service(service{})); err != nil {
		return err
	}
	for _, family := range []struct {
		name string
		has  func(netip.Addr) bool
	}{{"IPv4", netip.Addr.Is4}, {"IPv6", netip.Addr.Is6}} {
		var own []endpoint
		for _, a := range addresses {
			if family.has(netip.MustParseAddr(a)) {
				own = append(own, endpoint{[]string{a}})
			}
		}
		if len(own) == 0 {
			continue
		}
		name := s.name + map[string]string{"IPv4": "", "IPv6": "-v6"}[family.name]
		slice := &endpointSlice{
			APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSlice",
			Metadata:    metadata{Name: name, Labels: map[string]string{"kubernetes.io/service-name": s.Spec.ServiceName, "endpointslice.kubernetes.io/managed-by": "emco"}},
			AddressType: family.name, Endpoints: own, Ports: []endpointPort{{s.portName(), s.Spec.Transport(), s.Spec.Port}},
		}
		if err := l.addRemote(s, slice); err != nil {
			return err
		}
	}
	return nil
}

// clusterAddress is an address of a cluster with a port.
type clusterAddress struct {
	address string
	port    int
}

// addressesOf returns a key-value pair of the server's clusters that is an address, with a port.
func (l *editList) addressesOf(s server, addressKey, portKey string, port int) (out []clusterAddress, missing []v2.ClusterKey, err error) {
	for _, c := range s.app.Clusters {
		address, err := l.fact(c, addressKey, "")
		if err != nil {
			return nil, nil, err
		}
		if address == "" {
			missing = append(missing, c)
			continue
		}
		number, err := l.port(c, portKey, port)
		if err != nil {
			return nil, nil, err
		}
		out = append(out, clusterAddress{address, number})
	}
	return out, missing, nil
}
