package dcm

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
)

// cloudApp is the name of the app whose objects prepare a cluster for a logical cloud.
const cloudApp = "logical-cloud"

// fluxNamespace is where Flux looks for the accounts that it applies apps as.
const fluxNamespace = "flux-system"

// applier is who applies a cloud's apps on a cluster. Clusters with the same applier get the
// same objects.
type applier int

const (
	applyDirectly     applier = iota // EMCO, as the cloud's user
	applyByFlux                      // Flux, as an account in its own namespace
	applyByAgent                     // another reconciler, as an account in the cloud's namespace
	applyByConfigSync                // Config Sync, as the account of its RepoSync
)

// applierOf returns the applier of a cluster.
func applierOf(c v2.Cluster) applier {
	switch c.Spec.GitOps.Type {
	case "":
		return applyDirectly
	case v2.FluxCD, v2.OCI, v2.S3:
		return applyByFlux
	case v2.Anthos:
		return applyByConfigSync
	}
	return applyByAgent
}

// cloudModel is all documents of a logical cloud that its objects follow from.
type cloudModel struct {
	cloud       v2.LogicalCloud
	permissions []v2.UserPermission // in order of name
	quotas      []v2.ClusterQuota   // in order of name
}

// objects returns what a cluster needs before apps of the cloud arrive: the namespace, who may
// do what in it, and how much. Names are those of upstream EMCO.
func (m cloudModel) objects(by applier) ([]any, error) {
	spec, name := m.cloud.Spec, m.cloud.Metadata.Name
	var all []any
	all = append(all, corev1.Namespace{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: spec.Namespace, Labels: spec.Labels},
	})
	if at := accountNamespace(by, spec.Namespace); at != "" {
		all = append(all, corev1.ServiceAccount{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"}, ObjectMeta: metav1.ObjectMeta{Name: spec.ApplyAccount(), Namespace: at},
		})
	}
	for _, q := range m.quotas {
		quota, err := quotaOf(q, spec.Namespace)
		if err != nil {
			return nil, err
		}
		all = append(all, quota)
	}
	subjects := m.subjects(by)
	for i, p := range m.permissions {
		all = append(all, permissionObjects(name, i, p, subjects)...)
	}
	if spec.NetworkPolicy == v2.NetworkNamespace {
		all = append(all, networkPolicy(name, spec.Namespace))
	}
	return all, nil
}

// accountNamespace returns where the account is that applies the cloud's apps; empty if EMCO
// does not create it.
func accountNamespace(by applier, namespace string) string {
	switch by {
	case applyByFlux:
		return fluxNamespace
	case applyByAgent:
		return namespace
	}
	return ""
}

// subjects returns who gets the cloud's permissions: its user and, on clusters that pull their
// state, the account that applies its apps. Config Sync's backend binds its own account.
func (m cloudModel) subjects(by applier) []rbacv1.Subject {
	out := []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: m.cloud.Spec.User.Name}}
	if at := accountNamespace(by, m.cloud.Spec.Namespace); at != "" {
		out = append(out, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: m.cloud.Spec.ApplyAccount(), Namespace: at})
	}
	return out
}

// permissionObjects returns the role of permission i and its binding: in the permission's
// namespace, or for the whole cluster if it names none.
func permissionObjects(cloud string, i int, p v2.UserPermission, subjects []rbacv1.Subject) []any {
	rules := []rbacv1.PolicyRule{{APIGroups: p.Spec.APIGroups, Resources: p.Spec.Resources, Verbs: p.Spec.Verbs}}
	if p.Spec.Namespace == "" {
		role := fmt.Sprintf("%s-clusterRole%d", cloud, i)
		return []any{
			rbacv1.ClusterRole{TypeMeta: rbacType("ClusterRole"), ObjectMeta: metav1.ObjectMeta{Name: role}, Rules: rules},
			rbacv1.ClusterRoleBinding{
				TypeMeta: rbacType("ClusterRoleBinding"), ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-clusterRoleBinding%d", cloud, i)},
				Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			},
		}
	}
	role := fmt.Sprintf("%s-role%d", cloud, i)
	return []any{
		rbacv1.Role{TypeMeta: rbacType("Role"), ObjectMeta: metav1.ObjectMeta{Name: role, Namespace: p.Spec.Namespace}, Rules: rules},
		rbacv1.RoleBinding{
			TypeMeta: rbacType("RoleBinding"), ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-roleBinding%d", cloud, i), Namespace: p.Spec.Namespace},
			Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role},
		},
	}
}

func rbacType(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: kind}
}

func quotaOf(q v2.ClusterQuota, namespace string) (corev1.ResourceQuota, error) {
	out := corev1.ResourceQuota{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ResourceQuota"}, ObjectMeta: metav1.ObjectMeta{Name: q.Metadata.Name, Namespace: namespace},
		Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{}},
	}
	for name, text := range q.Spec {
		amount, err := resource.ParseQuantity(string(text))
		if err != nil {
			return out, errs.New(errs.Invalid, fmt.Sprintf("cluster quota %s: %s: %q is no quantity: %v", q.Metadata.Name, name, string(text), err))
		}
		out.Spec.Hard[corev1.ResourceName(name)] = amount
	}
	return out, nil
}

// networkPolicy lets pods of the namespace accept traffic from its own pods only.
func networkPolicy(cloud, namespace string) networkingv1.NetworkPolicy {
	return networkingv1.NetworkPolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: networkingv1.SchemeGroupVersion.String(), Kind: "NetworkPolicy"},
		ObjectMeta: metav1.ObjectMeta{Name: cloud + "-own-namespace", Namespace: namespace},
		Spec: networkingv1.NetworkPolicySpec{
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
			Ingress:     []networkingv1.NetworkPolicyIngressRule{{From: []networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{}}}}},
		},
	}
}
