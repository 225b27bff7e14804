package plain_test

import (
	"context"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/budget"
	"github.com/emco-orchestrator/emco/src/git/gittest"
	"github.com/emco-orchestrator/emco/src/git/plain"
)

// A server that throttles is asked nothing more in the name of the credential before the
// time that it named; other credentials go on.
func TestH52AThrottledCredentialIsNotUsed(t *testing.T) {
	t.Parallel()
	srv, err := gittest.Serve(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = srv.Close() })
	for _, name := range []string{"a", "b"} {
		if _, err := srv.Seed(t.Context(), name, "main"); err != nil {
			t.Fatal(err)
		}
	}
	h := plain.New(plain.Options{Budget: budget.New(budget.Options{})})
	a := git.Repo{URL: srv.URL("a"), User: "u", Token: "one"}
	srv.Answer(1, 429, 10*time.Minute)
	if _, err := h.Head(t.Context(), a, "main"); !errs.Is(err, errs.Throttled) {
		t.Fatalf("Head: %v, want Throttled", err)
	}
	before, _ := srv.Requests()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	b := git.Repo{URL: srv.URL("b"), User: "u", Token: "one"}
	if _, err := h.Head(ctx, b, "main"); !errs.Is(err, errs.Throttled) || errs.RetryAfter(err) < 9*time.Minute {
		t.Errorf("another repository of the credential: %v, want Throttled for ten minutes", err)
	}
	if now, _ := srv.Requests(); now != before {
		t.Errorf("%d requests were sent", now-before)
	}
	b.Token = "two"
	if _, err := h.Head(ctx, b, "main"); err != nil {
		t.Errorf("another credential: %v", err)
	}
}
