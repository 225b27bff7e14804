package bundlestate_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/emco-orchestrator/emco/src/api/status"
	"github.com/emco-orchestrator/emco/src/kubehealth/kubetest"
	"github.com/emco-orchestrator/emco/src/monitor/internal/bundlestate"
	"github.com/emco-orchestrator/emco/src/monitor/internal/observe"
)

type tree = map[string]any

// fakeApps is an observer that a test controls.
type fakeApps struct {
	changes chan struct{}

	mu       sync.Mutex
	revision uint64
	objects  map[string][]observe.Object // by label
}

func (a *fakeApps) Changes() <-chan struct{} { return a.changes }
func (a *fakeApps) Settled() bool            { return true }

func (a *fakeApps) Revisions() map[string]uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := map[string]uint64{}
	for label := range a.objects {
		out[label] = a.revision
	}
	return out
}

func (a *fakeApps) Objects(label string) []observe.Object {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.objects[label]
}

// set replaces the objects of the app 42-web; none remove the app.
func (a *fakeApps) set(objects ...observe.Object) {
	a.mu.Lock()
	a.revision++
	if a.objects = map[string][]observe.Object{}; len(objects) > 0 {
		a.objects["42-web"] = objects
	}
	a.mu.Unlock()
	select {
	case a.changes <- struct{}{}:
	default:
	}
}

func service(health string) observe.Object {
	return observe.Object{
		Label: "42-web", Brief: []byte(`{"metadata":{"name":"web"}}`),
		Object: status.Object{Version: "v1", Kind: "Service", Namespace: "shop", Name: "web", Status: health, Content: "aa"},
	}
}

// start runs a writer on an API server in memory until the test ends.
func start(t *testing.T, before func(dynamic.Interface)) (*fakeApps, dynamic.ResourceInterface) {
	t.Helper()
	config, err := clientcmd.RESTConfigFromKubeConfig(kubetest.Start(t).Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	create := func(r schema.GroupVersionResource, o tree) {
		t.Helper()
		if _, err := client.Resource(r).Create(t.Context(), &unstructured.Unstructured{Object: o}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	create(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}, tree{"apiVersion": "v1", "kind": "Namespace", "metadata": tree{"name": "shop"}})
	create(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}, tree{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": tree{"name": "resourcebundlestates.k8splugin.io"},
		"spec": tree{
			"group": "k8splugin.io", "scope": "Namespaced", "names": tree{"kind": "ResourceBundleState", "plural": "resourcebundlestates"},
			"versions": []any{tree{"name": "v1alpha1", "served": true, "storage": true}},
		},
	})
	before(client)
	apps := &fakeApps{changes: make(chan struct{}, 1), objects: map[string][]observe.Object{}}
	w := bundlestate.New(client, apps, 10*time.Millisecond, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return apps, client.Resource(bundlestate.Resource).Namespace("shop")
}

// await waits until the state is as a test wants it; ok gets nil if there is no state.
func await(t *testing.T, at dynamic.ResourceInterface, name string, ok func(*unstructured.Unstructured) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	events, err := at.Watch(ctx, metav1.ListOptions{}) // from the first version on
	if err != nil {
		t.Fatal(err)
	}
	defer events.Stop()
	for {
		u, err := at.Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			u, err = nil, nil
		}
		if err != nil {
			t.Fatalf("the state did not become as it should be: %v", err)
		}
		if ok(u) {
			return
		}
		if _, open := <-events.ResultChan(); !open {
			t.Fatal("the state did not become as it should be")
		}
	}
}

func readyIs(want bool) func(*unstructured.Unstructured) bool {
	return func(u *unstructured.Unstructured) bool {
		if u == nil {
			return false
		}
		ready, found, _ := unstructured.NestedBool(u.Object, "status", "ready")
		services, _, _ := unstructured.NestedSlice(u.Object, "status", "serviceStatuses")
		return found && ready == want && len(services) == 1
	}
}

func isGone(u *unstructured.Unstructured) bool { return u == nil }

// A state comes with its app, follows it, is repaired, and goes with the app.
func TestAStateFollowsItsApp(t *testing.T) {
	t.Parallel()
	apps, at := start(t, func(dynamic.Interface) {})
	apps.set(service(status.InProgress))
	await(t, at, "42-web", readyIs(false))
	apps.set(service(status.Current))
	await(t, at, "42-web", readyIs(true))
	if _, err := at.Patch(t.Context(), "42-web", "application/merge-patch+json", []byte(`{"status":{"ready":false}}`), metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	await(t, at, "42-web", readyIs(true))
	if err := at.Delete(t.Context(), "42-web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, at, "42-web", readyIs(true))
	apps.set()
	await(t, at, "42-web", isGone)
}

// A state that someone else created is written for the app that its selector names, and
// stays when the app goes.
func TestAStateOfSomeoneElseStays(t *testing.T) {
	t.Parallel()
	apps, at := start(t, func(client dynamic.Interface) {
		u := &unstructured.Unstructured{Object: tree{
			"apiVersion": "k8splugin.io/v1alpha1", "kind": "ResourceBundleState", "metadata": tree{"name": "theirs", "namespace": "shop"},
			"spec": tree{"selector": tree{"matchLabels": tree{status.DeploymentLabel: "42-web"}}},
		}}
		if _, err := client.Resource(bundlestate.Resource).Namespace("shop").Create(t.Context(), u, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	})
	apps.set(service(status.Current))
	await(t, at, "theirs", readyIs(true))
	if _, err := at.Get(t.Context(), "42-web", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("a second state was created: %v", err)
	}
	apps.set()
	await(t, at, "theirs", func(u *unstructured.Unstructured) bool {
		ready, found, _ := unstructured.NestedBool(u.Object, "status", "ready")
		return found && !ready
	})
}
