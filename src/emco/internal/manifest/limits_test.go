package manifest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
)

// Kubernetes refuses label values of more than 63 characters.
func TestDeploymentLabelsHaveAtMost63Characters(t *testing.T) {
	t.Parallel()
	for n := 40; n < 80; n++ {
		_, value := manifest.DeploymentLabel("7", strings.Repeat("a", n))
		if len(value) > 63 {
			t.Errorf("the label of an app of %d characters has %d", n, len(value))
		}
		if whole := n + len("7-"); whole <= 63 && value != "7-"+strings.Repeat("a", n) {
			t.Errorf("a label of %d characters is changed: %s", whole, value)
		}
	}
}

// objects returns a List of n objects.
func objects(n int) []byte {
	items := make([]string, n)
	for i := range items {
		items[i] = fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c%d"}}`, i)
	}
	return []byte(`{"apiVersion":"v1","kind":"List","items":[` + strings.Join(items, ",") + `]}`)
}

// An object too many is an error: without it the app would be deployed in part.
func TestObjectsAboveTheLimitAreRefused(t *testing.T) {
	t.Parallel()
	if got, err := manifest.Parse("all.yaml", objects(manifest.MaxObjects)); err != nil || len(got) != manifest.MaxObjects {
		t.Errorf("%d objects: got %d, %v", manifest.MaxObjects, len(got), err)
	}
	for _, more := range []int{1, 2} {
		_, err := manifest.Parse("all.yaml", objects(manifest.MaxObjects+more))
		if !errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), "more than 10000 objects") {
			t.Errorf("%d objects too many: got %v, want Invalid", more, err)
		}
	}
}

// An API server refuses a definition without scope. Objects of its kind count as namespaced,
// as those of a kind without definition do: they must not lose their namespace.
func TestAKindWithoutScopeIsNamespaced(t *testing.T) {
	t.Parallel()
	for scope, cluster := range map[string]bool{"": false, ", scope: Namespaced": false, ", scope: cluster": false, ", scope: Cluster": true} {
		crd, err := manifest.Parse("crd.yaml", []byte("apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: shops.x.io}\n"+
			"spec: {group: x.io, names: {kind: Shop}"+scope+"}\n"))
		if err != nil {
			t.Fatal(err)
		}
		if got := manifest.ScopesOf(crd)[manifest.GroupKind{Group: "x.io", Kind: "Shop"}]; got != cluster {
			t.Errorf("definition with %q: cluster-wide %v, want %v", scope, got, cluster)
		}
		shop, err := manifest.Parse("shop.yaml", []byte("apiVersion: x.io/v1\nkind: Shop\nmetadata: {name: s}\n"))
		if err != nil {
			t.Fatal(err)
		}
		full, err := manifest.Complete(shop, manifest.Defaults{Namespace: "default", Scopes: manifest.ScopesOf(crd)})
		if err != nil || (full[0].ID.Namespace == "") != cluster {
			t.Errorf("definition with %q: object %v, %v", scope, full, err)
		}
	}
}

// Files that were written on Windows have markers that end in a carriage return.
func TestMarkersMayEndInACarriageReturn(t *testing.T) {
	t.Parallel()
	one := "apiVersion: v1\r\nkind: ConfigMap\r\nmetadata:\r\n  name: %s\r\n"
	text := fmt.Sprintf("---\r\n"+one+"---\r\n"+one+"---\r\n"+one, "a", "b", "c")
	got, err := manifest.Parse("windows.yaml", []byte(text))
	if err != nil || len(got) != 3 || got[2].ID.Name != "c" {
		t.Errorf("got %v, %v, want three objects", got, err)
	}
	// The document of the second marker is found at its own line, even if an earlier one is broken.
	_, err = manifest.Parse("windows.yaml", []byte("a: [\r\n---\r\n"+fmt.Sprintf(one, "b")+"---\r\nkind: none\r\n"))
	if err == nil || !strings.Contains(err.Error(), "windows.yaml:1: document 1") || !strings.Contains(err.Error(), "windows.yaml:8: document 3") {
		t.Errorf("got %v, want the problems of documents 1 and 3", err)
	}
}
