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

// prune deletes previous objects that are not desired, in the reverse order of their
// application, namespaces last. It never deletes definitions, because all objects of their
// kinds would go, too.
func (r *applyRun) prune(ctx context.Context, previous []manifest.ID) error {
	leaving := slices.DeleteFunc(slices.Clone(previous), manifest.IsCRD)
	slices.SortFunc(leaving, func(x, y manifest.ID) int {
		return cmp.Or(rank(y)-rank(x), manifest.Compare(y, x))
	})
	for _, id := range leaving {
		if err := r.pruneObject(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// pruneObject deletes one object unless it is desired. It returns an error only if the
// cluster is unreachable. A kind that the cluster no longer serves has no objects.
func (r *applyRun) pruneObject(ctx context.Context, id manifest.ID) error {
	where, id, err := r.locate(ctx, id)
	if errs.Is(err, errs.NotFound) {
		return r.recordFailure(id, "delete", r.cluster.checkNotServed(ctx, id))
	}
	if err != nil {
		return r.recordFailure(id, "delete", err)
	}
	if r.desired[id.Key()] {
		return nil
	}
	r.desired[id.Key()] = true // the same object may be listed in several versions
	return r.recordFailure(id, "delete", r.delete(ctx, where, id))
}

// checkNotServed returns an error unless the cluster really does not serve a kind. Discovery
// also omits the kinds of an extension server that is down.
func (c *Cluster) checkNotServed(ctx context.Context, id manifest.ID) error {
	ctx, cancel := context.WithTimeout(ctx, c.options.Timeout)
	defer cancel()
	_, err := c.discovery.ServerResourcesForGroupVersionWithContext(ctx, id.APIVersion())
	return ignoreNotFound(err)
}

// deleteTries bounds the retries because an object changed between the look at it and its
// deletion.
const deleteTries = 5

// delete deletes an object that still belongs to the app. Preconditions make sure that it is
// the state that was looked at: if another owner takes the object over in between, it stays.
func (r *applyRun) delete(ctx context.Context, where metadata.ResourceInterface, id manifest.ID) error {
	ctx, cancel := context.WithTimeout(ctx, r.cluster.options.Timeout)
	defer cancel()
	var err error
	for range deleteTries {
		have, getErr := where.Get(ctx, id.Name, metav1.GetOptions{})
		if getErr != nil {
			return ignoreNotFound(getErr)
		}
		if !r.mayDelete(have, id) {
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
		r.result.Pruned++
	}
	return ignoreNotFound(err)
}

// mayDelete reports whether an object may be deleted. If users should know
// why not, it adds a finding.
func (r *applyRun) mayDelete(have *metav1.PartialObjectMetadata, id manifest.ID) bool {
	switch {
	case have.GetDeletionTimestamp() != nil:
		return false // it was deleted already
	case r.appliedUIDs[have.GetUID()]:
		return false // desired, in another group
	case have.GetLabels()[r.label.key] != r.label.value:
		r.addFinding("%s no longer has the label %s=%s and was left alone", id, r.label.key, r.label.value)
		return false
	case manifest.Kept(have.GetAnnotations()):
		r.addFinding("%s asks to be kept and was left behind", id)
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
