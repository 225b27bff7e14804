package transport

import (
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

// DialTimeout bounds how long it may take to connect, and to agree on a secure channel.
const DialTimeout = 10 * time.Second

// Dialer connects to addresses unless admit returns an error for them. It calls admit after name
// resolution, when a name can no longer change its address.
func Dialer(admit func(netip.Addr) error) *net.Dialer {
	return &net.Dialer{Timeout: DialTimeout, Control: func(_, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return err
		}
		return admit(at.Addr())
	}}
}

// AdmitPublic refuses addresses that cannot be servers, but at which cloud machines hand out their
// credentials. It returns Forbidden.
func AdmitPublic(a netip.Addr) error {
	a = a.Unmap()
	if a.IsLinkLocalUnicast() || a.IsMulticast() || a.IsUnspecified() {
		return errs.E(errs.Forbidden, "dial", "", fmt.Errorf("address %s is not one that a server may have", a))
	}
	return nil
}
