package web_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

func TestAnActionWithoutADryRunIsNotCarriedOutInItsPlace(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]int{
		"": 202, "?dryRun=false": 202, "?dryRun=": 202, "?dryRun=true": 400, "?dryRun=server": 400, "?dryRun=yes": 400,
	} {
		done := false
		act := web.NoDryRun(func(w http.ResponseWriter, _ *http.Request) error {
			done = true
			w.WriteHeader(http.StatusAccepted)
			return nil
		})
		w := httptest.NewRecorder()
		act.ServeHTTP(w, httptest.NewRequest("POST", "/terminate"+query, nil))
		if w.Code != want || done != (want == 202) {
			t.Errorf("%q: got %d, done %v, want %d", query, w.Code, done, want)
		}
	}
}
