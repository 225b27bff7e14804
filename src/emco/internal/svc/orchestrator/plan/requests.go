package plan

import (
	"context"
	"io"
	"maps"
	"path"
	"slices"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/customize"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/render"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

// requests returns the rendering inputs of each app of the composite app.
func (p Planner) requests(ctx context.Context, d documents, deployment v2.DeploymentID) ([]App, error) {
	app, g := d.app, d.group
	profiles, err := p.profiles(ctx, store.Key(app.ProfileStoreKey(g.Spec.Profile)))
	if err != nil {
		return nil, err
	}
	var out []App
	for item, err := range store.All[v2.App](ctx, p.db, store.Key(app.StoreKey()+"/apps"), store.Query{Depth: 1}) {
		if err != nil {
			return nil, err
		}
		name := item.Value.Metadata.Name
		profile, ok := profiles[name]
		if !ok {
			return nil, errs.New(errs.Invalid, "AppProfileContent not found for:: "+name+"; add a profile for it to composite profile "+g.Spec.Profile)
		}
		order, err := p.order(ctx, item)
		if err != nil {
			return nil, err
		}
		label, value := manifest.DeploymentLabel(deployment, name)
		out = append(out, App{Name: name, Order: order, Request: render.Request{
			App: name, Package: p.archive(item.Doc), Profile: profile, Overrides: customize.Overrides(g, name),
			Release: g.Spec.Version, Namespace: namespaceOf(d.cloud), Labels: []render.Label{{Key: label, Value: value}},
			Project: app.Project,
		}})
	}
	if len(out) == 0 {
		return nil, errs.New(errs.Invalid, "the composite app has no apps; add some below "+app.StoreKey()+"/apps")
	}
	return out, nil
}

// AppNames returns the names of a composite app's apps, in order. Errors are the store's.
func (p Planner) AppNames(ctx context.Context, app v2.CompositeAppKey) ([]string, error) {
	packages, err := p.packages(ctx, app)
	return slices.Sorted(maps.Keys(packages)), err
}

// packages returns the packages of a composite app by app.
func (p Planner) packages(ctx context.Context, app v2.CompositeAppKey) (map[string]render.Archive, error) {
	out := map[string]render.Archive{}
	for doc, err := range p.db.List(ctx, store.Key(app.StoreKey()+"/apps"), store.Query{Depth: 1}) {
		if err != nil {
			return nil, err
		}
		out[path.Base(string(doc.Key))] = p.archive(doc)
	}
	return out, nil
}

// sources returns the digest of what an app is rendered from on clusters, and what users may change while the group is approved:
// its package, its profile, and what its override values follow from. The error is Invalid if the values cannot be filled in.
func (p Planner) sources(ctx context.Context, d documents, app customize.App, pkg, profile render.Archive) (manifest.Digest, error) {
	facts, err := customize.OverrideFacts(d.group, app, d.fleet, p.keyValues(ctx))
	return manifest.Digest(DigestOf([]manifest.Digest{pkg.Digest, profile.Digest, facts})), err
}

// order reads an app's delivery order.
func (p Planner) order(ctx context.Context, app store.Item[v2.App]) (Order, error) {
	out := Order{LeaveLast: app.Value.Spec.LeaveLast, Rollout: rolloutOf(app.Value.Spec.Rollout)}
	var err error
	out.DependsOn, err = p.dependencies(ctx, app.Doc.Key)
	return out, err
}

// dependencies returns the apps that an app waits for, in order of the documents' names.
func (p Planner) dependencies(ctx context.Context, app store.Key) (out []appcontext.Dependency, err error) {
	for item, err := range store.All[v2.AppDependency](ctx, p.db, app+"/dependency", store.Query{Depth: 1}) {
		if err != nil {
			return nil, err
		}
		spec := item.Value.Spec
		out = append(out, appcontext.Dependency{App: spec.App, Ready: spec.Ready(), Delay: spec.Wait})
	}
	return out, nil
}

// profiles returns the archives of a composite profile by app.
func (p Planner) profiles(ctx context.Context, key store.Key) (map[string]render.Archive, error) {
	if _, err := p.db.Get(ctx, key); err != nil {
		return nil, store.NotFoundAs(err, "CompositeProfile not found: "+string(key))
	}
	out := map[string]render.Archive{}
	for item, err := range store.All[v2.AppProfile](ctx, p.db, key+"/profiles", store.Query{Depth: 1}) {
		if err != nil {
			return nil, err
		}
		out[item.Value.Spec.App] = p.archive(item.Doc)
	}
	return out, nil
}

// archive returns the file that was uploaded with a document.
func (p Planner) archive(doc store.Doc) render.Archive {
	if len(doc.Blobs) == 0 {
		return render.Archive{}
	}
	digest := doc.Blobs[0].Digest
	return render.Archive{Digest: digest, Open: func(ctx context.Context) (io.ReadCloser, error) { return p.db.OpenBlob(ctx, digest) }}
}
