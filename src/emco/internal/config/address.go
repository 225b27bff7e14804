package config

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"
)

// listenAddress is an address that the program listens on.
type listenAddress struct {
	setting, address string
	open             bool // everyone who reaches it may use it: its clients need no certificate, and it changes something or shows secrets
}

// debugAddress is the setting of the profiler's address, which nothing but the network can protect.
const debugAddress = "debug.address"

// addresses returns what the program listens on.
func (c Config) addresses() (out []listenAddress) {
	open := c.HTTP.ClientCA == "" && !c.Authenticates()
	for _, a := range []listenAddress{
		{"http.address", c.HTTP.Address, open},
		{"grpc.address", c.GRPC.Address, open},
		{"ops.address", c.Ops.Address, false},
		{debugAddress, c.Debug.Address, true},
	} {
		if a.address != "" {
			out = append(out, a)
		}
	}
	return out
}

// check wants host:port, where the port may be 0, and a host on loopback if the address is open, unless
// insecure is set.
func (a listenAddress) check(bad reporter, insecure bool) {
	err := a.malformed()
	switch {
	case err != nil:
		bad(a.setting, "%q is no address of the form host:port: %v", a.address, err)
	case !a.open || a.loopback() || insecure:
	case a.setting == debugAddress:
		bad(a.setting, "%s is reachable from other machines, and profiles show secrets to everyone who reaches them: listen on 127.0.0.1, and go there from elsewhere through a tunnel (ssh -L, kubectl port-forward); http.insecure would allow it, and also http.address and grpc.address without protection", a.address)
	default:
		bad(a.setting, "%s is reachable from other machines, and auth.mode is off; set auth.mode to on, with http.cert and http.certKey, or listen on 127.0.0.1 behind a gateway that authenticates, or give clients certificates (http.cert, http.certKey and http.clientCA), or set http.insecure if the network protects the address", a.address)
	}
}

// malformed returns why the address is not host:port; nil if it is.
func (a listenAddress) malformed() error {
	_, port, err := net.SplitHostPort(a.address)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	return err
}

// checkDistinct wants addresses that can all be listened on.
func checkDistinct(bad reporter, all []listenAddress) {
	for i, a := range all {
		for _, earlier := range all[:i] {
			if a.overlaps(earlier) {
				bad(a.setting, "%s and %s, of %s, are the same port of this machine", a.address, earlier.address, earlier.setting)
			}
		}
	}
}

// overlaps reports whether only one of two addresses can be listened on. Port 0 is a free one for each.
func (a listenAddress) overlaps(other listenAddress) bool {
	if a.malformed() != nil || other.malformed() != nil {
		return false
	}
	host, port := a.parts()
	otherHost, otherPort := other.parts()
	return port != 0 && port == otherPort && (host == otherHost || host == everyHost || otherHost == everyHost)
}

// everyHost is the host of an address that listens on all addresses of the machine.
const everyHost = "*"

// parts returns host and port in one form for each host: *, an IP address, or a name.
func (a listenAddress) parts() (host string, port int) {
	host, service, _ := net.SplitHostPort(a.address)
	port, _ = net.LookupPort("tcp", service)
	if strings.EqualFold(host, "localhost") {
		host = "127.0.0.1"
	}
	ip, err := netip.ParseAddr(host)
	switch {
	case host == "" || err == nil && ip.Unmap().IsUnspecified():
		return everyHost, port
	case err == nil:
		return ip.Unmap().String(), port
	}
	return strings.ToLower(host), port
}

// loopback reports whether only this machine reaches the address.
func (a listenAddress) loopback() bool {
	host, _, err := net.SplitHostPort(a.address)
	ip, _ := netip.ParseAddr(host)
	return err == nil && (strings.EqualFold(host, "localhost") || ip.Unmap().IsLoopback())
}

// Exposed returns the settings of open addresses that other machines reach.
func (c Config) Exposed() (settings []string) {
	for _, a := range c.addresses() {
		if a.open && !a.loopback() {
			settings = append(settings, a.setting)
		}
	}
	return settings
}

// lingerOutside is the default of http.linger where other machines reach the API.
const lingerOutside = 5 * time.Second

// LingerTime returns how long a stopping process goes on accepting.
func (h HTTP) LingerTime() time.Duration {
	if h.Linger == 0 && !(listenAddress{address: h.Address}).loopback() {
		return lingerOutside
	}
	return time.Duration(h.Linger)
}

// Names returns the host names that clients may call the API with.
func (h HTTP) Names() []string {
	host, _, err := net.SplitHostPort(h.Address)
	if err != nil || host == "" {
		return h.Hosts
	}
	return append([]string{host}, h.Hosts...)
}

// TrustedProxies returns the networks of http.trustedProxies.
func (h HTTP) TrustedProxies() ([]netip.Prefix, error) {
	var out []netip.Prefix
	for _, text := range h.Proxies {
		p, err := netip.ParsePrefix(text)
		if err == nil && p.Addr().Is4In6() && p.Bits() >= 96 { // clients have IPv4 addresses, see web.ClientAddress
			p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
		}
		if ip, ipErr := netip.ParseAddr(text); ipErr == nil {
			p, err = netip.PrefixFrom(ip.Unmap(), ip.Unmap().BitLen()), nil
		}
		switch {
		case err != nil:
			return nil, fmt.Errorf("%q is neither an address nor a network, such as 10.0.0.0/24", text)
		case p.Bits() == 0:
			return nil, fmt.Errorf("%s is every address, so each client could name another one; name the proxies", text)
		}
		out = append(out, p)
	}
	return out, nil
}
