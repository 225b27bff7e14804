package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/render"
)

// maxVerdicts bounds how many refused clusters a revision remembers for each app.
const maxVerdicts = 50

// builder turns plans into revisions.
type builder struct {
	contexts *appcontext.Store
	renderer render.Renderer
	contents contents
}

// contents is where rendered content goes: the AppContext, or memory for a dry run.
type contents interface {
	PutBlobs(ctx context.Context, contents map[appcontext.Digest][]byte) error
}

// draft is a revision before it is published, with its placements in order of cluster.
type draft struct {
	rev    appcontext.Revision
	places []appcontext.Placement
}

// publish makes the draft of a plan the desired revision.
func (b builder) publish(ctx context.Context, head appcontext.Head, p plan) (appcontext.Head, error) {
	d, err := b.draft(ctx, head, p)
	if err != nil {
		return head, err
	}
	if err := b.confirm(ctx, head, d); err != nil {
		return head, err
	}
	head.Gone = false
	return b.contexts.Publish(ctx, head, d.rev, slices.Values(d.places))
}

// draft renders each app once, or not at all if it was rendered from the same for the
// revision before. An app that fails is noted with its reason; where it ran before it
// stays as it was.
func (b builder) draft(ctx context.Context, head appcontext.Head, p plan) (draft, error) {
	known, err := b.known(ctx, head)
	if err != nil {
		return draft{}, err
	}
	built, err := b.renderAll(ctx, p, known)
	if err != nil {
		return draft{}, err
	}
	spreads, err := b.before(ctx, head, built)
	if err != nil {
		return draft{}, err
	}
	rev := revisionOf(head.Op)
	rev.Namespace, rev.Cloud = p.namespace, p.cloud
	for _, a := range built {
		rev.Apps = append(rev.Apps, a.app)
		if len(a.clusters) > 0 {
			spreads = append(spreads, spread{a.app.Name, a.app.Bundles[0], a.clusters})
		}
	}
	return draft{rev, layOut(spreads)}, nil
}

// confirm refuses a draft that takes away many placements, unless that is meant: the
// documents may have changed since the operation was asked for.
func (b builder) confirm(ctx context.Context, head appcontext.Head, d draft) error {
	if head.Op.Force {
		return nil
	}
	text, err := needsConfirmation(ctx, b.contexts, head, d.places)
	if err == nil && text != "" {
		err = errs.New(errs.Invalid, text)
	}
	return err
}

// restore publishes an earlier revision's content as the next revision.
func (b builder) restore(ctx context.Context, head appcontext.Head) (appcontext.Head, error) {
	d, err := b.earlier(ctx, head)
	if err != nil {
		return head, err
	}
	return b.contexts.Publish(ctx, head, d.rev, slices.Values(d.places))
}

// earlier is the draft of a revision that brings back the one that the operation names.
func (b builder) earlier(ctx context.Context, head appcontext.Head) (draft, error) {
	old, err := b.contexts.Revision(ctx, head.UID, head.Op.From)
	if err != nil {
		return draft{}, err
	}
	d := draft{rev: revisionOf(head.Op)}
	d.rev.Namespace, d.rev.Cloud, d.rev.Apps = old.Namespace, old.Cloud, old.Apps
	d.places, err = b.contexts.Placements(ctx, head.UID, head.Op.From)
	return d, err
}

// revisionOf is an operation's revision, still empty.
func revisionOf(op *appcontext.Operation) appcontext.Revision {
	return appcontext.Revision{
		Number: op.Rev, Instance: op.Instance, Operation: op.ID, Kind: op.Kind, From: op.From,
		Author: op.Actor, Reason: op.Reason, At: op.At,
	}
}

// builtApp is an app with its bundle and where it goes; a failed one has neither.
type builtApp struct {
	app      appcontext.App
	clusters []string
}

// classes are apps that were rendered, by what they were rendered from.
type classes map[manifest.Digest]appcontext.App

// known returns what the newest revision was rendered to. Its content is there: it is
// referred to by that revision, which is among those that are kept.
func (b builder) known(ctx context.Context, head appcontext.Head) (classes, error) {
	if head.Rev == 0 {
		return nil, nil
	}
	rev, err := b.contexts.Revision(ctx, head.UID, head.Rev)
	if err != nil {
		return nil, err
	}
	out := classes{}
	for _, a := range rev.Apps {
		if a.Failure == nil && len(a.Bundles) > 0 && a.Class != "" {
			out[a.Class] = a
		}
	}
	return out, nil
}

// renderAll renders the apps side by side. All clusters of an app have equal inputs,
// so an app is one class. The error is one of a broken part; apps that are wrong
// themselves carry a failure instead.
func (b builder) renderAll(ctx context.Context, p plan, known classes) ([]builtApp, error) {
	out := make([]builtApp, len(p.apps))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(processors())
	for i, a := range p.apps {
		g.Go(func() (err error) {
			out[i], err = b.build(ctx, a, known)
			return err
		})
	}
	return out, g.Wait()
}

func (b builder) build(ctx context.Context, a appPlan, known classes) (builtApp, error) {
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
	if same, ok := known[out.app.Class]; ok {
		out.app.Bundles, out.app.Findings = same.Bundles, same.Findings
	} else if err := b.render(ctx, &out.app, a.request); err != nil || out.app.Failure != nil {
		return out, err
	}
	out.clusters = a.decision.Clusters
	return out, nil
}

// render fills in an app's bundle, or why it has none.
func (b builder) render(ctx context.Context, app *appcontext.App, req render.Request) error {
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

// failureFrom splits what is wrong with an app from what is wrong with us.
func failureFrom(err error) (*appcontext.Failure, error) {
	switch errs.KindOf(err) {
	case errs.Internal, errs.Unavailable, errs.Throttled:
		return nil, err
	}
	failure := &appcontext.Failure{Stage: "rendering", Reason: err.Error()}
	if fault, ok := errors.AsType[*render.Fault](err); ok {
		failure.File, failure.Reason = place(fault), fault.Reason
	}
	return failure, nil
}

// place is the file and, if it is known, the line that a fault is about.
func place(f *render.Fault) string {
	if f.Line == 0 {
		return f.File
	}
	return fmt.Sprintf("%s:%d", f.File, f.Line)
}

// save stores the content that is not there yet, and the bundle that points at it.
func (b builder) save(ctx context.Context, r render.Result) (appcontext.Digest, error) {
	contents := map[appcontext.Digest][]byte{}
	bundle := appcontext.Bundle{Objects: refs(r.Objects, contents), CRDs: refs(r.CRDs, contents)}
	for _, h := range r.Hooks {
		ref := refs([]manifest.Object{h.Object}, contents)[0]
		bundle.Hooks = append(bundle.Hooks, appcontext.HookRef{Ref: ref, Events: h.Events, Weight: h.Weight, DeletePolicies: h.DeletePolicies})
	}
	if err := b.contents.PutBlobs(ctx, contents); err != nil {
		return "", err
	}
	d, text, err := bundle.Blob()
	if err != nil {
		return "", err
	}
	return d, b.contents.PutBlobs(ctx, map[appcontext.Digest][]byte{d: text})
}

func refs(objects []manifest.Object, contents map[appcontext.Digest][]byte) []appcontext.Ref {
	out := make([]appcontext.Ref, 0, len(objects))
	for _, o := range objects {
		contents[o.Digest] = o.Content
		out = append(out, appcontext.Ref{ID: o.ID, Digest: o.Digest, Stamp: o.Stamp()})
	}
	return out
}

// before returns where failed apps run by the revision that is desired now, so that
// they are left alone.
func (b builder) before(ctx context.Context, head appcontext.Head, built []builtApp) (out []spread, err error) {
	if !slices.ContainsFunc(built, func(a builtApp) bool { return a.app.Failure != nil }) {
		return nil, nil
	}
	now, err := desiredBy(ctx, b.contexts, head)
	if err != nil {
		return nil, err
	}
	running := byApp(now)
	for _, a := range built {
		if a.app.Failure == nil {
			continue
		}
		at := map[appcontext.Digest][]string{} // by bundle
		for _, p := range running[a.app.Name] {
			at[p.bundle] = append(at[p.bundle], p.cluster)
		}
		for bundle, clusters := range at {
			out = append(out, spread{a.app.Name, bundle, clusters})
		}
	}
	return out, nil
}
