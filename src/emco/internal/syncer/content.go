package syncer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"

	"github.com/emco-orchestrator/emco/src/emco/internal/bytelru"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
)

// Writer encodes objects as the content of files: readable YAML, the same bytes for the
// same object on every cluster. It caches the content, so that clusters with equal objects
// share memory.
//
// Annotations that mark hooks of charts get names of EMCO's: EMCO runs hooks, and Argo CD
// would run them too, or drop them.
type Writer struct {
	keep   map[string]string // annotations of objects that outlive their app
	always map[string][]byte // files of each tree with apps, by path
	cache  *bytelru.Cache[contentKey, []byte]
	trees  treeCache
}

// Keep returns the annotations that stop the common reconcilers from deleting an object.
// All backends set all of them, so that an app's files are the same for every reconciler,
// and a cluster can change its reconciler without a change of its apps.
func Keep() map[string]string {
	return map[string]string{
		argoOptions: "Prune=false,Delete=false",
		"client.lifecycle.config.k8s.io/deletion": "detach",
		"kustomize.toolkit.fluxcd.io/prune":       "disabled",
	}
}

// argoOptions is an annotation with a list; objects may already have items.
const argoOptions = "argocd.argoproj.io/sync-options"

// NewWriter returns a Writer. It sets the annotations keep on custom resource definitions,
// so that reconcilers leave them on the cluster when their files are removed: the deletion
// of a definition deletes its resources of all apps. It also sets them on objects with
// Helm's resource policy "keep".
func NewWriter(keep map[string]string) *Writer {
	return &Writer{keep: keep, cache: bytelru.New[contentKey, []byte](cacheBytes)}
}

// NewWriterWith returns a writer whose trees of apps also have the given files, by path.
func NewWriterWith(keep map[string]string, always map[string][]byte) *Writer {
	w := NewWriter(keep)
	w.always = always
	return w
}

// Write returns the content of an object's file. Callers must not change it.
func (w *Writer) Write(f File) ([]byte, error) {
	key := contentKey{f.Object.Digest, f.CRD}
	if key.digest == "" {
		key.digest = manifest.DigestOf(f.Object.Content)
	}
	if content, ok := w.cache.Get(key); ok {
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
	w.cache.Put(key, content, len(content)+entryBytes)
	return content, nil
}

// Encode encodes a value of a backend, such as a pointer object, as YAML in the form of
// objects. The json tags of v name its fields.
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

// encode writes YAML with sorted keys. Strings that YAML 1.1 or 1.2 would read as another
// type are quoted; numbers keep their digits.
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
	err := e.Close()
	return bytes.Clone(out.Bytes()), err // it is cached, so without the spare room of the buffer
}

// numbers replaces each number in v with a node of the same digits.
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

// renameHooks renames Helm's hook annotations to this program's:
// "helm.sh/hook-weight" becomes "emco/hook-weight".
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
