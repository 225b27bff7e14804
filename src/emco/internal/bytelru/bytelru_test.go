package bytelru

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// Whatever order things are asked for in, the cache stays within its bounds, answers
// truly, and forgets what was used longest ago.
func TestCacheAgainstModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		const room = 40
		l := New[string, int](room)
		var order []string // oldest first
		size := map[string]int{}
		used := func() (n int) {
			for _, d := range order {
				n += size[d]
			}
			return n
		}
		touch := func(d string) {
			order = append(slices.DeleteFunc(order, func(x string) bool { return x == d }), d)
		}
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				d := rapid.StringMatching("[a-h]").Draw(t, "key")
				n := rapid.IntRange(0, 12).Draw(t, "size")
				l.Put(d, int(d[0]), n)
				if n > room/4 || slices.Contains(order, d) {
					return
				}
				size[d] = n
				touch(d)
				for used() > room {
					order = order[1:]
				}
			},
			"get": func(t *rapid.T) {
				d := rapid.StringMatching("[a-h]").Draw(t, "key")
				v, ok := l.Get(d)
				if ok != slices.Contains(order, d) || ok && v != int(d[0]) {
					t.Fatalf("Get(%s) = %d, %v; the model holds %v", d, v, ok, order)
				}
				if ok {
					touch(d)
				}
			},
			"remove": func(t *rapid.T) {
				d := rapid.StringMatching("[a-h]").Draw(t, "key")
				l.Remove(d)
				order = slices.DeleteFunc(order, func(x string) bool { return x == d })
			},
			"clear": func(t *rapid.T) {
				l.Clear()
				order = nil
			},
			"": func(t *rapid.T) {
				if l.size != used() || len(l.entries) != len(order) {
					t.Fatalf("the cache has %d entries of %d, the model %d of %d", len(l.entries), l.size, len(order), used())
				}
			},
		})
	})
}

// While new values replace old ones, as revisions of a deployment do, the cache holds those of the
// last minutes: it does not grow until its bound is reached.
func TestIdleValuesGo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := New[string, int](1 << 30)
		l.Put("used", -1, 1)
		for n := range 1000 {
			l.Put(fmt.Sprint(n), n, 1)
			if _, ok := l.Get("used"); !ok {
				t.Fatalf("after %d values, one that is used all the time is gone", n)
			}
			time.Sleep(6 * time.Second)
		}
		if want := int(idle/(6*time.Second)) + 2; l.size != want || len(l.entries) != want {
			t.Errorf("the cache has %d entries of %d, want %d", len(l.entries), l.size, want)
		}
	})
}
