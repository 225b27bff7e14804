package revision

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/render"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/orchestrator/plan"
)

// Restore publishes an earlier revision's content as the next revision, and returns the next head.
// It is Invalid if Admit refuses it, and a Conflict if the head has changed; other errors are those of RestoredDraft.
func (b Builder) Restore(ctx context.Context, head appcontext.Head, policies plan.Policies) (appcontext.Head, error) {
	d, err := b.RestoredDraft(ctx, head, policies)
	if err != nil {
		return head, err
	}
	return b.publish(ctx, head, d)
}

// RestoredDraft returns the draft of a rollback. It is NotFound if the earlier revision is no longer
// kept, and Invalid if clusters of it are not registered any longer or a policy refuses its content.
func (b Builder) RestoredDraft(ctx context.Context, head appcontext.Head, policies plan.Policies) (Draft, error) {
	old, err := b.Contexts.Revision(ctx, head.UID, head.Op.From)
	if err != nil {
		return Draft{}, err
	}
	d := Draft{Revision: revisionOf(head.Op)}
	d.Revision.Namespace, d.Revision.Cloud, d.Revision.Apps, d.Revision.Labelled = old.Namespace, old.Cloud, old.Apps, old.Labelled
	if d.Placements, err = b.Contexts.Placements(ctx, head.UID, head.Op.From); err != nil {
		return d, err
	}
	if b.CheckRegistered != nil {
		if err := b.CheckRegistered(ctx, head.Op.From, d.Placements); err != nil {
			return d, err
		}
	}
	if err := b.checkRestored(ctx, d, policies); err != nil {
		return d, err
	}
	if err := b.noteRestored(ctx, head, &d, policies); err != nil {
		return d, err
	}
	d.Use, err = b.use(ctx, d)
	return d, err
}

// noteRestored notes duplicates in the draft of a rollback, and is Invalid if a policy refuses them.
func (b Builder) noteRestored(ctx context.Context, head appcontext.Head, d *Draft, policies plan.Policies) error {
	d.Revision.Apps = slices.Clone(d.Revision.Apps)
	d.note(nil) // in the place of what was found when the revision was made
	if !policies.ReportDuplicates() {
		return nil
	}
	now, err := Desired(ctx, b.Contexts, head)
	if err != nil {
		return err
	}
	found, err := b.duplicates(ctx, b.Contexts, head, now, d.Placements)
	if err != nil {
		return err
	}
	if policy, refuses := policies.RefuseDuplicates(); refuses {
		if refused := refusals(found, policy); len(refused) > 0 {
			app := slices.Min(slices.Collect(maps.Keys(refused)))
			return errs.New(errs.Invalid, fmt.Sprintf("revision %d is not restored: app %s: %s", d.Revision.From, app, refused[app].Reason))
		}
	}
	d.note(found)
	return nil
}

// checkRestored refuses the draft of a rollback with content that a policy refuses now.
func (b Builder) checkRestored(ctx context.Context, d Draft, policies plan.Policies) error {
	if name, encrypts := policies.Encrypts(); encrypts {
		if err := b.checkEncrypted(ctx, d, name); err != nil {
			return err
		}
	}
	if !policies.Strict() {
		return nil
	}
	checked := map[appcontext.Digest]bool{}
	for _, p := range d.Placements {
		for app, bundle := range p.Apps {
			if checked[bundle] {
				continue
			}
			checked[bundle] = true
			content, err := b.readBundle(ctx, bundle)
			if err != nil {
				return err
			}
			_, failure, err := policies.Check(content, strings.NewReplacer())
			if err != nil {
				return err
			}
			if failure != nil {
				return errs.New(errs.Invalid, fmt.Sprintf("revision %d is not restored: app %s: %s", d.Revision.From, app, failure.Reason))
			}
		}
	}
	return nil
}

// readBundle reads the objects of a bundle. Their files are not stored.
func (b Builder) readBundle(ctx context.Context, d appcontext.Digest) (out render.Result, err error) {
	bundle, err := b.Contexts.GetBundle(ctx, d)
	if err != nil {
		return out, err
	}
	read := func(ref appcontext.Ref) manifest.Object {
		content, readErr := b.Contexts.GetBlob(ctx, ref.Digest)
		err = cmp.Or(err, readErr)
		return manifest.Object{ID: ref.ID, Digest: ref.Digest, Content: content}
	}
	for _, ref := range bundle.CRDs {
		out.CRDs = append(out.CRDs, read(ref))
	}
	for _, ref := range bundle.Objects {
		out.Objects = append(out.Objects, read(ref))
	}
	for _, h := range bundle.Hooks {
		out.Hooks = append(out.Hooks, render.Hook{Object: read(h.Ref)})
	}
	return out, err
}
