// Package sfc is the controller of service function chains: it makes the NetworkChaining objects that have
// Nodus route the traffic of clients through the pods of a chain, labels these pods, and (client.go) labels the pods
// of clients.
package sfc

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/customize"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

// Names of the two controllers in group intents.
const (
	Name       = "sfc"
	ClientName = "sfcclient"
)

// Limits of a deployment, and of one chain of it.
const (
	maxChains    = 200
	maxLinks     = 100
	maxSelectors = 20
	maxNetworks  = 20 // provider networks; the object has an entry for each with each selector of the same end
	maxClients   = 200
)

// Collections below a deployment intent group, and below a chain.
const (
	chains    = "network-chains"
	links     = "links"
	selectors = "client-selectors"
	networks  = "provider-networks"
	clients   = "sfc-clients"
)

// New returns the controller of the chains in a store.
func New(db *store.DB) customize.Controller { return controller{db} }

type controller struct{ db *store.DB }

// Customize implements customize.Controller.
func (s controller) Customize(ctx context.Context, d customize.Deployment) (out customize.Edits, err error) {
	if err := d.CheckIntent(ctx, s.db, "SfcIntent", chains); err != nil {
		return out, err
	}
	found, err := read[v2.NetworkChain](ctx, s.db, store.Key(d.Group+"/"+chains), maxChains)
	if err != nil {
		return out, err
	}
	for _, item := range found {
		c, err := s.chain(ctx, d, item)
		if err != nil {
			return out, err
		}
		c.addTo(&out)
	}
	return out, nil
}

// read returns the documents of a collection.
func read[T any](ctx context.Context, db *store.DB, collection store.Key, limit int) (out []store.Item[T], err error) {
	for item, err := range store.All[T](ctx, db, collection, store.Query{Depth: 1}) {
		if err != nil {
			return nil, err
		}
		if out = append(out, item); len(out) > limit {
			return nil, errs.New(errs.Invalid, fmt.Sprintf("%s has more than %d documents", collection, limit))
		}
	}
	return out, nil
}

// chain is a chain with its documents.
type chain struct {
	customize.Deployment
	spec        v2.NetworkChainSpec
	origin      string
	name        string // of its object
	links       []link // from left to right
	left, right []routingNetwork
	findings    []string
}

// link is a link of a chain. Its app has no clusters if it is not deployed.
type link struct {
	v2.ChainLinkSpec
	origin string
	app    customize.App
}

// chain reads the documents of a chain.
func (s controller) chain(ctx context.Context, d customize.Deployment, item store.Item[v2.NetworkChain]) (c chain, err error) {
	key := item.Doc.Key
	c = chain{Deployment: d, spec: item.Value.Spec, origin: d.Origin(key), name: customize.ObjectName(string(key))}
	if c.spec.Namespace == "" {
		c.spec.Namespace = d.Namespace
	}
	all, err := read[v2.ChainLink](ctx, s.db, key+"/"+links, maxLinks)
	if err != nil {
		return c, err
	}
	for _, l := range all {
		c.links = append(c.links, link{l.Value.Spec, d.Origin(l.Doc.Key), d.App(l.Value.Spec.App)})
	}
	if c.links, err = inOrder(c.origin, c.links); err != nil {
		return c, err
	}
	chosen, err := read[v2.ChainClientSelector](ctx, s.db, key+"/"+selectors, maxSelectors)
	if err != nil {
		return c, err
	}
	provided, err := read[v2.ChainProviderNetwork](ctx, s.db, key+"/"+networks, maxNetworks)
	if err != nil {
		return c, err
	}
	c.left = c.end(v2.ChainLeft, chosen, provided)
	c.right = c.end(v2.ChainRight, chosen, provided)
	return c, nil
}

// inOrder sorts the links of a chain from left to right.
func inOrder(origin string, all []link) ([]link, error) {
	byLeft, byRight := map[string]link{}, map[string]link{}
	for _, l := range all {
		if other, taken := byLeft[l.LeftNet]; taken {
			return nil, errs.New(errs.Invalid, fmt.Sprintf("%s: %s and %s both have the leftNet %s; a chain has no branches", origin, other.origin, l.origin, l.LeftNet))
		}
		if other, taken := byRight[l.RightNet]; taken {
			return nil, errs.New(errs.Invalid, fmt.Sprintf("%s: %s and %s both have the rightNet %s; a chain has no branches", origin, other.origin, l.origin, l.RightNet))
		}
		byLeft[l.LeftNet], byRight[l.RightNet] = l, l
	}
	var out []link
	for _, l := range all {
		if _, joined := byRight[l.LeftNet]; joined {
			continue
		}
		for next, ok := l, out == nil; ok; next, ok = byLeft[next.RightNet] { // it ends: each link is at the right of one other
			out = append(out, next)
		}
	}
	if len(out) < len(all) {
		return nil, errs.New(errs.Invalid, fmt.Sprintf("%s: its links are no single chain; the rightNet of each link but the last one must be the leftNet of the next", origin))
	}
	return out, nil
}

// end returns how Nodus treats the clients at an end of the chain: the selected pods, in each of the networks.
func (c *chain) end(end string, chosen []store.Item[v2.ChainClientSelector], provided []store.Item[v2.ChainProviderNetwork]) []routingNetwork {
	out, known := []routingNetwork{}, false
	for _, n := range provided {
		if n.Value.Spec.ChainEnd != end {
			continue
		}
		known = true
		for _, s := range chosen {
			if s.Value.Spec.ChainEnd == end {
				out = append(out, routingNetwork{
					n.Value.Spec.ProviderNetwork, n.Value.Spec.GatewayIP, n.Value.Spec.Subnet,
					s.Value.Spec.PodSelector, c.namespaces(s.Value.Spec),
				})
			}
		}
	}
	switch {
	case len(out) > 0:
	case known:
		c.findings = append(c.findings, fmt.Sprintf("has no client at its %s end; add a client selector", end))
	default:
		c.findings = append(c.findings, fmt.Sprintf("has no client at its %s end; add a provider network", end))
	}
	return out
}

// namespaces returns the namespaces of clients.
func (c *chain) namespaces(s v2.ChainClientSelectorSpec) v2.LabelSelector {
	if s.NamespaceSelector.Empty() {
		return v2.LabelSelector{MatchLabels: map[string]string{namespaceName: c.Namespace}}
	}
	return s.NamespaceSelector
}

// namespaceName is the label that Kubernetes gives each namespace.
const namespaceName = "kubernetes.io/metadata.name"

// addTo adds the edits of the chain: the labels of the pods, and its object on the clusters that have all
// links.
func (c *chain) addTo(out *customize.Edits) {
	i := slices.IndexFunc(c.links, func(l link) bool { return len(l.app.Clusters) > 0 })
	if i < 0 {
		return // nothing of it is deployed, or it has no links
	}
	carrier := c.links[i].app // its clusters get the object
	find := func(text string) {
		out.Findings = append(out.Findings, customize.Finding{App: carrier.Name, Text: c.origin + ": " + text})
	}
	for _, l := range c.links {
		if len(l.app.Clusters) > 0 {
			key, value := v2.TrafficLabel(l.LinkLabel)
			label(out, l.app, l.WorkloadResource, l.ResourceType, l.origin, map[string]string{key: value})
		}
	}
	whole := carrier.Clusters
	for _, l := range c.links {
		rest := slices.DeleteFunc(slices.Clone(whole), func(k v2.ClusterKey) bool { return !l.app.Has(k) })
		if missing := len(whole) - len(rest); missing > 0 {
			find(fmt.Sprintf("is not made on %d of the %d clusters with app %s, because app %s does not go there", missing, len(carrier.Clusters), carrier.Name, l.App))
		}
		whole = rest
	}
	if len(whole) == 0 {
		return
	}
	for _, f := range c.findings {
		find(f)
	}
	if len(whole) == len(carrier.Clusters) {
		whole = nil // all
	}
	out.Edits = append(out.Edits, customize.Edit{App: carrier.Name, Clusters: whole, Origin: c.origin, Object: c.object()})
}

// label adds the edit that gives labels to the pods of a workload.
func label(out *customize.Edits, app customize.App, name, kind, origin string, labels map[string]string) {
	var pod struct {
		Metadata struct {
			Labels map[string]string `json:"labels"`
		} `json:"metadata"`
	}
	pod.Metadata.Labels = labels
	p := customize.Target{Kind: kind, Name: name}.PodPatch(encode(pod))
	if p == nil {
		out.Findings = append(out.Findings, customize.Finding{App: app.Name, Text: origin + ": labels no pods, because EMCO does not know where a " + kind + " has its pods"})
		return
	}
	out.Edits = append(out.Edits, customize.Edit{App: app.Name, Origin: origin, Patch: p})
}

// networkChaining is the object that Nodus reads, of k8s.plugin.opnfv.org/v1alpha1.
type networkChaining struct {
	APIVersion string              `json:"apiVersion"`
	Kind       string              `json:"kind"`
	Metadata   metadata            `json:"metadata"`
	Spec       networkChainingSpec `json:"spec"`
}

type metadata struct {
	Name string `json:"name"`
}

type networkChainingSpec struct {
	ChainType   string      `json:"chainType"`
	RoutingSpec routingSpec `json:"routingSpec"`
}

type routingSpec struct {
	Namespace    string           `json:"namespace"`
	NetworkChain string           `json:"networkChain"`
	Left         []routingNetwork `json:"left"`
	Right        []routingNetwork `json:"right"`
}

// routingNetwork is a network at an end of a chain, and the pods whose traffic of that network goes through it.
type routingNetwork struct {
	NetworkName       string           `json:"networkName"`
	GatewayIP         string           `json:"gatewayIp"`
	Subnet            string           `json:"subnet"`
	PodSelector       v2.LabelSelector `json:"podSelector"`
	NamespaceSelector v2.LabelSelector `json:"namespaceSelector"`
}

// object returns the text of the chain's object.
func (c *chain) object() []byte {
	parts := []string{"net=" + c.links[0].LeftNet}
	for _, l := range c.links {
		key, value := v2.TrafficLabel(l.LinkLabel)
		parts = append(parts, key+"="+value, "net="+l.RightNet)
	}
	return encode(networkChaining{
		"k8s.plugin.opnfv.org/v1alpha1", "NetworkChaining",
		metadata{c.name},
		networkChainingSpec{c.spec.ChainType, routingSpec{c.spec.Namespace, strings.Join(parts, ","), c.left, c.right}},
	})
}

// encode returns the JSON of a value that has one.
func encode[T any](v T) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic("sfc: a value that has no JSON form: " + err.Error()) // strings, lists and maps of them only
	}
	return text
}
