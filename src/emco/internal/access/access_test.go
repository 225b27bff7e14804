package access_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/access"
	"github.com/emco-orchestrator/emco/src/emco/internal/access/grants"
	"github.com/emco-orchestrator/emco/src/emco/internal/authn"
	"github.com/emco-orchestrator/emco/src/emco/internal/authz"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/seal"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/sqlite"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// cookie is the session of bob; a test makes it idle and ends it.
type cookie struct{ idle, ended bool }

func (c *cookie) Session(r *http.Request) (authn.Caller, bool, error) {
	if c.idle {
		return authn.Caller{}, true, nil
	}
	return c.Again(r)
}

func (c *cookie) Again(*http.Request) (authn.Caller, bool, error) {
	if c.ended {
		return authn.Caller{}, true, nil
	}
	return authn.User("corp:", "bob", nil, authn.ViaSession), true, nil
}

// A request that is being answered for some time is admitted again while its session lives, also when a new request with
// its cookie would not be.
func TestAnAnswerGoesOnWhileItsSessionLives(t *testing.T) {
	t.Parallel()
	driver, err := sqlite.Open(filepath.Join(t.TempDir(), "documents.db"), sqlite.WithoutFsync())
	if err != nil {
		t.Fatal(err)
	}
	defer driver.Close()
	known := grants.New(store.New(driver, nil, seal.New(seal.NewKey())), slog.New(slog.DiscardHandler), nil)
	if err := known.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	session := new(cookie)
	guard := &access.Guard{Authenticator: &authn.Authenticator{Tokens: known, Sessions: session}, Grants: known, Now: time.Now}
	router := web.NewRouter()
	router.Use(guard.Authorize)
	var renewed []error
	web.Handle(router, http.MethodGet, "/stream", authz.Permission{Verb: authz.SignedIn, Type: "auth"}, func(_ http.ResponseWriter, r *http.Request) error {
		for _, now := range []cookie{{}, {idle: true}, {idle: true, ended: true}} {
			*session = now
			_, err := authz.Renewed(r.Context())
			renewed = append(renewed, err)
		}
		return nil
	})
	ask := func() int {
		w := httptest.NewRecorder()
		guard.Authenticate(router).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/stream", nil))
		return w.Code
	}
	if code := ask(); code != 200 || len(renewed) != 3 || renewed[0] != nil || renewed[1] != nil || !errs.Is(renewed[2], errs.Unauthorized) {
		t.Errorf("%d; in use, idle and ended: %v", code, renewed)
	}
	*session = cookie{idle: true}
	if code := ask(); code != 401 {
		t.Errorf("a new request with an idle session: %d", code)
	}
}
