package upstream_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/emco-orchestrator/emco/src/emco/internal/authz"
	"github.com/emco-orchestrator/emco/src/emco/internal/upstream"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

const group = "/v2/projects/p/composite-apps/c/v1/deployment-intent-groups/g"

func TestF41RoutesOfMissingServicesNameThem(t *testing.T) {
	t.Parallel()
	r := web.NewRouter()
	r.NotFoundHandler = upstream.Routes(r.NotFoundHandler)
	web.Handle(r, http.MethodGet, "/v2/projects/{project}/logical-clouds/{logicalCloud}/status", authz.Permission{Verb: authz.Public, Type: "tests"}, func(w http.ResponseWriter, _ *http.Request) error {
		w.WriteHeader(http.StatusOK)
		return nil
	})
	for path, want := range map[string]string{
		group + "/network-controller-intent/n/workload-intents": "ovnaction",
		"/v2/cluster-providers/p/clusters/c/networks":           "ncm",
		"/v2/cluster-providers/p/clusters/c/apply":              "ncm",
	} {
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
			w := httptest.NewRecorder()
			r.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, path, nil))
			var problem struct{ Type, Service, Detail string }
			err := json.Unmarshal(w.Body.Bytes(), &problem)
			if err != nil || w.Code != 501 || problem.Service != want || problem.Type != "urn:emco:error:not-implemented" || w.Header().Get("Content-Type") != "application/problem+json" {
				t.Errorf("%s %s: %d %s, want the service %s", method, path, w.Code, w.Body, want)
			}
		}
	}
	for path, want := range map[string]int{
		"/v2/nonsense": 404, "/v2/": 404, "/v2": 404, group + "/nonsense": 404, "/v2/cluster-providers//clusters/c/networks": 404,
		"/v2/projects/p/logical-clouds/l/status": 200,
	} {
		w := httptest.NewRecorder()
		r.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		if w.Code != want {
			t.Errorf("%s: %d, want %d", path, w.Code, want)
		}
	}
}

func TestPortsAreDistinct(t *testing.T) {
	t.Parallel()
	seen := map[int]bool{}
	for _, p := range upstream.Ports() {
		if seen[p.Number] {
			t.Errorf("%s has a port of another service", p.Service)
		}
		seen[p.Number] = true
	}
}
