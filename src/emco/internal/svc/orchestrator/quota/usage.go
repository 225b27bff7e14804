package quota

import (
	"sync"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/mirror"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

// Usage counts what projects use, head by head as heads change. It observes a mirror.
type Usage struct {
	mu       sync.Mutex
	heads    map[appcontext.HeadID]headUse // guarded by mu
	projects map[string]Use                // of those that use something; guarded by mu
	whole    bool                          // all heads were counted; guarded by mu
}

// Use is what a project uses, or one head of it.
type Use struct {
	Deployments int64 // instantiated deployment intent groups
	Operations  int64 // that have not made their revision
	Targets     int64 // clusters of each deployment
	Objects     int64
	Bytes       int64
}

// plus returns the sum of u and n times v.
func (u Use) plus(v Use, n int64) Use {
	return Use{
		u.Deployments + n*v.Deployments, u.Operations + n*v.Operations, u.Targets + n*v.Targets, u.Objects + n*v.Objects, u.Bytes + n*v.Bytes,
	}
}

// headUse is what one head adds to the use of its project.
type headUse struct {
	project string
	use     Use
}

var _ mirror.Observer = (*Usage)(nil)

// NewUsage returns counts of nothing.
func NewUsage() *Usage {
	u := &Usage{}
	u.Restarted()
	return u
}

// Restarted forgets everything: all heads follow again.
func (u *Usage) Restarted() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.heads, u.projects, u.whole = map[appcontext.HeadID]headUse{}, map[string]Use{}, false
}

// HeadChanged counts a head, or no longer counts one that is gone.
func (u *Usage) HeadChanged(id appcontext.HeadID, h *appcontext.Head) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if old, there := u.heads[id]; there {
		u.addLocked(old, -1)
		delete(u.heads, id)
	}
	if h == nil {
		return
	}
	if _, isGroup := v2.CompositeAppOf(h.Document); !isGroup {
		return
	}
	next := headUse{store.Key(h.Document).Project(), useOf(*h)}
	u.heads[id] = next
	u.addLocked(next, 1)
}

// useOf returns what the head of a group uses.
func useOf(h appcontext.Head) (out Use) {
	if h.State.Live() || h.Op != nil && h.Op.Terminates() { // a termination that waits for hooks may be aborted
		out.Deployments = 1
	}
	if h.Op != nil {
		out.Operations = 1
	}
	if h.Owns() && !h.Gone {
		out.Targets, out.Objects, out.Bytes = int64(h.Use.Clusters), h.Use.Objects, h.Use.Bytes
	}
	return out
}

// addLocked adds the use of a head n times.
func (u *Usage) addLocked(h headUse, n int64) {
	p := u.projects[h.project].plus(h.use, n)
	if p == (Use{}) {
		delete(u.projects, h.project)
		return
	}
	u.projects[h.project] = p
}

// PairChanged does nothing: only heads count.
func (u *Usage) PairChanged(appcontext.PairKey, *mirror.Entry) {}

// AgentHeard does nothing.
func (u *Usage) AgentHeard(v2.ClusterKey, time.Time) {}

// Advanced notes that everything up to a revision was counted.
func (u *Usage) Advanced(int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.whole = true
}

// Of returns the use of a project, and what some of its heads use of it; Unavailable while heads are
// still being counted.
func (u *Usage) Of(project string, heads ...appcontext.HeadID) (all, part Use, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.whole {
		return all, part, errs.New(errs.Unavailable, "what the project uses is still being counted; try again in a moment")
	}
	for _, id := range heads {
		part = part.plus(u.heads[id].use, 1)
	}
	return u.projects[project], part, nil
}
