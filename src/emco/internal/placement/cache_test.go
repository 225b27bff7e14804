package placement_test

import (
	"context"
	"testing"

	"github.com/emco-orchestrator/emco/src/emco/internal/placement"
)

// countingFilter counts how often it is asked.
type countingFilter struct{ asked int }

func (c *countingFilter) Admit(_ context.Context, _ placement.Request, at placement.Cluster) (placement.Verdict, error) {
	c.asked++
	return placement.Verdict{Cluster: at.Key(), Admitted: at.Name != "c", Reason: "a test"}, nil
}

// A decision is made anew when what the intent speaks of has changed, or the filter; not
// for changes elsewhere, and not for another app.
func TestMemoDecidesAnewOnlyWhereItMatters(t *testing.T) {
	t.Parallel()
	var m placement.DecisionCache
	fleet, filter := inventory(), &countingFilter{}
	east := intent{AllOf: []term{must(label("east")), oneOf(name("b"), name("d"))}}
	ask := func(app string, i intent, want string, asked int) {
		t.Helper()
		before := filter.asked
		d, err := m.Decide(t.Context(), placement.Request{App: app, Intent: i, Inventory: fleet}, filter)
		got := ""
		for _, c := range d.Clusters {
			got += c + " "
		}
		if err != nil {
			got = "refused"
		}
		if got != want || filter.asked-before != asked {
			t.Errorf("%s: %q, the filter was asked %d times; want %q and %d", app, got, filter.asked-before, want, asked)
		}
	}
	ask("web", east, "p+a p+b ", 3)
	ask("db", east, "p+a p+b ", 0)
	ask("none", intent{AllOf: []term{must(name("c"))}}, "refused", 1)
	ask("none", intent{AllOf: []term{must(name("c"))}}, "refused", 0)
	fleet[3].Labels = []string{"south"} // of c, which nobody speaks of by label
	ask("web", east, "p+a p+b ", 0)
	fleet[0].Labels = []string{"east"}
	ask("web", east, "p+a p+b p+d ", 3)
	filter = &countingFilter{}
	ask("web", east, "p+a p+b p+d ", 3)
	fleet = fleet[:3]
	ask("none", intent{AllOf: []term{must(name("c"))}}, "refused", 0)
}
