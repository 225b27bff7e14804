package manifest

import (
	"fmt"
	"slices"
)

// Defaults are what Complete fills in.
type Defaults struct {
	Namespace string            // for namespaced objects that name none; none is set if it is empty
	Labels    map[string]string // set on each object and on pod templates; they replace the chart's
	Scopes    Scopes            // scopes of custom kinds; those of well-known kinds are built in
	Stamp     bool              // add an annotation that identifies the object's content; see StampKey
}

// GroupKind names a kind in all its versions.
type GroupKind struct{ Group, Kind string }

// Scopes maps custom kinds to whether their objects are cluster-wide (true) or belong to a
// namespace (false).
type Scopes map[GroupKind]bool

// ScopesOf reads the scopes that the CRDs among objects declare. A CRD without a valid
// scope counts as namespaced.
func ScopesOf(objects []Object) Scopes {
	scopes := Scopes{}
	for _, o := range objects {
		if !IsCRD(o.ID) {
			continue
		}
		t, err := decode(o)
		if err != nil {
			continue
		}
		spec, _ := t["spec"].(objectTree)
		names, _ := spec["names"].(objectTree)
		group, _ := spec["group"].(string)
		kind, _ := names["kind"].(string)
		scopes[GroupKind{group, kind}] = spec["scope"] == "Cluster"
	}
	return scopes
}

// IsCRD reports whether id is that of a CustomResourceDefinition.
func IsCRD(id ID) bool {
	return id.Group == "apiextensions.k8s.io" && id.Kind == "CustomResourceDefinition"
}

// Complete returns objects with namespace and labels filled in, in the same order. As an
// API server does, it removes the namespace of objects of a cluster-wide kind, and null
// members of built-in kinds. An undeclared kind counts as namespaced. Errors are Invalid and hold Problems.
func Complete(objects []Object, d Defaults) ([]Object, error) {
	out := make([]Object, 0, len(objects))
	var problems Problems
	for _, o := range objects {
		full, err := complete(o, d)
		if err != nil {
			problems.add(Problem{Source: o.Source, Reason: err.Error()})
			continue
		}
		out = append(out, full)
	}
	return out, problems.err()
}

func complete(o Object, d Defaults) (Object, error) {
	t, err := decode(o)
	if err != nil {
		return Object{}, err
	}
	dropNulls(t)
	meta := metadata(t)
	switch {
	case d.Scopes.Cluster(o.ID):
		delete(meta, "namespace")
	case o.ID.Namespace == "" && d.Namespace != "":
		meta["namespace"] = d.Namespace
	}
	if len(d.Labels) > 0 {
		for _, m := range append(templateMetas(t, true), meta) {
			if err := label(m, d.Labels); err != nil {
				return Object{}, fmt.Errorf("%s: %w", o.ID, err)
			}
		}
	}
	if d.Stamp {
		if err := stamp(t, o.ID); err != nil {
			return Object{}, err
		}
	}
	full, err := newObject(t)
	full.Source, full.Line = o.Source, o.Line
	return full, err
}

// label sets labels on a metadata.
func label(meta objectTree, labels map[string]string) error {
	have, ok := meta["labels"].(objectTree)
	if !ok {
		if v := meta["labels"]; v != nil {
			return fmt.Errorf("labels must be a mapping")
		}
		have = objectTree{}
		meta["labels"] = have
	}
	for k, v := range labels {
		have[k] = v
	}
	return nil
}

// PodTemplate returns where a built-in workload has the metadata and the spec of its pods: the path of the pod
// template, which is empty for a Pod; false if the kind is no such workload.
func PodTemplate(kind string) (path []string, found bool) {
	switch kind {
	case "Pod":
		return nil, true
	case "Deployment", "DaemonSet", "StatefulSet", "ReplicaSet", "ReplicationController", "Job":
		return []string{"spec", "template"}, true
	case "CronJob":
		return []string{"spec", "jobTemplate", "spec", "template"}, true
	}
	return nil, false
}

// templateMetas returns the metadata of the pod templates of a built-in workload. If add is
// set, it creates missing ones.
func templateMetas(t objectTree, add bool) []objectTree {
	kind, _ := t["kind"].(string)
	path, _ := PodTemplate(kind)
	group, _, _ := cutGroup(t)
	if path == nil || !slices.Contains([]string{"", "apps", "batch", "extensions"}, group) {
		return nil
	}
	at := t
	for _, member := range path {
		at, _ = at[member].(objectTree)
	}
	if at == nil {
		return nil
	}
	meta := metadata(at)
	if meta == nil && add {
		meta = objectTree{}
		at["metadata"] = meta
	}
	if meta == nil {
		return nil
	}
	return []objectTree{meta}
}
