package web

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Forwarded returns a handler that reads the address of a client from the X-Forwarded-For of trusted proxies. Each proxy
// appends the address that it was called from, so the last one that is not trusted is the client's: the client
// can forge those before it.
func Forwarded(trusted []netip.Prefix, next http.Handler) http.Handler {
	trusts := func(ip netip.Addr) bool {
		return slices.ContainsFunc(trusted, func(p netip.Prefix) bool { return p.Contains(ip) })
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		peer, err := netip.ParseAddrPort(r.RemoteAddr)
		if err != nil || !trusts(plainAddr(peer.Addr())) {
			next.ServeHTTP(w, r)
			return
		}
		client := plainAddr(peer.Addr())
		for _, hop := range slices.Backward(strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")) {
			ip, err := hopAddr(strings.TrimSpace(hop))
			if err != nil {
				break // the last proxy that is known is nearest to the client
			}
			if client = ip; !trusts(ip) {
				break
			}
		}
		r = r.WithContext(r.Context())
		r.RemoteAddr = net.JoinHostPort(client.String(), "0")
		next.ServeHTTP(w, r)
	})
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
