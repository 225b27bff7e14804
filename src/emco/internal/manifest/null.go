package manifest

// builtinGroups are the groups of Kubernetes' own kinds, whose members have fixed types. Not
// among them: definitions of custom kinds, in whose schemas null may be a value.
var builtinGroups = map[string]bool{
	"": true, "apps": true, "autoscaling": true, "batch": true, "extensions": true, "policy": true,
	"admissionregistration.k8s.io": true, "apiregistration.k8s.io": true, "authentication.k8s.io": true,
	"authorization.k8s.io": true, "certificates.k8s.io": true, "coordination.k8s.io": true,
	"discovery.k8s.io": true, "events.k8s.io": true, "flowcontrol.apiserver.k8s.io": true,
	"networking.k8s.io": true, "node.k8s.io": true, "rbac.authorization.k8s.io": true,
	"resource.k8s.io": true, "scheduling.k8s.io": true, "storage.k8s.io": true,
}

// freeMaps are the members of built-in kinds that hold keys of the user's choice. There a
// null is an entry with an empty value: without it, a key would be missing in a ConfigMap,
// and a selector would select more.
var freeMaps = map[string]bool{
	"annotations": true, "attributes": true, "binaryData": true, "capacity": true, "data": true, "hard": true,
	"labels": true, "limits": true, "matchLabels": true, "nodeSelector": true, "options": true, "overhead": true,
	"parameters": true, "requests": true, "selector": true, "stringData": true, "volumeAttributes": true,
}

// dropNulls removes null members of a built-in kind: its members have fixed types, and an API
// server treats null as absent. Server-side apply refuses a null whose name the kind does
// not declare, such as an empty "replicas:" in a DaemonSet. Elements of lists stay.
func dropNulls(t objectTree) {
	if group, _, _ := cutGroup(t); builtinGroups[group] {
		dropNullsIn(t)
	}
}

func dropNullsIn(v any) {
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			dropNullsIn(item)
		}
	case objectTree:
		for name, member := range v {
			switch {
			case member == nil:
				delete(v, name)
			case !freeMaps[name]:
				dropNullsIn(member)
			}
		}
	}
}
