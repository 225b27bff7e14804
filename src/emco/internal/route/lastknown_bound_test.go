package route

import (
	"fmt"
	"log/slog"
	"testing"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
)

// The number of routes is bounded; those that are known are renewed.
func TestLastKnownIsBounded(t *testing.T) {
	t.Parallel()
	k := NewLastKnown(slog.New(slog.DiscardHandler))
	for n := range maxLastKnown + 5 {
		k.keep(v2.NewClusterKey("edge", fmt.Sprint("c", n)), lastRoute{}, 0)
	}
	k.keep("edge+c0", lastRoute{route: Route{Registration: "renewed"}}, 0)
	if len(k.routes) != maxLastKnown || k.routes["edge+c0"].route.Registration != "renewed" {
		t.Errorf("%d routes, want %d; the first is %+v", len(k.routes), maxLastKnown, k.routes["edge+c0"])
	}
}
