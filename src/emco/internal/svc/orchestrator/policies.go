package orchestrator

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/guard"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/render"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

// policyStage is the stage of failures of apps that a policy refuses.
const policyStage = "policy"

// deploymentPolicies are the policies that concern a deployment, in order of name. Their apps
// are compared with them when they are rendered; unchanged policies give unchanged results.
type deploymentPolicies []guard.Policy

// policies returns the policies of a project that concern a logical cloud; the built-in one if
// the project has none for it.
func (p revisionPlanner) policies(ctx context.Context, project, cloud string) (deploymentPolicies, error) {
	var out deploymentPolicies
	for item, err := range store.All[v2.Policy](ctx, p.db, store.Key(v2.ProjectStoreKey(project)+"/policies"), store.Query{Depth: 1}) {
		if err != nil {
			return nil, err
		}
		if s := item.Value.Spec; s.LogicalCloud == "" || s.LogicalCloud == cloud {
			out = append(out, guard.FromSpec(path.Base(string(item.Doc.Key)), s))
		}
	}
	slices.SortFunc(out, func(a, b guard.Policy) int { return cmp.Compare(a.Name, b.Name) })
	if len(out) == 0 {
		out = deploymentPolicies{{}}
	}
	bounds, confined, err := p.cloudBounds(ctx, store.Key(v2.LogicalCloudKey{Project: project, Name: cloud}.StoreKey()))
	if confined {
		out = append(out, bounds)
	}
	return out, err
}

// cloudBounds returns the bounds of a logical cloud of level 1; false for one of level 0, and for
// a cloud that does not exist.
func (p revisionPlanner) cloudBounds(ctx context.Context, cloud store.Key) (guard.Policy, bool, error) {
	doc, err := p.db.Get(ctx, cloud)
	if errs.Is(err, errs.NotFound) {
		return guard.Policy{}, false, nil // the plan is refused for it
	}
	if err != nil {
		return guard.Policy{}, false, err
	}
	lc, err := store.Decode[v2.LogicalCloud](doc)
	if err != nil || lc.Spec.Level == v2.LevelAdmin {
		return guard.Policy{}, false, err
	}
	namespaces := []string{lc.Spec.Namespace}
	for item, err := range store.All[v2.UserPermission](ctx, p.db, cloud+"/user-permissions", store.Query{Depth: 1}) {
		if err != nil {
			return guard.Policy{}, false, err
		}
		namespaces = append(namespaces, item.Value.Spec.Namespace)
	}
	slices.Sort(namespaces)
	return guard.Confined(lc.Metadata.Name, slices.Compact(namespaces)), true, nil
}

// policiesOf returns the policies that concern a deployment intent group.
func (p revisionPlanner) policiesOf(ctx context.Context, doc store.Doc) (deploymentPolicies, error) {
	g, err := store.Decode[v2.DeploymentIntentGroup](doc)
	if err != nil {
		return nil, err
	}
	return p.policies(ctx, doc.Key.Project(), g.Spec.LogicalCloud)
}

// digest returns the digest of a class that is compared with the policies. The built-in policy
// does not change it.
func (d deploymentPolicies) digest(class manifest.Digest) manifest.Digest {
	if len(d) == 0 || len(d) == 1 && d[0].Name == "" {
		return class
	}
	text, err := json.Marshal(d)
	if err != nil {
		panic("orchestrator: policies have no JSON form: " + err.Error())
	}
	return manifest.DigestOf(append([]byte(class+" "), text...))
}

// check returns the findings about a rendering, and the failure if a policy refuses it.
// scrub hides override values in its texts, which name objects.
func (d deploymentPolicies) check(r render.Result, scrub *strings.Replacer) (findings []string, failure *appcontext.Failure, err error) {
	objects := slices.Concat(r.CRDs, r.Objects)
	for _, h := range r.Hooks {
		objects = append(objects, h.Object)
	}
	breaches, err := guard.Check(objects, d...)
	if err != nil {
		return nil, nil, err
	}
	file, line, reason, refused := guard.Refusal(breaches)
	if refused {
		failure = &appcontext.Failure{Stage: policyStage, File: file, Reason: scrub.Replace(reason)}
		if line > 0 {
			failure.File = fmt.Sprintf("%s:%d", file, line)
		}
	}
	for _, f := range guard.Findings(breaches) {
		findings = append(findings, scrub.Replace(f))
	}
	return findings, failure, nil
}

// strict reports whether a policy refuses anything.
func (d deploymentPolicies) strict() bool {
	return slices.ContainsFunc(d, func(p guard.Policy) bool { return p.Strict })
}

// checkRestored refuses the draft of a rollback with content that a policy refuses now.
func (b revisionBuilder) checkRestored(ctx context.Context, d revisionDraft, policies deploymentPolicies) error {
	if !policies.strict() {
		return nil
	}
	checked := map[appcontext.Digest]bool{}
	for _, p := range d.placements {
		for app, bundle := range p.Apps {
			if checked[bundle] {
				continue
			}
			checked[bundle] = true
			content, err := b.readBundle(ctx, bundle)
			if err != nil {
				return err
			}
			_, failure, err := policies.check(content, strings.NewReplacer())
			if err != nil {
				return err
			}
			if failure != nil {
				return errs.New(errs.Invalid, fmt.Sprintf("revision %d is not restored: app %s: %s", d.rev.From, app, failure.Reason))
			}
		}
	}
	return nil
}

// readBundle reads the objects of a bundle. Their files are not stored.
func (b revisionBuilder) readBundle(ctx context.Context, d appcontext.Digest) (out render.Result, err error) {
	bundle, err := b.contexts.GetBundle(ctx, d)
	if err != nil {
		return out, err
	}
	read := func(ref appcontext.Ref) manifest.Object {
		content, readErr := b.contexts.GetBlob(ctx, ref.Digest)
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
