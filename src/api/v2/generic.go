package v2

import (
	"encoding/json"
	"fmt"
	"strings"
)

// GenericK8sIntent is a set of objects that the generic action controller adds to apps or
// changes. A group intent names it with the controller gac.
type GenericK8sIntent struct {
	Named
}

// GenericResource is a new object of an app, whose content may be uploaded with the document, or
// a rendered object that its customizations patch.
type GenericResource struct {
	Named
	Spec GenericResourceSpec `json:"spec"` // which object it is
}

// GenericResourceSpec names the object.
type GenericResourceSpec struct {
	App       string             `json:"app" alias:"appname,app-name"` // the app that the object belongs to
	NewObject string             `json:"newObject"`                    // "true": the object is added; "false": it is a rendered one
	GVK       GenericResourceGVK `json:"resourceGVK"`                  // the object
}

// GenericResourceGVK identifies an object within an app.
type GenericResourceGVK struct {
	APIVersion string `json:"apiVersion"` // such as apps/v1; of rendered objects it counts only if two have the same kind and name
	Kind       string `json:"kind"`       // such as Deployment
	Name       string `json:"name"`       // metadata.name of the object
}

// IsNew reports whether the object is added.
func (s GenericResourceSpec) IsNew() bool { return s.NewObject == "true" }

// HoldsData reports whether the object is a ConfigMap or a Secret, whose files become data.
func (s GenericResourceSpec) HoldsData() bool {
	return s.GVK.APIVersion == "v1" && (s.GVK.Kind == "ConfigMap" || s.GVK.Kind == "Secret")
}

// Validate checks metadata and spec.
func (r *GenericResource) Validate() error {
	c := begin(&r.Named)
	c.name("spec.app", r.Spec.App)
	c.truth("spec.newObject", r.Spec.NewObject)
	for member, value := range map[string]string{
		"spec.resourceGVK.apiVersion": r.Spec.GVK.APIVersion, "spec.resourceGVK.kind": r.Spec.GVK.Kind, "spec.resourceGVK.name": r.Spec.GVK.Name,
	} {
		if value == "" {
			c.fail(member, "missing")
		}
		c.text(member, value, maxObjectName)
	}
	c.sort()
	return c.err()
}

// maxObjectName is the longest name of an object that Kubernetes accepts.
const maxObjectName = 253

// truth requires upstream's form of a boolean.
func (c *violationList) truth(field, s string) {
	if s != "true" && s != "false" {
		c.fail(field, `%s is neither "true" nor "false"`, quote(s))
	}
}

// Customization adds or changes the object of a generic resource on some clusters. Files that are
// uploaded with it are data of a ConfigMap or Secret, or patches.
type Customization struct {
	Named
	Spec CustomizationSpec `json:"spec"` // for which clusters, and what changes
}

// CustomizationSpec selects clusters and describes the change.
type CustomizationSpec struct {
	ClusterSpecific string           `json:"clusterSpecific"`            // "true": for the clusters of clusterInfo; "false": for all clusters of the app
	ClusterInfo     ClusterInfo      `json:"clusterInfo"`                // which clusters
	PatchType       string           `json:"patchType,omitempty"`        // json: patchJson; merge: the files, as strategic merge patches; jsonmerge: the files, as RFC 7386 patches; empty: none
	PatchJSON       []PatchOperation `json:"patchJson,omitempty"`        // the operations of a JSON patch
	ConfigMap       *DataOptions     `json:"configMapOptions,omitempty"` // what the files of a ConfigMap are
	Secret          *DataOptions     `json:"secretOptions,omitempty"`    // what the files of a Secret are
}

// ClusterInfo selects clusters of a provider.
type ClusterInfo struct {
	Scope    string `json:"scope"`                                    // "name" or "label"
	Provider string `json:"clusterProvider" alias:"cluster-provider"` // the provider of the clusters
	Cluster  string `json:"cluster" alias:"clustername,cluster-name"` // the cluster, if the scope is name
	Label    string `json:"clusterLabel" alias:"cluster-label"`       // the label, if the scope is label
	Mode     string `json:"mode"`                                     // "allow": the selected clusters; "deny": all other clusters of the app
}

// PatchOperation is one operation of a JSON patch (RFC 6902).
type PatchOperation struct {
	Op    string     `json:"op"`              // add, remove, replace, move, copy or test
	Path  string     `json:"path"`            // where, such as /spec/replicas
	From  string     `json:"from,omitempty"`  // of move and copy
	Value PatchValue `json:"value,omitempty"` // of add, replace and test; may name facts of clusters; $(http://…)$ is read from there
}

// PatchValue is any JSON value; nil is none.
type PatchValue json.RawMessage

// UnmarshalJSON keeps the value as it is written.
func (v *PatchValue) UnmarshalJSON(b []byte) error {
	*v = append((*v)[:0], b...)
	return nil
}

// MarshalJSON returns the value; null without one.
func (v PatchValue) MarshalJSON() ([]byte, error) {
	if v == nil {
		return []byte("null"), nil
	}
	return v, nil
}

// URL returns the URL of a value of the form $(http…)$, which is read from there.
func (v PatchValue) URL() (string, bool) {
	var text string
	if len(v) == 0 || v[0] != '"' || json.Unmarshal(v, &text) != nil {
		return "", false
	}
	inner, ok := strings.CutPrefix(text, "$(")
	if inner, ok = cutEnd(inner, ok); !ok || !strings.HasPrefix(inner, "http") {
		return "", false
	}
	return inner, true
}

func cutEnd(s string, ok bool) (string, bool) {
	if !ok {
		return s, false
	}
	return strings.CutSuffix(s, ")$")
}

// DataOptions describe files of a ConfigMap or a Secret.
type DataOptions struct {
	Keys []DataKeyOption `json:"dataKeyOptions"` // one for each file that is not simply data under its own name
}

// DataKeyOption describes one file.
type DataKeyOption struct {
	File  string `json:"fileName"`             // the name of the file
	Key   string `json:"keyName"`              // its key in the data
	Patch string `json:"mergePatch,omitempty"` // "true": the file is a patch of the object, not data
}

// Limits of customizations.
const (
	MaxPatchOperations = 1000
	MaxCustomFiles     = 100
	maxPatchPath       = 1024
)

// IsSpecific reports whether the customization is for some clusters only.
func (s CustomizationSpec) IsSpecific() bool { return s.ClusterSpecific == "true" }

// Options returns what is known of a file of an object of a kind.
func (s CustomizationSpec) Options(kind, file string) (DataKeyOption, bool) {
	o := s.ConfigMap
	if kind == "Secret" {
		o = s.Secret
	}
	if o != nil {
		for _, k := range o.Keys {
			if k.File == file {
				return k, true
			}
		}
	}
	return DataKeyOption{}, false
}

// Validate checks metadata and spec.
func (r *Customization) Validate() error {
	c := begin(&r.Named)
	s := r.Spec
	c.truth("spec.clusterSpecific", s.ClusterSpecific)
	if s.IsSpecific() {
		s.ClusterInfo.check(c)
	}
	switch s.PatchType {
	case "", "json", "merge", "jsonmerge":
	default:
		c.fail("spec.patchType", "%s is no form of patches; use json, merge or jsonmerge", quote(s.PatchType))
	}
	if len(s.PatchJSON) > MaxPatchOperations {
		c.fail("spec.patchJson", "%d operations, at most %d are allowed", len(s.PatchJSON), MaxPatchOperations)
	}
	for i, op := range s.PatchJSON {
		op.check(c, fmt.Sprintf("spec.patchJson[%d]", i))
	}
	if s.PatchType == "json" && len(s.PatchJSON) == 0 {
		c.fail("spec.patchJson", "missing; a patch of type json has at least one operation")
	}
	for at, o := range map[string]*DataOptions{"spec.configMapOptions": s.ConfigMap, "spec.secretOptions": s.Secret} {
		if o != nil {
			o.check(c, at+".dataKeyOptions")
		}
	}
	c.sort()
	return c.err()
}

func (i ClusterInfo) check(c *violationList) {
	c.name("spec.clusterInfo.clusterProvider", i.Provider)
	switch i.Scope {
	case "name":
		c.name("spec.clusterInfo.cluster", i.Cluster)
	case "label":
		c.name("spec.clusterInfo.clusterLabel", i.Label)
	default:
		c.fail("spec.clusterInfo.scope", "%s is neither name nor label", quote(i.Scope))
	}
	if i.Mode != "allow" && i.Mode != "deny" {
		c.fail("spec.clusterInfo.mode", "%s is neither allow nor deny", quote(i.Mode))
	}
}

func (o PatchOperation) check(c *violationList, at string) {
	c.text(at+".path", o.Path, maxPatchPath)
	c.facts(at+".value", string(o.Value))
	if o.Path != "" && o.Path[0] != '/' {
		c.fail(at+".path", "%s does not begin with a slash; use a JSON pointer, such as /spec/replicas", quote(o.Path))
	}
	switch o.Op {
	case "add", "replace", "test":
		if o.Value == nil {
			c.fail(at+".value", "missing")
		}
	case "move", "copy":
		if o.From == "" {
			c.fail(at+".from", "missing")
		}
	case "remove":
	default:
		c.fail(at+".op", "%s is no operation; use add, remove, replace, move, copy or test", quote(o.Op))
	}
}

func (o DataOptions) check(c *violationList, at string) {
	if len(o.Keys) > MaxCustomFiles {
		c.fail(at, "%d entries, at most %d are allowed", len(o.Keys), MaxCustomFiles)
	}
	for i, k := range o.Keys {
		at := fmt.Sprintf("%s[%d]", at, i)
		for member, value := range map[string]string{at + ".fileName": k.File, at + ".keyName": k.Key} {
			if value == "" {
				c.fail(member, "missing")
			}
			c.text(member, value, maxObjectName)
		}
		if k.Patch != "" {
			c.truth(at+".mergePatch", k.Patch)
		}
	}
}
