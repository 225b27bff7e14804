package fleet

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"

	"github.com/emco-orchestrator/emco/src/api/client"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
)

const (
	version = "v1"
	profile = "small"
	intents = "places"
)

// Deployment is a composite app with one deployment intent group.
type Deployment struct {
	Name string // of the composite app and of the group; also the Helm release
	Apps []App
}

// App is a chart and its placement. A zero Intent selects all clusters of the fleet.
type App struct {
	Chart     Chart
	Intent    v2.PlacementSelection
	Overrides map[string]string
	After     []v2.AppDependencySpec // its dependencies
}

// Path returns the anchor of the deployment intent group.
func (d Deployment) Path() string {
	return v2.GroupKey{CompositeApp: d.compositeApp(), Name: d.Name}.StoreKey()
}

func (d Deployment) compositeApp() v2.CompositeAppKey {
	return v2.CompositeAppKey{Project: Project, Name: d.Name, Version: version}
}

func (d Deployment) composite() string { return d.compositeApp().StoreKey() }

// Everywhere selects all clusters of the fleet.
func Everywhere() v2.PlacementSelection {
	return v2.PlacementSelection{AllOf: []v2.AllOf{{Selector: v2.Selector{Provider: Provider, Label: Label}}}}
}

// Onboard packs the charts into a folder, creates the composite app with a profile for
// each app, the group with its intents, and approves the group.
func (f Fleet) Onboard(ctx context.Context, dir string, d Deployment) error {
	if err := create(ctx, f, projectPath+"/composite-apps", v2.CompositeApp{Named: named(d.Name), Spec: v2.CompositeAppSpec{Version: version}}); err != nil {
		return err
	}
	if err := create(ctx, f, d.composite()+"/composite-profiles", v2.CompositeProfile{Named: named(profile)}); err != nil {
		return err
	}
	for _, a := range d.Apps {
		if err := f.onboardApp(ctx, dir, d, a.Chart); err != nil {
			return err
		}
	}
	for _, a := range d.Apps {
		for _, spec := range a.After {
			dependency := v2.AppDependency{Named: named("after-" + spec.App), Spec: spec}
			if err := create(ctx, f, d.composite()+"/apps/"+a.Chart.Name+"/dependency", dependency); err != nil {
				return err
			}
		}
	}
	if err := f.group(ctx, d); err != nil {
		return err
	}
	return f.Act(ctx, d.Path(), "approve")
}

func (f Fleet) onboardApp(ctx context.Context, dir string, d Deployment, c Chart) error {
	chart, err := write(dir, d.Name+"-"+c.Name, c.Archive)
	if err != nil {
		return err
	}
	values, err := write(dir, d.Name+"-"+c.Name+"-profile", c.ProfileArchive)
	if err != nil {
		return err
	}
	p := v2.AppProfile{Named: named(c.Name + "-profile"), Spec: v2.AppProfileSpec{App: c.Name}}
	return errors.Join(
		client.Upload(ctx, f.api, d.composite()+"/apps", v2.App{Named: named(c.Name)}, client.OneFile(chart)),
		client.Upload(ctx, f.api, d.composite()+"/composite-profiles/"+profile+"/profiles", p, client.OneFile(values)),
	)
}

// Revalue replaces the values of an app's profile. The next update or instantiation uses them.
func (f Fleet) Revalue(ctx context.Context, d Deployment, c Chart, values string) error {
	c.Profile = map[string]string{"override_values.yaml": values}
	archive, err := c.ProfileArchive()
	if err != nil {
		return err
	}
	doc := v2.AppProfile{Named: named(c.Name + "-profile"), Spec: v2.AppProfileSpec{App: c.Name}}
	path := d.composite() + "/composite-profiles/" + profile + "/profiles/" + c.Name + "-profile"
	file := client.File{Part: client.FilePart, Name: client.FileName, Data: archive}
	_, err = client.Send[v2.AppProfile](ctx, f.api, client.Request{Method: http.MethodPut, Path: path}, doc, file)
	return err
}

func (f Fleet) group(ctx context.Context, d Deployment) error {
	group := v2.DeploymentIntentGroup{Named: named(d.Name)}
	group.Spec = v2.DeploymentIntentGroupSpec{Profile: profile, Version: d.Name, LogicalCloud: Cloud, Overrides: []v2.OverrideValue{}}
	for _, a := range d.Apps {
		if len(a.Overrides) > 0 {
			group.Spec.Overrides = append(group.Spec.Overrides, v2.OverrideValue{App: a.Chart.Name, Values: a.Overrides})
		}
	}
	places := d.Path() + "/generic-placement-intents"
	errs := []error{
		create(ctx, f, d.composite()+"/deployment-intent-groups", group),
		create(ctx, f, places, v2.PlacementIntent{Named: named(intents)}),
	}
	for _, a := range d.Apps {
		if a.Intent.AllOf == nil && a.Intent.AnyOf == nil {
			a.Intent = Everywhere()
		}
		intent := v2.AppIntent{Named: named(a.Chart.Name), Spec: v2.AppIntentSpec{App: a.Chart.Name, Intent: a.Intent}}
		errs = append(errs, create(ctx, f, places+"/"+intents+"/app-intents", intent))
	}
	uses := v2.GroupIntent{Named: named("uses"), Spec: v2.GroupIntentSpec{Intent: map[string]string{v2.PlacementKey: intents}}}
	return errors.Join(append(errs, create(ctx, f, d.Path()+"/intents", uses))...)
}

// write packs an archive into a file and returns its path.
func write(dir, name string, pack func() ([]byte, error)) (string, error) {
	content, err := pack()
	if err != nil {
		return "", fmt.Errorf("pack %s: %w", name, err)
	}
	path := filepath.Join(dir, name+".tgz")
	return path, os.WriteFile(path, content, 0o600)
}

// Document writes a text to a file in a folder and returns its path.
func Document(dir, name, text string) (string, error) {
	path := filepath.Join(dir, name+".yaml")
	return path, os.WriteFile(path, []byte(text), 0o600)
}
