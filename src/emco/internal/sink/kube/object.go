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

// apply applies one object. It returns an error only if the cluster is silent.
func (a *attempt) apply(ctx context.Context, o manifest.Object) error {
	where, id, err := a.locate(ctx, o.ID)
	if err != nil {
		return a.note(o.ID, "apply", err)
	}
	a.wanted[keyOf(id)] = true
	content, err := prepare(o, id)
	if err != nil {
		return a.note(id, "apply", err)
	}
	if err := a.before(ctx, where, id); err != nil {
		return a.note(id, "apply", err)
	}
	applied, err := a.patch(ctx, where, id, content)
	if err != nil {
		return a.note(id, "apply", absentNamespace(id, err))
	}
	a.uids[applied.GetUID()] = true
	a.result.Applied++
	return nil
}

// before looks at what is there under the object's name. An object of another app of
// ours is told, because its fields have the same manager and no conflict would show;
// one that is being deleted cannot be applied to: it would go a moment later.
func (a *attempt) before(ctx context.Context, where metadata.ResourceInterface, id manifest.ID) error {
	ctx, cancel := context.WithTimeout(ctx, a.cluster.options.Timeout)
	defer cancel()
	have, err := where.Get(ctx, id.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return nil // an account may well be allowed to write and not to read
	}
	if err != nil {
		return err
	}
	if have.GetDeletionTimestamp() != nil {
		return errs.E(errs.Conflict, "apply", id.String(), errors.New("is still being deleted"))
	}
	if owner := have.GetLabels()[a.label.key]; owner != "" && owner != a.label.value {
		a.find("%s was held by %s=%s and was taken over", id, a.label.key, owner)
	}
	return nil
}

// patch applies content on the server. The first try does not force, so that the
// server tells which fields others hold; the second takes them over.
func (a *attempt) patch(ctx context.Context, where metadata.ResourceInterface, id manifest.ID, content []byte) (metav1.Object, error) {
	ctx, cancel := context.WithTimeout(ctx, a.cluster.options.Timeout)
	defer cancel()
	options := metav1.PatchOptions{FieldManager: FieldManager}
	applied, err := where.Patch(ctx, id.Name, types.ApplyPatchType, content, options)
	if fields := contested(err); fields != "" {
		a.find("%s: fields of others were taken over: %s", id, fields)
		force := true
		options.Force = &force
		applied, err = where.Patch(ctx, id.Name, types.ApplyPatchType, content, options)
	}
	return applied, err
}

// contested lists the fields that a conflict is about, each with who holds it; ""
// if err is none.
func contested(err error) string {
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

// absentNamespace makes "not found" on applying an object say what it means: its
// namespace is not there. It may come, so it is a conflict with the present state.
func absentNamespace(id manifest.ID, err error) error {
	if !apierrors.IsNotFound(err) {
		return err
	}
	return errs.E(errs.Conflict, "apply", id.String(), err)
}

// locate returns where objects of a kind live, and the object's id as the cluster
// knows it: without a namespace when its kind has none. A kind that is not known is
// looked up again once, because the cluster may have learned it.
func (a *attempt) locate(ctx context.Context, id manifest.ID) (metadata.ResourceInterface, manifest.ID, error) {
	mapping, err := a.cluster.mapping(ctx, id)
	if meta.IsNoMatchError(err) && !a.fresh {
		a.fresh = true
		a.cluster.mapper.ResetWithContext(ctx)
		mapping, err = a.cluster.mapping(ctx, id)
	}
	if meta.IsNoMatchError(err) {
		return nil, id, errs.E(errs.NotFound, "apply", id.String(), errors.New("the cluster does not know this kind"))
	}
	if err != nil {
		return nil, id, err
	}
	resource := a.cluster.metadata.Resource(mapping.Resource)
	if mapping.Scope.Name() == meta.RESTScopeNameRoot {
		id.Namespace = ""
		return resource, id, nil
	}
	if id.Namespace == "" {
		return nil, id, errs.E(errs.Invalid, "apply", id.String(), errors.New("names no namespace"))
	}
	return resource.Namespace(id.Namespace), id, nil
}

// mapping returns where objects of a kind live.
func (c *Cluster) mapping(ctx context.Context, id manifest.ID) (*meta.RESTMapping, error) {
	ctx, cancel := context.WithTimeout(ctx, c.options.Timeout)
	defer cancel()
	return c.mapper.RESTMappingWithContext(ctx, schema.GroupKind{Group: id.Group, Kind: id.Kind}, id.Version)
}

func keyOf(id manifest.ID) objectKey { return objectKey{id.Group, id.Kind, id.Namespace, id.Name} }

// serverFields are set by the server; content that was exported from a cluster
// carries them, and applying refuses them.
var serverFields = []string{"managedFields", "resourceVersion", "uid", "creationTimestamp", "generation", "selfLink"}

// prepare returns the content to apply: without what only a server may set, and with
// the namespace of id.
func prepare(o manifest.Object, id manifest.ID) ([]byte, error) {
	d := json.NewDecoder(bytes.NewReader(o.Content))
	d.UseNumber()
	var tree map[string]any
	if err := d.Decode(&tree); err != nil {
		return nil, errs.E(errs.Invalid, "apply", id.String(), errors.New("content is no JSON object"))
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
