package web_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// What a browser sends for pages of other sites does not reach the API; what programs send
// does.
func TestF23TheDoor(t *testing.T) {
	t.Parallel()
	door := web.Door{Hosts: []string{"Emco.example.org"}, AnyTypes: []string{"/v2/webhooks/git"}}
	h := door.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) }))
	for name, tt := range map[string]struct {
		method, host, header, path, body string
		want                             int
	}{
		"a program":                        {"POST", "127.0.0.1:9015", "Content-Type: application/json", "", "{}", 202},
		"a program without a body":         {"POST", "127.0.0.1:9015", "", "", "", 202},
		"its name":                         {"GET", "emco.example.org.:443", "", "", "", 202},
		"localhost":                        {"GET", "localhost:9015", "", "", "", 202},
		"an address of IPv6":               {"GET", "[::1]:9015", "", "", "", 202},
		"another name":                     {"GET", "evil.test", "", "", "", 421},
		"a longer name":                    {"GET", "emco.example.org.evil.test", "", "", "", 421},
		"no name":                          {"GET", "", "", "", "", 421},
		"its own page":                     {"POST", "localhost:9015", "Sec-Fetch-Site: same-origin", "", "", 202},
		"a user's own request":             {"POST", "localhost:9015", "Sec-Fetch-Site: none", "", "", 202},
		"a page of another site":           {"POST", "localhost:9015", "Sec-Fetch-Site: cross-site", "", "", 403},
		"a page on another local port":     {"POST", "localhost:9015", "Sec-Fetch-Site: same-site", "", "", 403},
		"the origin of another port":       {"DELETE", "localhost:9015", "Origin: http://localhost:8080", "", "", 403},
		"a page without an origin":         {"PUT", "localhost:9015", "Origin: null", "", "", 403},
		"the own origin":                   {"PUT", "localhost:9015", "Origin: http://localhost:9015", "", "", 202},
		"another page that reads":          {"GET", "localhost:9015", "Sec-Fetch-Site: cross-site", "", "", 202},
		"a simple body":                    {"POST", "localhost:9015", "Content-Type: text/plain", "", "{}", 415},
		"a form":                           {"POST", "localhost:9015", "Content-Type: application/x-www-form-urlencoded", "", "{}", 415},
		"a body without a type":            {"POST", "localhost:9015", "", "", "{}", 415},
		"gRPC for the web":                 {"POST", "localhost:9015", "Content-Type: application/grpc-web+proto", "", "x", 415},
		"an upload":                        {"POST", "localhost:9015", "Content-Type: multipart/form-data; boundary=b", "", "x", 202},
		"an upload from another site":      {"POST", "localhost:9015", "Origin: https://evil.test", "", "x", 403},
		"a signed webhook of another type": {"POST", "localhost:9015", "Content-Type: application/x-www-form-urlencoded", "/v2/webhooks/git", "x", 202},
	} {
		path := tt.path
		if path == "" {
			path = "/v2/projects"
		}
		r := httptest.NewRequest(tt.method, path, io.NopCloser(strings.NewReader(tt.body)))
		r.Host, r.ContentLength = tt.host, int64(len(tt.body))
		if key, value, ok := strings.Cut(tt.header, ": "); ok {
			r.Header.Set(key, value)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != tt.want {
			t.Errorf("%s: got %d %s, want %d", name, w.Code, w.Body, tt.want)
		}
	}
}
