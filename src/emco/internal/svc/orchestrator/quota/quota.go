// Package quota counts what projects use, and holds their deployments to the quotas of their policies.
package quota

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"strconv"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// Checker compares what projects use with what they may use.
type Checker struct {
	DB    *store.DB
	Usage *Usage // nil: there are no quotas
}

// limit is the limit of a quota, and the policy that sets it.
type limit struct {
	max    int64
	policy string
}

// limits returns the limits of a project by the name of the quota. Of several policies the lowest
// number holds. Errors are the store's.
func (c Checker) limits(ctx context.Context, project string) (map[string]limit, error) {
	out := map[string]limit{}
	for item, err := range store.All[v2.Policy](ctx, c.DB, store.Key(v2.ProjectStoreKey(project)+"/policies"), store.Query{Depth: 1}) {
		if err != nil {
			return nil, err
		}
		if item.Value.Spec.Quota == nil {
			continue
		}
		for _, l := range item.Value.Spec.Quota.Limits() {
			if l.Limit == nil {
				continue
			}
			if lowest, limited := out[l.Name]; !limited || *l.Limit < lowest.max {
				out[l.Name] = limit{*l.Limit, path.Base(string(item.Doc.Key))}
			}
		}
	}
	return out, nil
}

// demand is what a deployment would use of a quota.
type demand struct {
	quota     string
	others    int64 // what other deployments of the project use
	now, next int64 // what this one uses, and would use
}

// exceeded means that an action would use more than a project may.
type exceeded struct {
	project string
	limit   limit
	demand
}

func (e *exceeded) Error() string {
	use := fmt.Sprintf("others use %d, and this deployment would use %d instead of %d", e.others, e.next, e.now)
	if e.quota == v2.QuotaClusters {
		use = fmt.Sprintf("this deployment would use %d", e.next)
	}
	return fmt.Sprintf("project %s: quota %s of policy %s is %d: %s; use less, or ask the operator of the project for more", e.project, e.quota, e.limit.policy, e.limit.max, use)
}

// used returns the number to compare with the limit: what is used without the action, or by it if
// the quota bounds each deployment.
func (e *exceeded) used() int64 {
	if e.quota == v2.QuotaClusters {
		return e.next
	}
	return e.others + e.now
}

// problem is the answer to a request that a quota refuses.
func (e *exceeded) problem() error {
	number := func(n int64) json.RawMessage { return json.RawMessage(strconv.FormatInt(n, 10)) }
	return &web.Problem{
		Status: http.StatusForbidden, Type: "quota-exceeded", Err: errs.New(errs.Forbidden, e.Error()),
		Members: map[string]json.RawMessage{
			"quota": json.RawMessage(strconv.Quote(e.quota)), "policy": json.RawMessage(strconv.Quote(e.limit.policy)),
			"used": number(e.used()), "wanted": number(e.others + e.next), "limit": number(e.limit.max),
		},
	}
}

// CheckRequest returns the problem with an action whose revision would have these placements; nil if
// the quotas allow it. What the revision renders to is not known yet. from is the head that the
// action concerns, and to the one that gets the revision; they differ in a migration.
func (c Checker) CheckRequest(ctx context.Context, from, to appcontext.Head, next []appcontext.Placement) error {
	placed := int64(0)
	for _, p := range next {
		if len(p.Apps) > 0 {
			placed++
		}
	}
	return c.problem(ctx, from, to, func(others, now Use) []demand {
		return []demand{
			{v2.QuotaDeployments, others.Deployments, now.Deployments, 1},
			{v2.QuotaOperations, others.Operations, now.Operations, 1},
			{v2.QuotaClusters, 0, 0, placed},
			{v2.QuotaTargets, others.Targets, now.Targets, placed},
		}
	})
}

// CheckRendered refuses, with a problem document, a revision that would use more than its project may.
func (c Checker) CheckRendered(ctx context.Context, from, to appcontext.Head, next appcontext.Use) error {
	return c.problem(ctx, from, to, demandsOf(next))
}

// Admit refuses, as Invalid, a revision that would use more than its project may.
func (c Checker) Admit(ctx context.Context, head appcontext.Head, next appcontext.Use) error {
	refused, err := c.check(ctx, head, head, demandsOf(next))
	if err == nil && refused != nil {
		err = errs.New(errs.Invalid, refused.Error())
	}
	return err
}

// demandsOf returns what a rendered revision would use.
func demandsOf(next appcontext.Use) func(others, now Use) []demand {
	return func(others, now Use) []demand {
		return []demand{
			{v2.QuotaTargets, others.Targets, now.Targets, int64(next.Clusters)},
			{v2.QuotaObjects, others.Objects, now.Objects, next.Objects},
			{v2.QuotaBytes, others.Bytes, now.Bytes, next.Bytes},
		}
	}
}

// problem is check with the answer to a request.
func (c Checker) problem(ctx context.Context, from, to appcontext.Head, demands func(others, now Use) []demand) error {
	refused, err := c.check(ctx, from, to, demands)
	if err == nil && refused != nil {
		err = refused.problem()
	}
	return err
}

// check compares demands with the quotas of the project. A deployment that would use no more than now
// is allowed, so that users can reduce it after a quota was lowered.
func (c Checker) check(ctx context.Context, from, to appcontext.Head, demands func(others, now Use) []demand) (*exceeded, error) {
	if c.Usage == nil {
		return nil, nil
	}
	project := store.Key(to.Document).Project()
	limits, err := c.limits(ctx, project)
	if err != nil || len(limits) == 0 {
		return nil, err
	}
	heads := []appcontext.HeadID{to.UID}
	if from.UID != to.UID {
		heads = append(heads, from.UID)
	}
	all, now, err := c.Usage.Of(project, heads...)
	if err != nil {
		return nil, err
	}
	for _, d := range demands(all.plus(now, -1), now) {
		if l, limited := limits[d.quota]; limited && d.others+d.next > l.max && d.next > d.now {
			return &exceeded{project, l, d}, nil
		}
	}
	return nil, nil
}

// Report returns what a project uses of its quotas; Unavailable if that is not counted, or not yet. Other errors are the store's.
func (c Checker) Report(ctx context.Context, project string) (v2.ProjectUsage, error) {
	out := v2.ProjectUsage{Project: project}
	if c.Usage == nil {
		return out, errs.New(errs.Unavailable, "this process does not count what projects use")
	}
	limits, err := c.limits(ctx, project)
	if err != nil {
		return out, err
	}
	use, _, err := c.Usage.Of(project)
	if err != nil {
		return out, err
	}
	for _, l := range (v2.Quota{}).Limits() {
		out.Quotas = append(out.Quotas, usageOf(l.Name, use, limits))
	}
	return out, nil
}

// usageOf returns the use of a quota.
func usageOf(name string, use Use, limits map[string]limit) v2.QuotaUsage {
	out := v2.QuotaUsage{Name: name}
	used, counted := map[string]int64{
		v2.QuotaDeployments: use.Deployments, v2.QuotaOperations: use.Operations,
		v2.QuotaTargets: use.Targets, v2.QuotaObjects: use.Objects, v2.QuotaBytes: use.Bytes,
	}[name]
	if counted {
		out.Used = &used
	}
	if l, limited := limits[name]; limited {
		out.Limit, out.Policy = &l.max, l.policy
	}
	return out
}
