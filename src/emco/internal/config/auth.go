package config

import (
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/emco-orchestrator/emco/src/api/outbound"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
)

// Authenticates reports whether callers must authenticate.
func (c Config) Authenticates() bool {
	if c.Auth.Mode != "" {
		return c.Auth.Mode == authOn
	}
	beyond := func(address string) bool { return address != "" && !(listenAddress{address: address}).loopback() }
	open := c.HTTP.ClientCA == "" && !c.HTTP.Insecure && (beyond(c.HTTP.Address) || beyond(c.GRPC.Address))
	return len(c.Auth.Issuers) > 0 || open
}

// authMode returns the mode of authentication that is in force.
func (c Config) authMode() string {
	if c.Authenticates() {
		return authOn
	}
	return authOff
}

const (
	authOn        = "on"
	authOff       = "off"
	tlsTerminated = "terminated"
)

// validateAuth reports what is wrong with the settings of who may use the API.
func (c Config) validateAuth(bad reporter) {
	if !slices.Contains([]string{"", authOn, authOff}, c.Auth.Mode) {
		bad("auth.mode", "%q is neither on nor off", c.Auth.Mode)
	}
	if c.Auth.Requests < 0 {
		bad("auth.requests", "must not be negative")
	}
	if len(c.Auth.FourEyes) > 0 && !c.Authenticates() {
		bad("auth.fourEyes", "it needs auth.mode on: without it EMCO does not know who changes something")
	}
	for _, p := range c.Auth.FourEyes {
		if p != "*" && v2.CheckName("project", p) != nil {
			bad("auth.fourEyes", "%q is neither the name of a project nor *", p)
		}
	}
	if _, err := c.HTTP.TrustedProxies(); err != nil {
		bad("http.trustedProxies", "%v", err)
	}
	if c.HTTP.TLS != "" && c.HTTP.TLS != tlsTerminated {
		bad("http.tls", "%q is not terminated", c.HTTP.TLS)
	}
	names := map[string]bool{}
	for _, i := range c.Auth.Issuers {
		if i.Name == "" || i.URL == "" || i.Audience == "" {
			bad("auth.issuers", "each issuer needs name, url and audience")
		}
		if names[i.Name] {
			bad("auth.issuers", "two issuers are called %q", i.Name)
		}
		names[i.Name] = true
		c.validateWeb(bad, i)
	}
	c.Auth.Sessions.validate(bad)
	if (c.Auth.Proxy.Header == "") != (len(c.Auth.Proxy.Names) == 0) {
		bad("auth.proxy", "auth.proxy.header and auth.proxy.names are needed together")
	}
	if c.Auth.Proxy.Header != "" && c.HTTP.ClientCA == "" {
		bad("auth.proxy.names", "certificates of gateways need http.clientCA")
	}
	if c.HTTP.ClientCA != "" && c.Auth.Mode == "" && !c.Authenticates() {
		bad("auth.mode", "http.clientCA needs a decision: on, so that a certificate names its user and roles decide what the user may do; or off, so that every holder of a certificate may do everything")
	}
	if !c.Authenticates() || c.HTTP.Insecure || c.HTTP.Cert != "" || c.HTTP.TLS == tlsTerminated {
		return
	}
	for _, a := range []listenAddress{{setting: "http.address", address: c.HTTP.Address}, {setting: "grpc.address", address: c.GRPC.Address}} {
		if a.address != "" && a.malformed() == nil && !a.loopback() {
			bad(a.setting, "%s is reachable from other machines, where tokens must not travel in the clear: set http.cert and http.certKey, or http.tls to terminated if something in front ends TLS; or listen on 127.0.0.1, or set http.insecure if the network protects the address", a.address)
		}
	}
}

// CallbackPath is where providers send browsers back to.
const CallbackPath = "/v2/auth/callback"

// validateWeb reports what is wrong with how browsers sign in at an issuer.
func (c Config) validateWeb(bad reporter, i Issuer) {
	if i.Web == (IssuerWeb{}) {
		return
	}
	u, err := url.Parse(i.Web.Redirect)
	switch {
	case i.Web.Client == "" || i.Web.Redirect == "":
		bad("auth.issuers", "%s: web needs client and redirect", i.Name)
	case !c.Authenticates():
		bad("auth.issuers", "%s: web needs auth.mode on", i.Name)
	case err != nil || u.User != nil || u.Host == "" || i.Web.Redirect != u.Scheme+"://"+u.Host+CallbackPath:
		bad("auth.issuers", "%s: web.redirect %q is not https://HOST%s", i.Name, i.Web.Redirect, CallbackPath)
	case u.Scheme != "https" && (u.Scheme != "http" || !outbound.Loopback(u.Hostname())):
		bad("auth.issuers", "%s: web.redirect needs https: browsers keep the cookies of sessions to TLS", i.Name)
	case !c.isCalled(u.Hostname()):
		bad("auth.issuers", "%s: web.redirect names %s, which is not in http.hosts", i.Name, u.Hostname())
	case i.Web.SignedOut != "" && !sameOrigin(u, i.Web.SignedOut):
		bad("auth.issuers", "%s: web.signedOut %q is not a page of %s://%s", i.Name, i.Web.SignedOut, u.Scheme, u.Host)
	}
}

// sameOrigin reports whether a text is a URL of the same server.
func sameOrigin(u *url.URL, text string) bool {
	other, err := url.Parse(text)
	return err == nil && other.Scheme == u.Scheme && other.Host == u.Host && other.User == nil && other.Fragment == ""
}

// isCalled reports whether the API answers requests for a host.
func (c Config) isCalled(host string) bool {
	if _, err := netip.ParseAddr(host); err == nil || outbound.Loopback(host) {
		return true
	}
	return slices.ContainsFunc(c.HTTP.Names(), func(name string) bool { return strings.EqualFold(name, host) })
}

// The limits of sessions.
const (
	longestSession  = 8 * time.Hour
	shortestSession = time.Minute
	mostSessions    = 100
)

func (s Sessions) validate(bad reporter) {
	if life := time.Duration(s.Life); life < shortestSession || life > longestSession {
		bad("auth.sessions.life", "must be between %s and %s", shortestSession, longestSession)
	}
	if idle := time.Duration(s.Idle); idle < shortestSession || idle > longestSession {
		bad("auth.sessions.idle", "must be between %s and %s", shortestSession, longestSession)
	}
	if s.Person < 1 || s.Person > mostSessions {
		bad("auth.sessions.person", "must be between 1 and %d", mostSessions)
	}
}
