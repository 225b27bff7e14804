package observe_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/emco-orchestrator/emco/src/api/status"
	"github.com/emco-orchestrator/emco/src/kubehealth/kubetest"
	"github.com/emco-orchestrator/emco/src/monitor/internal/observe"
)

// testCluster is an API server in memory with an observer that runs.
type testCluster struct {
	*testing.T
	clients  observe.Clients
	observer *observe.Observer
	changes  <-chan struct{}
}

func newTestCluster(t *testing.T, o observe.Options) *testCluster {
	t.Helper()
	config, err := clientcmd.RESTConfigFromKubeConfig(kubetest.Start(t).Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	c := &testCluster{T: t}
	if c.clients, err = observe.Connect(config); err != nil {
		t.Fatal(err)
	}
	c.create("namespaces", "v1", "Namespace", "", "shop", nil)
	c.observer = observe.New(c.clients, o)
	c.changes = c.observer.Changes()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.observer.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return c
}

// create creates an object of the app 42-web.
func (c *testCluster) create(resource, apiVersion, kind, namespace, name string, members map[string]any) {
	c.Helper()
	u := &unstructured.Unstructured{Object: members}
	if members == nil {
		u.Object = map[string]any{}
	}
	u.SetAPIVersion(apiVersion)
	u.SetKind(kind)
	u.SetNamespace(namespace)
	u.SetName(name)
	u.SetLabels(map[string]string{status.DeploymentLabel: "42-web"})
	if _, err := c.clients.Dynamic.Resource(u.GroupVersionKind().GroupVersion().WithResource(resource)).Namespace(namespace).Create(c.Context(), u, metav1.CreateOptions{}); err != nil {
		c.Fatal(err)
	}
}

// await waits for a report about the app with these objects, "<kind>/<name>=<status>".
func (c *testCluster) await(want ...string) status.Report {
	c.Helper()
	limit := time.After(time.Minute)
	var got []string
	for {
		r := c.observer.Report()
		got = nil
		for _, a := range r.Apps {
			for _, o := range a.Objects {
				got = append(got, fmt.Sprintf("%s/%s=%s", o.Kind, o.Name, o.Status))
			}
		}
		slices.Sort(got)
		if slices.Equal(got, want) {
			return r
		}
		select {
		case <-c.changes:
		case <-limit:
			c.Fatalf("the report has %q, want %q", got, want)
		}
	}
}

func TestTheObserverFollowsAllKinds(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t, observe.Options{Exclude: []string{"Service", "Deployment", "Job.batch"}})
	c.create("configmaps", "v1", "ConfigMap", "shop", "conf", map[string]any{"data": map[string]any{"k": "v"}})
	c.create("secrets", "v1", "Secret", "shop", "pass", nil)
	c.create("services", "v1", "Service", "shop", "web", nil)
	c.create("pods", "v1", "Pod", "shop", "once", map[string]any{"status": map[string]any{"phase": "Failed"}})
	r := c.await("ConfigMap/conf=Current", "Namespace/shop=Current", "Pod/once=Failed")
	unseen := map[string]string{}
	for _, u := range r.Unseen {
		unseen[u.Kind] = u.Reason
	}
	if unseen["Secret"] != "excluded" || unseen["Service"] != "excluded" || unseen["Deployment"] != "excluded" || unseen["Job"] != "excluded" || unseen["Pod"] != "" {
		t.Errorf("unseen kinds are %v, want Secrets, Services, Deployments and Jobs excluded", unseen)
	}
	configMaps := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	if err := c.clients.Dynamic.Resource(configMaps).Namespace("shop").Delete(t.Context(), "conf", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c.await("Namespace/shop=Current", "Pod/once=Failed")
}

// A definition that an app brings starts a discovery: its objects are seen long before the
// next regular one.
func TestANewKindIsSeenSoon(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t, observe.Options{Discovery: time.Hour})
	c.await("Namespace/shop=Current")
	c.create("customresourcedefinitions", "apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "widgets.example.org", map[string]any{"spec": map[string]any{
		"group": "example.org", "scope": "Namespaced", "names": map[string]any{"kind": "Widget", "plural": "widgets"},
		"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true}},
	}})
	c.create("widgets", "example.org/v1", "Widget", "shop", "w", map[string]any{"status": map[string]any{
		"conditions": []any{map[string]any{"type": "Ready", "status": "False", "message": "not yet"}},
	}})
	r := c.await("CustomResourceDefinition/widgets.example.org=Current", "Namespace/shop=Current", "Widget/w=InProgress")
	if i := slices.IndexFunc(r.Apps[0].Objects, func(o status.Object) bool { return o.Kind == "Widget" }); !strings.Contains(r.Apps[0].Objects[i].Reason, "not yet") {
		t.Errorf("the reason is %q, want that of the condition", r.Apps[0].Objects[i].Reason)
	}
}
