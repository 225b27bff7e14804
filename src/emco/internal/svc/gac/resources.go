// Package gac owns the intents of the generic action controller: objects that it adds to apps,
// and changes of rendered ones. It stores them; customize/gac reads them when the orchestrator
// makes a revision.
package gac

import (
	"context"
	"io"
	"path"

	"github.com/gorilla/mux"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/resource"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// Resources are the documents that gac serves.
type Resources struct {
	DB *store.DB
}

const (
	intents        = web.GroupPath + "/generic-k8s-intents"
	resources      = intents + "/{genericK8sIntent}/resources"
	customizations = resources + "/{genericResource}/customizations"
)

// maxFiles bounds the files of a document, in bytes. They are stored sealed in the document,
// which must fit into etcd.
const maxFiles = 512 << 10

// Mount adds the routes.
func (s Resources) Mount(r *mux.Router) {
	resource.Mount(r, s.DB, resource.Def[v2.GenericK8sIntent]{
		Kind: "GenericK8sIntent", Orphan: "DeploymentIntentGroup not found",
		Collection: intents, Item: "{genericK8sIntent}", Put: resource.PutUpsert,
	})
	resource.Mount(r, s.DB, s.resources())
	resource.Mount(r, s.DB, s.customizations())
}

func (s Resources) resources() resource.Def[v2.GenericResource] {
	return resource.Def[v2.GenericResource]{
		Kind: "GenericResource", Missing: "Resource not found", Orphan: "GenericK8sIntent not found",
		Collection: resources, Item: "{genericResource}", Put: resource.PutUpsert,
		Refs: func(at resource.Place, d v2.GenericResource) []store.Ref {
			return []store.Ref{resource.AppRef(at, d.Spec.App)}
		},
		File: &resource.File[v2.GenericResource]{
			Limit: maxFiles, Name: "resourceTemplate", Part: "resource", Secret: true, Optional: true,
			Needed: func(d v2.GenericResource) bool { return d.Spec.IsNew() && !d.Spec.HoldsData() },
			Check:  checkTemplate,
			Show: func(_ context.Context, doc store.Doc, content []byte) ([]byte, error) {
				d, err := store.Decode[v2.GenericResource](doc)
				return shown(d.Spec.GVK.Kind, content), err
			},
		},
	}
}

// checkTemplate refuses a file that is not the one object that the document names.
func checkTemplate(_ context.Context, d v2.GenericResource, content func() (io.ReadCloser, error)) error {
	text, err := readAll(content)
	if err != nil || len(text) == 0 {
		return err
	}
	objects, err := manifest.Parse("file", text)
	if err != nil {
		return err
	}
	if len(objects) != 1 {
		return errs.New(errs.Invalid, "the file must have exactly one object")
	}
	want := d.Spec.GVK
	if id := objects[0].ID; id.APIVersion() != want.APIVersion || id.Kind != want.Kind || id.Name != want.Name {
		return errs.New(errs.Invalid, "the file has "+id.APIVersion()+" "+id.Kind+" "+id.Name+", and spec.resourceGVK "+want.APIVersion+" "+want.Kind+" "+want.Name+"; they must agree")
	}
	return nil
}

func readAll(content func() (io.ReadCloser, error)) ([]byte, error) {
	in, err := content()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	return io.ReadAll(io.LimitReader(in, 4*maxFiles)) // packed files are in base64
}

// shown returns what clients may see of a file of an object of a kind.
func shown(kind string, content []byte) []byte {
	if kind == "Secret" {
		return []byte(v2.Mask)
	}
	return content
}

func (s Resources) customizations() resource.Def[v2.Customization] {
	return resource.Def[v2.Customization]{
		Kind: "Customization", Orphan: "Resource not found",
		Collection: customizations, Item: "{customization}", Put: resource.PutUpsert,
		Refs: func(_ resource.Place, d v2.Customization) []store.Ref {
			if i := d.Spec.ClusterInfo; d.Spec.IsSpecific() && i.Scope == "name" {
				return []store.Ref{{Key: store.Key(v2.NewClusterKey(i.Provider, i.Cluster).StoreKey())}}
			}
			return nil
		},
		Check: s.checkPatch,
		File: &resource.File[v2.Customization]{
			Limit: maxFiles, Many: v2.MaxCustomFiles, Part: "customization", Secret: true, Optional: true,
			Needed: func(v2.Customization) bool { return false },
			Check:  checkPatches,
			Show: func(ctx context.Context, doc store.Doc, content []byte) ([]byte, error) {
				parent, err := s.resourceOf(ctx, doc.Key)
				return shown(parent.Spec.GVK.Kind, content), err
			},
		},
	}
}

// resourceOf returns the resource of a customization.
func (s Resources) resourceOf(ctx context.Context, customization store.Key) (v2.GenericResource, error) {
	doc, err := s.DB.Get(ctx, store.Key(path.Dir(path.Dir(string(customization)))))
	if err != nil {
		return v2.GenericResource{}, err
	}
	return store.Decode[v2.GenericResource](doc)
}

// checkPatch refuses a customization of a rendered object that changes nothing.
func (s Resources) checkPatch(ctx context.Context, at resource.Place, d v2.Customization) error {
	if d.Spec.PatchType != "" {
		return nil
	}
	parent, err := s.resourceOf(ctx, at.Key)
	if errs.Is(err, errs.NotFound) {
		return nil // which is refused later
	}
	if err == nil && !parent.Spec.IsNew() {
		err = errs.New(errs.Invalid, "Invalid Input:\n- spec.patchType: missing; the resource is a rendered object, which can only be patched")
	}
	return err
}

// checkPatches refuses files that should be patches and are none.
func checkPatches(_ context.Context, d v2.Customization, content func() (io.ReadCloser, error)) error {
	text, err := readAll(content)
	if err != nil {
		return err
	}
	files, err := resource.UnpackFiles(text)
	if err != nil {
		return err
	}
	merges := d.Spec.PatchType == "merge" || d.Spec.PatchType == "jsonmerge"
	if merges && len(files) == 0 {
		return errs.New(errs.Invalid, "a patch of type "+d.Spec.PatchType+" needs at least one file, in the multipart part \"files\"")
	}
	for _, f := range files {
		if f.Name == "" {
			return errs.New(errs.Invalid, "a file has no name; give its part a file name")
		}
		_, inConfigMap := d.Spec.Options("ConfigMap", f.Name)
		_, inSecret := d.Spec.Options("Secret", f.Name)
		if !merges || inConfigMap || inSecret {
			continue
		}
		if _, err := manifest.ToJSON(f.Name, f.Content); err != nil && d.Spec.ConfigMap == nil && d.Spec.Secret == nil {
			return err
		}
	}
	return nil
}
