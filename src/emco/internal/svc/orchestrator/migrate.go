package orchestrator

import (
	"context"
	"fmt"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/lifecycle"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

// migrate hands what runs to another group, in one transaction over the heads of both.
// Clusters go on knowing it by the same id, so only what differs between the two is
// touched. The target is checked before anything is built. From then on the target owns
// what runs, also if the operation that makes its revision fails.
func (g *Groups) migrate(ctx context.Context, c lifecycle.Snapshot, o actionRequest) ([]appcontext.Move, error) {
	next, err := g.table.Next(c.Head.State, lifecycle.Migrate)
	if err != nil {
		return nil, err
	}
	target, err := g.migrationTarget(ctx, c.Doc, o.target)
	if err != nil {
		return nil, err
	}
	cloud, err := g.prepare(ctx, target.Doc, c.Head, o)
	if err != nil {
		return nil, err
	}
	op := g.operation(target.Head, o)
	to := queue(target, inheritingHead(target.Head, c.Head), op, o.request.NewAction(appcontext.Instantiated, op.Instance, op.Rev))
	to.Needs = &cloud
	return []appcontext.Move{
		withEvents(c.Move(releasedHead(c.Head, target.Head, next), o.request.NewAction(next, c.LastInstance(), c.Head.LastRev)),
			o.request.NewEvent("Migrated", "what runs belongs to "+string(target.Doc.Key)+" now", 0)),
		withEvents(to, o.request.NewEvent("Instantiated", fmt.Sprintf("revision %d was asked for, to take the place of what ran for %s", op.Rev, c.Doc.Key), op.Rev)),
	}, nil
}

// releasedHead is the head of a source after its migration: it wants nothing, and has nothing.
func releasedHead(source, target appcontext.Head, state appcontext.State) appcontext.Head {
	source.State, source.MovedTo = state, target.UID
	source.Rev, source.Op, source.Failure, source.Gone, source.Stopped = 0, nil, "", false, false
	return source
}

// inheritingHead is the head of a target that has what the source had, and no revision of its own for it.
func inheritingHead(target, source appcontext.Head) appcontext.Head {
	target.Inherited, target.MovedTo = source.Deployment(), ""
	target.Rev, target.Gone = 0, false
	return target
}

// migrationTarget finds the group that is to take over, and makes sure that it may: it must be
// approved, and nothing may be left of what it had before.
func (g *Groups) migrationTarget(ctx context.Context, source store.Doc, to v2.MigrateSpec) (lifecycle.Snapshot, error) {
	part := groupNamesOf(source.Key)
	key := groupKey(part.project, part.app, to.Version, to.Group)
	if key == source.Key {
		return lifecycle.Snapshot{}, errs.New(errs.Invalid, "Invalid Input:\n- spec: the target is the group itself; update it instead")
	}
	doc, err := g.groupAt(ctx, key)
	if err != nil {
		return lifecycle.Snapshot{}, notFoundAs(err, "DeploymentIntentGroup not found: "+string(key))
	}
	c, err := g.executor.Load(ctx, doc)
	if err != nil {
		return c, err
	}
	if _, err := g.table.Next(c.Head.State, lifecycle.Adopt); err != nil {
		return c, errs.New(errs.Conflict, fmt.Sprintf("the target %s is %s; it has to be Approved, and not to run", key, c.Head.State))
	}
	return c, g.checkCleared(ctx, c.Head)
}

// checkCleared refuses while something is left on clusters of what a group ran before: nobody
// would remove it when the group has another deployment's id.
func (g *Groups) checkCleared(ctx context.Context, head appcontext.Head) error {
	if head.LastRev == 0 || !head.Owns() {
		return nil
	}
	left, err := g.reader.Left(ctx, head.UID)
	if err == nil && len(left) > 0 {
		err = errs.New(errs.Conflict, fmt.Sprintf("the target is still being terminated: %d placements are left; migrate when its status is Terminated", len(left)))
	}
	return err
}
