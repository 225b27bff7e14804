package route

import (
	"testing"
	"testing/synctest"
	"time"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
)

// A listing is held for some seconds after its last use, and a large one is not.
func TestListingsAreHeldForAWhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var r recentListings
		use := func(n int) *listing {
			l := &listing{clusters: map[v2.ClusterKey]registration{}}
			for i := range n {
				l.clusters[v2.NewClusterKey("edge", string(rune('a'+i%26))+time.Duration(i).String())] = registration{}
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			r.holdLocked(l)
			return l
		}
		held := func() *listing {
			synctest.Wait()
			r.mu.Lock()
			defer r.mu.Unlock()
			return r.held
		}
		first := use(10)
		time.Sleep(holdFor - time.Second)
		if held() != first {
			t.Error("the listing was let go too early")
		}
		second := use(20)
		time.Sleep(holdFor - time.Second)
		if held() != second {
			t.Error("the second listing was let go when the first one was due")
		}
		time.Sleep(2 * time.Second)
		if held() != nil {
			t.Error("the listing is held for ever")
		}
		if use(maxHeld + 1); held() != nil {
			t.Error("a large listing is held")
		}
	})
}
