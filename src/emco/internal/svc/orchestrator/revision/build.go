package revision

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/contain"
	"github.com/emco-orchestrator/emco/src/emco/internal/customize"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/render"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/orchestrator/plan"
)

// maxRenderings bounds the renderings of one app that wait for the renderer at the same time.
const maxRenderings = 16

// Bounds of what a revision stores per app.
const (
	maxVerdicts = 50 // refused clusters
	maxFindings = 50
)

// Builder turns plans into revisions.
type Builder struct {
	Contexts *appcontext.Store
	Renderer render.Renderer
	Blobs    Blobs
	Panics   *contain.Panics
	Values   customize.Values // of URLs in patches; nil: none are read
	Placed   Placed           // what other deployments place; nil: that is not known

	// Admit refuses, as Invalid, a revision that may not be published, such as one that would use more than its project may; nil: all are published.
	Admit func(ctx context.Context, head appcontext.Head, next appcontext.Use) error

	// Recipients returns the clusters that read files, and the recipients of encrypted Secrets there, as
	// plan.Planner.Recipients; nil: revisions with readable Secrets are not restored if a policy encrypts them.
	Recipients func(ctx context.Context, clusters []v2.ClusterKey) (map[v2.ClusterKey][]string, error)

	// CheckRegistered refuses, as Invalid, to restore placements on clusters that are not registered, as
	// plan.Planner.CheckRegistered; nil: all are restored.
	CheckRegistered func(ctx context.Context, rev int64, placements []appcontext.Placement) error
}

// Blobs is where rendered content goes: the AppContext, or memory for a dry run.
type Blobs interface {
	bundleReader
	PutBlobs(ctx context.Context, contents map[appcontext.Digest][]byte) error
}

// Draft is a revision before it is published, with its placements in order of cluster.
type Draft struct {
	Revision   appcontext.Revision
	Placements []appcontext.Placement
	Use        appcontext.Use
	Beside     map[string][]string // by app: findings about objects that other deployments place, too
}

// Publish makes the draft of a plan the desired revision, and returns the next head. It is
// Invalid if the user must confirm the draft or Admit refuses it, and a Conflict if the head has changed; other errors
// are those of Draft.
func (b Builder) Publish(ctx context.Context, head appcontext.Head, p plan.Plan) (appcontext.Head, error) {
	d, err := b.Draft(ctx, head, p)
	if err != nil {
		return head, err
	}
	if err := b.confirm(ctx, head, d); err != nil {
		return head, err
	}
	return b.publish(ctx, head, d)
}

// publish makes an admitted draft the desired revision.
func (b Builder) publish(ctx context.Context, head appcontext.Head, d Draft) (appcontext.Head, error) {
	if b.Admit != nil {
		if err := b.Admit(ctx, head, d.Use); err != nil {
			return head, err
		}
	}
	head.Use = d.Use
	return b.Contexts.Publish(ctx, head, d.Revision, slices.Values(d.Placements))
}

// Draft renders each class of an app once, or not at all if the newest revision made it from
// equal inputs. The revision records why an app fails; such an app stays unchanged on the
// clusters where it runs. Errors are failures of the system: of the stores, or of the renderer.
func (b Builder) Draft(ctx context.Context, head appcontext.Head, p plan.Plan) (Draft, error) {
	before, err := b.renderedBefore(ctx, head)
	if err != nil {
		return Draft{}, err
	}
	if slices.ContainsFunc(p.Apps, func(a plan.App) bool { _, encrypts := a.Policies.Encrypts(); return encrypts }) {
		if before.encrypted, err = b.encryptedBefore(ctx, head); err != nil {
			return Draft{}, err
		}
	}
	built, err := b.renderAll(ctx, p, before)
	if err != nil {
		return Draft{}, err
	}
	placements, found, err := b.place(ctx, head, built, policiesOf(p))
	if err != nil {
		return Draft{}, err
	}
	rev := revisionOf(head.Op)
	rev.Namespace, rev.Cloud, rev.Labelled = p.Namespace, p.Cloud, p.Labelled(placements)
	for _, a := range built {
		rev.Apps = append(rev.Apps, a.app)
	}
	d := Draft{Revision: rev, Placements: placements}
	d.note(found)
	d.Use, err = b.use(ctx, d)
	return d, err
}

// policiesOf returns the policies of a plan, which all of its apps share.
func policiesOf(p plan.Plan) plan.Policies {
	if len(p.Apps) == 0 {
		return nil
	}
	return p.Apps[0].Policies
}

// note records what was found about duplicates. The cluster's part of the status has what concerns other deployments, as it
// is when EMCO delivers.
func (d *Draft) note(found []duplicate) {
	d.Beside = map[string][]string{}
	for i := range d.Revision.Apps {
		a := &d.Revision.Apps[i]
		a.Duplicates, d.Beside[a.Name] = findings(found, a.Name, true), findings(found, a.Name, false)
	}
}

// place returns the placements of built apps, and what must be reported about duplicates. Apps that a policy refuses for duplicates
// fail. They stay as they run, where others may meet them in turn.
func (b Builder) place(ctx context.Context, head appcontext.Head, built []builtApp, policies plan.Policies) ([]appcontext.Placement, []duplicate, error) {
	now, err := Desired(ctx, b.Contexts, head)
	if err != nil {
		return nil, nil, err
	}
	for {
		placements, err := b.placements(ctx, head, built)
		if err != nil || !policies.ReportDuplicates() {
			return placements, nil, err
		}
		found, err := b.duplicates(ctx, b.Blobs, head, now, placements)
		if err != nil {
			return nil, nil, err
		}
		policy, refuses := policies.RefuseDuplicates()
		if !refuses || !refuse(built, refusals(found, policy)) {
			return placements, found, nil
		}
	}
}

// placements returns the placements of built apps, and where failed ones run.
func (b Builder) placements(ctx context.Context, head appcontext.Head, built []builtApp) ([]appcontext.Placement, error) {
	placed, err := b.runningPlacements(ctx, head, built)
	if err != nil {
		return nil, err
	}
	for _, a := range built {
		placed = append(placed, a.placed...)
	}
	return placementsByCluster(placed), nil
}

// refuse makes apps fail, by name; false if none of them fails that did not before.
func refuse(built []builtApp, refused map[string]*appcontext.Failure) (more bool) {
	for i := range built {
		a := &built[i]
		if f := refused[a.app.Name]; f != nil && a.app.Failure == nil {
			a.app.Failure, a.app.Bundles, a.app.Sizes, a.placed = f, nil, nil, nil
			more = true
		}
	}
	return more
}

// confirm refuses a draft that removes many placements, or most objects of an app, without confirmation: the
// documents may have changed since the operation was requested, and nothing was rendered then.
func (b Builder) confirm(ctx context.Context, head appcontext.Head, d Draft) error {
	if head.Op.Force {
		return nil
	}
	text, err := b.NeedsConfirmation(ctx, head, d.Placements)
	if err == nil && text != "" {
		err = errs.New(errs.Invalid, text)
	}
	return err
}

// revisionOf returns an operation's revision without content.
func revisionOf(op *appcontext.Operation) appcontext.Revision {
	return appcontext.Revision{
		Number: op.Rev, Instance: op.Instance, Operation: op.ID, Kind: op.Kind, From: op.From,
		Author: op.Actor, Reason: op.Reason, At: op.At,
	}
}

// builtApp is an app with the clusters of each of its bundles; a failed one has none.
type builtApp struct {
	app    appcontext.App
	placed []appPlacement
}

// builtClass is what became of a class.
type builtClass struct {
	bundle   appcontext.Digest
	size     appcontext.BundleSize
	findings []string
	failure  *appcontext.Failure
}

// builtBefore is what need not be made again.
type builtBefore struct {
	classes   map[manifest.Digest]builtClass // of the newest revision, by the digest of their inputs
	encrypted *encryptedObjects              // nil: no policy encrypts
}

// renderedBefore returns the classes of the newest revision. Their content exists, because
// that revision is kept and refers to it.
func (b Builder) renderedBefore(ctx context.Context, head appcontext.Head) (out builtBefore, err error) {
	if head.Rev == 0 {
		return out, nil
	}
	rev, err := b.Contexts.DesiredRevision(ctx, head.UID, head.Rev)
	if err != nil {
		return out, err
	}
	out.classes = map[manifest.Digest]builtClass{}
	for _, a := range rev.Apps {
		if a.Failure != nil {
			continue
		}
		for i, class := range a.ClassList() {
			same := builtClass{bundle: a.Bundles[i], findings: a.Findings}
			if len(a.Sizes) == len(a.Bundles) {
				same.size = a.Sizes[i]
			} else if same.size, err = b.sizeOf(ctx, same.bundle); err != nil {
				return out, err
			}
			out.classes[class] = same
		}
	}
	return out, nil
}

// renderAll builds the apps in parallel; the renderer bounds how many run. Errors are failures
// of the system; an app that is wrong itself has a Failure instead.
func (b Builder) renderAll(ctx context.Context, p plan.Plan, before builtBefore) ([]builtApp, error) {
	out := make([]builtApp, len(p.Apps))
	g, ctx := errgroup.WithContext(ctx)
	names := make([]string, len(p.Apps))
	for i, a := range p.Apps {
		names[i] = a.Name
	}
	budget := render.NewBudget(names...)
	for i, a := range p.Apps {
		a.Request.Budget = budget
		g.Go(func() (err error) {
			defer budget.Done(a.Name)
			err = b.Panics.Do(contain.Orchestrator, "app "+a.Name, func() (err error) {
				out[i], err = b.build(ctx, a, before)
				return err
			})
			if contain.Is(err) { // the others go on
				out[i] = builtApp{app: unbuilt(a)}
				out[i].app.Failure, err = &appcontext.Failure{Stage: "rendering", Reason: err.Error()}, nil
			}
			return err
		})
	}
	return out, g.Wait()
}

// unbuilt returns the app as a revision records it, before it is rendered.
func unbuilt(a plan.App) appcontext.App {
	return appcontext.App{Name: a.Name, Sources: a.Sources, DependsOn: a.Order.DependsOn, LeaveLast: a.Order.LeaveLast, Rollout: a.Order.Rollout}
}

// build builds each class of an app. If one of them fails, the app does.
func (b Builder) build(ctx context.Context, a plan.App, before builtBefore) (builtApp, error) {
	out := builtApp{app: unbuilt(a)}
	if a.Refusal != nil {
		out.app.Failure = &appcontext.Failure{Stage: "placement", Reason: a.Refusal.Error()}
		return out, nil
	}
	for _, v := range a.Decision.Refused[:min(len(a.Decision.Refused), maxVerdicts)] {
		out.app.Verdicts = append(out.app.Verdicts, appcontext.Verdict{Cluster: v.Cluster, Reason: v.Reason})
	}
	edits, err := customize.Resolve(ctx, a.Name, a.Edits, b.Values)
	if err != nil {
		out.app.Failure, err = failureFrom(err)
		return out, err
	}
	classes := customize.Classes(a.Name, a.Decision.Clusters, edits)
	built, digests, err := b.buildClasses(ctx, a, classes, before)
	if err != nil {
		return out, err
	}
	out.app.Findings = slices.Clone(a.Findings)
	for i, c := range built {
		if c.failure != nil {
			out.app.Failure = c.failure
			if len(classes) > 1 {
				out.app.Failure.Reason += fmt.Sprintf(" (on %s and clusters like it)", classes[i].Clusters[0])
			}
			break
		}
		out.app.Findings = append(out.app.Findings, c.findings...)
	}
	out.app.Findings = limitFindings(out.app.Findings)
	out.app.SetClasses(digests)
	if out.app.Failure != nil {
		return out, nil
	}
	for i, c := range built {
		out.app.Bundles, out.app.Sizes = append(out.app.Bundles, c.bundle), append(out.app.Sizes, c.size)
		if len(classes[i].Clusters) > 0 {
			out.placed = append(out.placed, appPlacement{a.Name, c.bundle, classes[i].Clusters})
		}
	}
	return out, nil
}

// limitFindings sorts findings, and replaces those after the first maxFindings by their number. What it returned for an earlier revision
// stays as it is.
func limitFindings(all []string) []string {
	slices.Sort(all)
	all = slices.Compact(all)
	if len(all) <= maxFindings+1 {
		return all
	}
	return append(all[:maxFindings], fmt.Sprintf("… and %d more findings", len(all)-maxFindings)) // it sorts last
}

// buildClasses returns the bundle of each class, and the digest of its inputs. It takes those that
// were built before, and renders the others once for all classes with equal values.
func (b Builder) buildClasses(ctx context.Context, a plan.App, classes []customize.Class, before builtBefore) ([]builtClass, []manifest.Digest, error) {
	edition := b.Renderer.Edition()
	built, digests := make([]builtClass, len(classes)), make([]manifest.Digest, len(classes))
	var renderings []manifest.Digest // that are needed, in order of their first class
	sharing := map[manifest.Digest][]int{}
	for i, c := range classes {
		rendering := render.Class(edition, c.Request(a.Request))
		digests[i] = a.Policies.Digest(c.Digest(rendering))
		if same, ok := before.classes[digests[i]]; ok {
			built[i] = same
			continue
		}
		if sharing[rendering] == nil {
			renderings = append(renderings, rendering)
		}
		sharing[rendering] = append(sharing[rendering], i)
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(maxRenderings)
	for _, rendering := range renderings {
		g.Go(func() error {
			return b.Panics.Do(contain.Orchestrator, "a rendering", func() error {
				share := sharing[rendering]
				req := classes[share[0]].Request(a.Request)
				result, failed := b.Renderer.Render(ctx, req)
				for _, i := range share {
					var err error
					if built[i], err = b.finish(ctx, classes[i], req, a.Policies, before, result, failed); err != nil {
						return err
					}
				}
				return nil
			})
		})
	}
	return built, digests, g.Wait()
}

// finish makes the bundle of a class from its rendering, or its failure from the rendering's error.
func (b Builder) finish(ctx context.Context, c customize.Class, req render.Request, policies plan.Policies, before builtBefore, result render.Result, err error) (out builtClass, _ error) {
	if err == nil {
		result, err = c.Apply(result, req)
	}
	if err != nil {
		out.failure, err = failureFrom(err)
		return out, err
	}
	findings, refusal, err := policies.Check(result, render.Scrubber(req))
	if err != nil || refusal != nil {
		out.failure = refusal
		return out, err
	}
	made := encryptedContent{}
	if edit := c.Encryption(); edit != nil {
		if result, out.failure, err = b.encrypt(ctx, c, *edit, before, result, made); err != nil || out.failure != nil {
			return out, err
		}
	}
	out.size = sizeOfResult(result)
	out.bundle, err = b.save(ctx, result, made)
	out.findings = slices.Concat(result.Findings, findings)
	return out, err
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

// save stores the content and the bundle that refers to it, together: nothing refers to the bundle before its
// revision is published.
func (b Builder) save(ctx context.Context, r render.Result, made encryptedContent) (appcontext.Digest, error) {
	contents := map[appcontext.Digest][]byte{}
	bundle := appcontext.Bundle{Objects: refs(r.Objects, contents, made), CRDs: refs(r.CRDs, contents, made)}
	for _, h := range r.Hooks {
		ref := refs([]manifest.Object{h.Object}, contents, made)[0]
		bundle.Hooks = append(bundle.Hooks, appcontext.HookRef{Ref: ref, Events: h.Events, Weight: h.Weight, DeletePolicies: h.DeletePolicies})
	}
	d, text, err := bundle.Blob()
	if err != nil {
		return "", err
	}
	contents[d] = text
	return d, b.Blobs.PutBlobs(ctx, contents)
}

func refs(objects []manifest.Object, contents map[appcontext.Digest][]byte, made encryptedContent) []appcontext.Ref {
	out := make([]appcontext.Ref, 0, len(objects))
	for _, o := range objects {
		contents[o.Digest] = o.Content
		out = append(out, appcontext.Ref{ID: o.ID, Digest: o.Digest, Stamp: o.Stamp(), Sealed: made[o.Digest]})
	}
	return out
}

// runningPlacements returns where failed apps run by the revision that is desired now, so that
// they are left alone.
func (b Builder) runningPlacements(ctx context.Context, head appcontext.Head, built []builtApp) (out []appPlacement, err error) {
	if !slices.ContainsFunc(built, func(a builtApp) bool { return a.app.Failure != nil }) {
		return nil, nil
	}
	now, err := Desired(ctx, b.Contexts, head)
	if err != nil {
		return nil, err
	}
	running := ByApp(now)
	for _, a := range built {
		if a.app.Failure == nil {
			continue
		}
		at := map[appcontext.Digest][]v2.ClusterKey{} // by bundle
		for _, p := range running[a.app.Name] {
			at[p.Bundle] = append(at[p.Bundle], p.Cluster)
		}
		for bundle, clusters := range at {
			out = append(out, appPlacement{a.app.Name, bundle, clusters})
		}
	}
	return out, nil
}
