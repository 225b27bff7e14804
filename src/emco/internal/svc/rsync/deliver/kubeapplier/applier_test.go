package kubeapplier_test

import (
	"context"
	"log/slog"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/fairshare"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/route"
	"github.com/emco-orchestrator/emco/src/emco/internal/sink/kube"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/seal"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/content"
	deliver "github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/deliver/kubeapplier"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
	"github.com/emco-orchestrator/emco/src/kubehealth/kubetest"
)

const bundle appcontext.Digest = "bundle"

// stored is one bundle with one config map; it stands for the AppContext.
type stored struct{}

func (stored) GetBundle(context.Context, appcontext.Digest) (appcontext.Bundle, error) {
	id := manifest.ID{Version: "v1", Kind: "ConfigMap", Namespace: "default", Name: "settings"}
	return appcontext.Bundle{Objects: []appcontext.Ref{{ID: id, Digest: "blob"}}}, nil
}

func (stored) GetBlob(context.Context, appcontext.Digest) ([]byte, error) {
	return []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"settings","namespace":"default"}}`), nil
}

var key = appcontext.PairKey{Cluster: "edge+c1", Deployment: "7", App: "web"}

// noCloud is the logical cloud of apps that are not confined.
func noCloud(pair.Target) (appcontext.Cloud, bool) { return appcontext.Cloud{}, true }

// newApplier returns an applier that must install one pair.
func newApplier(t *testing.T, from content.Store, cloud func(pair.Target) (appcontext.Cloud, bool)) *deliver.Applier {
	t.Helper()
	reader := content.NewReader(from)
	a := deliver.NewApplier(t.Context(), deliver.Options{
		Sink: kube.New(kube.Options{}), Content: reader, Plans: content.NewStepPlans(reader), Permits: fairshare.New(fairshare.Options{Permits: 1}), Project: func(pair.Target) string { return "" },
		Pairs: func(pair.Target) []appcontext.Pair {
			return []appcontext.Pair{{Key: key, Desired: bundle, Change: appcontext.Install, Phase: appcontext.Pending}}
		},
		Cloud:  cloud,
		Report: func(context.Context, appcontext.Report) {}, Log: slog.New(slog.DiscardHandler),
	})
	t.Cleanup(a.Stop)
	return a
}

// A cluster's kubeconfig may change at any time, and the next delivery uses it: nothing is
// written to the cluster of the old one.
func TestAChangedKubeconfigIsUsed(t *testing.T) {
	t.Parallel()
	a := newApplier(t, stored{}, noCloud)
	first, second := start(t), start(t)
	for _, step := range []struct {
		name string
		to   *kubetest.Server
		not  *kubetest.Server
	}{{"the first kubeconfig", first, second}, {"the same again", first, second}, {"another one", second, first}} {
		for _, r := range a.Deliver(t.Context(), pair.TargetOf(key), route.Route{Kubeconfig: seal.Secret(step.to.Kubeconfig())}) {
			if r.Err != nil {
				t.Fatalf("%s: %v", step.name, r.Err)
			}
		}
		if !remove(t, step.to) {
			t.Errorf("%s: nothing was written to its cluster", step.name)
		}
		if remove(t, step.not) {
			t.Errorf("%s: the other cluster was written", step.name)
		}
	}
}

// client returns full access to a cluster.
func client(t *testing.T, s *kubetest.Server) dynamic.Interface {
	t.Helper()
	config, err := clientcmd.RESTConfigFromKubeConfig(s.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	c, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// start starts a cluster with the namespace "default".
func start(t *testing.T) *kubetest.Server {
	t.Helper()
	s := kubetest.Start(t)
	ns := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "default"}}}
	if _, err := client(t, s).Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}).Create(t.Context(), ns, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return s
}

// remove removes the config map from a cluster and reports whether it was there.
func remove(t *testing.T, s *kubetest.Server) bool {
	t.Helper()
	maps := client(t, s).Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace("default")
	return maps.Delete(t.Context(), "settings", metav1.DeleteOptions{}) == nil
}
