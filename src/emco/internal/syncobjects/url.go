package syncobjects

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"path"
	"strconv"
	"strings"

	"github.com/emco-orchestrator/emco/src/api/outbound"
)

// Rules restrict the repositories that a sync object may name. The zero Rules are the default.
type Rules struct {
	AllowFile bool            // repositories on this machine's disk, by file:///path
	PlainHTTP bool            // http:// to other machines: credentials and content are readable on the way
	Outbound  outbound.Policy // hosts that may be named; whoever dials checks again
}

// anyTransport returns rules for what is no Git repository: whoever publishes there decides
// about http://.
func (r Rules) anyTransport() Rules {
	r.PlainHTTP = true
	return r
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
	if err := r.Outbound.CheckHost(host); err != nil {
		return repoLocation{}, errors.New(err.Error()) // it is the sync object that is wrong
	}
	if u.Scheme == "http" && !r.PlainHTTP && !outbound.Loopback(host) {
		return repoLocation{}, errors.New("would send credentials in the clear; use https, or have the operator set git.plainHTTP")
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
