package v2

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
)

// LogicalCloud is a set of clusters that a project deploys to.
type LogicalCloud struct {
	Named
	Spec LogicalCloudSpec `json:"spec"` // what the cloud adds to its clusters
}

// LogicalCloudSpec is the body of a logical cloud.
type LogicalCloudSpec struct {
	Namespace string            `json:"namespace"`        // of objects that name none, for level 1; level 0 uses "default"
	Level     string            `json:"level"`            // "0": the credentials with which the clusters are registered; "1": a namespace, a user and permissions on each cluster
	Labels    map[string]string `json:"labels,omitempty"` // of the namespace, for level 1
	User      User              `json:"user"`             // whom the cloud acts as, for level 1

	// Account is the ServiceAccount that reconcilers of GitOps clusters apply the cloud's
	// apps as, where they know such accounts. It is not in upstream EMCO.
	Account string `json:"serviceAccountName,omitempty"`

	NetworkPolicy string `json:"networkPolicy,omitempty"` // "namespace": pods of a cloud of level 1 accept traffic from the cloud's own namespace only. Not in upstream EMCO
}

// NetworkNamespace is the network policy that keeps traffic of other namespaces out.
const NetworkNamespace = "namespace"

// ApplyAccount returns the ServiceAccount that reconcilers apply the cloud's apps as; empty if
// they need none. One of a cloud of level 1 is called as in upstream EMCO.
func (l LogicalCloudSpec) ApplyAccount() string {
	if l.Account == "" && l.Level != LevelAdmin {
		return l.Namespace + "-sa"
	}
	return l.Account
}

// The levels of logical clouds.
const (
	LevelAdmin    = "0" // the clusters' registered credentials, no objects of its own
	LevelStandard = "1" // a namespace, a user and permissions on every cluster
)

// User is whom a logical cloud of level 1 acts as.
type User struct {
	Name string `json:"userName" alias:"user-name"` // for level 1
	Type string `json:"type"`                       // "certificate", for level 1
}

// UserCertificate is the type of users whom a client certificate identifies.
const UserCertificate = "certificate"

// Limits of logical clouds in upstream EMCO.
const (
	maxUserName = 20
	maxShortIP  = 16
)

// normalize makes an absent level a "1", as upstream EMCO does.
func (l *LogicalCloud) normalize() {
	if l.Spec.Level == "" {
		l.Spec.Level = LevelStandard
	}
}

// Validate checks metadata and the lengths of all members.
func (l *LogicalCloud) Validate() error {
	c := begin(&l.Named)
	if l.Spec.Level != LevelAdmin && l.Spec.Level != LevelStandard {
		c.fail("spec.level", "%s is neither \"0\" nor \"1\"", quote(l.Spec.Level))
	}
	c.namespace("spec.namespace", l.Spec.Namespace)
	if l.Spec.Level == LevelStandard {
		c.standard(l.Spec)
	}
	for _, key := range sortedKeys(l.Spec.Labels) {
		c.text(join("spec.labels", key), l.Spec.Labels[key], MaxName)
	}
	c.text("spec.user.userName", l.Spec.User.Name, maxUserName)
	if a := l.Spec.Account; a != "" && (len(a) > 63 || !labelPattern.MatchString(a)) {
		c.fail("spec.serviceAccountName", "%s cannot be an account; use at most 63 lower-case letters, digits and '-'", quote(a))
	}
	c.text("spec.user.type", l.Spec.User.Type, MaxName)
	if p := l.Spec.NetworkPolicy; p != "" && p != NetworkNamespace {
		c.fail("spec.networkPolicy", "%s is not known; use %q, or leave it out", quote(p), NetworkNamespace)
	}
	return c.err()
}

// standard demands what a cloud of level 1 needs on clusters.
func (c *violationList) standard(l LogicalCloudSpec) {
	if l.Namespace == "" {
		c.fail("spec.namespace", "is empty; a logical cloud of level 1 needs a namespace, and one of level 0 uses \"default\"")
	}
	if l.Namespace == "default" {
		c.fail("spec.namespace", "%s belongs to the cluster; choose another one", quote(l.Namespace))
	}
	if l.User.Name == "" {
		c.fail("spec.user.userName", "is empty; a logical cloud of level 1 needs a user")
	}
	if strings.HasPrefix(l.User.Name, "system:") {
		c.fail("spec.user.userName", "%s is a name of Kubernetes itself; choose another one", quote(l.User.Name))
	}
	if t := l.User.Type; t != "" && t != UserCertificate {
		c.fail("spec.user.type", "%s is not known; the only type is %q", quote(t), UserCertificate)
	}
}

// CheckNamespace returns an error of kind errs.Invalid if a cloud of level 1 has a namespace of the system: the permissions of
// its user would reach what runs the cluster. It is for new clouds and for changes of the namespace. Validate does not
// check it, so clouds that were stored before a namespace became one of the system stay valid.
func (l LogicalCloudSpec) CheckNamespace() error {
	var c violationList
	if l.Level == LevelStandard && IsSystemNamespace(l.Namespace) {
		c.fail("spec.namespace", "%s belongs to the system of the cluster; choose another one", quote(l.Namespace))
	}
	return c.err()
}

// IsSystemNamespace reports whether a namespace belongs to Kubernetes, to a reconciler or to EMCO's agent. Apps have no
// objects there unless a policy lists the namespace.
func IsSystemNamespace(name string) bool {
	switch name {
	case "flux-system", "argocd", "config-management-system", "emco", "emco-system":
		return true
	}
	return strings.HasPrefix(name, "kube-")
}

// namespace checks the name of a namespace; it may be empty.
func (c *violationList) namespace(field, s string) {
	if s != "" && (len(s) > 63 || !labelPattern.MatchString(s)) {
		c.fail(field, "%s cannot be a namespace; use at most 63 lower-case letters, digits and '-'", quote(s))
	}
}

// ClusterReference makes a registered cluster part of a logical cloud.
type ClusterReference struct {
	Named
	Spec ClusterReferenceSpec `json:"spec"` // the cluster
}

// ClusterReferenceSpec names the cluster.
type ClusterReferenceSpec struct {
	ClusterProvider string `json:"clusterProvider" alias:"cluster-provider,provider-name"` // the provider of the cluster
	Cluster         string `json:"cluster" alias:"cluster-name"`                           // the name of the cluster
	LoadBalancerIP  string `json:"loadBalancerIP" alias:"loadbalancer-ip"`                 // the address of the cluster's gateway; EMCO does not use it
	Certificate     string `json:"certificate"`                                            // in answers only
}

// normalize drops what only the server may set.
func (r *ClusterReference) normalize() { r.Spec.Certificate = "" }

// Validate demands provider and cluster; upstream EMCO accepts references to nothing.
func (r *ClusterReference) Validate() error {
	c := begin(&r.Named)
	c.name("spec.clusterProvider", r.Spec.ClusterProvider)
	c.name("spec.cluster", r.Spec.Cluster)
	ip := r.Spec.LoadBalancerIP
	if _, err := netip.ParseAddr(ip); ip != "" && err != nil && len(ip) > maxShortIP {
		c.fail("spec.loadBalancerIP", "%s is not an address", quote(ip))
	}
	return c.err()
}

// UserPermission allows the user of a logical cloud of level 1 to do something on the cloud's
// clusters, in one namespace or in all. At least one must be for the cloud's own namespace.
type UserPermission struct {
	Named
	Spec UserPermissionSpec `json:"spec"` // what the user may do, and where
}

// UserPermissionSpec is one rule of Kubernetes' RBAC.
type UserPermissionSpec struct {
	Namespace string   `json:"namespace"` // where; empty for the whole cluster
	APIGroups []string `json:"apiGroups"` // such as "apps"; "" is the core group, "*" are all
	Resources []string `json:"resources"` // such as "deployments"; "*" are all
	Verbs     []string `json:"verbs"`     // such as "get"; "*" are all
}

// maxRuleItems bounds the items of each list of a permission.
const maxRuleItems = 100

// Validate demands groups, resources and verbs, as upstream EMCO does.
func (p *UserPermission) Validate() error {
	c := begin(&p.Named)
	c.namespace("spec.namespace", p.Spec.Namespace)
	for _, list := range []struct {
		field  string
		values []string
	}{{"spec.apiGroups", p.Spec.APIGroups}, {"spec.resources", p.Spec.Resources}, {"spec.verbs", p.Spec.Verbs}} {
		c.between(list.field, len(list.values), 1, maxRuleItems)
		for i, v := range list.values {
			c.text(fmt.Sprintf("%s[%d]", list.field, i), v, MaxName)
			if v == "" && list.field != "spec.apiGroups" {
				c.fail(fmt.Sprintf("%s[%d]", list.field, i), "is empty")
			}
		}
	}
	return c.err()
}

// ClusterQuota limits what the namespace of a logical cloud of level 1 may use on each
// cluster. It becomes a ResourceQuota with the same name.
type ClusterQuota struct {
	Named
	Spec map[string]Scalar `json:"spec"` // quantities by resource, such as "limits.cpu": "10"
}

// maxQuotaItems bounds the resources of a quota.
const maxQuotaItems = 100

// Validate demands quantities that Kubernetes understands: a quota that the API server refuses
// would hold back its cloud.
func (q *ClusterQuota) Validate() error {
	c := begin(&q.Named)
	c.between("spec", len(q.Spec), 1, maxQuotaItems)
	for _, key := range sortedKeys(q.Spec) {
		if !isResourceName(key) || !strings.Contains(key, "/") && !isQuotaResource(key) {
			c.fail(join("spec", quote(key)), "is no resource that Kubernetes has quotas for; use names such as \"limits.cpu\" or \"count/jobs.batch\"")
		}
		if v := string(q.Spec[key]); !quantity.MatchString(v) {
			c.fail(join("spec", key), "%s is no quantity; use a number such as \"10\", \"500m\" or \"2Gi\"", quote(v))
		}
	}
	return c.err()
}

// isResourceName reports whether a text is the name of a resource in the form of Kubernetes' qualified names: a domain
// and a slash, if any, and a name.
func isResourceName(text string) bool {
	slash := strings.IndexByte(text, '/') // -1: no domain
	return slash <= maxObjectName && len(text)-slash-1 <= maxLabelValue && resourceName.MatchString(text)
}

// quotaResources are the resources without a domain that quotas may name, see IsStandardQuotaResourceName in
// k8s.io/kubernetes/pkg/apis/core/helper.
var quotaResources = []string{
	"cpu", "memory", "ephemeral-storage", "requests.cpu", "requests.memory", "requests.storage", "requests.ephemeral-storage",
	"limits.cpu", "limits.memory", "limits.ephemeral-storage", "pods", "resourcequotas", "services", "replicationcontrollers", "secrets",
	"persistentvolumeclaims", "configmaps", "services.nodeports", "services.loadbalancers",
}

func isQuotaResource(name string) bool {
	return slices.Contains(quotaResources, name) || strings.HasPrefix(strings.TrimPrefix(name, "requests."), "hugepages-")
}

// quantity matches Kubernetes' quantities that are not negative.
var quantity = regexp.MustCompile(`^\+?([0-9]{1,18}(\.[0-9]{0,9})?|\.[0-9]{1,9})([EPTGMk]|[EPTGMK]i|[munpf]|[eE][+-]?[0-9]{1,2})?$`)
