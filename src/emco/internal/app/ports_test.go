package app_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/emco/internal/config"
)

// A client of upstream EMCO has one address per service.
func TestF40ServicesListenOnTheirPorts(t *testing.T) {
	t.Parallel()
	const host = "127.40.19.81" // the ports are fixed, so the test has an address of its own
	s := newStageWith(t, func(c *config.Config) { c.HTTP.Address, c.HTTP.EMCOPorts = host+":0", true })
	s.expect(201, "POST", "projects", `{"metadata":{"name":"p"}}`)
	for _, tt := range []struct {
		port   int
		path   string
		status int
		text   string
	}{
		{9015, "projects", 200, `"name":"p"`},
		{9061, "cluster-providers", 200, "[]"},
		{9077, "projects/p/logical-clouds", 200, "[]"},
		{9081, "cluster-providers/p/clusters/c/networks", 404, "Cluster not found"},
		{9051, "projects/p/composite-apps/c/v1/deployment-intent-groups/g/network-controller-intent", 404, "DeploymentIntentGroup not found"},
		{9020, "projects/p/composite-apps/c/v1/deployment-intent-groups/g/generic-k8s-intents", 404, "DeploymentIntentGroup not found"},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("http://%s:%d/v2/%s", host, tt.port, tt.path), nil)
		s.must("make a request", err)
		res, err := http.DefaultClient.Do(req)
		s.must("send a request", err)
		text, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		s.must("read the answer", err)
		if res.StatusCode != tt.status || !strings.Contains(string(text), tt.text) {
			t.Errorf("port %d, %s: %d %s, want %d %s", tt.port, tt.path, res.StatusCode, text, tt.status, tt.text)
		}
	}
}
