package rsync

import (
	"sync"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/route"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/queue"
)

// Which shard begins with a deployment on a cluster is found out from the cluster's
// registration. Should that change at the very moment in which processes look, each may
// take another one for the cluster's home, and nobody begins. So each deployment has a
// guardian, the shard that is made out from its id alone, which looks again after a while
// and begins where nobody has.

// unclaimed is how long after a change of a head its guardian looks.
const unclaimed = time.Minute

// guardian remembers which heads are to be looked at again.
type guardian struct {
	alone func() bool      // nobody else works: whoever looks, looks alike
	again func(uid string) // has the dispatcher take in a head again
	clock *queue.Timers
	live  bool // what there was at the start has been taken in

	mu      sync.Mutex
	overdue map[string]bool // by head
}

func newGuardian(alone func() bool, again func(uid string)) *guardian {
	g := &guardian{alone: alone, again: again, overdue: map[string]bool{}}
	g.clock = queue.NewTimers(func(t pair.Target) {
		g.remind(t.UID)
		g.again(t.UID)
	})
	return g
}

func (g *guardian) remind(uid string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.overdue[uid] = true
}

// watch has a head looked at again if its deployment is in this guardian's care.
func (g *guardian) watch(shard int, head appcontext.Head, key wishKey) {
	if g.live && !key.gone && !key.stopped && key.owns && route.Group.Of(head.Deployment()) == shard && !g.alone() {
		g.clock.Set(pair.Target{UID: head.UID}, unclaimed)
	}
}

// due reports, once, whether it is time to look at a head again.
func (g *guardian) due(uid string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	due := g.overdue[uid]
	delete(g.overdue, uid)
	return due
}
