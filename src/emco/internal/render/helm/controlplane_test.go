package helm_test

import (
	"bytes"
	"maps"
	"os"
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
	return controlPlaneOf(t, "emco", values)
}

func controlPlaneOf(t *testing.T, release string, values map[string]any) (files map[string]string, notes string, err error) {
	t.Helper()
	all, err := rendered(t, "emco", chartutil.ReleaseOptions{Name: release, Namespace: "emco", Revision: 1, IsInstall: true}, values)
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

// The plain YAML is what the chart renders to with its defaults, and in mode services.
func TestF34TheControlPlanesPlainYAMLIsThatOfItsChart(t *testing.T) {
	t.Parallel()
	plainYAML(t, filepath.Join(deployments, "emco", "emco.yaml"), "emco", "Edit the image.", nil)
	plainYAML(t, filepath.Join(deployments, "emco", "services.yaml"), "emco", "Edit the image, the addresses of etcd, and the names of the Secrets.", map[string]any{
		"mode": "services", "sealingKey": map[string]any{"secretName": "emco-sealing"}, "tls": map[string]any{"secretName": "emco-tls"},
		"etcd":      map[string]any{"endpoints": []any{"https://etcd-0.etcd:2379", "https://etcd-1.etcd:2379", "https://etcd-2.etcd:2379"}, "secretName": "emco-etcd"},
		"bootstrap": map[string]any{"secretName": "emco-bootstrap"}, "config": map[string]any{"auth": map[string]any{"mode": "on"}},
	})
}

// The shape with pods of single services, and all that is off by default, for the test that has an API server take it.
func TestTheControlPlanesPartsAreThoseOfItsChart(t *testing.T) {
	t.Parallel()
	plainYAML(t, filepath.Join("testdata", "controlplane-parts.yaml"), "parts", "For tests.", services(map[string]any{
		"replicas": map[string]any{"all": 2, "orchestrator": 1, "rsync": 2}, "mongo": map[string]any{"secretName": "emco-mongo"}, "bootstrap": map[string]any{"secretName": "emco-bootstrap"},
		"ingress": map[string]any{"enabled": true, "host": "emco.example.org", "tlsSecretName": "emco-public"},
	}))
}

// plainYAML compares a file with what the chart renders to.
func plainYAML(t *testing.T, file, release, edit string, values map[string]any) {
	t.Helper()
	files, _, err := controlPlaneOf(t, release, values)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	out.WriteString("# Made from deployments/helm/emco. " + edit + "\n")
	out.WriteString("apiVersion: v1\nkind: Namespace\nmetadata:\n  name: emco\n  labels:\n    pod-security.kubernetes.io/enforce: restricted\n    pod-security.kubernetes.io/warn: restricted\n")
	for _, name := range slices.Sorted(maps.Keys(files)) {
		out.WriteString("---\n" + strings.TrimPrefix(strings.TrimSpace(files[name]), "---\n") + "\n")
	}
	same(t, file, strings.ReplaceAll(out.String(), "app.kubernetes.io/managed-by: Helm", "app.kubernetes.io/managed-by: kubectl"))
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
		"metrics":                     {values{"serviceMonitor": values{"enabled": true, "labels": values{"team": "ops"}}}, []string{"kind: ServiceMonitor", "team: ops", "{port: ops, path: /metrics", "jobLabel: app.kubernetes.io/name"}, nil},
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
		"identity and TLS": {
			values{"config": values{"auth": values{"mode": "on"}}, "tls": values{"secretName": "cert"}, "bootstrap": values{"secretName": "first", "key": "t"}},
			[]string{"value: /etc/emco-tls/tls.crt", "secret: {secretName: cert, defaultMode: 0440}", "value: /etc/emco-bootstrap/t", `EMCO_HTTP_INSECURE, value: "false"`},
			[]string{`EMCO_HTTP_INSECURE, value: "true"`},
		},
		"identity of an issuer": {
			values{"config": values{"auth": values{"issuers": []any{values{"name": "corp", "url": "https://id.example.org", "audience": "emco-api"}}, "fourEyes": []any{"shop"}}, "http": values{"tls": "terminated", "trustedProxies": []any{"10.244.0.0/16", "192.0.2.1", "2001:db8::/32"}}, "level": values{"auto": false}}},
			[]string{"fourEyes:\n      - shop", "trustedProxies:\n      - 10.244.0.0/16", "level:\n      auto: false", `EMCO_HTTP_INSECURE, value: "false"`},
			[]string{`EMCO_HTTP_INSECURE, value: "true"`},
		},
		"identity by a variable": {
			values{"tls": values{"secretName": "api"}, "extraEnv": []any{values{"name": "EMCO_AUTH_MODE", "value": "on"}}},
			[]string{"EMCO_AUTH_MODE", `EMCO_HTTP_INSECURE, value: "false"`},
			[]string{`EMCO_HTTP_INSECURE, value: "true"`},
		},
		"identity on a protected network": {
			values{"config": values{"auth": values{"mode": "on"}, "http": values{"insecure": true}}},
			[]string{`EMCO_HTTP_INSECURE, value: "true"`},
			nil,
		},
		"no identity by a variable": {
			values{"config": values{"auth": values{"mode": "on"}}, "extraEnv": []any{values{"name": "EMCO_AUTH_MODE", "value": "off"}}},
			[]string{`EMCO_HTTP_INSECURE, value: "true"`},
			nil,
		},
		"no identity despite an issuer": {
			values{"config": values{"auth": values{"mode": "off", "issuers": []any{values{"name": "corp"}}}}},
			[]string{`EMCO_HTTP_INSECURE, value: "true"`},
			nil,
		},
		"authorities": {
			values{"extraVolumes": []any{values{"name": "ca", "configMap": values{"name": "ca"}}}, "extraVolumeMounts": []any{values{"name": "ca", "mountPath": "/etc/ca"}}},
			[]string{"mountPath: /etc/ca"},
			nil,
		},
		"several pods": {
			services(nil),
			[]string{"kind: Deployment", "replicas: 3", "kind: PodDisruptionBudget", "sessionAffinity: ClientIP", "EMCO_TARGET, value: all", `"https://etcd-0:2379,https://etcd-1:2379"`, "topologyKey: kubernetes.io/hostname", "emptyDir: {sizeLimit: 10Gi}"},
			[]string{"StatefulSet", "volumeClaimTemplates", "EMCO_ETCD_CA", "mongo"},
		},
		"pods that only work": {
			services(values{"replicas": values{"all": 2, "rsync": 4}}),
			[]string{"name: emco-rsync", "replicas: 4", "replicas: 2", "EMCO_TARGET, value: rsync"},
			nil,
		},
		"an etcd with TLS, and MongoDB": {
			services(values{"etcd": values{"endpoints": []any{"https://etcd-0:2379"}, "secretName": "etcd", "prefix": "/two/"}, "mongo": values{"secretName": "mongo", "key": "uri"}}),
			[]string{"value: /etc/emco-etcd/tls.crt", `EMCO_ETCD_PREFIX, value: "/two/"`, "EMCO_STORE_DRIVER, value: mongo", "secretKeyRef: {name: mongo, key: uri}"},
			nil,
		},
		"a public name": {
			values{"ingress": values{"enabled": true, "host": "emco.example.org", "className": "nginx", "tlsSecretName": "cert"}},
			[]string{"kind: Ingress", "host: emco.example.org", "ingressClassName: nginx", "secretName: cert", `svc.cluster.local,emco.example.org"`},
			nil,
		},
		"alerts":   {values{"prometheusRule": values{"enabled": true, "labels": values{"team": "ops"}}}, []string{"kind: PrometheusRule", "alert: EmcoDown", "{{ $value }}"}, nil},
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
		if !strings.HasPrefix(notes, "EMCO's control plane is in namespace emco.\n") || !strings.Contains(notes, "port-forward service/emco 9015:9015") {
			t.Errorf("%s: the notes are %q", name, notes)
		}
	}
}

// The notes explain how to wait for all pods and how to reach the API, in each shape, with names that the API and its certificate have.
func TestTheNotesOfTheControlPlaneFitItsShape(t *testing.T) {
	t.Parallel()
	type values = map[string]any
	const local = "\n  emcoctl version --server https://localhost:9015 --ca-file ca.crt\nThe certificate in the Secret cert must name localhost for that, besides emco.emco.svc "
	for name, c := range map[string]struct {
		values    values
		want, not []string
	}{
		"one pod":               {nil, []string{"rollout status statefulset/emco\n", "whose authentication is off", "\n  emcoctl version\n", "sealing.key"}, []string{"deployment/", "https://", "--ca-file"}},
		"one pod with TLS":      {values{"tls": values{"secretName": "cert"}}, []string{local}, []string{"\n  emcoctl version\n"}},
		"another port":          {values{"service": values{"port": 80}}, []string{"port-forward service/emco 9015:80\n  emcoctl version\n"}, nil},
		"several pods":          {services(nil), []string{"rollout status deployment/emco\n"}, []string{"statefulset", "sealing.key"}},
		"pods that only work":   {services(values{"replicas": values{"all": 2, "rsync": 4}}), []string{"rollout status deployment/emco\n", "rollout status deployment/emco-rsync\n"}, nil},
		"several pods with TLS": {services(values{"tls": values{"secretName": "cert"}, "config": values{"auth": values{"mode": "on"}}}), []string{local}, []string{"authentication is off"}},
		"identity of a provider": {
			values{"config": values{"http": values{"tls": "terminated"}, "auth": values{"issuers": []any{values{"name": "corp"}}}}},
			nil,
			[]string{"authentication is off"},
		},
		"a public name with TLS":    {values{"ingress": values{"enabled": true, "host": "emco.example.org", "tlsSecretName": "public"}}, []string{"\n  emcoctl version --server https://emco.example.org\n"}, nil},
		"a public name without TLS": {values{"ingress": values{"enabled": true, "host": "emco.example.org"}}, []string{"\n  emcoctl version --server http://emco.example.org\n"}, nil},
	} {
		_, notes, err := controlPlane(t, c.values)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, want := range c.want {
			if !strings.Contains(notes, want) {
				t.Errorf("%s: the notes lack %q:\n%s", name, want, notes)
			}
		}
		for _, not := range c.not {
			if strings.Contains(notes, not) {
				t.Errorf("%s: the notes have %q:\n%s", name, not, notes)
			}
		}
	}
}

// services are the least values of several pods, and others.
func services(other map[string]any) map[string]any {
	out := map[string]any{
		"mode": "services", "sealingKey": map[string]any{"secretName": "keys"}, "etcd": map[string]any{"endpoints": []any{"https://etcd-0:2379", "https://etcd-1:2379"}},
	}
	maps.Copy(out, other)
	return out
}

// checkObjects requires strict YAML, and a kind, a name and a namespace in each document.
func checkObjects(t *testing.T, name, text string) {
	t.Helper()
	for doc := range strings.SplitSeq(strings.TrimPrefix(strings.TrimSpace(text), "---\n"), "\n---\n") {
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
		"replicas":                      {"replicas": 3},
		"got 0":                         services(values{"replicas": values{"all": 0}}),
		"clm":                           services(values{"replicas": values{"all": 1, "clm": 1}}),
		"needs etcd.endpoints":          services(values{"etcd": values{}}),
		"ingress.host":                  {"ingress": values{"enabled": true}},
		"the same key":                  services(values{"sealingKey": values{}}),
		"authentication needs TLS":      {"config": values{"auth": values{"mode": "on"}}},
		"endpoints":                     services(values{"etcd": values{"endpoints": []any{"etcd-0:2379"}}}),
		"/config/auth/mode":             {"config": values{"auth": values{"mode": true}}}, // on without quotes
		"/config/auth'":                 {"config": values{"auth": nil}},
		"port":                          {"service": values{"port": 0}},
		"pullPolicy":                    {"image": values{"pullPolicy": "Sometimes"}},
		"accessModes":                   {"persistence": values{"accessModes": []any{"ReadWriteMany"}}},
		"size":                          {"persistence": values{"size": "much"}},
		"data":                          {"config": values{"data": "/elsewhere"}},
		"address":                       {"config": values{"http": values{"address": ":80"}}},
		"/config/auth/fourEyes/0":       {"config": values{"auth": values{"fourEyes": []any{"all projects"}}}},
		"/config/auth/fourEyes'":        {"config": values{"auth": values{"fourEyes": "shop"}}},
		"/config/http/trustedProxies/0": {"config": values{"http": values{"trustedProxies": []any{"proxy.example.org"}}}},
		"/config/level/auto":            {"config": values{"level": values{"auto": "no"}}},
		"'fourEyed'":                    {"config": values{"auth": values{"fourEyed": []any{"shop"}}}},
		"'levels'":                      {"config": values{"levels": values{"auto": true}}},
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

// The chart has a copy of the alert rules, because Helm reads only the files of a chart.
func TestTheChartsAlertsAreThoseOfPrometheus(t *testing.T) {
	t.Parallel()
	rules, err := os.ReadFile(filepath.Join(deployments, "prometheus/alerts.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	same(t, filepath.Join(deployments, "helm/emco/files/alerts.yaml"), string(rules))
}

// The values that the page on installation shows are right.
func TestTheValuesOfTheInstallationPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../../../docs/install.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, found := strings.Cut(string(page), "```yaml\n# values.yaml\n")
	block, _, _ = strings.Cut(block, "```")
	values := map[string]any{}
	if err := syaml.Unmarshal([]byte(block), &values); err != nil || !found {
		t.Fatal(found, err)
	}
	files, _, err := controlPlane(t, values)
	if err != nil || !strings.Contains(files["deployments.yaml"], "/etc/emco-etcd/tls.key") || !strings.Contains(files["configmap.yaml"], "id.example.org") {
		t.Errorf("%v\n%s", err, files["deployments.yaml"])
	}
}
