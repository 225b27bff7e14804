package access_test

import (
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/access"
	"github.com/emco-orchestrator/emco/src/emco/internal/access/grants"
	"github.com/emco-orchestrator/emco/src/emco/internal/access/throttle"
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

// noGrants are grants without a binding or a token.
func noGrants(t *testing.T) *grants.Cache {
	t.Helper()
	driver, err := sqlite.Open(filepath.Join(t.TempDir(), "documents.db"), sqlite.WithoutFsync())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = driver.Close() })
	known := grants.New(store.New(driver, nil, seal.New(seal.NewKey())), slog.New(slog.DiscardHandler), nil)
	if err := known.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	return known
}

// Calls by gRPC without a good credential are limited for each client, also behind a trusted proxy. A client names no other address.
func TestCallsBehindAProxyAreLimitedApart(t *testing.T) {
	t.Parallel()
	known := noGrants(t)
	guard := &access.Guard{
		Authenticator: &authn.Authenticator{Tokens: known}, Grants: known, Now: time.Now, Refused: throttle.New(0.001, 2, nil),
		Proxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
	}
	call := func(from, forwarded string) errs.Kind {
		ctx := peer.NewContext(t.Context(), &peer.Peer{Addr: net.TCPAddrFromAddrPort(netip.MustParseAddrPort(from))})
		if forwarded != "" {
			ctx = metadata.NewIncomingContext(ctx, metadata.Pairs("x-forwarded-for", forwarded))
		}
		return errs.KindOf(guard.EnterCall(ctx))
	}
	for i, c := range []struct {
		from, forwarded string
		want            errs.Kind
	}{
		{"10.0.0.1:1", "192.0.2.1", errs.Unauthorized},
		{"10.0.0.1:1", "192.0.2.1", errs.Unauthorized},
		{"10.0.0.1:1", "192.0.2.1", errs.Throttled},
		{"10.0.0.1:1", "192.0.2.2", errs.Unauthorized},         // another client of the proxy
		{"10.0.0.1:1", "192.0.2.2, 192.0.2.1", errs.Throttled}, // it says that it is another one
		{"192.0.2.1:7", "192.0.2.9", errs.Throttled},           // it is no proxy
		{"192.0.2.3:7", "", errs.Unauthorized},
	} {
		if got := call(c.from, c.forwarded); got != c.want {
			t.Errorf("call %d from %s for %q: %v, want %v", i+1, c.from, c.forwarded, got, c.want)
		}
	}
}

// A request that is being answered for some time is admitted again while its session lives, also when a new request with
// its cookie would not be.
func TestAnAnswerGoesOnWhileItsSessionLives(t *testing.T) {
	t.Parallel()
	known := noGrants(t)
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
