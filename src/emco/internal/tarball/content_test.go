package tarball

import (
	"fmt"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

const goodChart = "apiVersion: v2\nname: web\nversion: 1.0.0\n"

func tree(pairs ...string) Tree {
	t := Tree{}
	for i := 0; i < len(pairs); i += 2 {
		t[pairs[i]] = []byte(pairs[i+1])
	}
	return t
}

func TestCheckChart(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		files Tree
		want  string // empty: it is accepted
	}{
		{"a chart", tree("web/Chart.yaml", goodChart), ""},
		{"a chart of type application", tree("web/Chart.yaml", goodChart+"type: application"), ""},
		{"a chart among others", tree("web/Chart.yaml", goodChart, "db/Chart.yaml", "x"), ""},
		{"a chart at the top", tree("Chart.yaml", goodChart), "package of app web: web/Chart.yaml is missing; the chart lies at the top; put it into a directory called web"},
		{"a chart of another name", tree("db/Chart.yaml", goodChart), "the chart lies in db; the directory must be called like the app"},
		{"a chart too deep", tree("charts/web/Chart.yaml", goodChart), "charts lie in charts/web; the one to deploy must lie in web at the top"},
		{"no chart", tree("a", "b"), `pack the chart's directory, called web, with "tar -czf web.tgz web"`},
		{"a name in another case", tree("Web/Chart.yaml", goodChart), "the chart lies in Web"},
		{"a chart that is no YAML", tree("web/Chart.yaml", "a: ["), "web/Chart.yaml is no valid YAML"},
		{"a chart that is a list", tree("web/Chart.yaml", "[a]"), "web/Chart.yaml is no valid YAML"},
		{"no apiVersion", tree("web/Chart.yaml", "name: web\nversion: 1.0.0"), `apiVersion is ""; set it to v2`},
		{"no name", tree("web/Chart.yaml", "apiVersion: v2\nversion: 1.0.0"), "name is missing"},
		{"no version", tree("web/Chart.yaml", "apiVersion: v2\nname: web"), "version is missing"},
		{"a library", tree("web/Chart.yaml", goodChart+"type: library"), `type is "library"; only charts of type application can be deployed`},
		{"a chart file beyond reason", tree("web/Chart.yaml", strings.Repeat("#", 2<<20)), "more than 1048576"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			want(t, CheckChart(tt.files, "web"), tt.want)
		})
	}
}

func want(t *testing.T, err error, text string) {
	t.Helper()
	switch {
	case text == "" && err != nil:
		t.Errorf("got %v, want no error", err)
	case text != "" && (!errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), text)):
		t.Errorf("got %v, want an Invalid error with %q", err, text)
	}
}

func TestCheckProfile(t *testing.T) {
	t.Parallel()
	copies := func(from, to string) string {
		return fmt.Sprintf("type: {configresource: [{filepath: %q, chartpath: %q}]}", from, to)
	}
	for _, tt := range []struct {
		name  string
		files Tree
		want  string
	}{
		{"values and files", tree("manifest.yaml", "---\nversion: v1\ntype:\n  values: \"v.yaml\"\n  configresource:\n  - {filepath: sub/f, chartpath: web/templates/f}\n", "v.yaml", "a: b", "sub/f", ""), ""},
		{"values that are empty", tree("manifest.yaml", "type: {values: v.yaml}", "v.yaml", "# nothing\n"), ""},
		{"nothing to do", tree("manifest.yaml", "version: v1"), ""},
		{"a path that begins with a dot", tree("manifest.yaml", "type: {values: ./v.yaml}", "v.yaml", ""), ""},
		{"no manifest", tree("v.yaml", ""), "manifest.yaml is missing at the top of the archive"},
		{"a manifest that is no YAML", tree("manifest.yaml", "a: ["), "manifest.yaml is no valid YAML"},
		{"a key twice", tree("manifest.yaml", "version: v1\nversion: v1"), "already defined"},
		{"an unknown version", tree("manifest.yaml", "version: v9"), `version is "v9"; only v1 is known`},
		{"values that are not there", tree("manifest.yaml", "type: {values: v.yaml}"), `type.values names "v.yaml", which is not in the archive`},
		{"values that climb", tree("manifest.yaml", "type: {values: ../v.yaml}"), `type.values "../v.yaml" leaves the archive`},
		{"values that are a list", tree("manifest.yaml", "type: {values: v.yaml}", "v.yaml", "[a]"), "v.yaml must be a mapping"},
		{"values that are no YAML", tree("manifest.yaml", "type: {values: v.yaml}", "v.yaml", "a: ["), "v.yaml is no valid YAML"},
		{"values beyond reason", tree("manifest.yaml", "type: {values: v.yaml}", "v.yaml", strings.Repeat("#", 6<<20)), "v.yaml has 6291456 bytes"},
		{"a file that climbs", tree("manifest.yaml", copies("../../x", "web/x")), `type.configresource[0].filepath "../../x" leaves the archive`},
		{"a target that climbs", tree("manifest.yaml", copies("f", "../../../x"), "f", ""), `type.configresource[0].chartpath "../../../x" leaves the archive`},
		{"a target outside of a chart", tree("manifest.yaml", copies("f", "x"), "f", ""), "must begin with the chart's directory"},
		{"a file without name", tree("manifest.yaml", copies("", "web/x")), "is empty"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			want(t, CheckProfile(tt.files), tt.want)
		})
	}
}

func TestReadProfileReturnsItsFiles(t *testing.T) {
	t.Parallel()
	p, err := ReadProfile(tree("manifest.yaml", "type:\n  values: ./v.yaml\n  configresource:\n  - {filepath: ./f, chartpath: ./web/f}\n", "v.yaml", "", "f", ""))
	if got := fmt.Sprint(p); err != nil || got != "{v.yaml [{f web/f}]}" {
		t.Errorf("ReadProfile = %s, %v", got, err)
	}
}
