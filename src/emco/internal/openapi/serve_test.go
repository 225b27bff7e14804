package openapi_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/openapi"
	"github.com/emco-orchestrator/emco/src/emco/internal/resource"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// The description is served with a tag, so a client that has it gets no second copy. The page may load nothing.
func TestTheDescriptionIsServedOnceToEachClient(t *testing.T) {
	t.Parallel()
	routes := web.NewRouter()
	resource.Mount(routes, &store.DB{}, resource.Def[v2.Project]{Kind: "Project", Collection: "projects", Item: "{project}", Put: resource.PutUpsert})
	mux := http.NewServeMux()
	openapi.PagesOf(routes, "v1").Mount(mux)
	get := func(path, tag string) *httptest.ResponseRecorder {
		r, answer := httptest.NewRequest(http.MethodGet, path, nil), httptest.NewRecorder()
		r.Header.Set("If-None-Match", tag)
		mux.ServeHTTP(answer, r)
		return answer
	}
	for _, path := range []string{"/openapi.json", "/reference"} {
		first := get(path, "")
		if first.Code != http.StatusOK || !strings.Contains(first.Body.String(), "/v2/projects/{project}") {
			t.Errorf("%s: %d, want 200 and the routes", path, first.Code)
		}
		if again := get(path, first.Header().Get("ETag")); again.Code != http.StatusNotModified || again.Body.Len() > 0 {
			t.Errorf("%s again: %d with %d bytes, want 304 without a body", path, again.Code, again.Body.Len())
		}
	}
	if policy := get("/reference", "").Header().Get("Content-Security-Policy"); !strings.HasPrefix(policy, "default-src 'none'") {
		t.Errorf("the page has the policy %q", policy)
	}
}
