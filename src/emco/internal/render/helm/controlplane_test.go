package helm_test

import (
	"bytes"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chartutil"
	"k8s.io/apimachinery/pkg/util/yaml"
	syaml "sigs.k8s.io/yaml"
)

// controlPlane renders the chart of the control plane. The notes come apart.
func controlPlane(t *testing.T, values map[string]any) (files map[string]string, notes string, err error) {
	t.Helper()
	all, err := rendered(t, "emco", chartutil.ReleaseOptions{Name: "emco", Namespace: "emco", Revision: 1, IsInstall: true}, values)
	files = map[string]string{}
	for name, text := range all {
		switch base := path.Base(name); {
		case base == "NOTES.txt":
			notes = text
		case strings.TrimSpace(text) != "":
			files[base] = text
		}
	}
	return files, notes, err
}

// The plain YAML is what the chart renders to with its defaults.
func TestF34TheControlPlanesPlainYAMLIsThatOfItsChart(t *testing.T) {
	t.Parallel()
	files, _, err := controlPlane(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	out.WriteString("# Made from deployments/helm/emco. Edit the image.\n")
	out.WriteString("apiVersion: v1\nkind: Namespace\nmetadata:\n  name: emco\n  labels:\n    pod-security.kubernetes.io/enforce: restricted\n    pod-security.kubernetes.io/warn: restricted\n")
	for _, name := range slices.Sorted(maps.Keys(files)) {
		out.WriteString("---\n" + strings.TrimSpace(strings.TrimPrefix(files[name], "---\n")) + "\n")
	}
	same(t, filepath.Join(deployments, "emco/emco.yaml"), strings.ReplaceAll(out.String(), "app.kubernetes.io/managed-by: Helm", "app.kubernetes.io/managed-by: kubectl"))
}

func TestTheControlPlanesChartTakesItsValues(t *testing.T) {
	t.Parallel()
	type values = map[string]any
	for name, c := range map[string]struct {
		values    values
		want, not []string
	}{
		"by default the data is kept": {nil, []string{"volumeClaimTemplates", "storage: 10Gi", "kind: NetworkPolicy", "author: EMCO <emco@localhost>"}, []string{"ServiceMonitor", "EMCO_STORE_KEY", "storageClassName"}},
		"a trial keeps nothing":       {values{"persistence": values{"enabled": false}}, []string{"emptyDir: {sizeLimit: 10Gi}"}, []string{"volumeClaimTemplates"}},
		"a sealing key of its own":    {values{"sealingKey": values{"secretName": "keys", "key": "k"}}, []string{"secretKeyRef: {name: keys, key: k}"}, nil},
		"metrics":                     {values{"serviceMonitor": values{"enabled": true, "labels": values{"team": "ops"}}}, []string{"kind: ServiceMonitor", "team: ops", "path: /metrics"}, nil},
		"a gateway": {
			values{"networkPolicy": values{"from": []any{values{"namespaceSelector": values{"matchLabels": values{"a": "gateway"}}}}}},
			[]string{"a: gateway"},
			nil,
		},
		"names": {
			values{"config": values{"http": values{"hosts": []any{"emco.example.org"}}}},
			[]string{`EMCO_HTTP_INSECURE, value: "true"`, `"emco,emco.emco,emco.emco.svc,emco.emco.svc.cluster.local,emco.example.org"`},
			nil,
		},
		"no policy": {values{"networkPolicy": values{"enabled": false}}, nil, []string{"NetworkPolicy"}},
		"scheduling": {
			values{"nodeSelector": values{"disk": "ssd"}, "priorityClassName": "high", "imagePullSecrets": []any{values{"name": "pull"}}, "image": values{"tag": "v1"}, "podLabels": values{"tier": "control"}, "podAnnotations": values{"note": "kept"}},
			[]string{"disk: ssd", "priorityClassName: high", "name: pull", "emco/emco:v1", "tier: control", "note: kept"},
			nil,
		},
		"settings": {values{"config": values{"git": values{"window": "2s"}}, "extraEnv": []any{values{"name": "HTTPS_PROXY", "value": "http://proxy"}}}, []string{"window: 2s", "HTTPS_PROXY"}, nil},
	} {
		files, notes, err := controlPlane(t, c.values)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var all string
		for file, text := range files {
			checkObjects(t, name+": "+file, text)
			all += text
		}
		for _, want := range c.want {
			if !strings.Contains(all, want) {
				t.Errorf("%s: %q is missing in\n%s", name, want, all)
			}
		}
		for _, not := range c.not {
			if strings.Contains(all, not) {
				t.Errorf("%s: %q is in\n%s", name, not, all)
			}
		}
		if !strings.Contains(notes, "port-forward service/emco 9015:9015") {
			t.Errorf("%s: the notes are %q", name, notes)
		}
	}
}

// checkObjects requires strict YAML, and a kind, a name and a namespace in each document.
func checkObjects(t *testing.T, name, text string) {
	t.Helper()
	for doc := range strings.SplitSeq(text, "\n---\n") {
		var object struct {
			Kind     string
			Metadata struct{ Name, Namespace string }
		}
		if err := syaml.UnmarshalStrict([]byte(doc), &map[string]any{}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		d := yaml.NewYAMLOrJSONDecoder(bytes.NewReader([]byte(doc)), 4096)
		if err := d.Decode(&object); err != nil || object.Kind == "" || object.Metadata.Name == "" || object.Metadata.Namespace != "emco" {
			t.Errorf("%s: %+v, want an object in namespace emco (%v)", name, object, err)
		}
	}
}

// The schema refuses wrong values before anything is installed.
func TestTheControlPlanesChartRefuses(t *testing.T) {
	t.Parallel()
	type values = map[string]any
	for want, v := range map[string]values{
		"replicas":    {"replicas": 3},
		"port":        {"service": values{"port": 0}},
		"pullPolicy":  {"image": values{"pullPolicy": "Sometimes"}},
		"accessModes": {"persistence": values{"accessModes": []any{"ReadWriteMany"}}},
		"size":        {"persistence": values{"size": "much"}},
		"data":        {"config": values{"data": "/elsewhere"}},
		"address":     {"config": values{"http": values{"address": ":80"}}},
	} {
		if _, _, err := controlPlane(t, v); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want a refusal that names %s", v, err, want)
		}
	}
}

// The pod runs under the restricted rules of pod security.
func TestTheControlPlaneIsRestricted(t *testing.T) {
	t.Parallel()
	files, _, err := controlPlane(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"runAsNonRoot: true", "seccompProfile: {type: RuntimeDefault}", "allowPrivilegeEscalation: false", "readOnlyRootFilesystem: true",
		"capabilities: {drop: [ALL]}", "automountServiceAccountToken: false", "path: /readyz", "path: /healthz",
	} {
		if !strings.Contains(files["statefulset.yaml"], want) {
			t.Errorf("the StatefulSet lacks %q", want)
		}
	}
}
