package outbound_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/api/outbound"
)

// Metadata services are refused always, private addresses by setting.
func TestF75AddressesThatAreRefused(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]struct{ open, closed bool }{
		"169.254.169.254":        {false, false},
		"::ffff:169.254.169.254": {false, false},
		"64:ff9b::a9fe:a9fe":     {false, false},
		"fe80::1":                {false, false},
		"fe80::1%eth0":           {false, false},
		"fd00:ec2::254":          {false, false},
		"100.100.100.200":        {false, false},
		"::ffff:100.100.100.200": {false, false},
		"0.0.0.0":                {false, false},
		"224.0.0.1":              {false, false},
		"127.0.0.1":              {true, false},
		"::1":                    {true, false},
		"10.0.0.1":               {true, false},
		"192.168.1.1":            {true, false},
		"100.64.0.1":             {true, false},
		"fd12::1":                {true, false},
		"140.82.121.4":           {true, true},
		"2606:50c0:8000::154":    {true, true},
	} {
		a := netip.MustParseAddr(address)
		open, closed := outbound.Policy{}, outbound.Policy{DenyPrivate: true}
		if got := open.Check(a); (got == nil) != want.open || got != nil && !errs.Is(got, errs.Forbidden) {
			t.Errorf("%s: %v, want allowed: %v", address, got, want.open)
		}
		if got := closed.Check(a); (got == nil) != want.closed {
			t.Errorf("%s without private addresses: %v, want allowed: %v", address, got, want.closed)
		}
		if open.CheckHost(address) == nil != want.open || closed.CheckHost(address) == nil != want.closed {
			t.Errorf("%s as a host of a URL differs", address)
		}
	}
	for _, host := range []string{"localhost", "git.localhost", "LOCALHOST."} {
		if !outbound.Loopback(host) || (outbound.Policy{}).CheckHost(host) != nil || (outbound.Policy{DenyPrivate: true}).CheckHost(host) == nil {
			t.Errorf("%s is this machine", host)
		}
	}
	if _, err := outbound.Dialer(outbound.Policy{DenyPrivate: true}.Check).DialContext(t.Context(), "tcp", "localhost:1"); !errs.Is(err, errs.Forbidden) {
		t.Errorf("a name whose address is refused: %v, want Forbidden", err)
	}
}

// A redirect to another scheme, host or port carries no credentials, or is not followed.
func TestF61RedirectsKeepCredentials(t *testing.T) {
	t.Parallel()
	var seen []string
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		seen = append(seen, r.Header.Get("Authorization"))
	}))
	t.Cleanup(other.Close)
	first := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/away" {
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		}
		if r.URL.Path == "/moved" {
			http.Redirect(w, r, "/here", http.StatusTemporaryRedirect)
		}
	}))
	t.Cleanup(first.Close)
	get := func(check func(*http.Request, []*http.Request) error, path string) error {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, first.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer planted")
		res, err := (&http.Client{CheckRedirect: check}).Do(req)
		if err == nil {
			_ = res.Body.Close()
		}
		return err
	}
	if err := get(outbound.WithinServer, "/moved"); err != nil {
		t.Error(err)
	}
	if err := get(outbound.WithinServer, "/away"); !errs.Is(err, errs.Forbidden) || len(seen) > 0 {
		t.Errorf("%v, the other port saw %q", err, seen)
	}
	if err := get(outbound.WithoutCredentials, "/away"); err != nil || len(seen) != 1 || seen[0] != "" {
		t.Errorf("%v, the other port saw %q", err, seen)
	}
	secure, _ := http.NewRequest(http.MethodGet, "https://a.example/", nil)
	plain, _ := http.NewRequest(http.MethodGet, "http://a.example/", nil)
	if err := outbound.WithoutCredentials(plain, []*http.Request{secure}); !errs.Is(err, errs.Forbidden) {
		t.Errorf("from https to http: %v", err)
	}
}

func TestServersInOneSpelling(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"https://Git.example.org./a": "https://git.example.org:443", "http://a": "http://a:80", "https://a:8443": "https://a:8443",
		"ssh://git@a/x": "ssh://a:22", "https://[::1]/": "https://[::1]:443", "oci://r/x": "oci://r:443",
	} {
		u, err := url.Parse(text)
		if err != nil || outbound.Server(u) != want {
			t.Errorf("%s: %s, want %s", text, outbound.Server(u), want)
		}
	}
}

func TestWhatOthersCouldRead(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"https://example.org": true, "https://10.0.0.1/x": true, "http://localhost:9015": true, "http://emco.localhost": true, "http://[::1]/x": true,
		"http://[::ffff:127.0.0.1]": true,
		"http://example.org":        false, "http://10.0.0.1": false, "https://": false, "https:x": false, "http:": false, "ftp://127.0.0.1": false, "localhost": false, "": false,
	} {
		u, err := url.Parse(text)
		if err != nil || outbound.Private(u) != want {
			t.Errorf("Private(%q) is not %t; %v", text, want, err)
		}
	}
}

func TestThisMachine(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]bool{
		"localhost": true, "127.0.0.1": true, "127.8.9.1": true, "::1": true,
		"127.example.org": false, "example.org": false, "10.0.0.1": false, "": false,
	} {
		if got := outbound.Loopback(host); got != want {
			t.Errorf("Loopback(%q) = %t", host, got)
		}
	}
}
