package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/render"
)

// DigestOf returns the digest of values that have one JSON form. It panics if they have none.
func DigestOf[T any](values T) string {
	text, err := json.Marshal(values)
	if err != nil {
		panic("plan: a digest of what has no JSON form: " + err.Error())
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
	Labelled  [][]v2.ClusterKey       `json:"labelled,omitempty"` // the clusters of waves by label
}

// classOutcome is the content of a class and its clusters.
type classOutcome struct {
	Class    string          `json:"class"`
	Clusters []v2.ClusterKey `json:"clusters"`
}

// Outcome returns the digest of what decides the plan's outcome. The label with the
// deployment's id is left out: a deployment that starts again chooses its id with the action.
func (p Plan) Outcome(edition string) string {
	apps := make([]appOutcome, 0, len(p.Apps))
	for _, a := range p.Apps {
		req := a.Request
		req.Labels = nil
		next := appOutcome{
			Name: a.Name, Clusters: a.Decision.Clusters,
			DependsOn: a.Order.DependsOn, LeaveLast: a.Order.LeaveLast, Rollout: a.Order.Rollout, Labelled: p.labelledWaves(a),
		}
		for _, c := range a.Classes() {
			class := string(a.Policies.Digest(c.Digest(render.Class(edition, c.Request(req)))))
			next.Classes = append(next.Classes, classOutcome{class, c.Clusters})
		}
		if len(next.Classes) == 1 {
			next.Class, next.Classes = next.Classes[0].Class, nil
		}
		apps = append(apps, next)
	}
	return DigestOf(struct {
		Namespace string           `json:"namespace"`
		Cloud     appcontext.Cloud `json:"cloud"`
		Apps      []appOutcome     `json:"apps"`
	}{p.Namespace, p.Cloud, apps})
}

// RestoredOutcome is the digest of what decides the outcome of a rollback: revisions never
// change.
func RestoredOutcome(from int64) string { return DigestOf(fmt.Sprintf("revision %d", from)) }

// CheckOutcome is Invalid for a plan with another outcome than the one that the operation's
// user has accepted: the documents have changed between the action and its execution.
func (p Plan) CheckOutcome(op *appcontext.Operation, renderer render.Renderer) error {
	if op.Outcome == "" || op.Outcome == p.Outcome(renderer.Edition()) {
		return nil
	}
	return errs.New(errs.Invalid, "the documents have changed since the plan of this action was accepted; nothing was done: plan the action again")
}
