package web

import "net/netip"

// Network returns the address of a client without its port; of IPv6 the part that belongs to one customer.
func Network(address string) string {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return "an unknown address"
	}
	ip := at.Addr().Unmap().WithZone("")
	if ip.Is4() {
		return ip.String()
	}
	const customer = 64 // bits
	return netip.PrefixFrom(ip, customer).Masked().String()
}
