package orchestrator

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/lifecycle"
	"github.com/emco-orchestrator/emco/src/emco/internal/render"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

const (
	maxDryRuns    = 2                // at the same time; others wait
	dryRunTimeout = 50 * time.Second // for one, the wait included; below the time that our clients wait for an answer
)

// dryRunner is what dry runs need besides the stores.
type dryRunner struct {
	renderer render.Renderer
	slots    chan struct{}
}

func newDryRunner(renderer render.Renderer) dryRunner {
	return dryRunner{renderer: renderer, slots: make(chan struct{}, maxDryRuns)}
}

// acquire waits for a free slot and returns what gives it back; Throttled if there is none in time.
func (h dryRunner) acquire(ctx context.Context) (leave func(), err error) {
	select {
	case h.slots <- struct{}{}:
		return func() { <-h.slots }, nil
	case <-ctx.Done():
		return nil, errs.Throttle("", "", 10*time.Second, errors.New("too many dry runs are under way; try again later"))
	}
}

// orDryRun answers with the plan of an action if a dry run is asked for, and acts otherwise.
func (g *Groups) orDryRun(e lifecycle.Event, act web.HandlerFunc) web.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) error {
		dry, err := web.AsksDryRun(r)
		if err != nil {
			return err
		}
		if !dry {
			return act(w, r)
		}
		doc, err := g.group(r)
		if err != nil {
			return err
		}
		return g.dryRun(w, r, doc, e)
	}
}

// dryRun answers what an action would do, as a v2.Plan, and writes nothing anywhere.
// What would keep the action from being done is refused in the action's own words, but
// for the confirmation that it may need.
func (g *Groups) dryRun(w http.ResponseWriter, r *http.Request, doc store.Doc, e lifecycle.Event) error {
	full := true
	switch r.URL.Query().Get("output") {
	case "", "all":
	case "summary":
		full = false
	default:
		return errs.New(errs.Invalid, "Invalid query output")
	}
	o, err := g.readActionRequest(w, r, e)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), dryRunTimeout)
	defer cancel()
	leave, err := g.dryRunner.acquire(ctx)
	if err != nil {
		return err
	}
	defer leave()
	p, err := g.planDryRun(ctx, doc, o)
	if err == nil {
		var out v2.Plan
		if out, err = p.answer(ctx, full); err == nil {
			return web.JSON(w, http.StatusOK, out)
		}
	}
	if ctx.Err() != nil && r.Context().Err() == nil {
		return errs.New(errs.Unavailable, "the dry run took longer than "+dryRunTimeout.String()+"; the server is busy, or the apps are many: try again later")
	}
	return err
}

// planDryRun does what the action would do, up to where it would write.
func (g *Groups) planDryRun(ctx context.Context, doc store.Doc, o actionRequest) (dryRunResult, error) {
	head, _, err := lifecycle.Head(ctx, g.contexts, doc)
	if err != nil {
		return dryRunResult{}, err
	}
	if err := g.checkAllowed(ctx, head, o.request.Event); err != nil {
		return dryRunResult{}, err
	}
	held := &dryRunBlobs{contexts: g.contexts, held: map[appcontext.Digest][]byte{}}
	out := dryRunResult{event: o.request.Event, before: head, from: o.from, blobs: held}
	if doc, head, err = g.successor(ctx, doc, head, o); err != nil {
		return dryRunResult{}, err
	}
	status, err := g.identity(doc)
	if err != nil {
		return dryRunResult{}, err
	}
	out.identity = status.Identity
	b := revisionBuilder{contexts: g.contexts, renderer: g.dryRunner.renderer, blobs: held}
	if out.draft, out.plan, err = g.draft(ctx, b, head, doc); err != nil {
		return dryRunResult{}, err
	}
	if out.current, err = desiredPlacements(ctx, g.contexts, out.before); err != nil {
		return dryRunResult{}, err
	}
	out.confirm, err = g.confirmation(ctx, out)
	return out, err
}

// successor returns whose the revision would be, with the operation that would make it: the
// target of a migration, else the group itself. One whose deployment has moved to another
// group begins a new one.
func (g *Groups) successor(ctx context.Context, doc store.Doc, head appcontext.Head, o actionRequest) (store.Doc, appcontext.Head, error) {
	if o.request.Event == lifecycle.Migrate {
		target, err := g.migrationTarget(ctx, doc, o.target)
		if err != nil {
			return doc, head, err
		}
		doc, head = target.Doc, inheritingHead(target.Head, head)
	}
	op := g.operation(head, o)
	if !head.Owns() {
		head.Inherited, head.MovedTo = op.Instance, ""
	}
	head.Op = &op
	return doc, head, nil
}

// checkAllowed asks what the action itself would ask.
func (g *Groups) checkAllowed(ctx context.Context, head appcontext.Head, e lifecycle.Event) error {
	if e == lifecycle.Instantiate {
		return g.checkInstantiate(ctx, head)
	}
	_, err := g.table.Next(head.State, e)
	return err
}

// draft is the revision that the head's operation would publish, and the plan that it
// follows from; a rollback has none.
func (g *Groups) draft(ctx context.Context, b revisionBuilder, head appcontext.Head, doc store.Doc) (revisionDraft, revisionPlan, error) {
	if head.Op.From > 0 {
		if _, err := g.restorablePlacements(ctx, head, head.Op.From); err != nil {
			return revisionDraft{}, revisionPlan{}, err
		}
		if _, err := g.cloudOf(ctx, doc); err != nil {
			return revisionDraft{}, revisionPlan{}, err
		}
		d, err := b.restoredDraft(ctx, head)
		return d, revisionPlan{}, noRevision(err, head.Op.From)
	}
	p, err := g.planner.plan(ctx, doc, head.Deployment())
	if err == nil {
		err = p.refused()
	}
	if err != nil {
		return revisionDraft{}, revisionPlan{}, err
	}
	d, err := b.draft(ctx, head, p)
	return d, p, err
}

// confirmation is why the action needs to be forced; empty if it does not.
func (g *Groups) confirmation(ctx context.Context, o dryRunResult) (string, error) {
	next := o.plan.places()
	if o.from > 0 {
		next = o.draft.placements
	}
	return needsConfirmation(ctx, g.contexts, o.before, next)
}
