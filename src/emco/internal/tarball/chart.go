package tarball

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

// CheckChart reports why an app's package has no chart that can be rendered. Upstream EMCO needs a
// top-level directory named exactly like the app, with a chart of type "application" in it.
// Upstream EMCO finds errors when it instantiates; we report them at upload.
func CheckChart(files Tree, app string) error {
	file := app + "/Chart.yaml"
	text, ok := files[file]
	if !ok {
		return invalid("package of app %s: %s is missing; %s", app, file, hint(files, app))
	}
	if len(text) > maxManifest {
		return invalid("%s has %d bytes, more than %d", file, len(text), maxManifest)
	}
	var chart struct {
		APIVersion string `yaml:"apiVersion"`
		Name       string `yaml:"name"`
		Version    string `yaml:"version"`
		Type       string `yaml:"type"`
	}
	if err := decode(text, &chart); err != nil {
		return invalid("%s is no valid YAML: %s", file, reason(err))
	}
	switch {
	case chart.APIVersion != "v1" && chart.APIVersion != "v2":
		return invalid("%s: apiVersion is %q; set it to v2", file, chart.APIVersion)
	case chart.Name == "":
		return invalid("%s: name is missing", file)
	case chart.Version == "":
		return invalid("%s: version is missing", file)
	case chart.Type != "" && chart.Type != "application":
		return invalid("%s: type is %q; only charts of type application can be deployed", file, chart.Type)
	}
	return nil
}

// hint explains how to fix a package that lacks its app's chart directory.
func hint(files Tree, app string) string {
	var charts []string
	for _, name := range files.Names() {
		if dir, base := path.Split(name); base == "Chart.yaml" && strings.Count(name, "/") <= 2 {
			charts = append(charts, strings.TrimSuffix(dir, "/"))
		}
	}
	switch {
	case slices.Contains(charts, ""):
		return fmt.Sprintf("the chart lies at the top; put it into a directory called %s", app)
	case len(charts) == 1 && !strings.Contains(charts[0], "/"):
		return fmt.Sprintf("the chart lies in %s; the directory must be called like the app", charts[0])
	case len(charts) > 0:
		return fmt.Sprintf("charts lie in %s; the one to deploy must lie in %s at the top", strings.Join(charts, ", "), app)
	}
	return fmt.Sprintf("pack the chart's directory, called %s, with \"tar -czf %s.tgz %s\"", app, app, app)
}

func invalid(text string, args ...any) error {
	return errs.E(errs.Invalid, "", "", fmt.Errorf(text, args...))
}

// reason returns the text of a YAML error in one line, without its prefix.
func reason(err error) string {
	if t, ok := errors.AsType[*yaml.TypeError](err); ok {
		return strings.Join(t.Errors, "; ")
	}
	return strings.TrimPrefix(err.Error(), "yaml: ")
}
