package manifest

import (
	"cmp"
	"fmt"
	"slices"
)

// installOrder lists kinds in apply order: namespaces before all else,
// then Helm's install order. Kinds that are not listed come last.
var installOrder = []string{
	"Namespace",
	"PriorityClass",
	"NetworkPolicy",
	"ResourceQuota",
	"LimitRange",
	"PodSecurityPolicy",
	"PodDisruptionBudget",
	"ServiceAccount",
	"Secret",
	"ConfigMap",
	"StorageClass",
	"PersistentVolume",
	"PersistentVolumeClaim",
	"CustomResourceDefinition",
	"ClusterRole",
	"ClusterRoleBinding",
	"Role",
	"RoleBinding",
	"Service",
	"DaemonSet",
	"Pod",
	"ReplicationController",
	"ReplicaSet",
	"Deployment",
	"HorizontalPodAutoscaler",
	"StatefulSet",
	"Job",
	"CronJob",
	"IngressClass",
	"Ingress",
	"APIService",
}

// rank is a kind's place in the order of application.
func rank(kind string) int {
	if i := slices.Index(installOrder, kind); i >= 0 {
		return i
	}
	return len(installOrder)
}

// Compare orders ids as their objects are applied: by rank of kind, kind, namespace, name
// and group. Deletion uses the reverse order.
func Compare(a, b ID) int {
	return cmp.Or(
		cmp.Compare(rank(a.Kind), rank(b.Kind)),
		cmp.Compare(a.Kind, b.Kind),
		cmp.Compare(a.Namespace, b.Namespace),
		cmp.Compare(a.Name, b.Name),
		cmp.Compare(a.Group, b.Group),
		cmp.Compare(a.Version, b.Version),
	)
}

// Sort sorts objects in apply order.
func Sort(objects []Object) {
	slices.SortStableFunc(objects, func(a, b Object) int { return Compare(a.ID, b.ID) })
}

// Unique reports objects that occur twice, each with both sources. Two versions of one kind
// are the same object. The error is Invalid and holds Problems.
func Unique(objects []Object) error {
	first := make(map[ID]Object, len(objects))
	var problems Problems
	for _, o := range objects {
		key := o.ID
		key.Version = ""
		if old, ok := first[key]; ok {
			reason := fmt.Sprintf("%s stands in %s already", o.ID, old.Source)
			problems.add(Problem{Source: o.Source, Reason: reason})
			continue
		}
		first[key] = o
	}
	return problems.err()
}
