package github

import "net/http"

// Through makes a host that sends its requests by t and not by the network.
func Through(t http.RoundTripper, o Options) *Host {
	h := New(o)
	h.server.Transport = t
	return h
}
