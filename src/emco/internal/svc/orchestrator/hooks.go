package orchestrator

import (
	"context"
	"fmt"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/lifecycle"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/workflow"
)

// hookTypes are the types of the hooks before and after an action.
type hookTypes struct{ before, after string }

// hookTypesOf returns the moments of an action on a group. What replaces a revision is an update.
func hookTypesOf(a lifecycle.Action) hookTypes {
	switch a {
	case lifecycle.Instantiate:
		return hookTypes{v2.PreInstall, v2.PostInstall}
	case lifecycle.Terminate:
		return hookTypes{v2.PreTermination, v2.PostTermination}
	}
	return hookTypes{v2.PreUpdate, v2.PostUpdate}
}

// addHooks adds the hooks of a group to the change that an action makes: op waits for those before it, in the head.
// It is queued when they are complete: the sweep of content waits for operations that are queued.
func (g *Groups) addHooks(ctx context.Context, group store.Key, m *appcontext.HeadChange, op appcontext.Operation, when hookTypes) error {
	count := map[string]int{}
	under := group + "/" + workflow.HookCollection
	for item, err := range store.All[v2.HookIntent](ctx, g.db, under, store.Query{Depth: 1}) {
		if err != nil {
			return err
		}
		hook := item.Value
		kind := hook.Spec.HookType
		if kind == "" || kind != when.before && kind != when.after {
			continue
		}
		if count[kind]++; count[kind] > workflow.MaxHooks {
			return errs.New(errs.Invalid, fmt.Sprintf("the group has more than %d hooks of the type %s; remove some below %s", workflow.MaxHooks, kind, under))
		}
		m.Runs = append(m.Runs, appcontext.WorkflowRun{
			Group: string(group), Name: appcontext.HookRun(hook.Metadata.Name), ID: workflow.NewID(string(item.Doc.Key), hook.Spec.WorkflowSpec),
			Hook: kind, After: hook.Spec.After, Operation: op.ID, Rev: op.Rev, State: v2.RunWaiting, Message: waitsFor(hook.Spec, op), Since: op.At,
		})
	}
	if count[when.before] == 0 {
		return nil
	}
	op.Hooks = true
	m.Op, m.To.Op = nil, &op
	return nil
}

// waitsFor returns what a hook that has not begun waits for.
func waitsFor(s v2.HookIntentSpec, op appcontext.Operation) string {
	switch {
	case v2.IsBefore(s.HookType):
		return ""
	case s.HookType == v2.PostTermination:
		return "it waits until everything is removed from the clusters"
	case s.After == v2.AfterApplied:
		return fmt.Sprintf("it waits until all objects of revision %d are applied", op.Rev)
	}
	return fmt.Sprintf("it waits until all clusters report that the objects of revision %d are ready", op.Rev)
}
