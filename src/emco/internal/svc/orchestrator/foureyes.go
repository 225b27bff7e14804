package orchestrator

import (
	"context"
	"slices"
	"strings"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/authn"
	"github.com/emco-orchestrator/emco/src/emco/internal/authz"
	"github.com/emco-orchestrator/emco/src/emco/internal/lifecycle"
	"github.com/emco-orchestrator/emco/src/emco/internal/review"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

// mostNamed is the largest number of changes, and of callers, that a refusal names.
const mostNamed = 3

// fourEyes refuses an action that would bring to clusters what only its author has looked at:
//
//   - approve, by whoever changed the group or its composite app since its last review;
//   - instantiate, and migrate to the group, while something has changed since then, if the group can be approved again;
//   - otherwise instantiate and update, by whoever changed it.
//
// Approval, and an update by another caller, are reviews. It returns what the action reviews; nil for none, and where
// callers may approve what they changed.
func (g *Groups) fourEyes(ctx context.Context, s lifecycle.Snapshot, req lifecycle.Request) (*appcontext.Reviewed, error) {
	if !g.reviews.Covers(s.Doc.Key) || req.Action == lifecycle.Rollback {
		return nil, nil
	}
	again := false // whether the group can be approved before the action
	if req.Action == lifecycle.Instantiate || req.Action == lifecycle.Migrate {
		_, err := g.table.Next(s.Head.State, lifecycle.Approve)
		again = err == nil
	}
	return g.reviews.Review(ctx, s.Doc.Key, lastReview(s.History), req.DryRun || again, func(open review.Changes) error {
		own, mine := g.reviews.Mine(open, req.Actor)
		switch {
		case len(open.All) == 0 && !open.Forgotten:
			return nil
		case again:
			return errs.New(errs.Conflict, req.Action.String()+": "+string(s.Doc.Key)+" has changed since it was approved: "+named(open)+"; another caller must approve it again (auth.fourEyes)")
		case mine:
			return errs.New(errs.Forbidden, req.Actor+" may not "+req.Action.String()+": "+own.String()+", and in this project another caller must review changes (auth.fourEyes)"+g.others(ctx, req.Action, s.Doc.Key, open))
		case open.Forgotten && !authz.From(ctx).May(authz.Act(lifecycle.Approve.String()), groupType, ""):
			return errs.New(errs.Forbidden, req.Actor+" may not "+req.Action.String()+": more callers have changed this since the last review than EMCO records (auth.fourEyes); a caller that may approve in all projects can do it")
		}
		return nil
	})
}

// reviewed refuses, as Invalid, to publish what a head's operation has made of a group's documents, if these have changed since the request was
// accepted: what the operation read may be what nobody has reviewed.
func (g *Groups) reviewed(ctx context.Context, head appcontext.Head) error {
	group := store.Key(head.Document)
	if !g.reviews.Covers(group) || head.Op.From > 0 {
		return nil
	}
	history, err := g.contexts.History(ctx, head.UID)
	if err != nil {
		return err
	}
	_, err = g.reviews.Review(ctx, group, lastReview(history), true, func(open review.Changes) error {
		if len(open.All) == 0 && !open.Forgotten {
			return nil
		}
		return errs.New(errs.Invalid, head.Op.Kind+": "+string(group)+" has changed since it was reviewed: "+named(open)+"; nothing was done: somebody else must do it again (auth.fourEyes)")
	})
	return err
}

// groupType is what permissions call groups.
const groupType = "deployment-intent-groups"

// lastReview returns what the last review of a group covers; nil for nothing.
func lastReview(history []appcontext.HistoryEntry) *appcontext.Reviewed {
	for _, e := range slices.Backward(history) {
		if e.Reviewed != nil {
			return e.Reviewed
		}
	}
	return nil
}

// isReviewed reports whether a group's history has a review already.
func isReviewed(history []appcontext.HistoryEntry, r *appcontext.Reviewed) bool {
	last := lastReview(history)
	return r == nil || last != nil && *last == *r
}

// named lists some changes.
func named(open review.Changes) string {
	var all []string
	for _, c := range open.All {
		if all = append(all, c.String()); len(all) == mostNamed {
			break
		}
	}
	if len(open.All) > len(all) || open.Forgotten {
		all = append(all, "and others")
	}
	return strings.Join(all, "; ")
}

// others names some who may carry out an action instead: they hold a role that allows it, and have changed nothing.
func (g *Groups) others(ctx context.Context, a lifecycle.Action, group store.Key, open review.Changes) string {
	var who []string
	for _, h := range authz.From(ctx).Who(authz.Act(a.String()), groupType, v2.ProjectStoreKey(group.Project())) {
		if _, changed := g.reviews.Mine(open, h.Subject); changed {
			continue
		}
		if who = append(who, h.Subject); len(who) == mostNamed {
			break
		}
	}
	if len(who) == 0 {
		return "; no other caller has a role that allows it"
	}
	return "; " + strings.Join(who, ", ") + " may"
}

// reviewable is fourEyes for requests that only ask.
func (g *Groups) reviewable(ctx context.Context, doc store.Doc, req actionRequest) error {
	if !g.reviews.Covers(doc.Key) {
		return nil
	}
	if req.request.Action == lifecycle.Migrate {
		target, err := g.migrationTarget(ctx, doc, req.target)
		if err != nil {
			return err
		}
		doc = target.Doc
	}
	s, err := g.executor.Load(ctx, doc)
	if err != nil {
		return err
	}
	req.request.DryRun = true
	_, err = g.fourEyes(ctx, s, req.request)
	return err
}

// Objection returns why the caller of a request may not carry out an action of a group now though its roles allow it; nil if it may,
// and for what is not an action that needs a review.
func (g *Groups) Objection(ctx context.Context, group v2.GroupKey, action string) error {
	reviewed := []lifecycle.Action{lifecycle.Approve, lifecycle.Instantiate, lifecycle.Update}
	i := slices.IndexFunc(reviewed, func(a lifecycle.Action) bool { return a.String() == action })
	if i < 0 {
		return nil
	}
	doc, err := g.groupAt(ctx, store.Key(group.StoreKey()))
	if errs.Is(err, errs.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return g.reviewable(ctx, doc, actionRequest{request: lifecycle.Request{Action: reviewed[i], Actor: authn.From(ctx).Subject}})
}
