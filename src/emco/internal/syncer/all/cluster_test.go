package all_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer/all"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer/syncertest"
)

// What tests of pointer objects need: the kubeconfig of a real cluster that they may
// write to, and a folder with the definitions of Argo CD, manifests/crds of its sources.
const (
	kubeconfigVariable = "EMCO_TEST_KUBECONFIG"
	argoVariable       = "EMCO_TEST_ARGOCD_CRDS"
)

// server is a real API server that knows the kinds of pointer objects.
type server struct {
	*testing.T
	client dynamic.Interface
}

func newServer(t *testing.T) server {
	t.Helper()
	kubeconfig, argo := os.Getenv(kubeconfigVariable), os.Getenv(argoVariable)
	if kubeconfig == "" || argo == "" {
		t.Skip(kubeconfigVariable + " or " + argoVariable + " is not set: this test needs a real API server and Argo CD's definitions")
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	s := server{T: t}
	if s.client, err = dynamic.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{
		filepath.Join(argo, "application-crd.yaml"), filepath.Join(argo, "appproject-crd.yaml"), "testdata/configsync.yaml",
	} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, crd := range s.documents(string(text)) {
			s.define(crd)
		}
	}
	for _, name := range []string{"argocd", "gitops", "config-management-system", "tenant"} {
		ns := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name}}}
		s.create(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}, "", ns)
	}
	return s
}

func (s server) documents(text string) []*unstructured.Unstructured {
	s.Helper()
	var out []*unstructured.Unstructured
	for document := range strings.SplitSeq(text, "\n---\n") {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &u.Object); err != nil {
			s.Fatal(err)
		}
		out = append(out, u)
	}
	return out
}

// create creates what may be there already.
func (s server) create(at schema.GroupVersionResource, namespace string, u *unstructured.Unstructured) {
	s.Helper()
	_, err := s.client.Resource(at).Namespace(namespace).Create(s.Context(), u, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		s.Fatalf("create %s %s: %v", u.GetKind(), u.GetName(), err)
	}
}

// define creates a definition and waits until it is served.
func (s server) define(crd *unstructured.Unstructured) {
	s.Helper()
	crds := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	s.create(crds, "", crd)
	err := wait.PollUntilContextTimeout(s.Context(), 50*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		have, err := s.client.Resource(crds).Get(ctx, crd.GetName(), metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		conditions, _, _ := unstructured.NestedSlice(have.Object, "status", "conditions")
		for _, c := range conditions {
			if m, ok := c.(map[string]any); ok && m["type"] == "Established" && m["status"] == "True" {
				return true, nil
			}
		}
		return false, nil
	})
	if err != nil {
		s.Fatalf("definition %s: %v", crd.GetName(), err)
	}
}

// resources are where the kinds of pointer objects are served.
var resources = map[string]string{
	"Application": "applications", "AppProject": "appprojects", "RootSync": "rootsyncs", "RepoSync": "reposyncs", "RoleBinding": "rolebindings",
}

// try has the server check an object as strictly as it can, and create nothing.
func (s server) try(u *unstructured.Unstructured) error {
	at := u.GroupVersionKind().GroupVersion().WithResource(resources[u.GetKind()])
	_, err := s.client.Resource(at).Namespace(u.GetNamespace()).Create(s.Context(), u, metav1.CreateOptions{
		DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict,
	})
	return err
}

// pointers returns the pointer objects in the plan for two apps.
func (s server) pointers(kind string, o syncer.Options, confined bool) []*unstructured.Unstructured {
	s.Helper()
	b, err := all.Backends().Open(kind, o)
	if err != nil {
		s.Fatal(err)
	}
	at := syncertest.Target("edge+c1")
	at.Cloud.Confined = confined
	object := syncertest.Object(manifest.ID{Version: "v1", Kind: "ConfigMap", Namespace: at.Namespace, Name: "c"}, nil)
	c, err := b.Plan(at, []syncer.App{
		{Name: "db", Objects: []manifest.Object{object}},
		{Name: "web", Objects: []manifest.Object{object}, DependsOn: []syncer.Dependency{{App: "db"}}},
	})
	if err != nil {
		s.Fatal(err)
	}
	var out []*unstructured.Unstructured
	for _, e := range c.Edits {
		if e.File != nil {
			out = append(out, s.documents(strings.TrimSuffix(string(e.File), "\n"))...)
		}
	}
	return out
}

// What is written for Argo CD and Config Sync is taken by an API server that has their
// definitions, with no member that those do not know.
func TestAPIServersAcceptPointerObjects(t *testing.T) {
	s := newServer(t)
	examples := all.Backends()
	for _, c := range []struct {
		kind     string
		options  syncer.Options
		confined bool
		want     string
	}{
		{"argocd", nil, false, "AppProject Application Application"},
		{"argocd", nil, true, "AppProject Application Application"},
		{"argocd", examples.Example("argocd"), true, "AppProject Application Application"},
		{"argocd", syncer.Options{"project": "shop", "argocdNamespace": "gitops", "destinationServer": "https://10.0.0.1"}, false, "Application Application"},
		{"anthos", nil, false, "RootSync"},
		{"anthos", nil, true, "RepoSync RoleBinding"},
		{"anthos", examples.Example("anthos"), false, "RootSync"},
		{"anthos", examples.Example("anthos"), true, "RepoSync RoleBinding"},
	} {
		var kinds []string
		for _, u := range s.pointers(c.kind, c.options, c.confined) {
			kinds = append(kinds, u.GetKind())
			if err := s.try(u); err != nil {
				t.Errorf("%s with %v: %v", c.kind, c.options, err)
			}
		}
		if got := strings.Join(kinds, " "); got != c.want {
			t.Errorf("%s with %v has %s, want %s", c.kind, c.options, got, c.want)
		}
	}
}

// The check finds unknown members.
func TestAPIServersRefuseUnknownMembers(t *testing.T) {
	s := newServer(t)
	for _, kind := range []string{"argocd", "anthos"} {
		for _, u := range s.pointers(kind, nil, false) {
			if err := unstructured.SetNestedField(u.Object, "x", "spec", "colour"); err != nil {
				t.Fatal(err)
			}
			if err := s.try(u); err == nil || !strings.Contains(err.Error(), "colour") {
				t.Errorf("%s with an unknown member: %v, want a refusal", u.GetKind(), err)
			}
		}
	}
}
