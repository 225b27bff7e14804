package kube

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
)

// apply applies one object. It returns an error only if the cluster is unreachable.
func (r *applyRun) apply(ctx context.Context, o manifest.Object) error {
	where, id, err := r.locate(ctx, o.ID)
	if err != nil {
		return r.recordFailure(o.ID, "apply", err)
	}
	r.desired[id.Key()] = true
	content, err := prepare(o, id)
	if err != nil {
		return r.recordFailure(id, "apply", err)
	}
	if err := r.checkExisting(ctx, where, id); err != nil {
		return r.recordFailure(id, "apply", err)
	}
	applied, err := r.patch(ctx, where, id, content)
	if err != nil {
		return r.recordFailure(id, "apply", namespaceMissing(id, err))
	}
	r.appliedUIDs[applied.GetUID()] = true
	r.result.Applied++
	r.result.Accepted = append(r.result.Accepted, o.ID)
	return nil
}

// checkExisting looks at the object with the same name on the cluster. If it belongs to another
// app, it adds a finding: both apps have the same field manager, so there is no conflict. An
// object that is being deleted is a Conflict: what is applied to it would be lost.
func (r *applyRun) checkExisting(ctx context.Context, where metadata.ResourceInterface, id manifest.ID) error {
	ctx, cancel := context.WithTimeout(ctx, r.cluster.options.Timeout)
	defer cancel()
	have, err := where.Get(ctx, id.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return nil // the account may be allowed to write but not to read
	}
	if err != nil {
		return err
	}
	if have.GetDeletionTimestamp() != nil {
		return errs.E(errs.Conflict, "apply", id.String(), errors.New("is still being deleted"))
	}
	if owner := have.GetLabels()[r.label.key]; owner != "" && owner != r.label.value {
		r.addFinding("%s was held by %s=%s and was taken over", id, r.label.key, owner)
	}
	return nil
}

// patch applies content on the server, without the fields that the kind does not declare: a
// server drops them from what kubectl or Helm send, but refuses an apply with them.
func (r *applyRun) patch(ctx context.Context, where metadata.ResourceInterface, id manifest.ID, content []byte) (metav1.Object, error) {
	for range maxUndeclared {
		applied, err := r.patchAsIs(ctx, where, id, content)
		unknown := undeclaredFields(err)
		if len(unknown) == 0 {
			return applied, err
		}
		if content, unknown = withoutFields(content, unknown); len(unknown) == 0 {
			return nil, errs.E(errs.Invalid, "apply", id.String(), err)
		}
		for _, field := range unknown {
			r.addFinding("%s: field %s was left out: the cluster does not know it", id, field)
		}
	}
	return nil, errs.E(errs.Invalid, "apply", id.String(), errors.New("too many fields are not known to the cluster"))
}

// patchAsIs applies content on the server. The first request does not force, so the server
// lists the fields of other managers; the second request takes them over.
func (r *applyRun) patchAsIs(ctx context.Context, where metadata.ResourceInterface, id manifest.ID, content []byte) (metav1.Object, error) {
	ctx, cancel := context.WithTimeout(ctx, r.cluster.options.Timeout)
	defer cancel()
	options := metav1.PatchOptions{FieldManager: FieldManager}
	applied, err := where.Patch(ctx, id.Name, types.ApplyPatchType, content, options)
	if fields := conflictingFields(err); fields != "" {
		r.addFinding("%s: fields of others were taken over: %s", id, fields)
		force := true
		options.Force = &force
		applied, err = where.Patch(ctx, id.Name, types.ApplyPatchType, content, options)
	}
	return applied, err
}

// conflictingFields lists the fields of a conflict with their managers, "" if err is not
// such a conflict.
func conflictingFields(err error) string {
	status, _ := statusOf(err)
	if !apierrors.IsConflict(err) || status.Details == nil {
		return ""
	}
	var out []string
	for _, cause := range status.Details.Causes {
		if cause.Type == metav1.CauseTypeFieldManagerConflict {
			out = append(out, cause.Field+" ("+cause.Message+")")
		}
	}
	slices.Sort(out)
	if more := len(out) - 5; more > 0 {
		out = append(out[:5], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(out, ", ")
}

// namespaceMissing turns "not found" into Conflict. When an object is applied, "not found"
// means that its namespace is missing, which may change.
func namespaceMissing(id manifest.ID, err error) error {
	if !apierrors.IsNotFound(err) {
		return err
	}
	return errs.E(errs.Conflict, "apply", id.String(), err)
}

// locate returns the resource of an object's kind, and the object's id on the cluster, which
// has no namespace if the kind has none. It looks up an unknown kind once more, because the
// cluster may serve it since the last look-up.
func (r *applyRun) locate(ctx context.Context, id manifest.ID) (metadata.ResourceInterface, manifest.ID, error) {
	mapping, err := r.cluster.mapping(ctx, id)
	if meta.IsNoMatchError(err) && !r.mapperReset {
		r.mapperReset = true
		r.cluster.mapper.ResetWithContext(ctx)
		mapping, err = r.cluster.mapping(ctx, id)
	}
	if meta.IsNoMatchError(err) {
		return nil, id, errs.E(errs.NotFound, "apply", id.String(), errors.New("the cluster does not know this kind"))
	}
	if err != nil {
		return nil, id, err
	}
	resource := r.cluster.metadata.Resource(mapping.Resource)
	if mapping.Scope.Name() == meta.RESTScopeNameRoot {
		id.Namespace = ""
		return resource, id, nil
	}
	if id.Namespace == "" {
		return nil, id, errs.E(errs.Invalid, "apply", id.String(), errors.New("has no namespace"))
	}
	return resource.Namespace(id.Namespace), id, nil
}

// mapping returns the resource of an object's kind.
func (c *Cluster) mapping(ctx context.Context, id manifest.ID) (*meta.RESTMapping, error) {
	ctx, cancel := context.WithTimeout(ctx, c.options.Timeout)
	defer cancel()
	return c.mapper.RESTMappingWithContext(ctx, schema.GroupKind{Group: id.Group, Kind: id.Kind}, id.Version)
}

// serverFields are set by the server. Content that was exported from a cluster has them, and
// the server refuses them.
var serverFields = []string{"managedFields", "resourceVersion", "uid", "creationTimestamp", "generation", "selfLink"}

// prepare returns the content to apply, without serverFields and with the namespace of id.
func prepare(o manifest.Object, id manifest.ID) ([]byte, error) {
	d := json.NewDecoder(bytes.NewReader(o.Content))
	d.UseNumber()
	var tree map[string]any
	if err := d.Decode(&tree); err != nil {
		return nil, errs.E(errs.Invalid, "apply", id.String(), errors.New("content is not a JSON object"))
	}
	metadata, ok := tree["metadata"].(map[string]any)
	if !ok {
		return nil, errs.E(errs.Invalid, "apply", id.String(), errors.New("has no metadata"))
	}
	for _, field := range serverFields {
		delete(metadata, field)
	}
	delete(metadata, "namespace")
	if id.Namespace != "" {
		metadata["namespace"] = id.Namespace
	}
	return json.Marshal(tree)
}
