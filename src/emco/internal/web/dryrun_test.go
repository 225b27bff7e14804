package web_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

func TestAnActionKnowsThatItIsADryRun(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]string{
		"": "done", "?dryRun=false": "done", "?dryRun=": "done", "?dryRun=true": "tried", "?dryRun=server": "tried", "?dryRun=yes": "",
	} {
		got := ""
		act := web.WithDryRun(func(w http.ResponseWriter, _ *http.Request, dry bool) error {
			got = map[bool]string{true: "tried", false: "done"}[dry]
			w.WriteHeader(http.StatusAccepted)
			return nil
		})
		w := httptest.NewRecorder()
		act.ServeHTTP(w, httptest.NewRequest("POST", "/terminate"+query, nil))
		if got != want || (w.Code == 202) != (want != "") {
			t.Errorf("%q: got %q, status %d, want %q", query, got, w.Code, want)
		}
		r := httptest.NewRequest("POST", "/terminate"+query, nil)
		r.Header.Set(web.HeaderIfPlan, "sha256:x")
		got = ""
		w = httptest.NewRecorder()
		act.ServeHTTP(w, r)
		if w.Code != 400 || got != "" {
			t.Errorf("%q with a plan: %d, %q", query, w.Code, got)
		}
	}
}
