package orchestrator

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"

	"github.com/gorilla/mux"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/guard"
	"github.com/emco-orchestrator/emco/src/emco/internal/resource"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/tarball"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// Resources are the documents that the orchestrator serves.
type Resources struct {
	DB       *store.DB
	Archives tarball.Limits  // for charts and profiles
	Groups   resource.Guards // for deployment intent groups

	Use func(ctx context.Context, group store.Doc, app string) (Use, error) // tells whether a group uses the profile of an app

	Level func() int // of stored data that is in force, see appcontext.Level; nil: the newest
}

// URL templates of the collections.
const (
	projects      = "projects"
	compositeApps = projects + "/{project}/composite-apps"
	apps          = web.CompositeAppPath + "/apps"
	profiles      = web.CompositeAppPath + "/composite-profiles"
	groups        = web.CompositeAppPath + "/deployment-intent-groups"
)

// Mount adds the routes.
func (s Resources) Mount(r *mux.Router) {
	resource.Mount(r, s.DB, resource.Def[v2.Controller]{
		Kind: "Controller", Collection: "controllers", Item: "{controller}", Put: resource.PutCreated,
	})
	resource.Mount(r, s.DB, resource.Def[v2.DtcController]{
		Kind: "Controller", Collection: "dtc-controllers", Item: "{dtcController}", Put: resource.PutCreated,
	})
	resource.Mount(r, s.DB, resource.Def[v2.Project]{
		Kind: "Project", Absent: "Project not found",
		Unique:     func(_ resource.Place, p v2.Project) resource.UniqueKey { return resource.UniqueName(p.Metadata.Name) },
		Collection: projects, Item: "{project}", Put: resource.PutOK,
		Scope: v2.ProjectStoreKey,
	})
	resource.Mount(r, s.DB, resource.Def[v2.Policy]{
		Kind: "Policy", Orphan: "Project not found",
		Collection: projects + "/{project}/policies", Item: "{policy}", Put: resource.PutCreated,
		Check: func(_ context.Context, _ resource.Place, p v2.Policy) error { return guard.CheckExpressions(p.Spec) },
	})
	resource.Mount(r, s.DB, resource.Def[v2.CompositeApp]{
		Kind: "CompositeApp", Orphan: "Project not found",
		Collection: compositeApps, Item: "{compositeApp}/{compositeAppVersion}", Put: resource.PutCreated,
	})
	resource.Mount(r, s.DB, s.apps())
	resource.Mount(r, s.DB, s.dependencies())
	resource.Mount(r, s.DB, resource.Def[v2.CompositeProfile]{
		Kind: "CompositeProfile", Orphan: "CompositeApp not found",
		Collection: profiles, Item: "{compositeProfile}", Put: resource.PutCreated,
	})
	resource.Mount(r, s.DB, s.profiles())
	resource.Mount(r, s.DB, s.groups())
	resource.Mount(r, s.DB, s.intents())
}

func (s Resources) apps() resource.Def[v2.App] {
	return resource.Def[v2.App]{
		Kind: "App", Orphan: "CompositeApp not found",
		Collection: apps, Item: "{app}", Put: resource.PutCreated,
		Unique: func(_ resource.Place, a v2.App) resource.UniqueKey { return resource.UniqueName(a.Metadata.Name) },
		Check:  s.checkWaves,
		File: &resource.File[v2.App]{
			Limit: s.Archives.Compressed, Name: "fileContent",
			Check: func(_ context.Context, a v2.App, content func() (io.ReadCloser, error)) error {
				files, err := s.unpack(content)
				if err != nil {
					return err
				}
				return tarball.CheckChart(files, a.Metadata.Name)
			},
		},
	}
}

// levelOfWaves is the level of stored data from which waves have labels, pauses and times of their own, and revisions are promoted.
const levelOfWaves = 2

// checkLevel refuses what an older process would lose, while there may be one. level may be nil.
func checkLevel(level func() int, what string) error {
	if level == nil || level() >= levelOfWaves {
		return nil
	}
	return errs.New(errs.Conflict, fmt.Sprintf("%s needs level %d of stored data, and %d is in force: an older process would lose it; "+
		"the level rises when all processes have been upgraded for a minute, or by emco level raise", what, levelOfWaves, level()))
}

// checkWaves refuses settings of waves that an older process would lose.
func (s Resources) checkWaves(_ context.Context, _ resource.Place, a v2.App) error {
	if a.Spec.Rollout == nil {
		return nil
	}
	for i, w := range a.Spec.Rollout.Waves {
		if w.ClusterLabel != "" || w.Pause || w.Bake != nil {
			return checkLevel(s.Level, fmt.Sprintf("spec.rollout.waves[%d]: a wave with clusterLabel, pause or bakeSeconds", i))
		}
	}
	return nil
}

// unpack reads an uploaded archive within the limits.
func (s Resources) unpack(content func() (io.ReadCloser, error)) (tarball.Tree, error) {
	file, err := content()
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return tarball.Files(file, s.Archives)
}

func (s Resources) profiles() resource.Def[v2.AppProfile] {
	return resource.Def[v2.AppProfile]{
		Kind: "AppProfile", Orphan: "CompositeProfile not found",
		Guards:     resource.Guards{Delete: s.profileUnused},
		Collection: profiles + "/{compositeProfile}/profiles", Item: "{appProfile}", Put: resource.PutCreated,
		Refs: func(at resource.Place, p v2.AppProfile) []store.Ref {
			return []store.Ref{{Key: appKey(at, p.Spec.App)}}
		},
		Unique: func(_ resource.Place, p v2.AppProfile) resource.UniqueKey {
			return resource.UniqueKey{Name: p.Spec.App, Taken: "App already has an AppProfile"}
		},
		File: &resource.File[v2.AppProfile]{
			Limit: s.Archives.Compressed,
			Check: func(_ context.Context, _ v2.AppProfile, content func() (io.ReadCloser, error)) error {
				files, err := s.unpack(content)
				if err != nil {
					return err
				}
				return tarball.CheckProfile(files)
			},
		},
		Queries: []resource.Query{{Param: "app", Pick: s.profileOf}},
	}
}

// Use tells whether a group uses something of its composite app.
type Use int

// The uses. An action that is in progress may use anything.
const (
	Unused Use = iota
	InUse
	MayBeUsed
)

// profileUnused refuses to delete the profile of an app while a deployment runs the app with it: the next update would fail.
func (s Resources) profileUnused(ctx context.Context, doc store.Doc) error {
	p, err := store.Decode[v2.AppProfile](doc)
	if err != nil {
		return err
	}
	profile, _, _ := strings.Cut(string(doc.Key), "/profiles/")
	groups := store.Key(compositeApp(doc).StoreKey() + "/deployment-intent-groups")
	for group, err := range s.DB.List(ctx, groups, store.Query{Refers: store.Key(profile), Depth: 1}) {
		if err != nil {
			return err
		}
		use, err := s.Use(ctx, group, p.Spec.App)
		switch {
		case err != nil:
			return err
		case use == InUse:
			return errs.New(errs.Conflict, textInUse+": "+string(group.Key)+" is instantiated with it")
		case use == MayBeUsed:
			return errs.New(errs.Conflict, textInUse+": an action of "+string(group.Key)+" is in progress and may use it")
		}
	}
	return nil
}

// textInUse is upstream's text for what others refer to.
const textInUse = "Cannot delete without deleting or updating referencing resources first"

// profileOf finds the profile of an app, for ?app=A.
func (s Resources) profileOf(ctx context.Context, at resource.Place, app string) (store.Key, error) {
	if err := v2.CheckName("app", app); err != nil {
		return "", err
	}
	doc, err := resource.Holder(ctx, s.DB, at, app)
	return doc.Key, store.NotFoundAs(err, "AppProfile not found")
}

// appKey is the key of an app of the composite app that the URL names.
func appKey(at resource.Place, app string) store.Key {
	return store.Key(v2.AppKey{CompositeApp: web.CompositeApp(at.Vars), Name: app}.StoreKey())
}

func (s Resources) groups() resource.Def[v2.DeploymentIntentGroup] {
	return resource.Def[v2.DeploymentIntentGroup]{
		Kind: "DeploymentIntent", Missing: "DeploymentIntentGroup not found", Orphan: "CompositeApp not found",
		Collection: groups, Item: "{deploymentIntentGroup}", Put: resource.PutUpsert,
		Guards: s.Groups,
		Masking: &resource.Masking[v2.DeploymentIntentGroup]{
			Mask: v2.DeploymentIntentGroup.Masked, Unmask: (*v2.DeploymentIntentGroup).Unmask, InBody: true,
		},
		Refs: func(at resource.Place, g v2.DeploymentIntentGroup) []store.Ref {
			app := web.CompositeApp(at.Vars)
			return []store.Ref{{Key: logicalCloudKey(app, g.Spec.LogicalCloud)}, {Key: store.Key(app.ProfileStoreKey(g.Spec.Profile))}}
		},
	}
}

// groupIntents is upstream's shape of a list of group intents: the maps only.
var groupIntents = resource.Shape{Begin: `{"intent":[`, End: `]}`, Item: intentMap}

func (s Resources) intents() resource.Def[v2.GroupIntent] {
	shape := groupIntents
	return resource.Def[v2.GroupIntent]{
		Kind: "Intent", Orphan: "DeploymentIntentGroup not found",
		Collection: web.GroupPath + "/intents", Item: "{groupIntent}", Put: resource.PutUpsert,
		Shape: &shape,
		Refs: func(_ resource.Place, g v2.GroupIntent) (refs []store.Ref) {
			for controller := range g.Spec.Intent {
				if controller != v2.PlacementKey {
					refs = append(refs, store.Ref{Key: "controllers/" + store.Key(controller)})
				}
			}
			return refs
		},
		Queries: []resource.Query{{Param: "intent", Answer: s.intentNamed}},
	}
}

func intentMap(doc store.Doc) ([]byte, error) {
	g, err := store.Decode[v2.GroupIntent](doc)
	if err != nil {
		return nil, err
	}
	return json.Marshal(g.Spec.Intent)
}

// intentNamed answers ?intent=N with {"intent":{...}}.
func (s Resources) intentNamed(ctx context.Context, at resource.Place, values url.Values) ([]byte, error) {
	name := values.Get("intent")
	if err := v2.CheckName("intent", name); err != nil {
		return nil, err
	}
	doc, err := s.DB.Get(ctx, at.Collection+"/"+store.Key(name))
	if err != nil {
		return nil, store.NotFoundAs(err, "Intent not found")
	}
	g, err := store.Decode[v2.GroupIntent](doc)
	if err != nil {
		return nil, err
	}
	return json.Marshal(g.Spec)
}

func (s Resources) dependencies() resource.Def[v2.AppDependency] {
	return resource.Def[v2.AppDependency]{
		Kind: "AppDependency", Orphan: "App not found",
		Collection: apps + "/{app}/dependency", Item: "{dependency}", Put: resource.PutCreated,
		Needs: func(at resource.Place, d v2.AppDependency) []store.Key {
			return []store.Key{appKey(at, d.Spec.App)}
		},
		Check: s.acyclic, Recheck: true,
	}
}

// acyclic refuses a dependency that closes a cycle; upstream EMCO finds cycles only when it
// instantiates.
func (s Resources) acyclic(ctx context.Context, at resource.Place, d v2.AppDependency) error {
	graph, err := s.dependencyGraph(ctx, at)
	if err != nil {
		return err
	}
	app := at.Vars["app"]
	if path := graph.path(d.Spec.App, app); path != nil {
		return errs.New(errs.Conflict, "Cyclic Dependency between apps found in composite app:"+at.Vars["compositeApp"]+
			": "+strings.Join(append([]string{app}, path...), " -> ")) // upstream's text, and the cycle
	}
	return nil
}

// dependencyGraph maps each app to the apps that it waits for.
type dependencyGraph map[string][]string

// dependencyGraph reads all dependencies of a composite app, except the one at the place itself.
func (s Resources) dependencyGraph(ctx context.Context, at resource.Place) (dependencyGraph, error) {
	all := dependencyGraph{}
	under := store.Key(web.CompositeApp(at.Vars).StoreKey() + "/apps")
	for item, err := range store.All[v2.AppDependency](ctx, s.DB, under, store.Query{Depth: 3}) {
		if err != nil {
			return nil, err
		}
		if item.Doc.Key == at.Key {
			continue
		}
		app, _, _ := strings.Cut(strings.TrimPrefix(string(item.Doc.Key), string(under)+"/"), "/") // A/dependency/D
		all[app] = append(all[app], item.Value.Spec.App)
	}
	return all, nil
}

// path returns the apps on a path of dependencies from one app to another, both included;
// nil if there is none.
func (g dependencyGraph) path(from, to string) []string {
	seen := map[string]bool{}
	var walk func(app string) []string
	walk = func(app string) []string {
		if app == to {
			return []string{app}
		}
		if seen[app] {
			return nil
		}
		seen[app] = true
		for _, next := range slices.Sorted(slices.Values(g[app])) {
			if rest := walk(next); rest != nil {
				return append([]string{app}, rest...)
			}
		}
		return nil
	}
	return walk(from)
}
