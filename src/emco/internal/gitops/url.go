package gitops

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"path"
	"strconv"
	"strings"
)

// Rules restrict the repositories that a sync object may name. The zero Rules are the default.
type Rules struct {
	AllowFile bool                    // repositories on this machine's disk, by file:///path
	Deny      func(host string) error // refuses a host with a reason; nil means DenyLinkLocal
}

// DenyLinkLocal refuses addresses that are never a Git server but often a cloud's
// metadata service. Names are not resolved here: whoever dials must check again.
func DenyLinkLocal(host string) error {
	return denyWhere(host, "link-local, multicast and unspecified addresses are not allowed", func(a netip.Addr) bool {
		return a.IsLinkLocalUnicast() || a.IsMulticast() || a.IsUnspecified()
	})
}

// DenyPrivate refuses what DenyLinkLocal refuses, and the addresses of this machine
// and of private networks.
func DenyPrivate(host string) error {
	if strings.EqualFold(host, "localhost") || strings.HasSuffix(strings.ToLower(host), ".localhost") {
		return errors.New("this machine is not allowed as a host")
	}
	if err := DenyLinkLocal(host); err != nil {
		return err
	}
	return denyWhere(host, "private addresses are not allowed", func(a netip.Addr) bool {
		return a.IsLoopback() || a.IsPrivate()
	})
}

// denyWhere refuses hosts that are addresses of a certain sort.
func denyWhere(host, reason string, sort func(netip.Addr) bool) error {
	addr, err := netip.ParseAddr(host)
	if err == nil && sort(addr.Unmap()) {
		return errors.New(reason)
	}
	return nil
}

// oddAddress reports whether a host is an address in a form that some resolvers take
// and checks miss: 2130706433, 0x7f.1, 127.1, or one that ends in a dot.
func oddAddress(host string) bool {
	if _, err := netip.ParseAddr(host); err == nil {
		return false
	}
	last := host[strings.LastIndexByte(strings.TrimSuffix(host, "."), '.')+1:]
	_, err := strconv.ParseUint(strings.TrimSuffix(last, "."), 0, 64)
	return err == nil
}

// repoLocation is a checked URL.
type repoLocation struct {
	scheme string
	text   string // without userinfo
	user   string // login name that an ssh URL carried
	path   string
}

// check takes a repository's URL apart and refuses what is no plain address of a
// repository: other transports, credentials, queries, paths that climb.
func (r Rules) check(text string) (repoLocation, error) {
	if strings.ContainsFunc(text, control) || strings.ContainsAny(text, " \\") {
		return repoLocation{}, errors.New("holds a blank, a backslash or a control character")
	}
	u, err := url.Parse(text)
	if err != nil || u.Opaque != "" || !strings.Contains(text, "://") {
		return repoLocation{}, errors.New("is not a URL; write https://host/path or ssh://git@host/path")
	}
	if u.RawQuery != "" || u.Fragment != "" || u.ForceQuery {
		return repoLocation{}, errors.New("has a query or a fragment")
	}
	if u.Path == "" || u.Path == "/" || path.Clean(u.Path) != strings.TrimSuffix(u.Path, "/") {
		return repoLocation{}, errors.New("does not name a repository by a clean path")
	}
	switch u.Scheme {
	case "http", "https", "ssh":
		return r.remote(u)
	case "file":
		return r.local(u)
	}
	return repoLocation{}, fmt.Errorf("scheme %q is not allowed; use https, http or ssh", u.Scheme)
}

// remote checks a URL with a host.
func (r Rules) remote(u *url.URL) (repoLocation, error) {
	host := u.Hostname()
	if host == "" || strings.HasPrefix(host, "-") {
		return repoLocation{}, errors.New("has no host")
	}
	if oddAddress(host) {
		return repoLocation{}, errors.New("writes an address in an unusual form")
	}
	out := repoLocation{scheme: u.Scheme, path: u.Path}
	if u.User != nil {
		_, password := u.User.Password()
		if password || u.Scheme != "ssh" {
			return repoLocation{}, fmt.Errorf("holds a credential; put it into %s and %s", keyUser, keyToken)
		}
		out.user = u.User.Username()
	}
	deny := r.Deny
	if deny == nil {
		deny = DenyLinkLocal
	}
	if err := deny(host); err != nil {
		return repoLocation{}, err
	}
	bare := *u
	bare.User = nil
	out.text = bare.String()
	return out, nil
}

// local checks a file URL.
func (r Rules) local(u *url.URL) (repoLocation, error) {
	if !r.AllowFile {
		return repoLocation{}, errors.New("file:// is not allowed here; use https, http or ssh")
	}
	if u.Host != "" || u.User != nil {
		return repoLocation{}, errors.New("a file URL has no host; write file:///path")
	}
	return repoLocation{scheme: "file", path: u.Path, text: u.String()}, nil
}
