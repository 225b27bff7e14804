// Package gac is the generic action controller: it makes edits of generic Kubernetes intents,
// their resources and customizations.
package gac

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/customize"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/patch"
	"github.com/emco-orchestrator/emco/src/emco/internal/resource"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

// Name is the name of the controller in group intents.
const Name = "gac"

// Limits of one intent.
const (
	maxResources      = 500
	maxCustomizations = 2000 // of all resources together
)

// New returns the controller of the documents in a store. admit returns why values must not be
// read from a URL.
func New(db *store.DB, admit func(url string) error) customize.Controller {
	return controller{db, admit}
}

type controller struct {
	db    *store.DB
	admit func(url string) error
}

// Customize implements customize.Controller.
func (g controller) Customize(ctx context.Context, c customize.Deployment) (customize.Edits, error) {
	key := store.Key(c.Group + "/generic-k8s-intents/" + c.Intent)
	if err := c.CheckIntent(ctx, g.db, "GenericK8sIntent", "generic-k8s-intents"); err != nil {
		return customize.Edits{}, err
	}
	out := editList{deployment: c, admit: g.admit}
	resources, customizations := 0, 0
	for r, err := range store.All[v2.GenericResource](ctx, g.db, key+"/resources", store.Query{Depth: 1}) {
		if err != nil {
			return customize.Edits{}, err
		}
		all, err := g.customizations(ctx, r.Doc.Key)
		if err != nil {
			return customize.Edits{}, err
		}
		resources, customizations = resources+1, customizations+len(all)
		if resources > maxResources || customizations > maxCustomizations {
			return customize.Edits{}, errs.New(errs.Invalid, fmt.Sprintf("intent %s has more than %d resources or %d customizations; divide it", c.Intent, maxResources, maxCustomizations))
		}
		template, err := g.reveal(ctx, r.Doc)
		if err != nil {
			return customize.Edits{}, err
		}
		if err := out.addResource(genericResource{r.Value, template, all, c.Origin(r.Doc.Key)}); err != nil {
			return customize.Edits{}, err
		}
	}
	return out.Edits, nil
}

// reveal returns the files of a document as they are kept; nil if it has none.
func (g controller) reveal(ctx context.Context, doc store.Doc) ([]byte, error) {
	if doc.Secret == nil {
		return nil, nil
	}
	return g.db.Reveal(ctx, doc)
}

// customization is a customization with its files.
type customization struct {
	v2.Customization
	files []resource.NamedFile
}

// customizations returns the customizations of a resource: those for all clusters first, then
// those for labels, then those for one cluster, each in order of name. Later ones win.
func (g controller) customizations(ctx context.Context, key store.Key) (out []customization, err error) {
	for item, err := range store.All[v2.Customization](ctx, g.db, key+"/customizations", store.Query{Depth: 1}) {
		if err != nil {
			return nil, err
		}
		if len(out) > maxCustomizations {
			return out, nil // the caller refuses so many
		}
		packed, err := g.reveal(ctx, item.Doc)
		if err != nil {
			return nil, err
		}
		files, err := resource.UnpackFiles(packed)
		if err != nil {
			return nil, err
		}
		out = append(out, customization{item.Value, files})
	}
	slices.SortStableFunc(out, func(a, b customization) int { return cmp.Compare(a.rank(), b.rank()) })
	return out, nil
}

func (c customization) rank() int {
	switch {
	case !c.Spec.IsSpecific():
		return 0
	case c.Spec.ClusterInfo.Scope == "label":
		return 1
	}
	return 2
}

// genericResource is a resource with all that belongs to it.
type genericResource struct {
	v2.GenericResource
	template       []byte // the uploaded object; nil without one
	customizations []customization
	origin         string
}

func (r genericResource) originOf(c customization) string {
	return r.origin + "/customizations/" + c.Metadata.Name
}

func (r genericResource) target() customize.Target {
	return customize.Target(r.Spec.GVK)
}

// editList collects the edits of an intent.
type editList struct {
	customize.Edits
	deployment customize.Deployment
	admit      func(url string) error
}

func (l *editList) find(app, text string) {
	l.Findings = append(l.Findings, customize.Finding{App: app, Text: text})
}

// addResource adds the edits of a resource.
func (l *editList) addResource(r genericResource) error {
	i := slices.IndexFunc(l.deployment.Apps, func(a customize.App) bool { return a.Name == r.Spec.App })
	if i < 0 {
		return nil // the app is not deployed
	}
	app := l.deployment.Apps[i]
	if len(r.customizations) == 0 {
		l.find(app.Name, r.origin+": changes nothing, because it has no customization")
	}
	selected := make([][]v2.ClusterKey, len(r.customizations)) // nil: all
	for i, c := range r.customizations {
		selected[i] = l.clusters(app, c)
		if selected[i] != nil && len(selected[i]) == 0 {
			l.find(app.Name, r.originOf(c)+": changes nothing, because it selects no cluster of the app")
		}
	}
	if r.Spec.IsNew() {
		selected = exclusive(app, selected)
	}
	for i, c := range r.customizations {
		if selected[i] != nil && len(selected[i]) == 0 {
			continue
		}
		if err := l.addCustomization(r, c, app, selected[i]); err != nil {
			return fmt.Errorf("%s: %w", r.originOf(c), err)
		}
	}
	return nil
}

// clusters returns the clusters of an app that a customization selects; nil for all.
func (l *editList) clusters(app customize.App, c customization) []v2.ClusterKey {
	i := c.Spec.ClusterInfo
	if !c.Spec.IsSpecific() {
		return nil
	}
	out := []v2.ClusterKey{}
	if i.Scope == "label" {
		out = append(out, app.Labelled(l.deployment.Inventory, i.Provider, i.Label)...)
	} else if key := v2.NewClusterKey(i.Provider, i.Cluster); app.Has(key) {
		out = append(out, key)
	}
	if i.Mode == "deny" {
		return without(app.Clusters, out)
	}
	return out
}

// without returns the clusters of all that are not in some; both are sorted.
func without(all, some []v2.ClusterKey) []v2.ClusterKey {
	out := []v2.ClusterKey{}
	for _, c := range all {
		if _, found := slices.BinarySearch(some, c); !found {
			out = append(out, c)
		}
	}
	return out
}

// exclusive gives each cluster to the last selection that has it: a new object exists once.
func exclusive(app customize.App, selected [][]v2.ClusterKey) [][]v2.ClusterKey {
	out := slices.Clone(selected)
	var taken []v2.ClusterKey // sorted
	all := false
	for i, clusters := range slices.Backward(selected) {
		switch {
		case all:
			out[i] = []v2.ClusterKey{}
		case clusters == nil && len(taken) == 0:
			all = true
		case clusters == nil:
			out[i], all = without(app.Clusters, taken), true
		default:
			out[i] = without(clusters, taken)
			taken = append(taken, out[i]...)
			slices.Sort(taken)
		}
	}
	return out
}

// addCustomization adds the edits of a customization on clusters.
func (l *editList) addCustomization(r genericResource, c customization, app customize.App, clusters []v2.ClusterKey) error {
	edit := customize.Edit{App: app.Name, Clusters: clusters, Origin: r.originOf(c)}
	data, patches := r.divide(c)
	if r.Spec.IsNew() {
		object, err := r.object(data)
		if err != nil {
			return err
		}
		added := edit
		added.Object = object
		l.Edits.Edits = append(l.Edits.Edits, added)
	}
	for _, f := range patches {
		text, err := manifest.ToJSON(f.Name, f.Content)
		if err != nil {
			return err
		}
		form := patch.Strategic
		if c.Spec.PatchType == "jsonmerge" {
			form = patch.Merge
		}
		merged := edit
		merged.Patch = &customize.Patch{Target: r.target(), Type: form, Text: text}
		l.Edits.Edits = append(l.Edits.Edits, merged)
	}
	if c.Spec.PatchType != "json" {
		return nil
	}
	return l.addJSONPatch(edit, r.target(), c.Spec.PatchJSON, app)
}

// divide returns the files that are data, and those that are patches.
func (r genericResource) divide(c customization) (data, patches []resource.NamedFile) {
	for _, f := range c.files {
		if !r.Spec.HoldsData() {
			if c.Spec.PatchType == "merge" || c.Spec.PatchType == "jsonmerge" {
				patches = append(patches, f)
			}
			continue
		}
		option, _ := c.Spec.Options(r.Spec.GVK.Kind, f.Name)
		switch {
		case option.Patch == "true":
			patches = append(patches, f)
		case r.Spec.IsNew():
			f.Name = cmp.Or(option.Key, f.Name)
			data = append(data, f)
		}
	}
	return data, patches
}

// object returns the new object: the uploaded one, or a bare ConfigMap or Secret, with files as
// its data.
func (r genericResource) object(files []resource.NamedFile) ([]byte, error) {
	gvk := r.Spec.GVK
	if !r.Spec.HoldsData() {
		if len(r.template) == 0 {
			return nil, errs.New(errs.Invalid, "the resource has no file with the new object; upload one")
		}
		return r.template, nil
	}
	object := map[string]json.RawMessage{}
	if len(r.template) > 0 {
		text, err := manifest.ToJSON(r.origin, r.template)
		if err == nil {
			err = json.Unmarshal(text, &object)
		}
		if err != nil {
			return nil, err
		}
	} else {
		object["apiVersion"], object["kind"], object["metadata"] = quoted(gvk.APIVersion), quoted(gvk.Kind), json.RawMessage(`{"name":`+string(quoted(gvk.Name))+`}`)
	}
	for _, f := range files {
		member, value := "data", string(f.Content)
		switch {
		case gvk.Kind == "Secret":
			value = base64.StdEncoding.EncodeToString(f.Content)
		case !utf8.Valid(f.Content):
			member, value = "binaryData", base64.StdEncoding.EncodeToString(f.Content)
		}
		if err := setEntry(object, member, f.Name, value); err != nil {
			return nil, err
		}
	}
	return json.Marshal(object)
}

// setEntry sets an entry of a mapping that is a member of an object.
func setEntry(object map[string]json.RawMessage, member, key, value string) error {
	entries := map[string]json.RawMessage{}
	if text := bytes.TrimSpace(object[member]); len(text) > 0 {
		if err := json.Unmarshal(text, &entries); err != nil {
			return errs.E(errs.Invalid, "", "", errors.New(member+" of the uploaded object is no mapping"))
		}
	}
	if entries == nil { // "data: null"
		entries = map[string]json.RawMessage{}
	}
	entries[key] = quoted(value)
	text, err := json.Marshal(entries)
	object[member] = text
	return err
}

// quoted returns a text as a JSON string.
func quoted(text string) json.RawMessage {
	out, err := json.Marshal(text)
	if err != nil {
		panic("gac: a string that has no JSON form: " + err.Error())
	}
	return out
}
