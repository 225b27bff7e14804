// Package guard compares the objects of an app with the policies of its project and with the bounds of its
// logical cloud, and finds the objects that break them. It calls no store and no cluster.
package guard

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
)

// Edition identifies the rules. A change of them needs a higher one: what was compared with
// policies of documents or clouds before is compared again.
const Edition = 1

// Policy is a set of rules for objects. The zero Policy is the one of projects without
// policies: it reports objects that reach beyond a namespace, and allows all custom kinds.
type Policy struct {
	Name       string   // of the document, or of the logical cloud; empty: the built-in policy
	Cloud      bool     // it holds the bounds of a logical cloud, and no document has it
	Strict     bool     // breaches refuse the app
	Namespaces []string // patterns of allowed namespaces; empty: all except those of the system
	Allow      []string // rules that do not apply
	Kinds      []string // patterns of allowed custom kinds
	DenyKinds  []string // patterns of refused kinds

	RefuseSecrets  bool // values in Secrets refuse the app, in either mode
	EncryptSecrets bool `json:"SealSecrets,omitempty"` // EMCO encrypts values in Secrets for clusters that read files; by its former name: the digests of stored classes hold it

	Variables   []v2.PolicyVariable `json:",omitempty"`
	Validations []v2.Validation     `json:",omitempty"` // with their modes

	rules func() ([]rule, error) // of the variables and validations, compiled once; nil: there are none
}

// FromSpec returns the policy of a document.
func FromSpec(name string, s v2.PolicySpec) Policy {
	p := Policy{
		Name: name, Strict: s.Mode == v2.PolicyStrict, Namespaces: s.Namespaces,
		Allow: s.Allow, Kinds: s.Kinds, DenyKinds: s.DenyKinds, RefuseSecrets: s.Secrets == v2.SecretsRefuse,
		EncryptSecrets: s.Secrets == v2.SecretsSeal,
	}
	if len(s.Validations) == 0 {
		return p
	}
	p.Variables, p.Validations = s.Variables, slices.Clone(s.Validations)
	for i, v := range p.Validations {
		p.Validations[i].Mode = v2.ValidationWarn
		if v.Refuses(s.Mode) {
			p.Validations[i].Mode = v2.ValidationRefuse
		}
	}
	p.rules = sync.OnceValues(func() ([]rule, error) { return compile(p.Variables, p.Validations) })
	return p
}

// Refuses reports whether the policy refuses anything.
func (p Policy) Refuses() bool {
	return p.Strict || p.RefuseSecrets || slices.ContainsFunc(p.Validations, func(v v2.Validation) bool { return v.Mode == v2.ValidationRefuse })
}

// Confined returns the bounds of a logical cloud of level 1: apps may have objects in its
// namespaces only. namespaces are those of its permissions; an empty one is the whole cluster,
// where the cluster's own permissions decide. What pods do on their node is left to documents.
func Confined(cloud string, namespaces []string) Policy {
	p := Policy{
		Name: cloud, Cloud: true, Strict: true, Namespaces: namespaces, Kinds: []string{"*"},
		Allow: []string{v2.RuleHost, v2.RulePrivileged, v2.RuleExternalIPs},
	}
	if slices.Contains(namespaces, "") {
		p.Namespaces = []string{"*"}
		p.Allow = append(p.Allow, v2.RuleClusterScoped, v2.RuleDefinitions, v2.RuleWebhooks, v2.RulePermissions)
	}
	return p
}

// String names the policy for people.
func (p Policy) String() string {
	switch {
	case p.Name == "":
		return "the built-in policy"
	case p.Cloud:
		return "logical cloud " + p.Name
	}
	return "policy " + p.Name
}

// FindsDuplicates reports whether objects that another app places on the same cluster break the policy. The bounds of a logical
// cloud leave them to documents.
func (p Policy) FindsDuplicates() bool {
	return !p.Cloud && !slices.Contains(p.Allow, v2.RuleDuplicates)
}

// Breach is a rule that an object breaks.
type Breach struct {
	Policy string // for people
	Strict bool   // it refuses the app
	Rule   string
	Object manifest.Object
	Text   string // what the object does, without values that charts keep secret
}

// Check returns the breaches of each policy, in order of policies and objects; those of validations come after the others. An
// error means that an object cannot be read.
func Check(objects []manifest.Object, policies ...Policy) ([]Breach, error) {
	trees := make([]map[string]any, len(objects))
	for i, o := range objects {
		if err := json.Unmarshal(o.Content, &trees[i]); err != nil {
			return nil, fmt.Errorf("check %s: %w", o.ID, err)
		}
	}
	own := manifest.ScopesOf(objects)
	var out []Breach
	for _, p := range policies {
		for i, o := range objects {
			c := objectCheck{policy: p, object: o, tree: trees[i], own: own}
			c.run()
			out = append(out, c.breaches...)
		}
	}
	broken, err := checkRules(objects, policies)
	return append(out, broken...), err
}

// objectCheck compares one object with one policy.
type objectCheck struct {
	policy   Policy
	object   manifest.Object
	tree     map[string]any
	own      manifest.Scopes // kinds that the app defines
	breaches []Breach
}

// breach records a breach, once for each rule and text.
func (c *objectCheck) breach(rule, format string, args ...any) {
	if slices.Contains(c.policy.Allow, rule) {
		return
	}
	b := Breach{Policy: c.policy.String(), Strict: c.policy.Strict, Rule: rule, Object: c.object, Text: fmt.Sprintf(format, args...)}
	if !slices.ContainsFunc(c.breaches, func(o Breach) bool { return o.Rule == b.Rule && o.Text == b.Text }) {
		c.breaches = append(c.breaches, b)
	}
}

func (c *objectCheck) run() {
	c.checkKind()
	c.checkScope()
	c.checkReconciler()
	c.checkPermissions()
	c.checkAddresses()
	c.checkSecret()
	c.checkPods(c.tree, 0)
	slices.SortStableFunc(c.breaches, func(a, b Breach) int { return cmp.Or(cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Text, b.Text)) })
}

// checkKind compares the object's kind with the lists of the policy.
func (c *objectCheck) checkKind() {
	id := c.object.ID
	switch {
	case matchesKind(c.policy.DenyKinds, id):
		c.breach(v2.RuleKinds, "is of a denied kind")
	case strings.HasSuffix(id.Kind, "List") && builtIn(id.Group):
		c.breach(v2.RuleKinds, "is a list that EMCO cannot look into")
	case c.policy.Name != "" && !builtIn(id.Group) && !c.defines(id) && !matchesKind(c.policy.Kinds, id):
		c.breach(v2.RuleKinds, "is of a kind that the policy does not allow; add %q to kinds if it may be placed", kindName(id))
	}
}

// defines reports whether the app itself defines a kind.
func (c *objectCheck) defines(id manifest.ID) bool {
	_, ok := c.own[manifest.GroupKind{Group: id.Group, Kind: id.Kind}]
	return ok
}

// checkScope checks whether the object stays in the namespaces of the policy.
func (c *objectCheck) checkScope() {
	id := c.object.ID
	switch {
	case manifest.IsCRD(id):
		c.breach(v2.RuleDefinitions, "defines a kind for the whole cluster")
	case id.Group == "admissionregistration.k8s.io" || id.Group == "apiregistration.k8s.io":
		c.breach(v2.RuleWebhooks, "takes part in requests of the whole cluster")
	case c.own.Cluster(id):
		c.breach(v2.RuleClusterScoped, "belongs to the whole cluster")
	case !c.inNamespace(cmp.Or(id.Namespace, "default")):
		c.breach(v2.RuleNamespaces, "is in namespace %q, which %s does not allow", id.Namespace, c.policy)
	}
}

func (c *objectCheck) inNamespace(namespace string) bool {
	if len(c.policy.Namespaces) > 0 {
		return matches(c.policy.Namespaces, namespace)
	}
	return !v2.IsSystemNamespace(namespace)
}

// checkReconciler finds objects that make a reconciler apply content that EMCO has not rendered.
func (c *objectCheck) checkReconciler() {
	group, kind := c.object.ID.Group, c.object.ID.Kind
	switch {
	case strings.HasSuffix(group, ".toolkit.fluxcd.io"), group == "fluxcd.controlplane.io",
		group == "argoproj.io" && slices.Contains([]string{"Application", "ApplicationSet", "AppProject"}, kind),
		group == "configsync.gke.io", group == "configmanagement.gke.io", group == "fleet.cattle.io",
		group == "kustomize.config.k8s.io", group == "k8splugin.io":
		c.breach(v2.RuleGitOps, "steers a reconciler or EMCO's agent, which may apply anything")
	}
	labels, _ := at(c.tree, "metadata", "labels").(map[string]any)
	if labels["argocd.argoproj.io/secret-type"] != nil {
		c.breach(v2.RuleGitOps, "gives Argo CD a repository or a cluster")
	}
}

// checkPermissions finds roles, bindings and tokens that give more than a namespace.
func (c *objectCheck) checkPermissions() {
	id := c.object.ID
	switch {
	case id.Group == "rbac.authorization.k8s.io" && (id.Kind == "ClusterRole" || id.Kind == "ClusterRoleBinding"):
		c.breach(v2.RulePermissions, "gives permissions on the whole cluster")
	case id.Group == "rbac.authorization.k8s.io" && id.Kind == "Role":
		c.checkRole()
	case id.Group == "rbac.authorization.k8s.io" && id.Kind == "RoleBinding":
		c.checkBinding()
	case id.Group == "" && id.Kind == "Secret":
		switch c.tree["type"] {
		case "kubernetes.io/service-account-token", "bootstrap.kubernetes.io/token":
			c.breach(v2.RulePermissions, "asks for the token of an account")
		}
	}
}

// escalating are verbs that give more than the role's owner has.
var escalating = []string{"escalate", "bind", "impersonate"}

func (c *objectCheck) checkRole() {
	for _, rule := range items(c.tree["rules"]) {
		verbs, resources := texts(rule["verbs"]), texts(rule["resources"])
		switch {
		case slices.Contains(verbs, "*") && slices.Contains(resources, "*"):
			c.breach(v2.RulePermissions, "gives every permission in its namespace")
		case slices.ContainsFunc(verbs, func(v string) bool { return slices.Contains(escalating, v) }):
			c.breach(v2.RulePermissions, "lets its subjects escalate, bind or impersonate")
		case slices.Contains(resources, "serviceaccounts/token"):
			c.breach(v2.RulePermissions, "lets its subjects make tokens of accounts")
		}
	}
}

func (c *objectCheck) checkBinding() {
	role, _ := c.tree["roleRef"].(map[string]any)
	if name, _ := role["name"].(string); role["kind"] == "ClusterRole" && (name == "cluster-admin" || strings.HasPrefix(name, "system:")) {
		c.breach(v2.RulePermissions, "binds ClusterRole %s", name)
	}
	for _, subject := range items(c.tree["subjects"]) {
		if name, _ := subject["name"].(string); subject["kind"] == "Group" && strings.HasPrefix(name, "system:") {
			c.breach(v2.RulePermissions, "binds group %s", name)
		}
	}
}

// checkAddresses finds services that take over addresses of others.
func (c *objectCheck) checkAddresses() {
	id := c.object.ID
	if id.Group == "" && id.Kind == "Service" {
		if ips, _ := at(c.tree, "spec", "externalIPs").([]any); len(ips) > 0 {
			c.breach(v2.RuleExternalIPs, "takes external addresses")
		}
	}
}

// checkSecret finds values in a Secret that everyone who reads the cluster's files can read.
func (c *objectCheck) checkSecret() {
	if !c.policy.RefuseSecrets || !isSecret(c.object.ID) || encryptedTree(c.tree) {
		return
	}
	c.breaches = append(c.breaches, Breach{
		Policy: c.policy.String(), Strict: true, Rule: v2.RuleSecrets, Object: c.object,
		Text: "holds values, which the policy refuses; encrypt it with SOPS, or create it on the clusters by other means",
	})
}

// Readable reports whether an object is a Secret with values that SOPS has not encrypted. An error means that
// the object cannot be read.
func Readable(o manifest.Object) (bool, error) {
	if !isSecret(o.ID) {
		return false, nil
	}
	var tree map[string]any
	if err := json.Unmarshal(o.Content, &tree); err != nil {
		return false, fmt.Errorf("check %s: %w", o.ID, err)
	}
	return !encryptedTree(tree), nil
}

func isSecret(id manifest.ID) bool { return id.Group == "" && id.Kind == "Secret" }

// encryptedTree reports whether SOPS has encrypted all values of a Secret, or it has none.
func encryptedTree(tree map[string]any) bool {
	data, _ := tree["data"].(map[string]any)
	text, _ := tree["stringData"].(map[string]any)
	return encrypted(data) && encrypted(text)
}

// encrypted reports whether SOPS has encrypted all values.
func encrypted(values map[string]any) bool {
	for _, v := range values {
		if text, _ := v.(string); !strings.HasPrefix(text, "ENC[") {
			return false
		}
	}
	return true
}

func builtIn(group string) bool {
	switch group {
	case "", "apps", "batch", "autoscaling", "extensions", "policy":
		return true
	}
	return strings.HasSuffix(group, ".k8s.io") && !slices.Contains([]string{
		"gateway.networking.k8s.io", "snapshot.storage.k8s.io", "kustomize.config.k8s.io", "x-k8s.io",
	}, group) && !strings.HasSuffix(group, ".x-k8s.io")
}

// kindName returns a kind as policies write it.
func kindName(id manifest.ID) string {
	if id.Group == "" {
		return id.Kind
	}
	return id.Kind + "." + id.Group
}

func matchesKind(patterns []string, id manifest.ID) bool { return matches(patterns, kindName(id)) }

func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, err := path.Match(p, name)
		return ok && err == nil
	})
}
