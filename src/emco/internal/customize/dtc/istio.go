package dtc

import (
	"encoding/base64"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
)

// Where Istio's ingress gateway runs.
const gatewayNamespace = "istio-system"

var gatewayLabels = map[string]string{"istio": "ingressgateway"}

// The key-value pairs of clusters that describe their ingress gateway, with upstream's names.
const (
	gatewayAddress      = "istioIngressGatewayAddress"      // at which other clusters reach it
	gatewayPort         = "istioIngressGatewayPort"         // at this address
	gatewayInternalPort = "istioIngressGatewayInternalPort" // of its pods, for other clusters
	gatewayHTTPPort     = "istioIngressGatewayHttpPort"     // of its pods
	gatewayHTTPSPort    = "istioIngressGatewayHttpsPort"    // of its pods
)

// The ports of an ingress gateway as Istio installs it.
const (
	defaultMeshPort  = 15443
	defaultHTTPPort  = 80
	defaultHTTPSPort = 443
)

const (
	networkingV1 = "networking.istio.io/v1"
	securityV1   = "security.istio.io/v1"
)

type gateway struct {
	Selector map[string]string `json:"selector"`
	Servers  []gatewayServer   `json:"servers"`
}

type gatewayServer struct {
	Port  gatewayServerPort `json:"port"`
	Hosts []string          `json:"hosts"`
	TLS   *gatewayTLS       `json:"tls,omitempty"`
}

type gatewayServerPort struct {
	Number   int    `json:"number"`
	Name     string `json:"name"`
	Protocol string `json:"protocol"`
}

type gatewayTLS struct {
	Mode           string `json:"mode"`
	CredentialName string `json:"credentialName,omitempty"`
}

type virtualService struct {
	Hosts    []string    `json:"hosts"`
	Gateways []string    `json:"gateways"`
	HTTP     []httpRoute `json:"http,omitempty"`
	TLS      []tlsRoute  `json:"tls,omitempty"`
	TCP      []tcpRoute  `json:"tcp,omitempty"`
}

type httpRoute struct {
	Route []routeDestination `json:"route"`
}

type tlsRoute struct {
	Match []tlsMatch         `json:"match"`
	Route []routeDestination `json:"route"`
}

type tlsMatch struct {
	SNIHosts []string `json:"sniHosts"`
}

type tcpRoute struct {
	Route []routeDestination `json:"route"`
}

type routeDestination struct {
	Destination destination `json:"destination"`
}

type destination struct {
	Host string          `json:"host"`
	Port destinationPort `json:"port"`
}

type destinationPort struct {
	Number int `json:"number"`
}

type destinationRule struct {
	Host          string        `json:"host"`
	TrafficPolicy trafficPolicy `json:"trafficPolicy"`
}

type trafficPolicy struct {
	TLS tlsSettings `json:"tls"`
}

type tlsSettings struct {
	Mode string `json:"mode"`
}

type serviceEntry struct {
	Hosts      []string       `json:"hosts"`
	Location   string         `json:"location"`
	Resolution string         `json:"resolution"`
	Ports      []entryPort    `json:"ports"`
	Endpoints  []meshEndpoint `json:"endpoints"`
}

type entryPort struct {
	Number   int    `json:"number"`
	Name     string `json:"name"`
	Protocol string `json:"protocol"`
}

type meshEndpoint struct {
	Address string         `json:"address"`
	Ports   map[string]int `json:"ports"`
}

type authorizationPolicy struct {
	Selector struct {
		MatchLabels map[string]string `json:"matchLabels"`
	} `json:"selector"`
	Action string              `json:"action"`
	Rules  []authorizationRule `json:"rules"`
}

type authorizationRule struct {
	From []authorizationFrom `json:"from"`
	To   []authorizationTo   `json:"to"`
}

type authorizationFrom struct {
	Source authorizationSource `json:"source"`
}

type authorizationSource struct {
	Namespaces     []string `json:"namespaces,omitempty"`
	RemoteIPBlocks []string `json:"remoteIpBlocks,omitempty"`
}

type authorizationTo struct {
	Operation authorizationOperation `json:"operation"`
}

type authorizationOperation struct {
	Ports   []string `json:"ports"`
	Methods []string `json:"methods,omitempty"`
	Paths   []string `json:"paths,omitempty"`
}

// secret is a Secret with certificates.
type secret struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Metadata   metadata          `json:"metadata"`
	Type       string            `json:"type"`
	Data       map[string]string `json:"data"`
}

func (*secret) kubeObject() {}

// tlsMode returns how clients in the mesh connect to the server.
func (s server) tlsMode() string {
	m := s.Spec.Management
	switch {
	case m == nil:
		return "ISTIO_MUTUAL"
	case strings.EqualFold(m.SidecarProxy, "no"), strings.EqualFold(m.TLSType, "none"):
		return "DISABLE"
	case strings.EqualFold(m.TLSType, "simple"):
		return "SIMPLE"
	}
	return "ISTIO_MUTUAL"
}

// addIstio adds the objects of a server that is part of Istio's mesh.
func (l *editList) addIstio(s server) error {
	if !s.Spec.Meshed() {
		return nil
	}
	rule := &object[destinationRule]{networkingV1, "DestinationRule", metadata{Name: s.name}, destinationRule{Host: s.host, TrafficPolicy: trafficPolicy{tlsSettings{s.tlsMode()}}}}
	if err := l.addEverywhere(s, rule); err != nil {
		return err
	}
	if err := l.addAuthorization(s); err != nil {
		return err
	}
	across, err := l.addMeshClients(s, rule)
	if err != nil {
		return err
	}
	if err := l.addGateway(s, across); err != nil {
		return err
	}
	return l.addExternal(s)
}

// addAuthorization allows the requests of access points, and no others.
func (l *editList) addAuthorization(s server) error {
	points := 0
	for _, c := range s.clients {
		points += len(c.points)
	}
	switch {
	case points == 0:
		return nil
	case !s.Spec.IsHTTP():
		l.find(s.app, fmt.Sprintf("%s: its access points change nothing, because Istio does not read requests of protocol %s; use HTTP, HTTP2 or GRPC", s.origin, s.Spec.Protocol))
		return nil
	case s.Spec.Management != nil && strings.EqualFold(s.Spec.Management.SidecarProxy, "no"):
		l.find(s.app, s.origin+": its access points change nothing, because its pods have no proxy (sidecarProxy: no)")
		return nil
	}
	port := []string{strconv.Itoa(s.Spec.Port)}
	policy := authorizationPolicy{Action: "ALLOW"}
	policy.Selector.MatchLabels = labelsOf(s.Spec.AppLabel)
	for _, c := range s.clients {
		var r authorizationRule
		namespaces := c.Spec.Namespaces
		if len(namespaces) == 0 {
			namespaces = []string{l.deployment.Namespace}
		}
		r.From = append(r.From, authorizationFrom{authorizationSource{Namespaces: namespaces}})
		if len(c.Spec.CIDRs) > 0 {
			r.From = append(r.From, authorizationFrom{authorizationSource{RemoteIPBlocks: c.Spec.CIDRs}})
		}
		for _, p := range c.points {
			r.To = append(r.To, authorizationTo{authorizationOperation{Ports: port, Methods: p.Spec.Access, Paths: p.Spec.URLs}})
		}
		if len(c.points) == 0 {
			r.To = append(r.To, authorizationTo{authorizationOperation{Ports: port}})
		}
		policy.Rules = append(policy.Rules, r)
	}
	if s.Spec.ExternalSupport {
		policy.Rules = append(policy.Rules, authorizationRule{
			[]authorizationFrom{{authorizationSource{Namespaces: []string{gatewayNamespace}}}},
			[]authorizationTo{{authorizationOperation{Ports: port}}},
		})
	}
	return l.addEverywhere(s, &object[authorizationPolicy]{securityV1, "AuthorizationPolicy", metadata{Name: s.name}, policy})
}

// addMeshClients makes the server known on clusters that have clients alone: connections go to
// the ingress gateways of the server's clusters. It reports whether there are such clusters.
func (l *editList) addMeshClients(s server, rule kubeObject) (bool, error) {
	remotes := s.remotes()
	if len(remotes) == 0 {
		return false, nil
	}
	unreachable := func(why string) (bool, error) {
		for _, r := range remotes {
			l.find(r.app, fmt.Sprintf("%s: clients on cluster %s do not reach it, because %s", s.origin, r.cluster, why))
		}
		return false, nil
	}
	if mode := s.tlsMode(); mode != "ISTIO_MUTUAL" {
		return unreachable("gateways forward only connections with mutual TLS (tlsType: MUTUAL, sidecarProxy: yes)")
	}
	gateways, missing, err := l.addressesOf(s, gatewayAddress, gatewayPort, defaultMeshPort)
	if err != nil {
		return false, err
	}
	if len(gateways) == 0 {
		return unreachable(fmt.Sprintf("no cluster of app %s has the key-value pair %s", s.app.Name, gatewayAddress))
	}
	for _, c := range missing {
		l.find(s.app, fmt.Sprintf("%s: clients on other clusters do not use cluster %s, which has no key-value pair %s", s.origin, c, gatewayAddress))
	}
	entry := serviceEntry{
		Hosts: []string{s.host}, Location: "MESH_INTERNAL", Resolution: "STATIC",
		Ports: []entryPort{{s.Spec.Port, s.portName(), strings.ToUpper(s.Spec.Protocol)}},
	}
	for _, g := range gateways {
		if _, err := netip.ParseAddr(g.address); err != nil {
			entry.Resolution = "DNS"
		}
		entry.Endpoints = append(entry.Endpoints, meshEndpoint{g.address, map[string]int{s.portName(): g.port}})
	}
	for _, o := range []kubeObject{
		s.service(service{}), // gives the host an address in the cluster's DNS
		&object[serviceEntry]{networkingV1, "ServiceEntry", metadata{Name: s.name}, entry}, rule,
	} {
		if err := l.addRemote(s, o); err != nil {
			return false, err
		}
	}
	return true, nil
}

// addGateway adds the Gateway of a server that is reached from outside of its cluster: from other
// clusters, or by external clients.
func (l *editList) addGateway(s server, across bool) error {
	if !across && !s.Spec.ExternalSupport {
		return nil
	}
	return l.add(s.app, s.app.Clusters, s, func(c v2.ClusterKey) (kubeObject, error) {
		g := gateway{Selector: gatewayLabels}
		if across {
			port, err := l.port(c, gatewayInternalPort, defaultMeshPort)
			if err != nil {
				return nil, err
			}
			g.Servers = append(g.Servers, gatewayServer{gatewayServerPort{port, "mesh-" + s.portName(), "TLS"}, []string{s.host}, &gatewayTLS{Mode: "AUTO_PASSTHROUGH"}})
		}
		if s.Spec.ExternalSupport {
			external, err := l.externalServer(s, c)
			if err != nil {
				return nil, err
			}
			g.Servers = append(g.Servers, external)
		}
		return &object[gateway]{networkingV1, "Gateway", metadata{Name: s.name}, g}, nil
	})
}

// certificates returns the certificates that the gateway uses for external clients.
func (s server) certificates() v2.ExternalCertificates {
	if s.Spec.External == nil {
		return v2.ExternalCertificates{}
	}
	return s.Spec.External.Certificates
}

// passesTLS reports whether the server itself ends the TLS of external clients.
func (s server) passesTLS() bool {
	return strings.EqualFold(s.Spec.Protocol, "HTTPS") || strings.EqualFold(s.Spec.Protocol, "TLS")
}

// externalServer returns the part of a Gateway that external clients use.
func (l *editList) externalServer(s server, c v2.ClusterKey) (gatewayServer, error) {
	out := gatewayServer{Hosts: []string{s.Spec.ExternalName}}
	certificates := s.certificates()
	switch {
	case s.passesTLS():
		out.Port.Protocol, out.TLS = "TLS", &gatewayTLS{Mode: "PASSTHROUGH"}
	case certificates.Certificate != "":
		out.Port.Protocol, out.TLS = "HTTPS", &gatewayTLS{Mode: "SIMPLE", CredentialName: s.name}
		if !s.Spec.IsHTTP() {
			out.Port.Protocol = "TLS"
		}
		if certificates.CA != "" {
			out.TLS.Mode = "MUTUAL"
		}
	case s.Spec.IsHTTP():
		out.Port.Protocol = "HTTP"
	default:
		return out, errs.New(errs.Invalid, "external clients of protocol "+s.Spec.Protocol+" need certificates: without them the gateway cannot tell services apart; set spec.external.externalCerts")
	}
	key, port := gatewayHTTPSPort, defaultHTTPSPort
	if out.Port.Protocol == "HTTP" {
		key, port = gatewayHTTPPort, defaultHTTPPort
	}
	number, err := l.port(c, key, port)
	out.Port.Number, out.Port.Name = number, "external-"+s.portName()
	return out, err
}

// addExternal adds the route of external clients from the gateway to the server, and the Secret
// with the gateway's certificates.
func (l *editList) addExternal(s server) error {
	if !s.Spec.ExternalSupport {
		return nil
	}
	to := []routeDestination{{destination{s.host, destinationPort{s.Spec.Port}}}}
	route := virtualService{Hosts: []string{s.Spec.ExternalName}, Gateways: []string{s.name}}
	switch {
	case s.passesTLS():
		route.TLS = []tlsRoute{{[]tlsMatch{{[]string{s.Spec.ExternalName}}}, to}}
	case s.Spec.IsHTTP():
		route.HTTP = []httpRoute{{to}}
	default:
		route.TCP = []tcpRoute{{to}}
	}
	if err := l.addEverywhere(s, &object[virtualService]{networkingV1, "VirtualService", metadata{Name: s.name}, route}); err != nil {
		return err
	}
	certificates := s.certificates()
	if s.passesTLS() || certificates.Certificate == "" {
		return nil
	}
	data := map[string]string{"tls.crt": pem(certificates.Certificate), "tls.key": pem(certificates.PrivateKey)}
	if certificates.CA != "" {
		data["ca.crt"] = pem(certificates.CA)
	}
	return l.addEverywhere(s, &secret{"v1", "Secret", metadata{Name: s.name, Namespace: gatewayNamespace}, "kubernetes.io/tls", data})
}

// pem returns the base64 of a text in PEM, which may be in base64 already.
func pem(text string) string {
	if plain, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text)); err == nil && strings.Contains(string(plain), "-----BEGIN ") {
		return strings.TrimSpace(text)
	}
	return base64.StdEncoding.EncodeToString([]byte(text))
}
