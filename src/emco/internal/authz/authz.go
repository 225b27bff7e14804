// Package authz decides who may do what: roles allow verbs on types of things, bindings give roles to
// subjects at a place, and nothing is allowed otherwise. builtin.go lists the types of the built-in roles; a new resource
// belongs there.
package authz

import (
	"slices"
	"strings"
	"time"
)

// The verbs. An action has the verb of Act.
const (
	Get    = "get"
	List   = "list"
	Create = "create"
	Update = "update" // also creates what a PUT does not find
	Delete = "delete"
	Reveal = "reveal" // shows a credential

	// Public needs nothing: its route is open, or has credentials of its own.
	Public = "public"
	// SignedIn needs a caller, whoever it is. The route shows each caller only what it may see.
	SignedIn = "signed-in"
)

// Any stands for every verb, or every type, in a rule.
const Any = "*"

// Families of types: of the documents that referential schemas register.
const (
	OwnInProjects  = "project-resources"
	OwnInProviders = "provider-resources"
)

// Member returns a type of a family. A rule that names the family allows all of its types.
func Member(family, collection string) string { return family + "." + collection }

// Act returns the verb of an action.
func Act(action string) string { return "act:" + action }

// Permission is what a request needs.
type Permission struct {
	Verb string
	Type string // of the things: the name of their collection
	// Confined: the caller needs the permission in at least one place, and the route leaves out all other places.
	Confined bool
}

// String is the permission in messages: "update apps".
func (p Permission) String() string {
	if action, ok := strings.CutPrefix(p.Verb, "act:"); ok {
		return action + " " + p.Type
	}
	return p.Verb + " " + p.Type
}

// Rule allows each of its verbs on each of its types.
type Rule struct{ Verbs, Types []string }

func (r Rule) has(verb, typ string) bool { return holds(r.Verbs, verb) && holds(r.Types, typ) }

func holds(list []string, name string) bool {
	for _, l := range list {
		if l == name || l == Any || l == anyAction && strings.HasPrefix(name, "act:") || strings.HasPrefix(name, l+".") {
			return true
		}
	}
	return false
}

// anyAction stands for every action in a rule.
const anyAction = "act:*"

// Binding gives a role to subjects at a place and everything in it; or, with Deny, takes from them all that
// the role allows.
type Binding struct {
	Name     string // its path
	Role     string
	Subjects []string // user:…, group:…, token:…
	Place    string   // "" for everywhere, projects/NAME or cluster-providers/NAME
	Deny     bool
	Expires  time.Time // zero: never
}

// Grants are all bindings of a moment, with the rules of their roles. They do not change.
type Grants struct {
	bySubject map[string][]grant
}

// grant is a binding of one subject.
type grant struct {
	*Binding
	rules []Rule
}

func (g grant) live(now time.Time) bool { return g.Expires.IsZero() || now.Before(g.Expires) }

// covers reports whether the grant holds at a place.
func (g grant) covers(place string) bool { return g.Place == "" || g.Place == place }

func (g grant) has(verb, typ string) bool {
	for _, r := range g.rules {
		if r.has(verb, typ) {
			return true
		}
	}
	return false
}

// New returns the grants of bindings. A binding of a role that is neither among roles nor built in allows nothing, and
// denies everything.
func New(roles map[string][]Rule, bindings []Binding) *Grants {
	out := &Grants{bySubject: map[string][]grant{}}
	built := BuiltIn()
	for i := range bindings {
		b := &bindings[i]
		rules, known := built[b.Role]
		if !known {
			rules, known = roles[b.Role]
		}
		if !known && b.Deny {
			rules = []Rule{{[]string{Any}, []string{Any}}}
		}
		for _, s := range b.Subjects {
			out.bySubject[s] = append(out.bySubject[s], grant{b, rules})
		}
	}
	for _, grants := range out.bySubject {
		slices.SortStableFunc(grants, func(a, b grant) int { // what denies goes first
			switch {
			case a.Deny == b.Deny:
				return strings.Compare(a.Name, b.Name)
			case a.Deny:
				return -1
			}
			return 1
		})
	}
	return out
}

// Decision is the answer to a question, and the binding that gave it; without a binding nothing allows it.
type Decision struct {
	Allowed bool
	Binding *Binding
}

// Because explains the decision.
func (d Decision) Because() string {
	switch {
	case d.Binding == nil:
		return "no binding allows it"
	case d.Allowed:
		return "role " + d.Binding.Role + " by " + d.Binding.Name
	}
	return "denied by " + d.Binding.Name
}

// Decide reports whether a subject, or one of its groups, may do something at a place. What denies wins.
func (gs *Grants) Decide(subject string, groups []string, verb, typ, place string, now time.Time) Decision {
	d := gs.decide(subject, verb, typ, place, now)
	for _, g := range groups {
		if d.Binding != nil && !d.Allowed {
			return d
		}
		if of := gs.decide(g, verb, typ, place, now); of.Binding != nil && (d.Binding == nil || !of.Allowed) {
			d = of
		}
	}
	return d
}

// decide answers for one subject.
func (gs *Grants) decide(subject, verb, typ, place string, now time.Time) Decision {
	for _, g := range gs.bySubject[subject] { // what denies goes first
		if g.covers(place) && g.live(now) && g.has(verb, typ) {
			return Decision{!g.Deny, g.Binding}
		}
	}
	return Decision{}
}

// Anywhere reports whether a subject or one of its groups may do something at any place.
func (gs *Grants) Anywhere(subject string, groups []string, verb, typ string, now time.Time) bool {
	for g := range gs.all(subject, groups) {
		if !g.Deny && g.live(now) && g.has(verb, typ) && gs.Decide(subject, groups, verb, typ, g.Place, now).Allowed {
			return true
		}
	}
	return false
}

// all yields the grants of a subject and its groups.
func (gs *Grants) all(subject string, groups []string) func(func(grant) bool) {
	return func(yield func(grant) bool) {
		for _, s := range append([]string{subject}, groups...) {
			for _, g := range gs.bySubject[s] {
				if !yield(g) {
					return
				}
			}
		}
	}
}

// Missing returns the first verb and type of rules that a subject does not have at a place itself, so that it
// may not give them to anybody; empty if it has all.
func (gs *Grants) Missing(subject string, groups []string, rules []Rule, place string, now time.Time) string {
	for _, r := range rules {
		for _, verb := range r.Verbs {
			for _, typ := range r.Types {
				if !gs.Decide(subject, groups, verb, typ, place, now).Allowed {
					return Permission{Verb: verb, Type: typ}.String()
				}
			}
		}
	}
	for g := range gs.all(subject, groups) { // a part of what a wildcard stands for may be denied
		if g.Deny && g.live(now) && (g.covers(place) || place == "") && overlap(g.rules, rules) {
			return "what " + g.Name + " denies"
		}
	}
	return ""
}

func overlap(a, b []Rule) bool {
	some := func(a, b []string) bool {
		return slices.ContainsFunc(a, func(x string) bool { return holds(b, x) }) || slices.ContainsFunc(b, func(x string) bool { return holds(a, x) })
	}
	for _, x := range a {
		for _, y := range b {
			if some(x.Verbs, y.Verbs) && some(x.Types, y.Types) {
				return true
			}
		}
	}
	return false
}

// Holder is a subject that may do something, and why.
type Holder struct{ Subject, Role, Binding string }

// Who returns the subjects that bindings allow something at a place, in order. It does not know who is
// in a group.
func (gs *Grants) Who(verb, typ, place string, now time.Time) (out []Holder) {
	for s := range gs.bySubject {
		if d := gs.decide(s, verb, typ, place, now); d.Allowed {
			out = append(out, Holder{s, d.Binding.Role, d.Binding.Name})
		}
	}
	slices.SortFunc(out, func(a, b Holder) int { return strings.Compare(a.Subject, b.Subject) })
	return out
}

// tokens begins the names of bindings that documents of tokens make.
const tokens = "tokens/"

// HasAdmin reports whether a subject is bound to the role platform-admin everywhere.
func (gs *Grants) HasAdmin(now time.Time) bool {
	for _, grants := range gs.bySubject {
		for _, g := range grants {
			if g.Role == PlatformAdmin && !g.Deny && g.Place == "" && g.live(now) && !strings.HasPrefix(g.Name, tokens) {
				return true
			}
		}
	}
	return false
}
