package v2

import "net/netip"

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
}

// The levels of logical clouds.
const (
	LevelAdmin    = "0" // the clusters' registered credentials, no objects of its own
	LevelStandard = "1" // a namespace, a user and permissions on every cluster
)

// User is whom a logical cloud of level 1 acts as.
type User struct {
	Name string `json:"userName" alias:"user-name"` // for level 1
	Type string `json:"type"`                       // such as "certificate", for level 1
}

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
	if ns := l.Spec.Namespace; ns != "" && (len(ns) > 63 || !labelPattern.MatchString(ns)) {
		c.fail("spec.namespace", "%s cannot be a namespace; use at most 63 lower-case letters, digits and '-'", quote(ns))
	}
	for _, key := range sortedKeys(l.Spec.Labels) {
		c.text(join("spec.labels", key), l.Spec.Labels[key], MaxName)
	}
	c.text("spec.user.userName", l.Spec.User.Name, maxUserName)
	if a := l.Spec.Account; a != "" && (len(a) > 63 || !labelPattern.MatchString(a)) {
		c.fail("spec.serviceAccountName", "%s cannot be an account; use at most 63 lower-case letters, digits and '-'", quote(a))
	}
	c.text("spec.user.type", l.Spec.User.Type, MaxName)
	return c.err()
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
