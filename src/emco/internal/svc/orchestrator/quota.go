package orchestrator

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/mirror"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// Usage counts what projects use, head by head as heads change. It observes a mirror.
type Usage struct {
	mu       sync.Mutex
	heads    map[appcontext.HeadID]headUse // guarded by mu
	projects map[string]projectUse         // guarded by mu
	whole    bool                          // all heads were counted; guarded by mu
}

// projectUse is what a project uses.
type projectUse struct {
	deployments int // instantiated deployment intent groups
	operations  int // that have not made their revision
}

// headUse is what one head adds to the use of its project.
type headUse struct {
	project string
	use     projectUse
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
	u.heads, u.projects, u.whole = map[appcontext.HeadID]headUse{}, map[string]projectUse{}, false
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
	if _, isGroup := v2.CompositeAppOf(h.Subject); !isGroup {
		return
	}
	next := headUse{project: store.Key(h.Subject).Project()}
	if h.State.Live() {
		next.use.deployments = 1
	}
	if h.Op != nil {
		next.use.operations = 1
	}
	u.heads[id] = next
	u.addLocked(next, 1)
}

// addLocked adds the use of a head n times.
func (u *Usage) addLocked(h headUse, n int) {
	p := u.projects[h.project]
	p.deployments += n * h.use.deployments
	p.operations += n * h.use.operations
	if p == (projectUse{}) {
		delete(u.projects, h.project)
		return
	}
	u.projects[h.project] = p
}

// PairChanged does nothing: only heads count.
func (u *Usage) PairChanged(appcontext.PairKey, *mirror.Entry) {}

// AgentHeard does nothing.
func (u *Usage) AgentHeard(v2.ClusterKey, time.Time) {}

// Advanced says that everything up to a revision was counted.
func (u *Usage) Advanced(int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.whole = true
}

// of returns the use of a project; Unavailable while heads are still being counted.
func (u *Usage) of(project string) (projectUse, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.whole {
		return projectUse{}, errs.New(errs.Unavailable, "what the project uses is still being counted; try again in a moment")
	}
	return u.projects[project], nil
}

// WithUsage makes the actions obey the quotas of projects; u counts what they use.
func (g *Groups) WithUsage(u *Usage) *Groups {
	g.usage = u
	return g
}

// quotaError says that an action would use more than a project may.
type quotaError struct {
	quota       string // the member of v2.Quota
	used, limit int
}

func (e *quotaError) Error() string {
	return fmt.Sprintf("the project's quota %s is %d, and %d are in use; ask its operator for more, or use less", e.quota, e.limit, e.used)
}

// problem is the answer to a request that a quota refuses.
func (e *quotaError) problem() error {
	return &web.Problem{
		Status: http.StatusForbidden, Type: "quota-exceeded", Err: errs.New(errs.Forbidden, e.Error()),
		Members: map[string]json.RawMessage{
			"quota": json.RawMessage(strconv.Quote(e.quota)), "used": json.RawMessage(strconv.Itoa(e.used)), "limit": json.RawMessage(strconv.Itoa(e.limit)),
		},
	}
}

// checkQuota refuses an action that would use more than the project may. next is what the group
// will have on clusters; head is the one that gets the revision.
func (g *Groups) checkQuota(ctx context.Context, head appcontext.Head, next []appcontext.Placement) error {
	project := store.Key(head.Subject).Project()
	quota, err := g.planner.Quota(ctx, project)
	if err != nil || quota == (v2.Quota{}) || g.usage == nil {
		return err
	}
	use, err := g.usage.of(project)
	if err != nil {
		return err
	}
	placed := 0
	for _, p := range next {
		if len(p.Apps) > 0 {
			placed++
		}
	}
	switch {
	case quota.Deployments != nil && !head.State.Live() && use.deployments >= *quota.Deployments:
		return (&quotaError{"deployments", use.deployments, *quota.Deployments}).problem()
	case quota.Operations != nil && head.Op == nil && use.operations >= *quota.Operations:
		return (&quotaError{"operations", use.operations, *quota.Operations}).problem()
	case quota.Clusters != nil && placed > *quota.Clusters:
		return (&quotaError{"clusters", placed, *quota.Clusters}).problem()
	}
	return nil
}
