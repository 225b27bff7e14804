package statusview

import (
	"fmt"
	"testing"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
)

func TestWaitingCountsWhatRsyncHasNotTakenUp(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	old, fresh := s.bundle(s.configMap("one", "hello")), s.bundle(s.configMap("one", "good-bye"))
	g := s.group("7")
	const c2 = v2.ClusterKey("edge+c2")
	var got []string
	look := func() {
		head, n, err := s.reader.Waiting(t.Context(), "7")
		s.must(err)
		got = append(got, fmt.Sprint(head != nil, n))
	}
	look() // there is none
	g.publish(placedApps{"a": {c1: old, c2: old}})
	look()
	g.applied("a", c1, old, "")
	look()
	g.pair("a", c2, appcontext.Pair{Rev: 1, Desired: old, Phase: appcontext.Failed}) // it failed, but it was taken up
	look()
	g.publish(placedApps{"a": {c1: fresh}})
	look() // c1 must change, c2 must go
	g.applied("a", c1, fresh, "")
	g.pair("a", c2, appcontext.Pair{Rev: 2, Applied: old, Phase: appcontext.Deleting})
	look()
	g.terminate()
	look()
	g.gone("a", c1)
	look()
	if want := "[false 0 true 2 true 1 true 0 true 2 true 0 true 1 true 0]"; fmt.Sprint(got) != want {
		t.Errorf("got %v, want %s", got, want)
	}
}
