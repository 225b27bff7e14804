package authz

import (
	"context"
	"strings"
	"time"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
)

// Authority is what one caller may do, at the moment of its request. A nil Authority may do everything: this
// program does not authenticate.
type Authority struct {
	grants  *Grants
	subject string
	groups  []string
	now     time.Time
}

// NewAuthority returns what a subject and its groups may do by grants.
func NewAuthority(g *Grants, subject string, groups []string, now time.Time) *Authority {
	return &Authority{g, subject, groups, now}
}

// modeOff stands for a binding where requests are not authenticated.
const modeOff = "auth.mode off"

// May reports whether the caller may do something at a place.
func (a *Authority) May(verb, typ, place string) bool { return a.Decide(verb, typ, place).Allowed }

// Decide is May with the reason.
func (a *Authority) Decide(verb, typ, place string) Decision {
	if a == nil {
		return Decision{Allowed: true, Binding: &Binding{Name: modeOff, Role: PlatformAdmin}}
	}
	return a.grants.Decide(a.subject, a.groups, verb, typ, place, a.now)
}

// Anywhere reports whether the caller may do something at any place.
func (a *Authority) Anywhere(verb, typ string) bool {
	return a == nil || a.grants.Anywhere(a.subject, a.groups, verb, typ, a.now)
}

// Missing returns what of some rules the caller does not have at a place itself; empty if it has all.
func (a *Authority) Missing(rules []Rule, place string) string {
	if a == nil {
		return ""
	}
	return a.grants.Missing(a.subject, a.groups, rules, place, a.now)
}

// MissingOf returns the first binding that gives a subject by its name what the caller does not have itself, and what that is;
// empty if the caller has all. What a token's own document gives it does not count.
func (a *Authority) MissingOf(subject string) (binding, missing string) {
	if a == nil {
		return "", ""
	}
	for _, g := range a.grants.bySubject[subject] {
		if g.Deny || !g.live(a.now) || strings.HasPrefix(g.Name, tokens) {
			continue
		}
		if missing := a.Missing(g.rules, g.Place); missing != "" {
			return g.Name, missing
		}
	}
	return "", ""
}

// Who returns the subjects that may do something at a place. Without authentication that is Everyone.
func (a *Authority) Who(verb, typ, place string) []Holder {
	if a == nil {
		return []Holder{{Subject: v2.Everyone, Role: PlatformAdmin, Binding: modeOff}}
	}
	return a.grants.Who(verb, typ, place, a.now)
}

type (
	authorityKey struct{}
	renewalKey   struct{}
)

// With returns a context of a request with an authority.
func With(ctx context.Context, a *Authority) context.Context {
	return context.WithValue(ctx, authorityKey{}, a)
}

// From returns the authority of the request that ctx belongs to; nil, which may do everything, without one.
func From(ctx context.Context) *Authority {
	a, _ := ctx.Value(authorityKey{}).(*Authority)
	return a
}

// WithRenewal returns a context of a request whose answer goes on for long; renew returns what its caller may do
// at that moment, or why the request is no longer admitted.
func WithRenewal(ctx context.Context, renew func() (*Authority, error)) context.Context {
	return context.WithValue(ctx, renewalKey{}, renew)
}

// Renewed returns what the caller of the request that ctx belongs to may do now.
func Renewed(ctx context.Context) (*Authority, error) {
	if renew, ok := ctx.Value(renewalKey{}).(func() (*Authority, error)); ok {
		return renew()
	}
	return From(ctx), nil
}
