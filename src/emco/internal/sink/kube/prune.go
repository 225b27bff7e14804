package kube

import (
	"cmp"
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
)

// prune deletes what was there before and is not wanted: what is applied last goes first,
// namespaces after all else, definitions never.
func (a *attempt) prune(ctx context.Context, previous []manifest.ID) error {
	leaving := slices.DeleteFunc(slices.Clone(previous), manifest.IsCRD)
	slices.SortFunc(leaving, func(x, y manifest.ID) int {
		return cmp.Or(order(y)-order(x), manifest.Compare(y, x))
	})
	for _, id := range leaving {
		if err := a.leave(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// leave deletes one object unless it is wanted. It returns an error only if the
// cluster is silent. A kind that the cluster does not know any more has no objects.
func (a *attempt) leave(ctx context.Context, id manifest.ID) error {
	where, id, err := a.locate(ctx, id)
	if errs.Is(err, errs.NotFound) {
		return a.note(id, "delete", a.cluster.unserved(ctx, id))
	}
	if err != nil {
		return a.note(id, "delete", err)
	}
	if a.wanted[keyOf(id)] {
		return nil
	}
	a.wanted[keyOf(id)] = true // once is enough, whatever version it is listed in
	return a.note(id, "delete", a.delete(ctx, where, id))
}

// unserved makes sure that a kind is really not there: discovery also leaves out what
// an extension server, being down, cannot tell.
func (c *Cluster) unserved(ctx context.Context, id manifest.ID) error {
	ctx, cancel := context.WithTimeout(ctx, c.options.Timeout)
	defer cancel()
	_, err := c.api.ServerResourcesForGroupVersionWithContext(ctx, id.APIVersion())
	return ignoreNotFound(err)
}

// deleteTries bounds how often an object is looked at again because it changed
// between the look and the deletion.
const deleteTries = 5

// delete deletes an object that is still ours, exactly as it was looked at: if
// somebody takes it over in between, it stays.
func (a *attempt) delete(ctx context.Context, where metadata.ResourceInterface, id manifest.ID) error {
	ctx, cancel := context.WithTimeout(ctx, a.cluster.options.Timeout)
	defer cancel()
	var err error
	for range deleteTries {
		have, getErr := where.Get(ctx, id.Name, metav1.GetOptions{})
		if getErr != nil {
			return ignoreNotFound(getErr)
		}
		if !a.ours(have, id) {
			return nil
		}
		uid, version := have.GetUID(), have.GetResourceVersion()
		background := metav1.DeletePropagationBackground
		err = where.Delete(ctx, id.Name, metav1.DeleteOptions{
			PropagationPolicy: &background,
			Preconditions:     &metav1.Preconditions{UID: &uid, ResourceVersion: &version},
		})
		if !apierrors.IsConflict(err) {
			break
		}
	}
	if err == nil {
		a.result.Pruned++
	}
	return ignoreNotFound(err)
}

// ours reports whether an object is the app's to delete.
func (a *attempt) ours(have *metav1.PartialObjectMetadata, id manifest.ID) bool {
	switch {
	case have.GetDeletionTimestamp() != nil:
		return false // it is going already
	case a.uids[have.GetUID()]:
		return false // wanted, under another group of its API
	case have.GetLabels()[a.label.key] != a.label.value:
		a.find("%s is not labelled %s=%s any more and was left alone", id, a.label.key, a.label.value)
		return false
	case manifest.Kept(have.GetAnnotations()):
		a.find("%s asks to be kept and was left behind", id)
		return false
	}
	return true
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
