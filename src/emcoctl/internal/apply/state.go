package apply

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/emco-orchestrator/emco/src/api/client"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/anchor"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/output"
)

// deploymentState is the part of a status that the executor needs, so that no other member
// can make it unreadable.
type deploymentState struct {
	States struct {
		Actions []struct {
			State string `json:"state"`
		} `json:"actions"`
	} `json:"states"`
	DeployedStatus string `json:"deployedStatus"`
	Status         string `json:"status"` // the same, without a view
}

// state returns the last action, "" for none.
func (s deploymentState) state() string {
	if n := len(s.States.Actions); n > 0 {
		return s.States.Actions[n-1].State
	}
	return ""
}

// failed reports whether the last operation failed, so that the action is not done.
func (s deploymentState) failed() bool {
	return slices.Contains([]string{v2.StatusInstantiateFailed, v2.StatusTerminateFailed}, s.DeployedStatus+s.Status)
}

// doneStates lists the states in which an action has been done already.
var doneStates = map[string][]string{
	"approve":     {"Approved", "Instantiated"},
	"instantiate": {"Instantiated"},
	"apply":       {"Applied", "Instantiated"},
	"terminate":   {"Terminated"},
	"stop":        {"InstantiateStopped", "TerminateStopped"},
}

// neverStarted lists the states without anything to terminate.
var neverStarted = []string{"", "Created", "Approved"}

// checkState decides on a refused action: if the status shows that it is done, it is
// unchanged. Otherwise the refusal is the failure.
func (e *Executor) checkState(ctx context.Context, t documentRequest, refused *client.Response) output.Result {
	path := t.call.Path
	denied := refused.Err(http.MethodPost, path)
	base, action := anchor.Parent(path), anchor.Last(path)
	now, err := client.Get[deploymentState](ctx, t.client, base+"/status?output=summary")
	if err != nil {
		return e.fail(t, path, denied)
	}
	done := doneStates[action]
	if t.verb == anchor.Delete {
		done = append(slices.Clone(done), neverStarted...)
	}
	if !slices.Contains(done, now.state()) || now.failed() {
		r := e.fail(t, path, denied)
		r.Advice = fmt.Sprintf("it is %s; see: emcoctl status %s", or(now.state(), "not started"), base)
		return r
	}
	r := e.done(t, path, output.Unchanged, refused.Status)
	if action == "instantiate" && e.touched(base) {
		r.Note = fmt.Sprintf("documents have changed since then; roll them out with: emcoctl apply %s/update", base)
	}
	return r
}

// touched reports whether this run has changed an input of the deployment at base: a
// document below it, or an app or a profile of its composite app.
func (e *Executor) touched(base string) bool {
	scope := base
	if anchor.Collection(base) == "deployment-intent-groups" {
		scope = anchor.Parent(anchor.Parent(base))
	}
	return slices.ContainsFunc(e.changed, func(path string) bool {
		if below, ok := strings.CutPrefix(path, scope+"/"); ok {
			own, _, _ := strings.Cut(below, "/")
			return own != "deployment-intent-groups" || path == base || strings.HasPrefix(path, base+"/")
		}
		return path == base
	})
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
