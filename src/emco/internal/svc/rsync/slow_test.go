package rsync

import (
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
)

// While a Git server does not answer a push, the pairs name the repository that they wait for;
// when it answers, they no longer do.
func TestF76AServerThatHangsIsNamed(t *testing.T) {
	t.Parallel()
	w := newWorks(t, 1)
	goOn := make(chan struct{})
	w.git.BeforePush(func(string) { <-goOn })
	w.start(w.process("one", nil))
	w.wish("7", "green", "edge+c0")
	w.until("the reason", func(pairs map[string]appcontext.Pair) bool {
		p := pairs["edge+c0 7"]
		return p.Phase == appcontext.Pending && strings.HasPrefix(p.Waiting, "waits for "+w.git.URL("r0")+" since 20")
	})
	close(goOn)
	w.applied(1, 1)
	if p := w.pairs()["edge+c0 7"]; p.Waiting != "" {
		t.Errorf("after the push it waits: %q", p.Waiting)
	}
}
