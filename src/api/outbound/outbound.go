// Package outbound decides which servers a program may connect to for its users, and where
// credentials may go. All clients of servers that users name share these rules:
//
//   - an address is checked when it is dialled, after name resolution, when it can no longer
//     change; an address in a URL also when the URL is stored;
//   - addresses at which cloud machines hand out their credentials are always refused, private
//     addresses if the operator wants that;
//   - a redirect to another scheme, host or port carries no credentials.
//
// Prefixes is the operator's list of URLs below which requests for users may go. Client and Exchange make such requests and
// bound the answers. The package also has the connect timeout of these clients, and reads files of certificate authorities,
// for clients and servers.
package outbound

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

// DialTimeout bounds how long it may take to connect, and to agree on a secure channel.
const DialTimeout = 10 * time.Second

// Policy decides which addresses may be dialled. The zero Policy allows private ones.
type Policy struct {
	DenyPrivate bool // refuse this machine and private networks
}

var (
	// metadata are the addresses of metadata services outside of the link-local range: AWS
	// over IPv6, and Alibaba Cloud.
	metadata = []netip.Addr{netip.MustParseAddr("fd00:ec2::254"), netip.MustParseAddr("100.100.100.200")}
	// shared is the range between customers and carriers (RFC 6598).
	shared = netip.MustParsePrefix("100.64.0.0/10")
	// translated is the range where NAT64 embeds addresses of IPv4 (RFC 6052).
	translated = netip.MustParsePrefix("64:ff9b::/96")
)

// Check returns Forbidden for an address that must not be dialled.
func (p Policy) Check(a netip.Addr) error {
	if why := p.fault(plain(a)); why != "" {
		return errs.E(errs.Forbidden, "dial", "", fmt.Errorf("address %s is not allowed: %s", a, why))
	}
	return nil
}

// CheckHost returns Forbidden for a host of a URL that is an address which must not be
// dialled. It resolves no names: whoever dials must check again.
func (p Policy) CheckHost(host string) error {
	why := ""
	switch a, err := netip.ParseAddr(host); {
	case err == nil:
		why = p.fault(plain(a))
	case p.DenyPrivate && local(host):
		why = "it is this machine"
	}
	if why != "" {
		return errs.New(errs.Forbidden, "host "+host+" is not allowed: "+why)
	}
	return nil
}

// plain returns the address that packets to a reach in the end.
func plain(a netip.Addr) netip.Addr {
	a = a.Unmap().WithZone("")
	if translated.Contains(a) {
		b := a.As16()
		return netip.AddrFrom4([4]byte(b[12:]))
	}
	return a
}

func (p Policy) fault(a netip.Addr) string {
	switch {
	case a.IsLinkLocalUnicast():
		return "link-local addresses are those of metadata services"
	case a == metadata[0] || a == metadata[1]:
		return "a metadata service answers there"
	case a.IsMulticast() || a.IsUnspecified():
		return "no server has it"
	case p.DenyPrivate && (a.IsLoopback() || a.IsPrivate() || shared.Contains(a)):
		return "private addresses are refused here (outbound.denyPrivate)"
	}
	return ""
}

// Dialer returns a dialer that connects to the addresses that check accepts.
func Dialer(check func(netip.Addr) error) *net.Dialer {
	return &net.Dialer{Timeout: DialTimeout, Control: func(_, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return err
		}
		return check(at.Addr())
	}}
}

// Loopback reports whether a host of a URL is this machine. Names are not resolved.
func Loopback(host string) bool {
	a, err := netip.ParseAddr(host)
	return err == nil && a.Unmap().IsLoopback() || err != nil && local(host)
}

// Private reports whether others cannot read on its way what is sent to a URL.
func Private(u *url.URL) bool {
	return u.Scheme == "https" && u.Host != "" || u.Scheme == "http" && Loopback(u.Hostname())
}

func local(host string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// maxRedirects bounds the redirects that one request follows.
const maxRedirects = 3

// WithinServer is for http.Client.CheckRedirect. It lets a server move what it serves within
// itself, and nothing else.
func WithinServer(next *http.Request, via []*http.Request) error {
	switch {
	case via[0].Method != http.MethodGet:
		return errs.E(errs.Forbidden, "redirect", "", errors.New("the server redirects a request that carries data"))
	case Server(next.URL) != Server(via[0].URL):
		return errs.E(errs.Forbidden, "redirect", "", errors.New("the server redirects to another host; register the new URL"))
	}
	return few(via)
}

// WithoutCredentials is for http.Client.CheckRedirect of protocols whose servers refer to
// others, such as registries to their storage. Credentials stay with the first server, and a
// secure connection is never followed by a plain one.
func WithoutCredentials(next *http.Request, via []*http.Request) error {
	if Server(next.URL) != Server(via[0].URL) {
		next.Header.Del("Authorization")
		next.Header.Del("Cookie")
	}
	if next.URL.Scheme != via[0].URL.Scheme && next.URL.Scheme != "https" {
		return errs.E(errs.Forbidden, "redirect", "", errors.New("the server redirects to a connection without TLS"))
	}
	return few(via)
}

func few(via []*http.Request) error {
	if len(via) > maxRedirects {
		return errs.E(errs.Unavailable, "redirect", "", errors.New("the server redirects again and again"))
	}
	return nil
}

// Server returns scheme, host and port of a URL in one spelling: what credentials belong to.
func Server(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443", "ssh": "22", "oci": "443"}[u.Scheme]
	}
	return u.Scheme + "://" + net.JoinHostPort(strings.ToLower(strings.TrimSuffix(u.Hostname(), ".")), port)
}
