package web

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Forwarded returns a handler of requests whose address is that of their client, see ClientAddress.
func Forwarded(trusted []netip.Prefix, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if client := ClientAddress(trusted, r.RemoteAddr, r.Header.Values("X-Forwarded-For")); client != r.RemoteAddr {
			r = r.WithContext(r.Context())
			r.RemoteAddr = client
		}
		next.ServeHTTP(w, r)
	})
}

// ClientAddress returns the address of the client behind a connection from an address, both as host:port: that of the connection, or with the port 0 what trusted
// proxies name in their values of X-Forwarded-For. Each proxy appends the address that it was called from, so the last one that is not trusted is
// the client's: the client can forge those before it.
func ClientAddress(trusted []netip.Prefix, from string, forwarded []string) string {
	trusts := func(ip netip.Addr) bool {
		return slices.ContainsFunc(trusted, func(p netip.Prefix) bool { return p.Contains(ip) })
	}
	peer, err := netip.ParseAddrPort(from)
	if err != nil || !trusts(plainAddr(peer.Addr())) {
		return from
	}
	client := plainAddr(peer.Addr())
	for _, hop := range slices.Backward(strings.Split(strings.Join(forwarded, ","), ",")) {
		ip, err := hopAddr(strings.TrimSpace(hop))
		if err != nil {
			break // the last proxy that is known is nearest to the client
		}
		if client = ip; !trusts(ip) {
			break
		}
	}
	return net.JoinHostPort(client.String(), "0")
}

// hopAddr reads an address as proxies write it, some with a port.
func hopAddr(text string) (netip.Addr, error) {
	if withPort, err := netip.ParseAddrPort(text); err == nil {
		return plainAddr(withPort.Addr()), nil
	}
	ip, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(text, "["), "]"))
	return plainAddr(ip), err
}

// plainAddr returns an address as prefixes contain it.
func plainAddr(ip netip.Addr) netip.Addr { return ip.Unmap().WithZone("") }
