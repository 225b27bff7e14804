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
)

// definitions applies definitions and waits until their kinds are served. Nothing
// else is applied before: it may be of these kinds. A failure of one of them ends the attempt.
func (a *attempt) definitions(ctx context.Context, st AppState) error {
	for _, crd := range st.CRDs {
		if err := a.apply(ctx, crd); err != nil {
			return err
		}
	}
	if err := a.failure(st.App); err != nil || len(st.CRDs) == 0 {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, a.cluster.options.CRDTimeout)
	defer cancel()
	for _, crd := range st.CRDs {
		kinds, err := a.cluster.established(ctx, crd.ID)
		if err == nil {
			err = a.cluster.served(ctx, kinds)
		}
		if err != nil {
			err = Classify("apply", crd.ID.String(), err)
			a.result.Failed = append(a.result.Failed, ObjectError{crd.ID, err})
			return err
		}
	}
	return nil
}

// crdResource is where definitions live.
var crdResource = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// established waits until the server has accepted a definition's names, and returns
// the kinds that it defines, one per version.
func (c *Cluster) established(ctx context.Context, id manifest.ID) ([]schema.GroupVersionKind, error) {
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		crd, err := c.dynamic.Resource(crdResource).Get(ctx, id.Name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		ready, reason := accepted(crd)
		if ready {
			return kindsOf(crd), nil
		}
		if reason != "" {
			return nil, errs.E(errs.Invalid, "apply", id.String(), errors.New(reason))
		}
		if err := wait(ctx, pause); err != nil {
			return nil, errs.E(errs.Unavailable, "apply", id.String(), fmt.Errorf("is not established after %s", c.options.CRDTimeout))
		}
	}
}

const (
	firstPause   = 50 * time.Millisecond
	longestPause = 2 * time.Second
)

// accepted reports whether a definition is established, or why its names are refused.
func accepted(crd *unstructured.Unstructured) (ready bool, reason string) {
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

// kindsOf returns what a definition defines and serves.
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

// served waits until the cluster lists kinds among those that it knows, which it does
// a moment after their definition is established.
func (c *Cluster) served(ctx context.Context, kinds []schema.GroupVersionKind) error {
	for _, gvk := range kinds {
		for pause := firstPause; ; pause = min(2*pause, longestPause) {
			_, err := c.mapper.RESTMappingWithContext(ctx, gvk.GroupKind(), gvk.Version)
			if err == nil {
				break
			}
			if !meta.IsNoMatchError(err) {
				return err
			}
			if wait(ctx, pause) != nil {
				return errs.E(errs.Unavailable, "apply", gvk.String(), fmt.Errorf("is not served after %s", c.options.CRDTimeout))
			}
			c.mapper.ResetWithContext(ctx)
		}
	}
	return nil
}

// wait pauses; the error is that of ctx.
func wait(ctx context.Context, pause time.Duration) error {
	t := time.NewTimer(pause)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
