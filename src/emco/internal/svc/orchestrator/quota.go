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
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/orchestrator/plan"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// Usage counts what projects use, head by head as heads change. It observes a mirror.
type Usage struct {
	mu       sync.Mutex
	heads    map[appcontext.HeadID]headUse // guarded by mu
	projects map[string]projectUse         // of those that use something; guarded by mu
	whole    bool                          // all heads were counted; guarded by mu
}

// projectUse is what a project uses, or one head of it.
type projectUse struct {
	deployments int64 // instantiated deployment intent groups
	operations  int64 // that have not made their revision
	targets     int64 // clusters of each deployment
	objects     int64
	bytes       int64
}

// plus returns the sum of u and n times v.
func (u projectUse) plus(v projectUse, n int64) projectUse {
	return projectUse{
		u.deployments + n*v.deployments, u.operations + n*v.operations, u.targets + n*v.targets, u.objects + n*v.objects, u.bytes + n*v.bytes,
	}
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
	if _, isGroup := v2.CompositeAppOf(h.Document); !isGroup {
		return
	}
	next := headUse{store.Key(h.Document).Project(), useOf(*h)}
	u.heads[id] = next
	u.addLocked(next, 1)
}

// useOf returns what the head of a group uses.
func useOf(h appcontext.Head) (out projectUse) {
	if h.State.Live() || h.Op != nil && h.Op.Terminates() { // a termination that waits for hooks may be aborted
		out.deployments = 1
	}
	if h.Op != nil {
		out.operations = 1
	}
	if h.Owns() && !h.Gone {
		out.targets, out.objects, out.bytes = int64(h.Use.Clusters), h.Use.Objects, h.Use.Bytes
	}
	return out
}

// addLocked adds the use of a head n times.
func (u *Usage) addLocked(h headUse, n int64) {
	p := u.projects[h.project].plus(h.use, n)
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

// Advanced notes that everything up to a revision was counted.
func (u *Usage) Advanced(int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.whole = true
}

// of returns the use of a project, and what some of its heads use of it; Unavailable while heads are
// still being counted.
func (u *Usage) of(project string, heads ...appcontext.HeadID) (all, part projectUse, err error) {
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

// WithUsage makes the actions obey the quotas of projects; u counts what they use.
func (g *Groups) WithUsage(u *Usage) *Groups {
	g.usage = u
	return g
}

// quotas compares what projects use with what they may use.
type quotas struct {
	planner plan.Planner
	usage   *Usage // nil: there are no quotas
}

func (g *Groups) quotas() quotas { return quotas{g.planner, g.usage} }

// quotaDemand is what a deployment would use of a quota.
type quotaDemand struct {
	quota     string
	others    int64 // what other deployments of the project use
	now, next int64 // what this one uses, and would use
}

// quotaError means that an action would use more than a project may.
type quotaError struct {
	project string
	limit   plan.Limit
	quotaDemand
}

func (e *quotaError) Error() string {
	use := fmt.Sprintf("others use %d, and this deployment would use %d instead of %d", e.others, e.next, e.now)
	if e.quota == v2.QuotaClusters {
		use = fmt.Sprintf("this deployment would use %d", e.next)
	}
	return fmt.Sprintf("project %s: quota %s of policy %s is %d: %s; use less, or ask the operator of the project for more", e.project, e.quota, e.limit.Policy, e.limit.Max, use)
}

// used returns the number to compare with the limit: what is used without the action, or by it if
// the quota bounds each deployment.
func (e *quotaError) used() int64 {
	if e.quota == v2.QuotaClusters {
		return e.next
	}
	return e.others + e.now
}

// problem is the answer to a request that a quota refuses.
func (e *quotaError) problem() error {
	number := func(n int64) json.RawMessage { return json.RawMessage(strconv.FormatInt(n, 10)) }
	return &web.Problem{
		Status: http.StatusForbidden, Type: "quota-exceeded", Err: errs.New(errs.Forbidden, e.Error()),
		Members: map[string]json.RawMessage{
			"quota": json.RawMessage(strconv.Quote(e.quota)), "policy": json.RawMessage(strconv.Quote(e.limit.Policy)),
			"used": number(e.used()), "wanted": number(e.others + e.next), "limit": number(e.limit.Max),
		},
	}
}

// requested returns the error about an action whose revision would have these placements; nil if
// the quotas allow it. What the revision renders to is not known yet. from is the head that the
// action concerns, and to the one that gets the revision; they differ in a migration.
func (q quotas) requested(ctx context.Context, from, to appcontext.Head, next []appcontext.Placement) error {
	placed := int64(0)
	for _, p := range next {
		if len(p.Apps) > 0 {
			placed++
		}
	}
	return q.problem(ctx, from, to, func(others, now projectUse) []quotaDemand {
		return []quotaDemand{
			{v2.QuotaDeployments, others.deployments, now.deployments, 1},
			{v2.QuotaOperations, others.operations, now.operations, 1},
			{v2.QuotaClusters, 0, 0, placed},
			{v2.QuotaTargets, others.targets, now.targets, placed},
		}
	})
}

// rendered refuses, with a problem document, a revision that would use more than its project may.
func (q quotas) rendered(ctx context.Context, from, to appcontext.Head, next appcontext.Use) error {
	return q.problem(ctx, from, to, demandsOf(next))
}

// admit refuses, as Invalid, a revision that would use more than its project may.
func (q quotas) admit(ctx context.Context, head appcontext.Head, next appcontext.Use) error {
	refused, err := q.check(ctx, head, head, demandsOf(next))
	if err == nil && refused != nil {
		err = errs.New(errs.Invalid, refused.Error())
	}
	return err
}

// demandsOf returns what a rendered revision would use.
func demandsOf(next appcontext.Use) func(others, now projectUse) []quotaDemand {
	return func(others, now projectUse) []quotaDemand {
		return []quotaDemand{
			{v2.QuotaTargets, others.targets, now.targets, int64(next.Clusters)},
			{v2.QuotaObjects, others.objects, now.objects, next.Objects},
			{v2.QuotaBytes, others.bytes, now.bytes, next.Bytes},
		}
	}
}

// problem is check with the answer to a request.
func (q quotas) problem(ctx context.Context, from, to appcontext.Head, demands func(others, now projectUse) []quotaDemand) error {
	refused, err := q.check(ctx, from, to, demands)
	if err == nil && refused != nil {
		err = refused.problem()
	}
	return err
}

// check compares demands with the quotas of the project. A deployment that would use no more than now
// is allowed, so that users can reduce it after a quota was lowered.
func (q quotas) check(ctx context.Context, from, to appcontext.Head, demands func(others, now projectUse) []quotaDemand) (*quotaError, error) {
	project := store.Key(to.Document).Project()
	limits, err := q.planner.Limits(ctx, project)
	if err != nil || len(limits) == 0 || q.usage == nil {
		return nil, err
	}
	heads := []appcontext.HeadID{to.UID}
	if from.UID != to.UID {
		heads = append(heads, from.UID)
	}
	all, now, err := q.usage.of(project, heads...)
	if err != nil {
		return nil, err
	}
	for _, d := range demands(all.plus(now, -1), now) {
		if l, limited := limits[d.quota]; limited && d.others+d.next > l.Max && d.next > d.now {
			return &quotaError{project, l, d}, nil
		}
	}
	return nil, nil
}

// getUsage answers with what a project uses of its quotas.
func (g Queries) getUsage(w http.ResponseWriter, r *http.Request) error {
	if err := web.CheckQuery(r.URL.Query()); err != nil {
		return err
	}
	v, err := web.Vars(r)
	if err != nil {
		return err
	}
	project := v["project"]
	if _, err := g.db.Get(r.Context(), store.Key(v2.ProjectStoreKey(project))); err != nil {
		return store.NotFoundAs(err, "Project not found")
	}
	limits, err := g.planner.Limits(r.Context(), project)
	if err != nil {
		return err
	}
	if g.usage == nil {
		return errs.New(errs.Unavailable, "this process does not count what projects use")
	}
	use, _, err := g.usage.of(project)
	if err != nil {
		return err
	}
	out := v2.ProjectUsage{Project: project}
	for _, l := range (v2.Quota{}).Limits() {
		out.Quotas = append(out.Quotas, quotaUsage(l.Name, use, limits))
	}
	return web.JSON(w, http.StatusOK, out)
}

// quotaUsage returns the use of a quota.
func quotaUsage(name string, use projectUse, limits map[string]plan.Limit) v2.QuotaUsage {
	out := v2.QuotaUsage{Name: name}
	used, counted := map[string]int64{
		v2.QuotaDeployments: use.deployments, v2.QuotaOperations: use.operations,
		v2.QuotaTargets: use.targets, v2.QuotaObjects: use.objects, v2.QuotaBytes: use.bytes,
	}[name]
	if counted {
		out.Used = &used
	}
	if l, limited := limits[name]; limited {
		out.Limit, out.Policy = &l.Max, l.Policy
	}
	return out
}
