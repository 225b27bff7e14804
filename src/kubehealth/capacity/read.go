package capacity

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"

	"github.com/emco-orchestrator/emco/src/kubehealth/quantity"
)

// Limits of Read: objects of a page, which is what is in memory, and pages of a kind.
const (
	pageSize = 250
	maxPages = 1000
)

// running selects the pods that take resources of a node.
const running = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"

// Read reads the nodes and pods of a cluster in pages. It needs the right to list both.
func Read(ctx context.Context, client dynamic.Interface) (s Snapshot, err error) {
	if err := each(ctx, client, "nodes", "", s.AddNode); err != nil {
		return Snapshot{}, err
	}
	if err := each(ctx, client, "pods", running, s.AddPod); err != nil {
		return Snapshot{}, err
	}
	return s, nil
}

// each calls add with every object of a kind.
func each[T any](ctx context.Context, client dynamic.Interface, resource, fields string, add func(*T)) error {
	options := metav1.ListOptions{Limit: pageSize, FieldSelector: fields}
	for range maxPages {
		list, err := client.Resource(corev1.SchemeGroupVersion.WithResource(resource)).List(ctx, options)
		if err != nil {
			return fmt.Errorf("list the %s of the cluster: %w", resource, err)
		}
		for _, u := range list.Items {
			disarm(u.Object)
			var o T
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &o); err != nil {
				return fmt.Errorf("read %s of the cluster: %s: %w", resource, u.GetName(), err)
			}
			add(&o)
		}
		if options.Continue = list.GetContinue(); options.Continue == "" {
			return nil
		}
	}
	return fmt.Errorf("list the %s of the cluster: %w", resource, errTooMany)
}

// disarm makes texts 0 that would keep the parser of quantities busy for hours: API servers are not trusted.
func disarm(value any) any {
	switch v := value.(type) {
	case string:
		if quantity.Costly(v) {
			return "0"
		}
	case map[string]any:
		for key, member := range v {
			v[key] = disarm(member)
		}
	case []any:
		for i, item := range v {
			v[i] = disarm(item)
		}
	}
	return value
}
