package v2

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
)

// TrafficGroupIntent is a set of inbound servers. A group intent names it with the controller dtc.
type TrafficGroupIntent struct {
	Named
}

// Validate checks the metadata. Names of traffic documents are parts of names of objects.
func (t *TrafficGroupIntent) Validate() error {
	c := beginTraffic(&t.Named)
	return c.err()
}

// beginTraffic starts the check of a document whose name must fit into a Kubernetes label.
func beginTraffic(n *Named) *violationList {
	c := begin(n)
	if len(n.Metadata.Name) > maxLabelValue {
		c.fail("metadata.name", "%d characters long, at most %d are allowed", len(n.Metadata.Name), maxLabelValue)
	}
	return c
}

// maxLabelValue is the longest value of a label that Kubernetes accepts.
const maxLabelValue = 63

// InboundServer is a service of an app that other apps, or clients outside of the clusters, may reach.
type InboundServer struct {
	Named
	Spec InboundServerSpec `json:"spec"` // the service, and how it is reached
}

// InboundServerSpec describes the service.
type InboundServerSpec struct {
	App             string             `json:"app" alias:"appName,app-name"` // the app that has the service
	AppLabel        string             `json:"appLabel"`                     // label of its pods, KEY=VALUE; a value alone is that of the label app
	ServiceName     string             `json:"serviceName"`                  // name of the Service
	ExternalName    string             `json:"externalName,omitempty"`       // host name that external clients use
	Port            int                `json:"port"`                         // port of the Service
	Protocol        string             `json:"protocol"`                     // TCP, UDP or SCTP; with Istio also HTTP, HTTP2, HTTPS, GRPC or TLS
	ExternalSupport bool               `json:"externalSupport"`              // external clients reach it through Istio's ingress gateway
	ServiceMesh     string             `json:"serviceMesh,omitempty"`        // istio, or none
	EdgeCNF         string             `json:"edgeCNF,omitempty"`            // the SD-EWAN network function that exposes it; its label sdewanPurpose
	Management      *TrafficManagement `json:"management,omitempty"`         // of the service mesh
	External        *TrafficExternal   `json:"external,omitempty"`           // what external clients need
}

// TrafficManagement describes how the mesh secures a service.
type TrafficManagement struct {
	SidecarProxy string `json:"sidecarProxy,omitempty"` // no: the pods have no proxy, so that the mesh secures nothing; yes otherwise
	TLSType      string `json:"tlsType,omitempty"`      // MUTUAL, SIMPLE or NONE; empty is MUTUAL
}

// TrafficExternal holds what external clients need.
type TrafficExternal struct {
	Certificates ExternalCertificates `json:"externalCerts"` // of the ingress gateway; PEM, or PEM in base64
}

// ExternalCertificates are the certificates with which the gateway serves.
type ExternalCertificates struct {
	Certificate string `json:"serviceCertificate,omitempty"` // of the service
	PrivateKey  string `json:"servicePrivateKey,omitempty"`  // write-only: answers show ***
	CA          string `json:"caCertificate,omitempty"`      // that clients' certificates must be signed by; empty: clients need none
}

// Limits of traffic documents.
const (
	maxAppLabel    = 128
	maxCertificate = 8192
	maxURL         = 4096
	maxTrafficList = 1000 // namespaces, ranges or URLs of a document
)

var (
	appLabelPattern = regexp.MustCompile(`^([A-Za-z0-9][-A-Za-z0-9_./]*=)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`)
	domainPattern   = regexp.MustCompile(`^(\*\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
)

// TrafficLabel returns the key and the value of an appLabel.
func TrafficLabel(appLabel string) (key, value string) {
	if key, value, ok := strings.Cut(appLabel, "="); ok {
		return key, value
	}
	return "app", appLabel
}

// Meshed reports whether the service is part of Istio's mesh.
func (s InboundServerSpec) Meshed() bool { return strings.EqualFold(s.ServiceMesh, "istio") }

// The protocols of inbound servers. Those above TCP need a mesh.
var (
	transportProtocols = []string{"TCP", "UDP", "SCTP"}
	meshProtocols      = []string{"TCP", "HTTP", "HTTP2", "HTTPS", "GRPC", "TLS"}
)

// IsHTTP reports whether a mesh reads the requests of the protocol.
func (s InboundServerSpec) IsHTTP() bool {
	return slices.Contains([]string{"HTTP", "HTTP2", "GRPC"}, strings.ToUpper(s.Protocol))
}

// Transport returns the protocol below HTTP and TLS.
func (s InboundServerSpec) Transport() string {
	if p := strings.ToUpper(s.Protocol); slices.Contains(transportProtocols, p) {
		return p
	}
	return "TCP"
}

// Validate checks metadata and spec.
func (r *InboundServer) Validate() error {
	c := beginTraffic(&r.Named)
	s := r.Spec
	c.service(s.App, s.AppLabel, s.ServiceName)
	c.between("spec.port", s.Port, 1, 65535)
	known := transportProtocols
	if s.Meshed() {
		known = meshProtocols
	}
	if !slices.Contains(known, strings.ToUpper(s.Protocol)) {
		c.fail("spec.protocol", "%s is none of %s", quote(s.Protocol), strings.Join(known, ", "))
	}
	if s.ServiceMesh != "" && !s.Meshed() && !strings.EqualFold(s.ServiceMesh, "none") {
		c.fail("spec.serviceMesh", "%s is neither istio nor none", quote(s.ServiceMesh))
	}
	if s.ExternalName != "" && (len(s.ExternalName) > MaxName || !domainPattern.MatchString(s.ExternalName)) {
		c.fail("spec.externalName", "%s is no host name of at most %d characters", quote(s.ExternalName), MaxName)
	}
	if s.ExternalSupport && s.Meshed() && s.ExternalName == "" {
		c.fail("spec.externalName", "missing; external clients need a host name")
	}
	if s.EdgeCNF != "" && (len(s.EdgeCNF) > maxLabelValue || !ValidName(s.EdgeCNF)) {
		c.fail("spec.edgeCNF", "%s is no value of a label", quote(s.EdgeCNF))
	}
	if m := s.Management; m != nil {
		if !slices.Contains([]string{"", "yes", "no"}, strings.ToLower(m.SidecarProxy)) {
			c.fail("spec.management.sidecarProxy", "%s is neither yes nor no", quote(m.SidecarProxy))
		}
		if !slices.Contains([]string{"", "MUTUAL", "SIMPLE", "NONE"}, strings.ToUpper(m.TLSType)) {
			c.fail("spec.management.tlsType", "%s is none of MUTUAL, SIMPLE, NONE", quote(m.TLSType))
		}
	}
	if s.External != nil {
		s.External.Certificates.check(c)
	}
	return c.err()
}

func (e ExternalCertificates) check(c *violationList) {
	const at = "spec.external.externalCerts."
	c.text(at+"serviceCertificate", e.Certificate, maxCertificate)
	c.text(at+"servicePrivateKey", e.PrivateKey, maxCertificate)
	c.text(at+"caCertificate", e.CA, maxCertificate)
	if (e.Certificate == "") != (e.PrivateKey == "") {
		c.fail("spec.external.externalCerts", "a certificate and its private key belong together; give both or neither")
	}
}

// service checks the members that name a service, or a client.
func (c *violationList) service(app, label, name string) {
	c.name("spec.app", app)
	c.appLabel("spec.appLabel", label)
	if len(name) > maxLabelValue || !labelPattern.MatchString(name) {
		c.fail("spec.serviceName", "%s is no name of a Service; use lower-case letters, digits and '-'", quote(name))
	}
}

// Masked returns a copy without the private key.
func (r InboundServer) Masked() InboundServer {
	if r.Spec.External != nil && r.Spec.External.Certificates.PrivateKey != "" {
		external := *r.Spec.External
		external.Certificates.PrivateKey = Mask
		r.Spec.External = &external
	}
	return r
}

// Unmask replaces a masked private key with the stored one. Without a stored one it is a violation.
func (r *InboundServer) Unmask(old InboundServer) error {
	if r.Spec.External == nil || r.Spec.External.Certificates.PrivateKey != Mask {
		return nil
	}
	var c violationList
	if old.Spec.External == nil || old.Spec.External.Certificates.PrivateKey == "" {
		c.fail("spec.external.externalCerts.servicePrivateKey", "%q stands for a stored value, but there is none", Mask)
		return c.err()
	}
	r.Spec.External.Certificates.PrivateKey = old.Spec.External.Certificates.PrivateKey
	return nil
}

// InboundClient is an app that may reach an inbound server.
type InboundClient struct {
	Named
	Spec InboundClientSpec `json:"spec"` // the app, and where its pods are
}

// InboundClientSpec describes the client.
type InboundClientSpec struct {
	App         string   `json:"app" alias:"appName,app-name"` // the app that has the client
	AppLabel    string   `json:"appLabel"`                     // label of its pods, KEY=VALUE; a value alone is that of the label app
	ServiceName string   `json:"serviceName"`                  // name of the client's own Service
	Namespaces  []string `json:"namespaces"`                   // that the pods are in; empty: the namespace of the deployment
	CIDRs       []string `json:"cidrs"`                        // addresses that may connect as well, such as those of other clusters
}

// Validate checks metadata and spec. Both lists must be there, as in upstream EMCO.
func (r *InboundClient) Validate() error {
	c := beginTraffic(&r.Named)
	s := r.Spec
	c.service(s.App, s.AppLabel, s.ServiceName)
	c.list("spec.namespaces", s.Namespaces, func(at, value string) {
		if len(value) > maxLabelValue || !labelPattern.MatchString(value) {
			c.fail(at, "%s is no namespace", quote(value))
		}
	})
	c.list("spec.cidrs", s.CIDRs, func(at, value string) {
		if p, err := netip.ParsePrefix(value); err != nil || p != p.Masked() {
			c.fail(at, "%s is no range of addresses; write the first address and the length, such as 10.1.0.0/16", quote(value))
		}
	})
	return c.err()
}

// list checks a list that must be there, and may be empty.
func (c *violationList) list(field string, values []string, check func(at, value string)) {
	switch {
	case values == nil:
		c.fail(field, "missing; give a list, which may be empty")
	case len(values) > maxTrafficList:
		c.fail(field, "%d entries, at most %d are allowed", len(values), maxTrafficList)
	default:
		for i, v := range values {
			check(fmt.Sprintf("%s[%d]", field, i), v)
		}
	}
}

// AccessPoint is what a client may ask of a server that is part of a mesh.
type AccessPoint struct {
	Named
	Spec AccessPointSpec `json:"spec"` // the requests that are allowed
}

// AccessPointSpec lists requests.
type AccessPointSpec struct {
	Action string   `json:"action"` // ALLOW
	URLs   []string `json:"url"`    // paths, such as /items or /items/*
	Access []string `json:"access"` // methods: GET, PUT, POST, DELETE
}

// Validate checks metadata and spec.
func (r *AccessPoint) Validate() error {
	c := beginTraffic(&r.Named)
	if r.Spec.Action != "ALLOW" {
		c.fail("spec.action", `%s is not "ALLOW"`, quote(r.Spec.Action))
	}
	c.list("spec.url", r.Spec.URLs, func(at, value string) {
		if !strings.HasPrefix(value, "/") || len(value) > maxURL {
			c.fail(at, "%s is no path of at most %d characters that begins with a slash", quote(value), maxURL)
		}
	})
	c.list("spec.access", r.Spec.Access, func(at, value string) {
		if !slices.Contains([]string{"GET", "PUT", "POST", "DELETE"}, value) {
			c.fail(at, "%s is none of GET, PUT, POST, DELETE", quote(value))
		}
	})
	return c.err()
}
