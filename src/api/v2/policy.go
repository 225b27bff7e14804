package v2

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Policy says what a project may place on clusters. A project may have several: each of them
// must be met. Without one, EMCO reports what it finds and delivers it.
type Policy struct {
	Named
	Spec PolicySpec `json:"spec"` // the rules
}

// PolicySpec is the body of a policy.
type PolicySpec struct {
	LogicalCloud string   `json:"logicalCloud,omitempty"` // the logical cloud that it concerns; empty: all of the project
	Mode         string   `json:"mode"`                   // "report": a finding in status and plan; "strict": the app is refused before it is delivered
	Namespaces   []string `json:"namespaces,omitempty"`   // where objects may be, such as "shop" or "shop-*"; empty: anywhere except in namespaces of the system
	Allow        []string `json:"allow,omitempty"`        // rules that do not apply, such as "cluster-scoped"
	Kinds        []string `json:"kinds,omitempty"`        // kinds beyond those of Kubernetes that are allowed, such as "Certificate.cert-manager.io" or "*.cert-manager.io"
	DenyKinds    []string `json:"denyKinds,omitempty"`    // kinds that are refused, such as "Service" or "Ingress.networking.k8s.io"
	Secrets      string   `json:"secrets,omitempty"`      // "refuse": an app with values in a Secret is refused, in either mode, unless SOPS has encrypted them; "seal": EMCO encrypts them for clusters that read files; empty or "allow": Secrets are delivered as rendered
	Quota        *Quota   `json:"quota,omitempty"`        // what the project may use, for policies without logicalCloud

	Variables   []PolicyVariable `json:"variables,omitempty"`   // expressions that validations and later variables read, as "variables.NAME"
	Validations []Validation     `json:"validations,omitempty"` // rules of the project's own
}

// PolicyVariable is an expression with a name.
type PolicyVariable struct {
	Name       string `json:"name"`       // letters, digits and "_"; not a digit first
	Expression string `json:"expression"` // in CEL, over "object" and earlier variables
}

// Validation is a rule of the project's own: an expression that is true for each object of some kinds.
type Validation struct {
	Name       string   `json:"name"`            // of the rule, in findings and refusals
	Kinds      []string `json:"kinds,omitempty"` // of the objects that it concerns, such as "Deployment.apps" or "*.cert-manager.io"; empty: all objects
	Expression string   `json:"expression"`      // in CEL, over "object" and "variables"; true for objects that keep the rule
	Message    string   `json:"message"`         // what is wrong with an object that breaks the rule, for people
	Mode       string   `json:"mode,omitempty"`  // "warn": a finding in status and plan; "refuse": the app is refused before it is delivered; empty: as the mode of the policy says
}

// Modes of validations.
const (
	ValidationWarn   = "warn"
	ValidationRefuse = "refuse"
)

// Refuses reports whether objects that break the rule refuse their app, in a policy of a mode.
func (v Validation) Refuses(policyMode string) bool {
	return v.Mode == ValidationRefuse || v.Mode == "" && policyMode == PolicyStrict
}

// Quota bounds what a project uses. The lowest number of all its policies holds.
type Quota struct {
	Deployments *int64 `json:"deployments,omitempty"` // instantiated deployment intent groups; no number: no limit
	Clusters    *int64 `json:"clusters,omitempty"`    // clusters of one deployment; no number: no limit
	Operations  *int64 `json:"operations,omitempty"`  // actions at the same time that make a revision; no number: no limit
	Targets     *int64 `json:"targets,omitempty"`     // clusters of each deployment, added up over the project; no number: no limit
	Objects     *int64 `json:"objects,omitempty"`     // rendered objects on all clusters of all deployments; no number: no limit
	Bytes       *int64 `json:"bytes,omitempty"`       // of these objects; no number: no limit
}

// Names of quotas: the members of Quota.
const (
	QuotaDeployments = "deployments"
	QuotaClusters    = "clusters"
	QuotaOperations  = "operations"
	QuotaTargets     = "targets"
	QuotaObjects     = "objects"
	QuotaBytes       = "bytes"
)

// QuotaLimit is the limit of a quota; nil: there is none.
type QuotaLimit struct {
	Name  string
	Limit *int64
}

// Limits returns the limit of each quota, in order of name.
func (q Quota) Limits() []QuotaLimit {
	return []QuotaLimit{
		{QuotaBytes, q.Bytes},
		{QuotaClusters, q.Clusters},
		{QuotaDeployments, q.Deployments},
		{QuotaObjects, q.Objects},
		{QuotaOperations, q.Operations},
		{QuotaTargets, q.Targets},
	}
}

// ProjectUsage is what a project uses of its quotas.
type ProjectUsage struct {
	Project string       `json:"project"`
	Quotas  []QuotaUsage `json:"quotas"` // in order of name
}

// QuotaUsage is the use of one quota.
type QuotaUsage struct {
	Name   string `json:"name"`             // a member of Quota
	Used   *int64 `json:"used,omitempty"`   // none for "clusters", which bounds each deployment alone
	Limit  *int64 `json:"limit,omitempty"`  // none: there is no limit
	Policy string `json:"policy,omitempty"` // the policy that sets the limit
}

// Modes of policies.
const (
	PolicyReport = "report" // deliver, with findings
	PolicyStrict = "strict" // refuse
)

// What a policy does with rendered Secrets.
const (
	SecretsAllow  = "allow"
	SecretsRefuse = "refuse"
	SecretsSeal   = "seal"
)

// Rules that a policy may allow to be broken.
const (
	RuleNamespaces    = "namespaces"     // objects in other namespaces than the allowed ones
	RuleClusterScoped = "cluster-scoped" // objects that belong to the whole cluster
	RuleDefinitions   = "definitions"    // CustomResourceDefinitions
	RuleWebhooks      = "webhooks"       // webhooks, admission policies and APIServices
	RulePermissions   = "permissions"    // roles, bindings and tokens that give more than their namespace
	RuleHost          = "host"           // hostPath, hostNetwork and other access of pods to their node
	RulePrivileged    = "privileged"     // privileged containers, and capabilities beyond the runtime's
	RuleGitOps        = "gitops"         // objects that make a reconciler apply other content
	RuleExternalIPs   = "external-ips"   // services that take over addresses
	RuleSecrets       = "secrets"        // values in Secrets, if the policy refuses them
	RuleDuplicates    = "duplicates"     // objects that another app places on the same cluster
	RuleKinds         = "kinds"          // kinds that the policy neither knows nor allows, and denied ones
)

// PolicyRules lists the rules, sorted.
func PolicyRules() []string {
	return []string{
		RuleClusterScoped, RuleDefinitions, RuleDuplicates, RuleExternalIPs, RuleGitOps, RuleHost,
		RuleKinds, RuleNamespaces, RulePermissions, RulePrivileged, RuleWebhooks,
	}
}

// Bounds of a policy.
const (
	maxPolicyItems = 200 // of each list of names and patterns
	maxValidations = 50
	maxVariables   = 20
	maxMessage     = 1024 // characters
)

// variableName is an identifier of CEL.
var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// maxVariableName is the longest name of a variable.
const maxVariableName = 63

// normalize makes an absent mode "report".
func (p *Policy) normalize() {
	if p.Spec.Mode == "" {
		p.Spec.Mode = PolicyReport
	}
}

// Validate checks metadata, names, patterns and rules.
func (p *Policy) Validate() error {
	c := begin(&p.Named)
	if p.Spec.LogicalCloud != "" {
		c.name("spec.logicalCloud", p.Spec.LogicalCloud)
	}
	if p.Spec.Mode != PolicyReport && p.Spec.Mode != PolicyStrict {
		c.fail("spec.mode", "%s is neither \"report\" nor \"strict\"", quote(p.Spec.Mode))
	}
	if s := p.Spec.Secrets; !slices.Contains([]string{"", SecretsAllow, SecretsRefuse, SecretsSeal}, s) {
		c.fail("spec.secrets", "%s is neither \"allow\" nor \"refuse\" nor \"seal\"", quote(s))
	}
	p.Spec.Quota.check(c, p.Spec.LogicalCloud)
	for _, rule := range p.Spec.Allow {
		if !slices.Contains(PolicyRules(), rule) {
			c.fail("spec.allow", "%s is no rule; there are %s", quote(rule), strings.Join(PolicyRules(), ", "))
		}
	}
	c.patterns("spec.namespaces", p.Spec.Namespaces)
	c.patterns("spec.kinds", p.Spec.Kinds)
	c.patterns("spec.denyKinds", p.Spec.DenyKinds)
	p.Spec.checkValidations(c)
	return c.err()
}

// patterns requires names or patterns of them.
func (c *violationList) patterns(field string, items []string) {
	if len(items) > maxPolicyItems {
		c.fail(field, "has %d items; at most %d are allowed", len(items), maxPolicyItems)
	}
	for _, item := range items {
		if _, err := path.Match(item, ""); err != nil || item == "" || len(item) > MaxName {
			c.fail(field, "%s is no name or pattern", quote(item))
		}
	}
}

// checkValidations checks names and bounds. What compiles the expressions checks them.
func (s PolicySpec) checkValidations(c *violationList) {
	if n := len(s.Variables); n > maxVariables {
		c.fail("spec.variables", "has %d items; at most %d are allowed", n, maxVariables)
	}
	if n := len(s.Validations); n > maxValidations {
		c.fail("spec.validations", "has %d items; at most %d are allowed", n, maxValidations)
	}
	variables, rules := map[string]bool{}, map[string]bool{} // by name
	for i, v := range s.Variables {
		at := fmt.Sprintf("spec.variables[%d]", i)
		if len(v.Name) > maxVariableName || !variableName.MatchString(v.Name) {
			c.fail(at+".name", "%s is no name of a variable; use up to 63 letters, digits and '_', and no digit first", quote(v.Name))
		}
		if variables[v.Name] {
			c.fail(at+".name", "%s is the name of an earlier variable", quote(v.Name))
		}
		variables[v.Name] = true
		c.expression(at+".expression", v.Expression)
	}
	for i, v := range s.Validations {
		at := fmt.Sprintf("spec.validations[%d]", i)
		c.name(at+".name", v.Name)
		if rules[v.Name] || slices.Contains(append(PolicyRules(), RuleSecrets), v.Name) {
			c.fail(at+".name", "%s is the name of another rule", quote(v.Name))
		}
		rules[v.Name] = true
		c.patterns(at+".kinds", v.Kinds)
		c.expression(at+".expression", v.Expression)
		if strings.TrimSpace(v.Message) == "" {
			c.fail(at+".message", "missing; say what is wrong with an object that breaks the rule")
		}
		c.text(at+".message", v.Message, maxMessage)
		if !slices.Contains([]string{"", ValidationWarn, ValidationRefuse}, v.Mode) {
			c.fail(at+".mode", "%s is neither \"warn\" nor \"refuse\"", quote(v.Mode))
		}
	}
}

// expression requires a text of the length of an expression.
func (c *violationList) expression(field, s string) {
	switch {
	case s == "":
		c.fail(field, "missing")
	case len(s) > maxExpression:
		c.fail(field, "%d bytes long, at most %d are allowed", len(s), maxExpression)
	}
}

// check records negative numbers, and a quota of a logical cloud.
func (q *Quota) check(c *violationList, cloud string) {
	if q == nil {
		return
	}
	if cloud != "" {
		c.fail("spec.quota", "counts for a project; leave logicalCloud out")
	}
	for _, l := range q.Limits() {
		if l.Limit != nil && *l.Limit < 0 {
			c.fail("spec.quota."+l.Name, "must not be negative")
		}
	}
}
