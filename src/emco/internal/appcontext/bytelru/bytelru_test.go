package bytelru

import (
	"slices"
	"testing"

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
			"": func(t *rapid.T) {
				if l.size != used() || len(l.entries) != len(order) {
					t.Fatalf("the cache has %d entries of %d, the model %d of %d", len(l.entries), l.size, len(order), used())
				}
			},
		})
	})
}
