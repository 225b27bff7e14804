package orchestrator

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/render"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// A plan is bound to its action by a digest of what decides the outcome: the class of each
// app (everything that its content is rendered from), its clusters and its order, and the
// revision that the action starts from. Nothing is rendered to compute it, so an action and
// the worker that carries it out can both compare it again, each time with the documents
// that they read.

// digestOf returns the digest of values that have one JSON form.
func digestOf[T any](values T) string {
	text, err := json.Marshal(values)
	if err != nil {
		panic("orchestrator: a digest of what has no JSON form: " + err.Error())
	}
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// appOutcome decides what a revision does with one app.
type appOutcome struct {
	Name      string                  `json:"name"`
	Class     string                  `json:"class"`
	Clusters  []v2.ClusterKey         `json:"clusters"`
	Classes   []classOutcome          `json:"classes,omitempty"` // if clusters get different content
	DependsOn []appcontext.Dependency `json:"dependsOn"`
	LeaveLast bool                    `json:"leaveLast"`
	Rollout   *appcontext.Rollout     `json:"rollout"`
}

// classOutcome is the content of a class and its clusters.
type classOutcome struct {
	Class    string          `json:"class"`
	Clusters []v2.ClusterKey `json:"clusters"`
}

// outcome returns the digest of what decides the plan's outcome. The label with the
// deployment's id is left out: a deployment that starts anew chooses its id with the action.
func (p revisionPlan) outcome(edition string) string {
	apps := make([]appOutcome, 0, len(p.apps))
	for _, a := range p.apps {
		req := a.request
		req.Labels = nil
		next := appOutcome{
			Name: a.name, Clusters: a.decision.Clusters,
			DependsOn: a.order.dependsOn, LeaveLast: a.order.leaveLast, Rollout: a.order.rollout,
		}
		for _, c := range a.classes() {
			class := string(a.policies.digest(c.Digest(render.Class(edition, c.Request(req)))))
			next.Classes = append(next.Classes, classOutcome{class, c.Clusters})
		}
		if len(next.Classes) == 1 {
			next.Class, next.Classes = next.Classes[0].Class, nil
		}
		apps = append(apps, next)
	}
	return digestOf(struct {
		Namespace string           `json:"namespace"`
		Cloud     appcontext.Cloud `json:"cloud"`
		Apps      []appOutcome     `json:"apps"`
	}{p.namespace, p.cloud, apps})
}

// restoredOutcome is the digest of what decides the outcome of a rollback: revisions never
// change.
func restoredOutcome(from int64) string { return digestOf(fmt.Sprintf("revision %d", from)) }

// planDigest returns the digest of an action's plan. requested is the head of the group that
// the action is requested for, group that of the one that gets the revision: the target of a
// migration, otherwise the same.
func planDigest(req actionRequest, requested, group appcontext.Head, outcome string) string {
	return digestOf(struct {
		Action  string            `json:"action"`
		Desired int64             `json:"desired"` // the revision that runs
		Head    appcontext.HeadID `json:"head"`
		Next    int64             `json:"next"` // the number of the new one
		Outcome string            `json:"outcome"`
	}{req.request.String(), requested.Rev, group.UID, group.LastRev + 1, outcome})
}

// planChangedError says that an action would do something else than its plan.
type planChangedError struct{ plan, now string }

func (e *planChangedError) Error() string {
	return "the documents or the deployment have changed since the plan " + e.plan + " was made; nothing was done: look at the new plan, " + e.now
}

// planChanged answers 412 with the plan as it is now. Its summary is left out if it cannot be
// made, for example because too many dry runs are under way.
func (g *Groups) planChanged(ctx context.Context, doc store.Doc, req actionRequest, changed *planChangedError) error {
	out := &web.Problem{
		Status: http.StatusPreconditionFailed, Type: "plan-changed", Err: errs.New(errs.Conflict, changed.Error()),
		Members: map[string]json.RawMessage{"plan": jsonOf(changed.now)},
	}
	if plan, err := g.limitedDryRun(ctx, doc, req, false); err == nil {
		out.Members["plan"], out.Members["summary"] = jsonOf(plan.Digest), jsonOf(plan.Summary)
	}
	return out
}

// jsonOf returns the JSON of a value that always has one.
func jsonOf[T string | v2.PlanSummary](value T) json.RawMessage {
	text, err := json.Marshal(value)
	if err != nil {
		return json.RawMessage("null")
	}
	return text
}

// checkOutcome refuses a plan with another outcome than the one that the operation's user has
// accepted: the documents have changed between the action and its execution.
func (p revisionPlan) checkOutcome(op *appcontext.Operation, renderer render.Renderer) error {
	if op.Outcome == "" || op.Outcome == p.outcome(renderer.Edition()) {
		return nil
	}
	return errs.New(errs.Invalid, "the documents have changed since the plan of this action was accepted; nothing was done: plan the action again")
}
