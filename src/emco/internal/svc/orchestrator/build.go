package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/render"
)

// maxVerdicts bounds how many refused clusters a revision stores per app.
const maxVerdicts = 50

// revisionBuilder turns plans into revisions.
type revisionBuilder struct {
	contexts *appcontext.Store
	renderer render.Renderer
	blobs    blobWriter
}

// blobWriter is where rendered content goes: the AppContext, or memory for a dry run.
type blobWriter interface {
	PutBlobs(ctx context.Context, contents map[appcontext.Digest][]byte) error
}

// revisionDraft is a revision before it is published, with its placements in order of cluster.
type revisionDraft struct {
	rev        appcontext.Revision
	placements []appcontext.Placement
}

// publish makes the draft of a plan the desired revision.
func (b revisionBuilder) publish(ctx context.Context, head appcontext.Head, p revisionPlan) (appcontext.Head, error) {
	d, err := b.draft(ctx, head, p)
	if err != nil {
		return head, err
	}
	if err := b.confirm(ctx, head, d); err != nil {
		return head, err
	}
	head.Gone = false
	return b.contexts.Publish(ctx, head, d.rev, slices.Values(d.placements))
}

// draft renders each app once, or not at all if the newest revision rendered it from equal
// inputs. The revision records why an app fails; such an app stays unchanged on the
// clusters where it runs.
func (b revisionBuilder) draft(ctx context.Context, head appcontext.Head, p revisionPlan) (revisionDraft, error) {
	before, err := b.renderedBefore(ctx, head)
	if err != nil {
		return revisionDraft{}, err
	}
	built, err := b.renderAll(ctx, p, before)
	if err != nil {
		return revisionDraft{}, err
	}
	placed, err := b.runningPlacements(ctx, head, built)
	if err != nil {
		return revisionDraft{}, err
	}
	rev := revisionOf(head.Op)
	rev.Namespace, rev.Cloud = p.namespace, p.cloud
	for _, a := range built {
		rev.Apps = append(rev.Apps, a.app)
		if len(a.clusters) > 0 {
			placed = append(placed, appPlacement{a.app.Name, a.app.Bundles[0], a.clusters})
		}
	}
	return revisionDraft{rev, placementsByCluster(placed)}, nil
}

// confirm refuses a draft that removes many placements without confirmation: the documents
// may have changed since the operation was requested.
func (b revisionBuilder) confirm(ctx context.Context, head appcontext.Head, d revisionDraft) error {
	if head.Op.Force {
		return nil
	}
	text, err := needsConfirmation(ctx, b.contexts, head, d.placements)
	if err == nil && text != "" {
		err = errs.New(errs.Invalid, text)
	}
	return err
}

// restore publishes an earlier revision's content as the next revision.
func (b revisionBuilder) restore(ctx context.Context, head appcontext.Head) (appcontext.Head, error) {
	d, err := b.restoredDraft(ctx, head)
	if err != nil {
		return head, err
	}
	return b.contexts.Publish(ctx, head, d.rev, slices.Values(d.placements))
}

// restoredDraft returns the draft of a rollback.
func (b revisionBuilder) restoredDraft(ctx context.Context, head appcontext.Head) (revisionDraft, error) {
	old, err := b.contexts.Revision(ctx, head.UID, head.Op.From)
	if err != nil {
		return revisionDraft{}, err
	}
	d := revisionDraft{rev: revisionOf(head.Op)}
	d.rev.Namespace, d.rev.Cloud, d.rev.Apps = old.Namespace, old.Cloud, old.Apps
	d.placements, err = b.contexts.Placements(ctx, head.UID, head.Op.From)
	return d, err
}

// revisionOf returns an operation's revision without content.
func revisionOf(op *appcontext.Operation) appcontext.Revision {
	return appcontext.Revision{
		Number: op.Rev, Instance: op.Instance, Operation: op.ID, Kind: op.Kind, From: op.From,
		Author: op.Actor, Reason: op.Reason, At: op.At,
	}
}

// builtApp is an app with its bundle and its clusters; a failed one has neither.
type builtApp struct {
	app      appcontext.App
	clusters []v2.ClusterKey
}

// renderedApps are rendered apps by the digest of their inputs.
type renderedApps map[manifest.Digest]appcontext.App

// renderedBefore returns the rendered apps of the newest revision. Their content exists,
// because that revision is kept and refers to it.
func (b revisionBuilder) renderedBefore(ctx context.Context, head appcontext.Head) (renderedApps, error) {
	if head.Rev == 0 {
		return nil, nil
	}
	rev, err := b.contexts.Revision(ctx, head.UID, head.Rev)
	if err != nil {
		return nil, err
	}
	out := renderedApps{}
	for _, a := range rev.Apps {
		if a.Failure == nil && len(a.Bundles) > 0 && a.Class != "" {
			out[a.Class] = a
		}
	}
	return out, nil
}

// renderAll renders the apps in parallel. All clusters of an app have equal inputs, so an
// app is one class. Errors are failures of the system; an app that is wrong itself has a
// Failure instead.
func (b revisionBuilder) renderAll(ctx context.Context, p revisionPlan, before renderedApps) ([]builtApp, error) {
	out := make([]builtApp, len(p.apps))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(maxRenderings())
	for i, a := range p.apps {
		g.Go(func() (err error) {
			out[i], err = b.build(ctx, a, before)
			return err
		})
	}
	return out, g.Wait()
}

func (b revisionBuilder) build(ctx context.Context, a appPlan, before renderedApps) (builtApp, error) {
	out := builtApp{app: appcontext.App{
		Name: a.name, DependsOn: a.order.dependsOn, LeaveLast: a.order.leaveLast, Rollout: a.order.rollout,
	}}
	if a.refusal != nil {
		out.app.Failure = &appcontext.Failure{Stage: "placement", Reason: a.refusal.Error()}
		return out, nil
	}
	for _, v := range a.decision.Refused[:min(len(a.decision.Refused), maxVerdicts)] {
		out.app.Verdicts = append(out.app.Verdicts, appcontext.Verdict{Cluster: v.Cluster, Reason: v.Reason})
	}
	out.app.Class = render.Class(b.renderer.Edition(), a.request)
	if same, ok := before[out.app.Class]; ok {
		out.app.Bundles, out.app.Findings = same.Bundles, same.Findings
	} else if err := b.render(ctx, &out.app, a.request); err != nil || out.app.Failure != nil {
		return out, err
	}
	out.clusters = a.decision.Clusters
	return out, nil
}

// render sets an app's bundle, or its failure.
func (b revisionBuilder) render(ctx context.Context, app *appcontext.App, req render.Request) error {
	result, err := b.renderer.Render(ctx, req)
	if err != nil {
		app.Failure, err = failureFrom(err)
		return err
	}
	bundle, err := b.save(ctx, result)
	if err != nil {
		return err
	}
	app.Bundles, app.Findings = []appcontext.Digest{bundle}, result.Findings
	return nil
}

// failureFrom separates failures of an app from failures of the system.
func failureFrom(err error) (*appcontext.Failure, error) {
	switch errs.KindOf(err) {
	case errs.Internal, errs.Unavailable, errs.Throttled:
		return nil, err
	}
	failure := &appcontext.Failure{Stage: "rendering", Reason: err.Error()}
	if fault, ok := errors.AsType[*render.Fault](err); ok {
		failure.File, failure.Reason = fault.File, fault.Reason
		if fault.Line > 0 {
			failure.File = fmt.Sprintf("%s:%d", fault.File, fault.Line)
		}
	}
	return failure, nil
}

// save stores the content and the bundle that refers to it.
func (b revisionBuilder) save(ctx context.Context, r render.Result) (appcontext.Digest, error) {
	contents := map[appcontext.Digest][]byte{}
	bundle := appcontext.Bundle{Objects: refs(r.Objects, contents), CRDs: refs(r.CRDs, contents)}
	for _, h := range r.Hooks {
		ref := refs([]manifest.Object{h.Object}, contents)[0]
		bundle.Hooks = append(bundle.Hooks, appcontext.HookRef{Ref: ref, Events: h.Events, Weight: h.Weight, DeletePolicies: h.DeletePolicies})
	}
	if err := b.blobs.PutBlobs(ctx, contents); err != nil {
		return "", err
	}
	d, text, err := bundle.Blob()
	if err != nil {
		return "", err
	}
	return d, b.blobs.PutBlobs(ctx, map[appcontext.Digest][]byte{d: text})
}

func refs(objects []manifest.Object, contents map[appcontext.Digest][]byte) []appcontext.Ref {
	out := make([]appcontext.Ref, 0, len(objects))
	for _, o := range objects {
		contents[o.Digest] = o.Content
		out = append(out, appcontext.Ref{ID: o.ID, Digest: o.Digest, Stamp: o.Stamp()})
	}
	return out
}

// runningPlacements returns where failed apps run by the revision that is desired now, so that
// they are left alone.
func (b revisionBuilder) runningPlacements(ctx context.Context, head appcontext.Head, built []builtApp) (out []appPlacement, err error) {
	if !slices.ContainsFunc(built, func(a builtApp) bool { return a.app.Failure != nil }) {
		return nil, nil
	}
	now, err := desiredPlacements(ctx, b.contexts, head)
	if err != nil {
		return nil, err
	}
	running := byApp(now)
	for _, a := range built {
		if a.app.Failure == nil {
			continue
		}
		at := map[appcontext.Digest][]v2.ClusterKey{} // by bundle
		for _, p := range running[a.app.Name] {
			at[p.bundle] = append(at[p.bundle], p.cluster)
		}
		for bundle, clusters := range at {
			out = append(out, appPlacement{a.app.Name, bundle, clusters})
		}
	}
	return out, nil
}
