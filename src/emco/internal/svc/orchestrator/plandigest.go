package orchestrator

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/orchestrator/plan"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// A plan is bound to its action by a digest of what decides the outcome: the class of each
// app (everything that its content is rendered from), its clusters and its order, and the
// revision that the action starts from. Nothing is rendered to compute it, so an action and
// the worker that carries it out can both compare it again, each time with the documents
// that they read.

// planDigest returns the digest of an action's plan. requested is the head of the group that
// the action is requested for, group that of the one that gets the revision: the target of a
// migration, otherwise the same.
func planDigest(req actionRequest, requested, group appcontext.Head, outcome string) string {
	return plan.DigestOf(struct {
		Action  string            `json:"action"`
		Desired int64             `json:"desired"` // the revision that runs
		Head    appcontext.HeadID `json:"head"`
		Next    int64             `json:"next"` // the number of the new one
		Outcome string            `json:"outcome"`
	}{req.request.String(), requested.Rev, group.UID, group.NextRevision(), outcome})
}

// planChangedError means that an action would do something else than its plan.
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
