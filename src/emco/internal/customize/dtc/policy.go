package dtc

import (
	"net/netip"
	"strings"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
)

// networkPolicy is the spec of a NetworkPolicy that selects who may connect.
type networkPolicy struct {
	PodSelector labelSelector `json:"podSelector"`
	PolicyTypes []string      `json:"policyTypes"`
	Ingress     []ingressRule `json:"ingress"`
}

type ingressRule struct {
	From  []policyPeer `json:"from,omitempty"`
	Ports []policyPort `json:"ports"`
}

type policyPort struct {
	Protocol string `json:"protocol"`
	Port     int    `json:"port"`
}

// policyPeer is pods, or a range of addresses.
type policyPeer struct {
	NamespaceSelector *labelSelector `json:"namespaceSelector,omitempty"`
	PodSelector       *labelSelector `json:"podSelector,omitempty"`
	IPBlock           *ipBlock       `json:"ipBlock,omitempty"`
}

type ipBlock struct {
	CIDR string `json:"cidr"`
}

type labelSelector struct {
	MatchLabels      map[string]string  `json:"matchLabels,omitempty"`
	MatchExpressions []labelRequirement `json:"matchExpressions,omitempty"`
}

type labelRequirement struct {
	Key      string   `json:"key"`
	Operator string   `json:"operator"`
	Values   []string `json:"values"`
}

// namespaceName is the label that Kubernetes gives each namespace.
const namespaceName = "kubernetes.io/metadata.name"

// allowedCIDR is the key-value pair of clusters with the ranges that SD-EWAN forwards from.
const allowedCIDR = "SdewanServiceAllowedCidr"

// addPolicy adds the NetworkPolicy of a server: only its clients may connect to its pods.
func (l *editList) addPolicy(s server) error {
	if len(s.clients) == 0 && !s.Spec.ExternalSupport {
		return nil
	}
	ports := []policyPort{{s.Spec.Transport(), s.Spec.Port}}
	var rules []ingressRule
	for _, c := range s.clients {
		rules = append(rules, ingressRule{c.peers(), ports})
	}
	switch {
	case s.Spec.Meshed() && (s.Spec.ExternalSupport || len(s.remotes()) > 0):
		gateway := policyPeer{NamespaceSelector: &labelSelector{MatchLabels: map[string]string{namespaceName: gatewayNamespace}}, PodSelector: &labelSelector{MatchLabels: gatewayLabels}}
		rules = append(rules, ingressRule{[]policyPeer{gateway}, ports})
	case s.Spec.ExternalSupport:
		rules = append(rules, ingressRule{nil, ports}) // from everywhere
	}
	return l.add(s.app, s.app.Clusters, s, func(c v2.ClusterKey) (kubeObject, error) {
		own := rules
		if s.Spec.EdgeCNF != "" {
			peers, err := l.forwarded(c)
			if err != nil {
				return nil, err
			}
			if len(peers) > 0 {
				own = append(own[:len(own):len(own)], ingressRule{peers, ports})
			}
		}
		return &object[networkPolicy]{"networking.k8s.io/v1", "NetworkPolicy", metadata{Name: s.name}, networkPolicy{
			PodSelector: labelSelector{MatchLabels: labelsOf(s.Spec.AppLabel)}, PolicyTypes: []string{"Ingress"}, Ingress: own,
		}}, nil
	})
}

// peers returns who the client is.
func (c client) peers() (out []policyPeer) {
	pods := policyPeer{PodSelector: &labelSelector{MatchLabels: labelsOf(c.Spec.AppLabel)}}
	if len(c.Spec.Namespaces) > 0 {
		pods.NamespaceSelector = &labelSelector{MatchExpressions: []labelRequirement{{namespaceName, "In", c.Spec.Namespaces}}}
	}
	out = append(out, pods)
	for _, cidr := range c.Spec.CIDRs {
		out = append(out, policyPeer{IPBlock: &ipBlock{cidr}})
	}
	return out
}

// forwarded returns the addresses that SD-EWAN forwards to a cluster from.
func (l *editList) forwarded(cluster v2.ClusterKey) (out []policyPeer, err error) {
	text, err := l.fact(cluster, allowedCIDR, "")
	if err != nil {
		return nil, err
	}
	for cidr := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ',' || r == ' ' }) {
		if _, err := netip.ParsePrefix(cidr); err != nil {
			return nil, errs.New(errs.Invalid, "the key-value pair "+allowedCIDR+" of cluster "+string(cluster)+" has "+cidr+", which is no range of addresses")
		}
		out = append(out, policyPeer{IPBlock: &ipBlock{cidr}})
	}
	return out, nil
}

func labelsOf(appLabel string) map[string]string {
	key, value := v2.TrafficLabel(appLabel)
	return map[string]string{key: value}
}
