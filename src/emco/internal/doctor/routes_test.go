package doctor_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/contexttest"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/gitstate"
	"github.com/emco-orchestrator/emco/src/emco/internal/doctor"
	"github.com/emco-orchestrator/emco/src/emco/internal/resource/resourcetest"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
	"github.com/emco-orchestrator/emco/src/git"
)

// A check reads all documents and heads, or whole branches, so a second one is refused while the first one runs.
func TestOneCheckRunsAtATime(t *testing.T) {
	t.Parallel()
	stores := doctor.Stores{Contexts: contexttest.New(t), Documents: resourcetest.DB(t)}
	_, err := stores.Contexts.PutBranch(t.Context(), appcontext.Fence{}, gitstate.Branch{URL: "https://git.example/fleet", Name: "main"})
	must(t, err)
	reading, release := make(chan struct{}), make(chan struct{})
	branches := &doctor.Branches{Stores: stores, Repo: func(context.Context, gitstate.Branch) (git.Repo, error) {
		close(reading)
		<-release
		return git.Repo{}, context.Canceled
	}}
	router := web.NewRouter()
	doctor.NewRoutes(stores, branches).Mount(router)
	ask := func(path string) *httptest.ResponseRecorder {
		answer := httptest.NewRecorder()
		router.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
		return answer
	}
	first := make(chan int)
	go func() { first <- ask("/v2/views/doctor/branches").Code }()
	<-reading
	if got := ask("/v2/views/doctor"); got.Code != http.StatusTooManyRequests || got.Header().Get("Retry-After") == "" {
		t.Errorf("while a check runs, another one gets %d %v, want 429 and when to come back", got.Code, got.Header())
	}
	close(release)
	if code := <-first; code != http.StatusOK {
		t.Errorf("the first check got %d, want 200", code)
	}
	if got := ask("/v2/views/doctor"); got.Code != http.StatusOK {
		t.Errorf("after the first check, another one gets %d, want 200", got.Code)
	}
}
