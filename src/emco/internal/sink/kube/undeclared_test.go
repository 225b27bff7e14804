package kube_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/sink/kube"
)

var daemonSets = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "daemonsets"}

// Fields that the kind does not declare are left out, each with a finding; everything else
// is applied.
func TestF01FieldsThatAClusterDoesNotKnowAreLeftOut(t *testing.T) {
	t.Parallel()
	l := newTestCluster(t)
	web := manifest.ID{Group: "apps", Version: "v1", Kind: "DaemonSet", Namespace: l.ns, Name: "web"}
	labels := map[string]any{"a": "b"}
	container := func(name string) map[string]any {
		return map[string]any{"name": name, "image": "i", "limits": map[string]any{"cpu": "1"}, "resources": map[string]any{"requests": map[string]any{"cpu": "2"}}}
	}
	want := []manifest.Object{
		appObject("app", web, map[string]any{"spec": map[string]any{
			"replicas": nil, "selector": map[string]any{"matchLabels": labels},
			"template": map[string]any{
				"metadata": map[string]any{"labels": labels},
				"spec":     map[string]any{"containers": []any{container("one"), container("two")}, "frob.nicate": 1},
			},
		}}),
		appObject("app", l.configMap("a"), map[string]any{"data": map[string]any{"k": "v"}, "fo.o": map[string]any{"b": 1}}),
	}
	got := l.apply(kube.AppState{App: "app", Desired: want, Previous: ids(want...)})
	slices.Sort(got.Findings)
	findings := []string{
		web.String() + `: field .spec.replicas was left out: the cluster does not know it`,
		web.String() + `: field .spec.template.spec.containers[name="one"].limits was left out: the cluster does not know it`,
		web.String() + `: field .spec.template.spec.frob.nicate was left out: the cluster does not know it`,
		l.configMap("a").String() + `: field .fo.o was left out: the cluster does not know it`,
	}
	if got.Applied != 2 || !slices.Equal(got.Findings, findings) {
		t.Errorf("Apply: %d applied, findings\n%q, want\n%q", got.Applied, got.Findings, findings)
	}
	l.cleanup(daemonSets, web)
	stored := l.get(daemonSets, l.ns, "web")
	containers, _, err := unstructured.NestedSlice(stored.Object, "spec", "template", "spec", "containers")
	if text := fmt.Sprint(containers); err != nil || len(containers) != 2 || strings.Count(text, "requests:map[cpu:2]") != 2 || strings.Contains(text, "limits") {
		t.Errorf("the DaemonSet has the containers %v, %v", containers, err)
	}
	cm := l.get(configMaps, l.ns, "a")
	if v, _, _ := unstructured.NestedString(cm.Object, "data", "k"); v != "v" || cm.Object["fo.o"] != nil {
		t.Errorf("the ConfigMap is %v", cm)
	}
}
