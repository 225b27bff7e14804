package helm_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"sigs.k8s.io/yaml"
)

// deployments is where what is shipped lies, from this directory.
const deployments = "../../../../../deployments"

// shipped renders the monitor's chart as Helm does.
func shipped(t *testing.T, values map[string]any) (map[string]string, error) {
	t.Helper()
	return rendered(t, "monitor", chartutil.ReleaseOptions{Name: "monitor", Namespace: "emco-monitor"}, values)
}

// rendered renders a chart as Helm does: it checks the values against the chart's schema first.
func rendered(t *testing.T, chart string, release chartutil.ReleaseOptions, values map[string]any) (map[string]string, error) {
	t.Helper()
	c, err := loader.Load(filepath.Join(deployments, "helm", chart))
	if err != nil {
		t.Fatal(err)
	}
	all, err := chartutil.ToRenderValues(c, values, release, chartutil.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	return engine.Render(c, all)
}

var least = map[string]any{"cluster": "provider+cluster", "git": map[string]any{"url": "https://git.example.org/fleet/status.git"}}

// The plain YAML is what the chart renders to with its defaults.
func TestTheMonitorsPlainYAMLIsThatOfItsChart(t *testing.T) {
	t.Parallel()
	files, err := shipped(t, least)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	out.WriteString("# Made from deployments/helm/monitor. Edit GIT_CLUSTERNAME, GIT_URL and the image.\n")
	out.WriteString("apiVersion: v1\nkind: Namespace\nmetadata:\n  name: emco-monitor\n")
	for _, name := range slices.Sorted(maps.Keys(files)) {
		out.WriteString("---\n" + strings.TrimSpace(files[name]) + "\n")
	}
	same(t, filepath.Join(deployments, "monitor/monitor.yaml"), out.String())
	crd, err := os.ReadFile(filepath.Join(deployments, "helm/monitor/crds/resourcebundlestates.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	same(t, filepath.Join(deployments, "monitor/crd.yaml"), string(crd))
}

func same(t *testing.T, path, want string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil || string(got) != want {
		t.Errorf("%s is not what the chart renders to (%v); run the test with -update", path, err)
	}
}

func TestTheMonitorsChartTakesItsValues(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		values    map[string]any
		want, not string
	}{
		"by default Secrets are out of reach": {nil, "emco-monitor", "[secrets]"},
		"Secrets on request":                  {map[string]any{"secrets": true}, "[secrets]", "value: \"false\"}\n            - {name: LOG_LEVEL"},
		"no Nodes by default":                 {nil, "CAPACITY_INTERVAL, value: \"0s\"", "[nodes]"},
		"free resources on request":           {map[string]any{"capacity": map[string]any{"report": true, "interval": "2m"}}, "[nodes]", "CAPACITY_INTERVAL, value: \"0s\""},
		"custom kinds": {map[string]any{"extraRules": []any{map[string]any{
			"apiGroups": []any{"example.org"}, "resources": []any{"*"}, "verbs": []any{"get", "list", "watch"},
		}}}, "example.org", ""},
		"no ResourceBundleStates": {map[string]any{"resourceBundleStates": false}, "RESOURCE_BUNDLE_STATES, value: \"false\"", "k8splugin.io"},
		"ssh":                     {map[string]any{"git": map[string]any{"url": "ssh://git@h/r", "tokenKey": "", "sshKeyKey": "identity", "knownHostsKey": "known_hosts"}}, "/etc/monitor/git/known_hosts", "GIT_TOKEN_FILE"},
		"a proxy":                 {map[string]any{"extraEnv": []any{map[string]any{"name": "HTTPS_PROXY", "value": "http://proxy:3128"}}, "exclude": []any{"Pod", "Job.batch"}}, "Pod,Job.batch", ""},
	} {
		values := maps.Clone(least)
		maps.Copy(values, c.values)
		files, err := shipped(t, values)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var all string
		for path, text := range files {
			for doc := range strings.SplitSeq(text, "\n---\n") {
				var object struct{ Kind string }
				if err := yaml.UnmarshalStrict([]byte(doc), &map[string]any{}); err != nil {
					t.Errorf("%s: %s is no YAML: %v", name, path, err)
				} else if err := yaml.Unmarshal([]byte(doc), &object); err != nil || object.Kind == "" {
					t.Errorf("%s: %s is no object: %v", name, path, err)
				}
			}
			all += text
		}
		if !strings.Contains(all, c.want) || c.not != "" && strings.Contains(all, c.not) {
			t.Errorf("%s: want %q and not %q in\n%s", name, c.want, c.not, all)
		}
	}
	for _, missing := range []string{"cluster", "git"} {
		values := maps.Clone(least)
		delete(values, missing)
		if _, err := shipped(t, values); err == nil || !strings.Contains(err.Error(), "needed") {
			t.Errorf("without %s: %v, want that it is needed", missing, err)
		}
	}
}
