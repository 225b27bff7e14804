package v2

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Limits of roles and bindings.
const (
	maxRules    = 64
	maxSubjects = 256
	maxSubject  = 512 // bytes
)

// BuiltInRoles returns the names of the roles that are built in.
func BuiltInRoles() []string {
	return []string{"viewer", "deployer", "approver", "project-admin", "cluster-registrar", "auditor", "platform-admin"}
}

// Role says what its holders may do. Nothing is allowed that no role allows. The roles that are built in
// are no documents.
type Role struct {
	Named
	Spec RoleSpec `json:"spec"` // what it allows
}

// RoleSpec is the body of a role.
type RoleSpec struct {
	Rules []RoleRule `json:"rules"` // each allows each of its verbs on each of its types
}

// RoleRule is a rule of a role.
type RoleRule struct {
	Verbs []string `json:"verbs"` // "get", "list", "create", "update", "delete", "reveal", an action such as "act:instantiate", "act:*", or "*"
	Types []string `json:"types"` // names of collections, such as "apps", or "*"
}

// Validate checks a role.
func (r *Role) Validate() error {
	c := begin(&r.Named)
	if len(r.Spec.Rules) == 0 {
		c.fail("spec.rules", "missing")
	}
	c.between("spec.rules", len(r.Spec.Rules), 0, maxRules)
	for i, rule := range r.Spec.Rules {
		at := fmt.Sprintf("spec.rules[%d]", i)
		if len(rule.Verbs) == 0 || len(rule.Types) == 0 {
			c.fail(at, "verbs and types are needed")
		}
		for _, v := range rule.Verbs {
			action, acts := strings.CutPrefix(v, "act:")
			if !slices.Contains([]string{"get", "list", "create", "update", "delete", "reveal", "*"}, v) && (!acts || action != "*" && !ValidName(action)) {
				c.fail(at+".verbs", "%s is no verb", quote(v))
			}
		}
		for _, t := range rule.Types {
			if t != "*" && !ValidName(t) {
				c.fail(at+".types", "%s is no name of a collection", quote(t))
			}
		}
	}
	return c.err()
}

// RoleBinding gives a role to subjects. It holds for everything that is below its parent: below
// /v2/role-bindings everywhere, in a project or a cluster provider only there.
type RoleBinding struct {
	Named
	Spec RoleBindingSpec `json:"spec"` // who gets what
}

// RoleBindingSpec is the body of a binding.
type RoleBindingSpec struct {
	Role     string   `json:"role"`              // one that is built in, or a role of /v2/roles
	Subjects []string `json:"subjects"`          // "user:ISSUER:NAME", "group:ISSUER:NAME" or "token:NAME"
	Deny     bool     `json:"deny,omitempty"`    // takes what the role allows from the subjects, whoever else gives it
	Expires  string   `json:"expires,omitempty"` // when the binding ends, such as "2027-01-01T00:00:00Z"; empty: never
}

// Validate checks a binding.
func (b *RoleBinding) Validate() error {
	c := begin(&b.Named)
	c.name("spec.role", b.Spec.Role)
	if len(b.Spec.Subjects) == 0 {
		c.fail("spec.subjects", "missing")
	}
	c.between("spec.subjects", len(b.Spec.Subjects), 0, maxSubjects)
	for _, s := range b.Spec.Subjects {
		if !validSubject(s) {
			c.fail("spec.subjects", "%s is not of the form user:ISSUER:NAME, group:ISSUER:NAME or token:NAME", quote(s))
		}
	}
	if b.Spec.Expires != "" {
		if _, err := time.Parse(time.RFC3339, b.Spec.Expires); err != nil {
			c.fail("spec.expires", "%s is not a time such as 2027-01-01T00:00:00Z", quote(b.Spec.Expires))
		}
	}
	return c.err()
}

// Ends returns when the binding ends; zero if it does not.
func (b *RoleBinding) Ends() time.Time {
	at, err := time.Parse(time.RFC3339, b.Spec.Expires)
	if err != nil {
		return time.Time{}
	}
	return at
}

func validSubject(s string) bool {
	kind, name, _ := strings.Cut(s, ":")
	if kind == "token" {
		return ValidName(name)
	}
	return (kind == "user" || kind == "group") && name != "" && len(s) <= maxSubject && !strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == 0x7f })
}
