package manifest

import "strings"

// clusterKinds are the built-in cluster-wide kinds.
var clusterKinds = map[GroupKind]bool{
	{"", "Namespace"}:        true,
	{"", "Node"}:             true,
	{"", "PersistentVolume"}: true,
	{"", "ComponentStatus"}:  true,
	{"admissionregistration.k8s.io", "MutatingAdmissionPolicy"}:          true,
	{"admissionregistration.k8s.io", "MutatingAdmissionPolicyBinding"}:   true,
	{"admissionregistration.k8s.io", "MutatingWebhookConfiguration"}:     true,
	{"admissionregistration.k8s.io", "ValidatingAdmissionPolicy"}:        true,
	{"admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding"}: true,
	{"admissionregistration.k8s.io", "ValidatingWebhookConfiguration"}:   true,
	{"apiextensions.k8s.io", "CustomResourceDefinition"}:                 true,
	{"apiregistration.k8s.io", "APIService"}:                             true,
	{"authentication.k8s.io", "SelfSubjectReview"}:                       true,
	{"authentication.k8s.io", "TokenReview"}:                             true,
	{"authorization.k8s.io", "SelfSubjectAccessReview"}:                  true,
	{"authorization.k8s.io", "SelfSubjectRulesReview"}:                   true,
	{"authorization.k8s.io", "SubjectAccessReview"}:                      true,
	{"certificates.k8s.io", "CertificateSigningRequest"}:                 true,
	{"certificates.k8s.io", "ClusterTrustBundle"}:                        true,
	{"extensions", "PodSecurityPolicy"}:                                  true,
	{"flowcontrol.apiserver.k8s.io", "FlowSchema"}:                       true,
	{"flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration"}:       true,
	{"internal.apiserver.k8s.io", "StorageVersion"}:                      true,
	{"networking.k8s.io", "IPAddress"}:                                   true,
	{"networking.k8s.io", "IngressClass"}:                                true,
	{"networking.k8s.io", "ServiceCIDR"}:                                 true,
	{"node.k8s.io", "RuntimeClass"}:                                      true,
	{"policy", "PodSecurityPolicy"}:                                      true,
	{"rbac.authorization.k8s.io", "ClusterRole"}:                         true,
	{"rbac.authorization.k8s.io", "ClusterRoleBinding"}:                  true,
	{"resource.k8s.io", "DeviceClass"}:                                   true,
	{"resource.k8s.io", "DeviceTaintRule"}:                               true,
	{"resource.k8s.io", "ResourceSlice"}:                                 true,
	{"scheduling.k8s.io", "PriorityClass"}:                               true,
	{"storage.k8s.io", "CSIDriver"}:                                      true,
	{"storage.k8s.io", "CSINode"}:                                        true,
	{"storage.k8s.io", "StorageClass"}:                                   true,
	{"storage.k8s.io", "VolumeAttachment"}:                               true,
	{"storage.k8s.io", "VolumeAttributesClass"}:                          true,
	{"storagemigration.k8s.io", "StorageVersionMigration"}:               true,
}

// Cluster reports whether the kind of id is cluster-wide.
func (s Scopes) Cluster(id ID) bool {
	gk := GroupKind{id.Group, id.Kind}
	return clusterKinds[gk] || s[gk]
}

// cutGroup splits a tree's apiVersion.
func cutGroup(t objectTree) (group, version string, ok bool) {
	apiVersion, _ := t["apiVersion"].(string)
	if group, version, ok = strings.Cut(apiVersion, "/"); !ok {
		return "", apiVersion, false
	}
	return group, version, true
}
