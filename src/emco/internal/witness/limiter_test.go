package witness

import (
	"fmt"
	"testing"
	"time"
)

// A flood from one address, or from very many, fills few lines; the others are counted.
func TestFloodsAreCounted(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000, 0)
	var one limiter
	admitted := 0
	for range 100 {
		if one.admit("192.0.2.1", now) {
			admitted++
		}
	}
	if n, from := one.missed(); admitted != perAddress || n != 90 || from != 1 {
		t.Errorf("one address: %d admitted, %d missed of %d addresses", admitted, n, from)
	}
	if !one.admit("192.0.2.1", now.Add(time.Second)) || !one.admit("192.0.2.2", now) {
		t.Error("a second later, or from another address, nothing is admitted")
	}

	var many limiter
	admitted = 0
	for second := range 3600 {
		for i := range 50 {
			if many.admit(fmt.Sprintf("2001:db8::%x:%x", second, i), now.Add(time.Duration(second)*time.Second)) {
				admitted++
			}
		}
	}
	n, from := many.missed()
	if admitted < burst || admitted > burst+3600*perSecond || int64(admitted)+n != 3600*50 || from != maxAddresses {
		t.Errorf("an hour of floods: %d admitted, %d missed of %d addresses", admitted, n, from)
	}
	if n, _ := many.missed(); n != 0 {
		t.Errorf("%d are counted twice", n)
	}
	if len(many.counts) > maxAddresses {
		t.Errorf("%d addresses are remembered", len(many.counts))
	}
}

// Somebody signs in once an hour, and the memory of it is bounded.
func TestSignInsOnceAnHour(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000, 0)
	var r recent
	if !r.first("alice", now) || r.first("alice", now.Add(again/2)) || !r.first("bob", now) || !r.first("alice", now.Add(again)) {
		t.Error("not once an hour")
	}
	for i := range 3 * maxRecent {
		r.first(fmt.Sprint(i), now)
	}
	if len(r.seen) > maxRecent {
		t.Errorf("%d are remembered", len(r.seen))
	}
}

func TestPlaces(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"projects/shop": "projects/shop", "projects/shop/composite-apps/a/v1": "projects/shop", "cluster-providers/edge/clusters": "cluster-providers/edge",
		"projects": "", "projects/": "", "projects/%2e%2e/x": "", "projects/sh%6fp": "projects/shop", "roles/shop": "", "": "",
	} {
		if got := placeOf(path); got != want {
			t.Errorf("placeOf(%q) = %q, want %q", path, got, want)
		}
	}
}
