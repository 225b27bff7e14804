package addon

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
)

// Revision is the content of an addon's next revision.
type Revision struct {
	App       string // the name of the only app
	Namespace string // of the deployment
	Cloud     appcontext.Cloud
	Places    []Place // in order of cluster
}

// Place is a cluster and what it gets.
type Place struct {
	Cluster v2.ClusterKey
	Bundle  appcontext.Digest
}

// Publish publishes the revision that the operation of a head asks for, and returns the next head. Errors
// are those of appcontext.Store.Publish.
func Publish(ctx context.Context, contexts *appcontext.Store, head appcontext.Head, r Revision) (appcontext.Head, error) {
	app := appcontext.App{Name: r.App}
	placed := map[appcontext.Digest]map[string]appcontext.Digest{} // apps by bundle, which clusters share
	placements := make([]appcontext.Placement, 0, len(r.Places))
	for _, p := range r.Places {
		if placed[p.Bundle] == nil {
			placed[p.Bundle] = map[string]appcontext.Digest{r.App: p.Bundle}
			app.Bundles = append(app.Bundles, p.Bundle)
		}
		placements = append(placements, appcontext.Placement{Cluster: p.Cluster, Apps: placed[p.Bundle]})
	}
	op := head.Op
	head.Gone = false
	return contexts.Publish(ctx, head, appcontext.Revision{
		Number: op.Rev, Instance: op.Instance, Operation: op.ID, Kind: op.Kind, Author: op.Actor, Reason: op.Reason, At: op.At,
		Namespace: r.Namespace, Apps: []appcontext.App{app}, Cloud: r.Cloud,
	}, slices.Values(placements))
}

// Content is objects of an addon's app, as a cluster gets them.
type Content struct {
	Bundle appcontext.Digest
	blobs  map[appcontext.Digest][]byte // the objects and the bundle
}

// Pack returns objects in the form of rendered ones: sorted, with the deployment's label and a stamp of their
// content. Each object is a value whose JSON form is that of a Kubernetes object.
func Pack(app string, deployment v2.DeploymentID, all []any) (Content, error) {
	objects, err := complete(app, deployment, all)
	if err != nil {
		return Content{}, err
	}
	out, bundle := Content{blobs: map[appcontext.Digest][]byte{}}, appcontext.Bundle{}
	for _, o := range objects {
		out.blobs[o.Digest] = o.Content
		bundle.Objects = append(bundle.Objects, appcontext.Ref{ID: o.ID, Digest: o.Digest, Stamp: o.Stamp()})
	}
	var text []byte
	if out.Bundle, text, err = bundle.Blob(); err != nil {
		return Content{}, err
	}
	out.blobs[out.Bundle] = text
	return out, nil
}

// Save stores the objects and their bundle.
func (c Content) Save(ctx context.Context, contexts *appcontext.Store) error {
	return contexts.PutBlobs(ctx, c.blobs)
}

// Save packs objects of an addon's app, stores them, and returns the digest of their bundle.
func Save(ctx context.Context, contexts *appcontext.Store, app string, deployment v2.DeploymentID, all []any) (appcontext.Digest, error) {
	c, err := Pack(app, deployment, all)
	if err != nil {
		return "", err
	}
	return c.Bundle, c.Save(ctx, contexts)
}

func complete(app string, deployment v2.DeploymentID, all []any) ([]manifest.Object, error) {
	var text strings.Builder
	for _, o := range all {
		b, err := json.Marshal(o)
		if err != nil {
			return nil, errs.E(errs.Internal, "encode", app, err)
		}
		text.WriteString("---\n")
		text.Write(b)
		text.WriteByte('\n')
	}
	objects, err := manifest.Parse(app, []byte(text.String()))
	if err != nil {
		return nil, err
	}
	key, value := manifest.DeploymentLabel(deployment, app)
	objects, err = manifest.Complete(objects, manifest.Defaults{Labels: map[string]string{key: value}, Stamp: true})
	if err != nil {
		return nil, err
	}
	if err := manifest.Unique(objects); err != nil {
		return nil, err
	}
	objects = slices.Clone(objects)
	manifest.Sort(objects)
	return objects, nil
}
