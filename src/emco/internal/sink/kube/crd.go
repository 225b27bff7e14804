package kube

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/pause"
)

// applyDefinitions applies definitions and waits until their kinds are served, because other
// objects may be of these kinds. If one definition fails, the run ends.
func (r *applyRun) applyDefinitions(ctx context.Context, st AppState) error {
	for _, crd := range st.CRDs {
		if err := r.apply(ctx, crd); err != nil {
			return err
		}
	}
	if err := r.summary(st.App); err != nil || len(st.CRDs) == 0 {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, r.cluster.options.CRDTimeout)
	defer cancel()
	for _, crd := range st.CRDs {
		kinds, err := r.cluster.waitEstablished(ctx, crd.ID)
		if err == nil {
			err = r.cluster.waitServed(ctx, kinds)
		}
		if err != nil {
			err = Classify("apply", crd.ID.String(), err)
			r.result.Failed = append(r.result.Failed, ObjectError{crd.ID, err})
			return err
		}
	}
	return nil
}

// crdResource is the resource of definitions.
var crdResource = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// waitEstablished waits until a definition is established, and returns the kinds that it
// defines, one per version.
func (c *Cluster) waitEstablished(ctx context.Context, id manifest.ID) ([]schema.GroupVersionKind, error) {
	for wait := firstPause; ; wait = min(2*wait, longestPause) {
		crd, err := c.dynamic.Resource(crdResource).Get(ctx, id.Name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		ready, reason := establishedCondition(crd)
		if ready {
			return kindsOf(crd), nil
		}
		if reason != "" {
			return nil, errs.E(errs.Invalid, "apply", id.String(), errors.New(reason))
		}
		if err := pause.For(ctx, wait); err != nil {
			return nil, errs.E(errs.Unavailable, "apply", id.String(), fmt.Errorf("is not established after %s", c.options.CRDTimeout))
		}
	}
}

const (
	firstPause   = 50 * time.Millisecond
	longestPause = 2 * time.Second
)

// establishedCondition reports whether a definition is established, or why its names are refused.
func establishedCondition(crd *unstructured.Unstructured) (ready bool, reason string) {
	conditions, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions")
	for _, item := range conditions {
		c, ok := item.(map[string]any)
		if !ok {
			continue
		}
		switch {
		case c["type"] == "Established" && c["status"] == "True":
			ready = true
		case c["type"] == "NamesAccepted" && c["status"] == "False":
			reason = fmt.Sprint("names are not accepted: ", c["message"])
		}
	}
	return ready, reason
}

// kindsOf returns the kinds that a definition serves.
func kindsOf(crd *unstructured.Unstructured) []schema.GroupVersionKind {
	group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
	kind, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "kind")
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	var out []schema.GroupVersionKind
	for _, item := range versions {
		if v, ok := item.(map[string]any); ok && v["served"] == true {
			version, _ := v["name"].(string)
			out = append(out, schema.GroupVersionKind{Group: group, Version: version, Kind: kind})
		}
	}
	return out
}

// waitServed waits until discovery lists kinds, which happens shortly after their definition is
// established.
func (c *Cluster) waitServed(ctx context.Context, kinds []schema.GroupVersionKind) error {
	for _, gvk := range kinds {
		for wait := firstPause; ; wait = min(2*wait, longestPause) {
			_, err := c.mapper.RESTMappingWithContext(ctx, gvk.GroupKind(), gvk.Version)
			if err == nil {
				break
			}
			if !meta.IsNoMatchError(err) {
				return err
			}
			if pause.For(ctx, wait) != nil {
				return errs.E(errs.Unavailable, "apply", gvk.String(), fmt.Errorf("is not served after %s", c.options.CRDTimeout))
			}
			c.mapper.ResetWithContext(ctx)
		}
	}
	return nil
}
