package plan

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
	"github.com/emco-orchestrator/emco/src/emco/internal/fieldcheck"
	"github.com/emco-orchestrator/emco/src/emco/internal/guard"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/render"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

// policyStage is the stage of failures of apps that a policy refuses.
const policyStage = "policy"

// Policies are the policies that concern a deployment, in order of name. Its apps are compared
// with them when they are rendered; unchanged policies give unchanged results.
type Policies []guard.Policy

// policies returns the policies of a project that concern a logical cloud; the built-in one if
// the project has none for it.
func (p Planner) policies(ctx context.Context, project, cloud string) (Policies, error) {
	var out Policies
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
		out = Policies{{}}
	}
	bounds, confined, err := p.cloudBounds(ctx, logicalCloudKey(project, cloud))
	if confined {
		out = append(out, bounds)
	}
	return out, err
}

// cloudBounds returns the bounds of a logical cloud of level 1; false for one of level 0, and for
// a cloud that does not exist.
func (p Planner) cloudBounds(ctx context.Context, cloud store.Key) (guard.Policy, bool, error) {
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

// PoliciesOf returns the policies that concern a deployment intent group. Errors are the
// store's, and those of documents that cannot be decoded.
func (p Planner) PoliciesOf(ctx context.Context, doc store.Doc) (Policies, error) {
	g, err := store.Decode[v2.DeploymentIntentGroup](doc)
	if err != nil {
		return nil, err
	}
	return p.policies(ctx, doc.Key.Project(), g.Spec.LogicalCloud)
}

// Digest returns the digest of a class that is compared with the policies. The built-in policy
// does not change it.
func (d Policies) Digest(class manifest.Digest) manifest.Digest {
	if len(d) == 0 || len(d) == 1 && d[0].Name == "" {
		return class
	}
	text, err := json.Marshal(d)
	if err != nil {
		panic("plan: policies have no JSON form: " + err.Error())
	}
	return manifest.DigestOf(fmt.Appendf(nil, "%s %d %s", class, guard.Edition, text))
}

// Check returns the findings about a rendering, also about fields that kinds do not have, and the failure if a policy refuses it.
// scrub hides override values in its texts, which name objects. An error means that an object
// cannot be read.
func (d Policies) Check(r render.Result, scrub *strings.Replacer) (findings []string, failure *appcontext.Failure, err error) {
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
	for _, f := range slices.Concat(guard.Findings(breaches), fieldcheck.Findings(objects)) {
		findings = append(findings, scrub.Replace(f))
	}
	return findings, failure, nil
}

// Strict reports whether a policy refuses anything.
func (d Policies) Strict() bool {
	return slices.ContainsFunc(d, guard.Policy.Refuses)
}

// RefuseDuplicates returns the first policy that refuses objects which another app places, too; false if none does.
func (d Policies) RefuseDuplicates() (policy string, refuses bool) {
	i := slices.IndexFunc(d, func(p guard.Policy) bool { return p.Strict && p.FindsDuplicates() })
	if i < 0 {
		return "", false
	}
	return d[i].String(), true
}

// ReportDuplicates reports whether objects that another app places, too, are findings.
func (d Policies) ReportDuplicates() bool {
	return len(d) == 0 || slices.ContainsFunc(d, guard.Policy.FindsDuplicates)
}

// Encrypts returns the name of a policy that encrypts Secrets; false if none does.
func (d Policies) Encrypts() (name string, encrypts bool) {
	i := slices.IndexFunc(d, func(p guard.Policy) bool { return p.EncryptSecrets })
	if i < 0 {
		return "", false
	}
	return d[i].Name, true
}
