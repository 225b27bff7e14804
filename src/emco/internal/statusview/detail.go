package statusview

import (
	"context"
	"encoding/json"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
)

// readDetails reads every object of the bundles, with the values of Secrets hidden.
func (r *Reader) readDetails(ctx context.Context, bundles map[appcontext.Digest]appcontext.Bundle) (map[appcontext.Digest]json.RawMessage, error) {
	out := map[appcontext.Digest]json.RawMessage{}
	for _, b := range bundles {
		for _, ref := range objectsOf(b) {
			content, err := r.contexts.GetBlob(ctx, ref.Digest)
			if err == nil {
				out[ref.Digest], err = manifest.Masked(manifest.Object{ID: ref.ID, Content: content})
			}
			if err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// detail is the object that was rendered. In the view of clusters it is shown only if the
// cluster says that it holds that content; otherwise no more than its name is known of
// what is there, and nothing of what is not.
func (v *statusView) detail(ref appcontext.Ref, o objectState) json.RawMessage {
	if !v.Ready {
		return v.details[ref.Digest]
	}
	switch o.state {
	case v2.NotPresent, v2.Unknown:
		return nil
	}
	if content := v.details[ref.Digest]; content != nil && o.held {
		return content
	}
	return outline(ref.ID)
}

// outline is what is known of an object of which the cluster has said that it is there.
func outline(id manifest.ID) json.RawMessage {
	type metadata struct {
		Name      string `json:"name"`
		Namespace string `json:"namespace,omitempty"`
	}
	text, err := json.Marshal(struct {
		APIVersion string   `json:"apiVersion"`
		Kind       string   `json:"kind"`
		Metadata   metadata `json:"metadata"`
	}{id.APIVersion(), id.Kind, metadata{id.Name, id.Namespace}})
	if err != nil {
		return nil
	}
	return text
}
