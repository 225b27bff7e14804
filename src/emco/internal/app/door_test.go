package app_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/config"
)

// raw sends a request as a browser would, with any header.
func (s *testStage) raw(method, path, host, body string, header ...string) apiAnswer {
	s.Helper()
	r, err := http.NewRequestWithContext(context.WithoutCancel(s.Context()), method, s.address+path, bytes.NewReader([]byte(body)))
	s.must("make a request", err)
	if host != "" {
		r.Host = host
	}
	for _, h := range header {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	res, err := http.DefaultClient.Do(r)
	s.must(method+" "+path, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	s.must("read the answer", err)
	return apiAnswer{Status: res.StatusCode, Body: string(text)}
}

// The five "simple" requests with which a web page could put a rendered Secret into a
// repository of its own, and others that change something, are refused; nothing changes.
func TestF60WebPagesCommandNothing(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	g := s.running("a")
	provider := "/v2/cluster-providers/edge"
	for _, path := range []string{
		provider + "/cluster-sync-objects", provider + "/clusters", provider + "/clusters/a/labels", provider + "/clusters/a/monitor/token",
		"/v2/projects", "/v2/" + g.path + "/update", "/v2/" + g.path + "/update?force=true", "/v2/git/restore", "/v2/git/adopt",
	} {
		for _, header := range [][]string{
			{"Sec-Fetch-Site: cross-site", "Content-Type: text/plain"},
			{"Sec-Fetch-Site: same-site", "Content-Type: text/plain"},
			{"Origin: http://127.0.0.1:8080", "Content-Type: text/plain"},
			{"Origin: null", "Content-Type: multipart/form-data; boundary=b"},
		} {
			if a := s.raw("POST", path, "", `{"metadata":{"name":"evil"}}`, header...); a.Status != http.StatusForbidden {
				t.Errorf("POST %s with %v: got %d %s, want 403", path, header, a.Status, a.Body)
			}
		}
		if a := s.raw("POST", path, "", `{"metadata":{"name":"evil"}}`, "Content-Type: text/plain"); a.Status != http.StatusUnsupportedMediaType {
			t.Errorf("POST %s as text: got %d %s, want 415", path, a.Status, a.Body)
		}
		if a := s.raw("POST", path, "evil.example", `{}`, "Content-Type: application/json"); a.Status != http.StatusMisdirectedRequest {
			t.Errorf("POST %s to evil.example: got %d %s, want 421", path, a.Status, a.Body)
		}
	}
	if a := s.raw("GET", "/v2/projects", "evil.example", ""); a.Status != http.StatusMisdirectedRequest {
		t.Errorf("a rebound name reads: got %d %s, want 421", a.Status, a.Body)
	}
	s.expect(404, "GET", "projects/evil", "")
}

// A program that other machines reach warns at each start and in /readyz.
func TestF57AnInsecureProgramSaysSo(t *testing.T) {
	t.Parallel()
	s := newStageWith(t, func(c *config.Config) {
		c.HTTP.Address, c.HTTP.Insecure, c.HTTP.Hosts = "0.0.0.0:0", true, []string{"emco.example.org"}
		c.HTTP.Linger = config.Duration(time.Millisecond)
	})
	const warning = "everyone who reaches http.address may do everything"
	if a := s.do("GET", "/readyz?verbose", ""); !strings.Contains(a.Body, "insecure: "+warning) {
		t.Errorf("/readyz?verbose: %s", a.Body)
	}
	if !strings.Contains(s.log.String(), warning) {
		t.Error("the log does not warn")
	}
	if a := s.raw("GET", "/v2/projects", "emco.example.org", ""); a.Status != http.StatusOK {
		t.Errorf("by its name: got %d %s", a.Status, a.Body)
	}
}
