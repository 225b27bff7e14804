package cacert

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

// Authorities come in order of their times, each once, at the earliest time that it was added for.
func TestAuthoritiesComeWhenTheyAreDue(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var q dueQueue
		want := map[store.Key]time.Time{}
		at := func(label string) time.Time { return time.Unix(int64(rapid.IntRange(0, 20).Draw(t, label)), 0) }
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				ca, when := store.Key(rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "ca")), at("at")
				if had, there := want[ca]; !there || when.Before(had) {
					want[ca] = when
				}
				q.add(ca, when)
			},
			"take": func(t *rapid.T) {
				now, first := at("now"), time.Time{}
				for _, when := range want {
					if first.IsZero() || when.Before(first) {
						first = when
					}
				}
				ca, due, next := q.take(now)
				switch isDue := len(want) > 0 && !first.After(now); {
				case due != isDue, due && !want[ca].Equal(first), !due && !next.Equal(first):
					t.Fatalf("take(%s) = %q, %v, %s of %v", now, ca, due, next, want)
				case due:
					delete(want, ca)
				}
			},
		})
	})
}
