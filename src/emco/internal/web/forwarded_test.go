package web_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

func TestOnlyTrustedProxiesNameClients(t *testing.T) {
	t.Parallel()
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
	for name, c := range map[string]struct {
		peer string
		hops []string
		want string
	}{
		"a client without a proxy":       {"192.0.2.1:5", nil, "192.0.2.1:5"},
		"a client that says it is one":   {"192.0.2.1:5", []string{"10.0.0.1"}, "192.0.2.1:5"},
		"a proxy for a client":           {"10.0.0.1:5", []string{"192.0.2.1"}, "192.0.2.1:0"},
		"a proxy that says nothing":      {"10.0.0.1:5", nil, "10.0.0.1:0"},
		"what the client said before it": {"10.0.0.1:5", []string{"198.51.100.7, 192.0.2.1"}, "192.0.2.1:0"},
		"two proxies":                    {"10.0.0.1:5", []string{"198.51.100.7, 192.0.2.1,10.0.0.2"}, "192.0.2.1:0"},
		"a header of each proxy":         {"10.0.0.1:5", []string{"198.51.100.7, 192.0.2.1", "10.0.0.2"}, "192.0.2.1:0"},
		"proxies alone":                  {"10.0.0.1:5", []string{"10.0.0.3, 10.0.0.2"}, "10.0.0.3:0"},
		"no address":                     {"10.0.0.1:5", []string{"192.0.2.1, unknown, 10.0.0.2"}, "10.0.0.2:0"},
		"IPv6, with ports":               {"[fd00::1]:5", []string{"[2001:db8::1]:443, [fd00::2]"}, "[2001:db8::1]:0"},
		"IPv4 in IPv6":                   {"[::ffff:10.0.0.1]:5", []string{"::ffff:192.0.2.1"}, "192.0.2.1:0"},
	} {
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/", nil)
		r.RemoteAddr = c.peer
		for _, h := range c.hops {
			r.Header.Add("X-Forwarded-For", h)
		}
		got := ""
		web.Forwarded(trusted, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.RemoteAddr })).ServeHTTP(httptest.NewRecorder(), r)
		if got != c.want || r.RemoteAddr != c.peer {
			t.Errorf("%s: the client is %s, want %s", name, got, c.want)
		}
	}
}
