// Package authn finds out who sends a request: from a bearer token (an API token, or one of an OpenID Connect
// provider), a client certificate, the header of a proxy that is known by its certificate, or the session of a browser.
package authn

import (
	"context"
	"slices"
	"time"
	"unicode"
	"unicode/utf8"
)

// Caller is who sends a request.
type Caller struct {
	Subject string    // user:…, token:…; empty: unknown
	UID     string    // of an API token: those before and after it with the same name have others
	Groups  []string  // group:…, sorted
	Via     string    // how it is known: oidc, session, token, certificate, proxy, bootstrap
	Until   time.Time // when its credential ends; zero: not known
}

// Subjects yields the caller and its groups, as bindings name them.
func (c Caller) Subjects() []string {
	if c.Subject == "" {
		return nil
	}
	return append([]string{c.Subject}, c.Groups...)
}

type callerKey struct{}

// With returns a context of a request of the caller.
func With(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// From returns the caller of the request that ctx belongs to; the zero Caller if there is none.
func From(ctx context.Context) Caller {
	c, _ := ctx.Value(callerKey{}).(Caller)
	return c
}

// maxName is the length of the longest name of a person or group, in bytes.
const maxName = 256

// ValidName reports whether a name may be part of a subject: 1 to 256 bytes, printable, without spaces.
func ValidName(name string) bool {
	if name == "" || len(name) > maxName || !utf8.ValidString(name) {
		return false
	}
	for _, r := range name {
		if !unicode.IsPrint(r) || unicode.IsSpace(r) {
			return false
		}
	}
	return true
}

// groupsOf makes subjects of the names of groups; names that cannot be part of a subject are left out.
func groupsOf(prefix string, names []string) []string {
	var out []string
	for _, n := range names {
		if ValidName(n) {
			out = append(out, "group:"+prefix+n)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// User returns the caller of a name and of groups that share a prefix.
func User(prefix, name string, groups []string, via string) Caller {
	return Caller{Subject: "user:" + prefix + name, Groups: groupsOf(prefix, groups), Via: via}
}
