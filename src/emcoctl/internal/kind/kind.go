// Package kind is the table of the documents that the server keeps: where they are, what
// they hold, and their short names. It checks documents by the server's rules, converts them to the form that
// the server stores, and finds the kind that a short or a wrong name means.
package kind

import (
	"encoding/json"
	"slices"
	"strings"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/anchor"
)

// The collections whose items have a lifecycle.
const (
	Groups = "deployment-intent-groups"
	Clouds = "logical-clouds"
)

// The stages of certificate authorities, which have a lifecycle too, as anchor.Collection names them.
const (
	Enrollment   = "ca-certs/enrollment"
	Distribution = "ca-certs/distribution"
)

// Kind is a kind of documents.
type Kind struct {
	Collection string   // as in URLs; below ca-certs as anchor.Collection names it
	Parents    []string // collections whose items it is below; "" is the root
	Short      []string // other names of the collection
	Singular   string   // the name of one of them, for commands; not in URLs
	File       bool     // its documents come with a file
	Actions    []string // below an item; also queries
	Type       string   // the Go type of the documents; empty if this program does not know it
	Members    []v2.Member
	// Canonical converts a document to the form that the server stores: without unknown
	// members, with aliases and defaults resolved. nil keeps documents as they are.
	Canonical func([]byte) ([]byte, error)
	// Check checks a document by the server's rules; nil for kinds without a Type.
	Check func([]byte) error
}

// typed sets what follows from the type of the documents.
func typed[T any, P interface {
	*T
	v2.Document
}](k Kind, name string) Kind {
	k.Type, k.Members, k.Check = name, v2.MembersOf[T](), check[T, P]
	if k.Canonical == nil {
		k.Canonical = canon[T]
	}
	return k
}

// All lists the kinds, in the order of a first deployment.
func All() []Kind { return slices.Clone(table) }

var root = []string{""}

var table = []Kind{
	typed[v2.ClusterProvider](Kind{Collection: "cluster-providers", Parents: root, Short: []string{"cp"}}, "ClusterProvider"),
	typed[v2.SyncObject](Kind{Collection: "cluster-sync-objects", Parents: []string{"cluster-providers"}, Short: []string{"cso"}, Canonical: canonSync}, "SyncObject"),
	typed[v2.Cluster](Kind{Collection: "clusters", Parents: []string{"cluster-providers"}, Short: []string{"cl"}, Singular: "cluster", File: true, Actions: []string{"apply", "status", "stop", "terminate"}}, "Cluster"),
	typed[v2.ClusterLabel](Kind{Collection: "labels", Parents: []string{"clusters"}}, "ClusterLabel"),
	typed[v2.KV](Kind{Collection: "kv-pairs", Parents: []string{"clusters", Clouds}, Short: []string{"kv"}}, "KV"),
	typed[v2.Network](Kind{Collection: "networks", Parents: []string{"clusters"}, Short: []string{"net"}}, "Network"),
	typed[v2.ProviderNetwork](Kind{Collection: "provider-networks", Parents: []string{"clusters"}}, "ProviderNetwork"),
	typed[v2.ClmController](Kind{Collection: "clm-controllers", Parents: root}, "ClmController"),
	typed[v2.Controller](Kind{Collection: "controllers", Parents: root}, "Controller"),
	typed[v2.DtcController](Kind{Collection: "dtc-controllers", Parents: root}, "DtcController"),
	typed[v2.Project](Kind{Collection: "projects", Parents: root, Short: []string{"proj"}, Singular: "project"}, "Project"),
	typed[v2.Role](Kind{Collection: "roles", Parents: root}, "Role"),
	typed[v2.RoleBinding](Kind{Collection: "role-bindings", Parents: []string{"", "projects", "cluster-providers"}, Short: []string{"rb"}}, "RoleBinding"),
	typed[v2.Policy](Kind{Collection: "policies", Parents: []string{"projects"}, Short: []string{"pol"}, Singular: "policy"}, "Policy"),
	typed[v2.LogicalCloud](Kind{
		Collection: Clouds, Parents: []string{"projects"}, Short: []string{"lc"}, Canonical: canonCloud,
		Actions: []string{"instantiate", "status", "stop", "terminate", "update"},
	}, "LogicalCloud"),
	typed[v2.ClusterReference](Kind{Collection: "cluster-references", Parents: []string{Clouds}, Short: []string{"ref"}}, "ClusterReference"),
	typed[v2.UserPermission](Kind{Collection: "user-permissions", Parents: []string{Clouds}}, "UserPermission"),
	typed[v2.ClusterQuota](Kind{Collection: "cluster-quotas", Parents: []string{Clouds}}, "ClusterQuota"),
	typed[v2.CACert](Kind{Collection: "ca-certs", Parents: []string{"cluster-providers", "projects"}, Actions: []string{
		"enrollment/instantiate", "enrollment/update", "enrollment/terminate", "enrollment/status",
		"distribution/instantiate", "distribution/update", "distribution/terminate", "distribution/status",
	}}, "CACert"),
	typed[v2.CACertLogicalCloud](Kind{Collection: "ca-certs/logical-clouds", Parents: []string{"ca-certs"}}, "CACertLogicalCloud"),
	typed[v2.CACertCluster](Kind{Collection: "ca-certs/clusters", Parents: []string{"ca-certs", "ca-certs/logical-clouds"}}, "CACertCluster"),
	typed[v2.CompositeApp](Kind{Collection: "composite-apps", Parents: []string{"projects"}, Short: []string{"ca"}}, "CompositeApp"),
	typed[v2.App](Kind{Collection: "apps", Parents: []string{"composite-apps"}, File: true}, "App"),
	typed[v2.AppDependency](Kind{Collection: "dependency", Parents: []string{"apps"}, Short: []string{"dep"}}, "AppDependency"),
	typed[v2.CompositeProfile](Kind{Collection: "composite-profiles", Parents: []string{"composite-apps"}}, "CompositeProfile"),
	typed[v2.AppProfile](Kind{Collection: "profiles", Parents: []string{"composite-profiles"}, File: true}, "AppProfile"),
	typed[v2.DeploymentIntentGroup](Kind{
		Collection: Groups, Parents: []string{"composite-apps"}, Short: []string{"dig", "deploy", "deployments"}, Singular: "deployment", Canonical: canonGroup,
		Actions: []string{"approve", "instantiate", "migrate", "promote", "rollback", "status", "stop", "terminate", "update"},
	}, "DeploymentIntentGroup"),
	typed[v2.PlacementIntent](Kind{Collection: "generic-placement-intents", Parents: []string{Groups}, Short: []string{"gpi"}}, "PlacementIntent"),
	typed[v2.AppIntent](Kind{Collection: "app-intents", Parents: []string{"generic-placement-intents"}, Short: []string{"ai"}}, "AppIntent"),
	typed[v2.GenericK8sIntent](Kind{Collection: "generic-k8s-intents", Parents: []string{Groups}, Short: []string{"gki"}}, "GenericK8sIntent"),
	typed[v2.GenericResource](Kind{Collection: "resources", Parents: []string{"generic-k8s-intents"}}, "GenericResource"),
	typed[v2.Customization](Kind{Collection: "customizations", Parents: []string{"resources"}}, "Customization"),
	typed[v2.TrafficGroupIntent](Kind{Collection: "traffic-group-intents", Parents: []string{Groups}, Short: []string{"tgi"}}, "TrafficGroupIntent"),
	typed[v2.InboundServer](Kind{Collection: "inbound-intents", Parents: []string{"traffic-group-intents"}}, "InboundServer"),
	typed[v2.InboundClient](Kind{Collection: "clients", Parents: []string{"inbound-intents"}}, "InboundClient"),
	typed[v2.AccessPoint](Kind{Collection: "access-points", Parents: []string{"clients"}}, "AccessPoint"),
	typed[v2.HPAIntent](Kind{Collection: "hpa-intents", Parents: []string{Groups}}, "HPAIntent"),
	typed[v2.HPAConsumer](Kind{Collection: "hpa-resource-consumers", Parents: []string{"hpa-intents"}}, "HPAConsumer"),
	typed[v2.HPAResource](Kind{Collection: "resource-requirements", Parents: []string{"hpa-resource-consumers"}}, "HPAResource"),
	typed[v2.NetControllerIntent](Kind{Collection: "network-controller-intent", Parents: []string{Groups}, Short: []string{"nci"}}, "NetControllerIntent"),
	typed[v2.WorkloadIntent](Kind{Collection: "workload-intents", Parents: []string{"network-controller-intent"}}, "WorkloadIntent"),
	typed[v2.InterfaceIntent](Kind{Collection: "interfaces", Parents: []string{"workload-intents"}}, "InterfaceIntent"),
	typed[v2.NetworkChain](Kind{Collection: "network-chains", Parents: []string{Groups}}, "NetworkChain"),
	typed[v2.ChainLink](Kind{Collection: "links", Parents: []string{"network-chains"}}, "ChainLink"),
	typed[v2.ChainClientSelector](Kind{Collection: "client-selectors", Parents: []string{"network-chains"}}, "ChainClientSelector"),
	typed[v2.ChainProviderNetwork](Kind{Collection: "provider-networks", Parents: []string{"network-chains"}}, "ChainProviderNetwork"),
	typed[v2.ChainClient](Kind{Collection: "sfc-clients", Parents: []string{Groups}}, "ChainClient"),
	typed[v2.HookIntent](Kind{
		Collection: "temporal-action-controller", Parents: []string{Groups}, Short: []string{"tac", "hooks"}, Singular: "hook",
		Actions: []string{"abort", "cancel", "retry", "skip", "status"},
	}, "HookIntent"),
	typed[v2.WorkerIntent](Kind{Collection: "workers", Parents: []string{"temporal-action-controller"}}, "WorkerIntent"),
	typed[v2.WorkflowIntent](Kind{
		Collection: "temporal-workflow-intents", Parents: []string{Groups}, Short: []string{"workflows"}, Singular: "workflow",
		Actions: []string{"cancel", "start", "status"},
	}, "WorkflowIntent"),
	typed[v2.PolicyIntent](Kind{Collection: "policy-intents", Parents: []string{Groups}}, "PolicyIntent"),
	typed[v2.PolicyAgent](Kind{Collection: "policy/agents", Parents: root}, "PolicyAgent"),
	typed[v2.GroupIntent](Kind{Collection: "intents", Parents: []string{Groups}}, "GroupIntent"),
}

// Of returns the kind of a collection, by its name or a short one.
func Of(name string) (Kind, bool) {
	for _, k := range table {
		if k.Collection == name || slices.Contains(k.Short, name) {
			return k, true
		}
	}
	return Kind{}, false
}

// At returns the kind of the documents of an anchor, or of an item. Collections below different parents may have one
// name.
func At(path string) (Kind, bool) {
	path, _, _ = strings.Cut(path, "?")
	collection, parent := anchor.Collection(path), anchor.Parent(path)
	if !anchor.IsCollection(path) {
		parent = anchor.Parent(parent)
	}
	above := ""
	if parent != "" {
		above = anchor.Collection(parent)
	}
	i := slices.IndexFunc(table, func(k Kind) bool { return k.Collection == collection && slices.Contains(k.Parents, above) })
	if i < 0 {
		return Of(collection)
	}
	return table[i], true
}

// Named returns the kind of a word of the command line: also of a singular.
func Named(word string) (Kind, bool) {
	if i := slices.IndexFunc(table, func(k Kind) bool { return k.Singular != "" && k.Singular == word }); i >= 0 {
		return table[i], true
	}
	return Of(word)
}

// Below lists what may follow an item of a collection: collections, actions and queries;
// with "", the collections of the root.
func Below(collection string) (names []string) {
	for _, k := range table {
		if slices.Contains(k.Parents, collection) {
			names = append(names, anchor.Last(k.Collection))
		}
		if k.Collection == collection {
			names = append(names, k.Actions...)
		}
	}
	slices.Sort(names)
	return names
}

// MembersAt lists the members of the documents of an anchor; nil if this program does not
// know them. Actions have documents as well.
func MembersAt(path string) []v2.Member {
	switch {
	case anchor.Last(path) == "rollback":
		return v2.MembersOf[v2.Rollback]()
	case anchor.Last(path) == "migrate":
		return v2.MembersOf[v2.Migrate]()
	case anchor.Last(path) == "promote":
		return v2.MembersOf[v2.Promote]()
	case anchor.IsAction(path):
		return nil
	}
	k, _ := At(path)
	return k.Members
}

// check reads and validates a document as the server does.
func check[T any, P interface {
	*T
	v2.Document
}](text []byte) error {
	doc, err := v2.Decode[T](text, v2.Lenient)
	if err != nil {
		return err
	}
	return P(&doc).Validate()
}

// canon reads a document as the server does and writes it in the server's form.
func canon[T any](text []byte) ([]byte, error) {
	doc, err := v2.Decode[T](text, v2.Lenient)
	if err != nil {
		return nil, err
	}
	return json.Marshal(doc)
}

// canonSync hides secrets, as the server does in its answers.
func canonSync(text []byte) ([]byte, error) {
	doc, err := v2.Decode[v2.SyncObject](text, v2.Lenient)
	if err != nil {
		return nil, err
	}
	return json.Marshal(doc.Masked())
}

// canonGroup hides override values that look like secrets, as the server does.
func canonGroup(text []byte) ([]byte, error) {
	doc, err := v2.Decode[v2.DeploymentIntentGroup](text, v2.Lenient)
	if err != nil {
		return nil, err
	}
	return json.Marshal(doc.Masked())
}

// canonCloud drops the namespace of a cloud of level 0, which EMCO sets.
func canonCloud(text []byte) ([]byte, error) {
	doc, err := v2.Decode[v2.LogicalCloud](text, v2.Lenient)
	if err != nil {
		return nil, err
	}
	if doc.Spec.Level == v2.LevelAdmin {
		doc.Spec.Namespace = ""
	}
	return json.Marshal(doc)
}

// Expand replaces short names of collections in an anchor by the names themselves.
func Expand(path string) string {
	path, query, asked := strings.Cut(path, "?")
	segments := strings.Split(path, "/")
	for i, collection := 0, ""; i < len(segments); {
		k, ok := below(collection, segments[i])
		if !ok {
			break
		}
		segments[i], collection = anchor.Last(k.Collection), k.Collection
		i += width(collection)
	}
	path = strings.Join(segments, "/")
	if asked {
		path += "?" + query
	}
	return path
}

// below returns the kind that a name means below an item of a collection.
func below(collection, name string) (Kind, bool) {
	for _, k := range table {
		if slices.Contains(k.Parents, collection) && (anchor.Last(k.Collection) == name || slices.Contains(k.Short, name)) {
			return k, true
		}
	}
	return Kind{}, false
}

// width is the number of segments of a collection with an item's name.
func width(collection string) int {
	if collection == "composite-apps" {
		return 3
	}
	return 2
}
