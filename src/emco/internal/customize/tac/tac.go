// Package tac is the controller that group intents of upstream EMCO name if the group has hooks. It refuses a group
// intent that names a missing hook, and edits nothing: svc/workflowmgr runs all hooks of a group.
package tac

import (
	"context"

	"github.com/emco-orchestrator/emco/src/emco/internal/customize"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/workflow"
)

// Name is what group intents call the controller.
const Name = "tac"

// Controller checks that named hooks exist.
type Controller struct{ db *store.DB }

// New returns a controller over the documents.
func New(db *store.DB) Controller { return Controller{db} }

// Customize returns no edits. The error is Invalid if the named hook does not exist.
func (c Controller) Customize(ctx context.Context, d customize.Deployment) (customize.Edits, error) {
	return customize.Edits{}, d.CheckIntent(ctx, c.db, "HookIntent", workflow.HookCollection)
}
