package syncer_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	yaml3 "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"

	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer"
)

func file(content string) syncer.File {
	return syncer.File{Name: "x.yaml", Object: manifest.Object{Content: []byte(content), Digest: manifest.DigestOf([]byte(content))}}
}

func TestContentIsReadableAndExact(t *testing.T) {
	t.Parallel()
	w := syncer.NewWriter(nil)
	got, err := w.Write(file(`{"kind":"K","data":{"b":"yes","a":"010","t":"2020-01-01","n":"null","s":"line 1\nline 2\n"},"big":9007199254740993,"huge":123456789012345678901,"f":1.50,"e":1e21,"list":[1,{"x":true}],"none":null}`))
	if err != nil {
		t.Fatal(err)
	}
	want := `big: 9007199254740993
data:
  a: "010"
  b: "yes"
  "n": "null"
  s: |
    line 1
    line 2
  t: "2020-01-01"
e: 1e21
f: 1.50
huge: 123456789012345678901
kind: K
list:
  - 1
  - x: true
none: null
`
	if string(got) != want {
		t.Errorf("Write = %s\nwant %s", got, want)
	}
}

func TestEqualContentIsTheSameBytes(t *testing.T) {
	t.Parallel()
	w := syncer.NewWriter(nil)
	first, err := w.Write(file(`{"kind":"K","metadata":{}}`))
	if err != nil {
		t.Fatal(err)
	}
	second, err := w.Write(file(`{"kind":"K","metadata":{}}`))
	if err != nil || &first[0] != &second[0] {
		t.Errorf("Write of an equal object made new bytes (%v), want those of the first", err)
	}
}

func TestDefinitionsAreAnnotated(t *testing.T) {
	t.Parallel()
	w := syncer.NewWriter(map[string]string{"keep.example.org/me": "yes"})
	f := file(`{"kind":"K","metadata":{"annotations":{"a":"b"},"name":"n"}}`)
	plain, err := w.Write(f)
	if err != nil {
		t.Fatal(err)
	}
	f.CRD = true
	kept, err := w.Write(f)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(plain), "keep.example.org") || !strings.Contains(string(kept), "    a: b\n    keep.example.org/me: \"yes\"\n") {
		t.Errorf("object: %s\ndefinition: %s\nwant the annotation on the definition alone, beside its own", plain, kept)
	}
}

func TestKeptObjectsAreAnnotated(t *testing.T) {
	t.Parallel()
	w := syncer.NewWriter(map[string]string{"keep.example.org/me": "yes"})
	kept, err := w.Write(file(`{"kind":"K","metadata":{"annotations":{"helm.sh/resource-policy":"keep"},"name":"n"}}`))
	if err != nil || !strings.Contains(string(kept), "    helm.sh/resource-policy: keep\n    keep.example.org/me: \"yes\"\n") {
		t.Errorf("got %s, %v; want the annotation beside its own", kept, err)
	}
}

// Argo CD reads a list there; what an object brings of its own stays.
func TestListsInAnnotationsAreJoined(t *testing.T) {
	t.Parallel()
	f := file(`{"kind":"K","metadata":{"annotations":{"argocd.argoproj.io/sync-options":"Replace=true"},"name":"n"}}`)
	f.CRD = true
	kept, err := syncer.NewWriter(syncer.Keep()).Write(f)
	if err != nil || !strings.Contains(string(kept), "argocd.argoproj.io/sync-options: Replace=true,Prune=false,Delete=false\n") {
		t.Errorf("got %s, %v; want the options joined", kept, err)
	}
}

// Argo CD would run objects that are marked as hooks of Helm.
func TestHooksGetEMCOsNames(t *testing.T) {
	t.Parallel()
	got, err := syncer.NewWriter(nil).Write(file(`{"kind":"Job","metadata":{"annotations":{"helm.sh/hook":"pre-install","helm.sh/hook-weight":"5","helm.sh/resource-policy":"keep"},"name":"n"}}`))
	want := "  annotations:\n    emco/hook: pre-install\n    emco/hook-weight: \"5\"\n    helm.sh/resource-policy: keep\n"
	if err != nil || !strings.Contains(string(got), want) {
		t.Errorf("got %s, %v; want %s", got, err, want)
	}
}

func TestBrokenContentIsRefused(t *testing.T) {
	t.Parallel()
	for _, content := range []string{"", "[]", `"text"`, "{} {}", "{", "null garbage"} {
		if got, err := syncer.NewWriter(nil).Write(file(content)); err == nil {
			t.Errorf("Write(%q) = %q, want an error", content, got)
		}
	}
}

// Both generations of YAML readers, that of Kubernetes and that of kustomize, must
// read back what was written.
func FuzzContentReadsBack(f *testing.F) {
	for _, seed := range []string{"yes", "0x10", "1_000", "1:30", "", " lead", "trail ", "\ttab", "a\r\nb", "x\n\n", "\n\n x", "# no", "- no", "? no", "~", "<<", "=", "\u0085\u2028\ufeff", "\x7f\u009f", "a: b", "'\"", "!!int 1", "&a *a", "%d", "@x", "`x", "0o7", ".inf", "on"} {
		f.Add(seed, seed)
	}
	f.Fuzz(func(t *testing.T, key, value string) {
		tree := map[string]any{"k" + key: value, "list": []any{value, map[string]any{"v": value}}}
		text, err := json.Marshal(tree)
		if err != nil {
			t.Skip()
		}
		var want map[string]any
		if err := json.Unmarshal(text, &want); err != nil {
			t.Skip()
		}
		out, err := syncer.NewWriter(nil).Write(file(string(text)))
		if err != nil {
			t.Fatalf("Write(%s): %v", text, err)
		}
		var kubernetes, kustomize map[string]any
		if err := yaml.Unmarshal(out, &kubernetes); err != nil || !reflect.DeepEqual(kubernetes, want) {
			t.Errorf("%s\nreads back as %v, %v; want %v", out, kubernetes, err, want)
		}
		if err := yaml3.Unmarshal(out, &kustomize); err != nil || !reflect.DeepEqual(kustomize, want) {
			t.Errorf("%s\nreads back in kustomize as %v, %v; want %v", out, kustomize, err, want)
		}
	})
}
