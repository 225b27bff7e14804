package web_test

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

func TestF17OneProjectsRequestsDoNotHoldUpOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release, begun := make(chan struct{}), make(chan string, 100)
		shares := web.NewShares(16, 15*time.Second, nil) // two for each project
		api := shares.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			begun <- r.URL.Path
			<-release
		}))
		var all sync.WaitGroup
		answers := make(chan int, 100)
		ask := func(path string) {
			all.Go(func() {
				w := httptest.NewRecorder()
				api.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
				answers <- w.Code
			})
			synctest.Wait()
		}
		for range 20 {
			ask("/v2/projects/loud/composite-apps")
		}
		ask("/v2/projects/quiet/composite-apps")
		ask("/v2/cluster-providers")
		if n := len(begun); n != 4 {
			t.Errorf("%d requests are served", n)
		}
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if n := len(answers); n != 18 {
			t.Errorf("%d requests were refused", n)
		}
		for range len(answers) {
			if code := <-answers; code != http.StatusTooManyRequests {
				t.Errorf("answered %d", code)
			}
		}
		close(release)
		all.Wait()
	})
}
