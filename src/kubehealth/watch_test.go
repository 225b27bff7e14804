package kubehealth_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/emco-orchestrator/emco/src/kubehealth"
	"github.com/emco-orchestrator/emco/src/kubehealth/kubetest"
)

// recorder is a handler that records its calls.
type recorder chan string

func (r recorder) Put(o metav1.Object)    { r <- "put " + o.GetName() }
func (r recorder) Delete(o metav1.Object) { r <- "delete " + o.GetName() }
func (r recorder) Resumed()               {}

func (r recorder) Replace(objects []metav1.Object) {
	text := "all"
	for _, o := range objects {
		text += " " + o.GetName()
	}
	r <- text
}

func (r recorder) Failed(f kubehealth.Failure) {
	r <- [...]string{kubehealth.Unreachable: "unreachable", kubehealth.Refused: "refused", kubehealth.NotServed: "not served"}[f.Cause]
}

func (r recorder) want(t *testing.T, calls ...string) {
	t.Helper()
	for _, want := range calls {
		select {
		case got := <-r:
			if got != want {
				t.Fatalf("the handler was called with %q, want %q", got, want)
			}
		case <-time.After(30 * time.Second):
			t.Fatalf("the handler was not called, want %q", want)
		}
	}
}

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

// labelled returns a ConfigMap with the label a=b, or without any.
func labelled(name string, yes bool) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetAPIVersion("v1")
	u.SetKind("ConfigMap")
	u.SetNamespace("default")
	u.SetName(name)
	if yes {
		u.SetLabels(map[string]string{"a": "b"})
	}
	return u
}

// start runs a watch until the test ends.
func start(t *testing.T, w kubehealth.Watch) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.Run(ctx)
	}()
	t.Cleanup(func() { cancel(); <-ended })
}

func found(s kubehealth.Source) func(context.Context) (kubehealth.Source, error) {
	return func(context.Context) (kubehealth.Source, error) { return s, nil }
}

func TestAWatchPassesObjectsOn(t *testing.T) {
	t.Parallel()
	server := kubetest.Start(t)
	config, err := clientcmd.RESTConfigFromKubeConfig(server.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	whole, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	headers, err := metadata.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	namespace := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "default"}}}
	if _, err := whole.Resource(configMaps.GroupVersion().WithResource("namespaces")).Create(t.Context(), namespace, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	at := whole.Resource(configMaps).Namespace("default")
	for name, yes := range map[string]bool{"before": true, "other": false} {
		if _, err := at.Create(t.Context(), labelled(name, yes), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	handlers := []recorder{make(recorder, 8), make(recorder, 8)}
	start(t, kubehealth.Watch{Resolve: found(kubehealth.Objects(whole.Resource(configMaps))), Selector: "a", Handler: handlers[0]})
	start(t, kubehealth.Watch{Resolve: found(kubehealth.Metadata(headers.Resource(configMaps))), Selector: "a", Handler: handlers[1]})
	for _, h := range handlers {
		h.want(t, "all before")
	}
	if _, err := at.Create(t.Context(), labelled("after", true), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := at.Delete(t.Context(), "before", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, h := range handlers {
		h.want(t, "put after", "delete before")
	}
}

// Handlers get the cause of a failure. A busy server is not a failure.
func TestFailuresAreClassified(t *testing.T) {
	t.Parallel()
	resource := schema.GroupResource{Resource: "configmaps"}
	for want, err := range map[string]error{
		"unreachable": errors.New("connection refused"),
		"refused":     apierrors.NewForbidden(resource, "", errors.New("no rights")),
		"not served":  apierrors.NewNotFound(resource, ""),
		"":            apierrors.NewTooManyRequests("busy", 1),
	} {
		t.Run(fmt.Sprintf("%q", want), func(t *testing.T) {
			t.Parallel()
			h, retry, calls := make(recorder, 8), make(chan struct{}, 1), make(chan int, 8)
			n := 0
			start(t, kubehealth.Watch{Handler: h, Retry: retry, Resolve: func(context.Context) (kubehealth.Source, error) {
				n++
				calls <- n
				return kubehealth.Source{}, err
			}})
			retry <- struct{}{} // ends the pause after the first call
			for range 2 {
				<-calls
			}
			if want != "" {
				h.want(t, want, want)
			} else if len(h) > 0 {
				t.Errorf("the handler was called with %q", <-h)
			}
		})
	}
}
