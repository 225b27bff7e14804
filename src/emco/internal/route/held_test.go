package route

import (
	"testing"
	"testing/synctest"
	"time"
)

// Listings are held for some time after the last use of one, unless they are large, or forgetUnused is never called.
func TestListingsAreHeldForAWhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var r recentListings
		use := func(provider string, bytes int) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.holdLocked(provider, &listing{bytes: bytes})
		}
		held := func(want ...string) {
			t.Helper()
			r.forgetUnused()
			r.mu.Lock()
			defer r.mu.Unlock()
			for _, provider := range want {
				if r.held[provider] == nil {
					t.Errorf("the listing of %s is not held", provider)
				}
			}
			if len(r.held) != len(want) {
				t.Errorf("%d listings are held, want those of %v", len(r.held), want)
			}
		}
		use("north", maxHeld/2)
		held()
		use("north", maxHeld/2)
		time.Sleep(holdFor - time.Second)
		use("south", maxHeld/2)
		time.Sleep(holdFor - time.Second)
		held("north", "south")
		use("south", maxHeld/2+1)
		held("south")
		use("east", maxHeld+1)
		held()
		use("west", 1)
		time.Sleep(holdFor + time.Second)
		held()
	})
}
