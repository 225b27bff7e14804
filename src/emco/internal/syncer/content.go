package syncer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"

	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
)

// Writer turns objects into the content of files: YAML that people can read, the
// same bytes for the same object wherever it goes. It remembers what it wrote, so
// that clusters with equal objects share the very same bytes.
//
// What says that an object is a hook of a chart goes by a name of EMCO's own there:
// EMCO runs hooks, and Argo CD would run them as well, or not at all.
type Writer struct {
	keep  map[string]string // annotations of what shall outlive its app
	cache contentCache
}

// Keep returns what each of the common reconcilers takes for "do not delete this". All
// backends set all of it, so that an app's files are the same whoever reads them, and a
// cluster may go from one reconciler to another without a change of its apps.
func Keep() map[string]string {
	return map[string]string{
		argoOptions: "Prune=false,Delete=false",
		"client.lifecycle.config.k8s.io/deletion": "detach",
		"kustomize.toolkit.fluxcd.io/prune":       "disabled",
	}
}

// argoOptions is an annotation that holds a list; objects may have items of their own.
const argoOptions = "argocd.argoproj.io/sync-options"

// NewWriter returns a Writer. The annotations keep are set on custom resource
// definitions: they tell a reconciler to leave them on the cluster when their files
// go, because deleting a definition deletes the resources of all other apps. They are
// also set on objects that ask to be kept.
func NewWriter(keep map[string]string) *Writer {
	return &Writer{keep: keep, cache: newCache(cacheBytes)}
}

// Write returns the content of an object's file. Callers must not change it.
func (w *Writer) Write(f File) ([]byte, error) {
	key := contentKey{f.Object.Digest, f.CRD}
	if key.digest == "" {
		key.digest = manifest.DigestOf(f.Object.Content)
	}
	if content, ok := w.cache.get(key); ok {
		return content, nil
	}
	tree, err := decode(f.Object.Content)
	if err != nil {
		return nil, err
	}
	if (f.CRD || manifest.Kept(f.Object.Annotations())) && len(w.keep) > 0 {
		if err := annotate(tree, w.keep); err != nil {
			return nil, err
		}
	}
	renameHooks(tree)
	content, err := encode(tree)
	if err != nil {
		return nil, err
	}
	w.cache.put(key, content)
	return content, nil
}

// Encode writes a value of a backend's own, such as a pointer object, as YAML in the
// same form as objects. The fields of v are named by its json tags.
func Encode(v json.Marshaler) ([]byte, error) {
	text, err := v.MarshalJSON()
	if err != nil {
		return nil, err
	}
	tree, err := decode(text)
	if err != nil {
		return nil, err
	}
	return encode(tree)
}

// decode reads one JSON object without passing numbers through floats.
func decode(text []byte) (map[string]any, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var tree map[string]any
	if err := d.Decode(&tree); err != nil {
		return nil, fmt.Errorf("content is no JSON object: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("content is more than one JSON object")
	}
	return tree, nil
}

// encode writes YAML with sorted keys. Strings that a reader of YAML 1.1 or 1.2 would
// take for something else are quoted; numbers keep their digits.
func encode(tree map[string]any) ([]byte, error) {
	for k, v := range tree {
		tree[k] = numbers(v)
	}
	var out bytes.Buffer
	e := yaml.NewEncoder(&out)
	e.SetIndent(2)
	if err := e.Encode(tree); err != nil {
		return nil, err
	}
	return out.Bytes(), e.Close()
}

// numbers replaces each number in v by a node with the same digits.
func numbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		return &yaml.Node{Kind: yaml.ScalarNode, Value: v.String()}
	case map[string]any:
		for k, member := range v {
			v[k] = numbers(member)
		}
	case []any:
		for i, item := range v {
			v[i] = numbers(item)
		}
	}
	return v
}

// annotate sets annotations on an object.
func annotate(tree map[string]any, add map[string]string) error {
	meta, ok := tree["metadata"].(map[string]any)
	if !ok {
		return errors.New("has no metadata")
	}
	have, ok := meta["annotations"].(map[string]any)
	if !ok {
		have = map[string]any{}
		meta["annotations"] = have
	}
	for k, v := range add {
		if own, _ := have[k].(string); k == argoOptions && own != "" {
			v = own + "," + v
		}
		have[k] = v
	}
	return nil
}

// renameHooks gives the annotations by which Helm knows hooks the names that EMCO's
// agents know, too: "helm.sh/hook-weight" becomes "emco/hook-weight".
func renameHooks(tree map[string]any) {
	meta, _ := tree["metadata"].(map[string]any)
	have, _ := meta["annotations"].(map[string]any)
	for _, name := range []string{"hook", "hook-weight", "hook-delete-policy"} {
		if v, marked := have["helm.sh/"+name]; marked {
			delete(have, "helm.sh/"+name)
			have["emco/"+name] = v
		}
	}
}
