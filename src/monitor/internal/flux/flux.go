// Package flux reads what Flux says of its work: which commit a Kustomization applied,
// what it complains about, and which objects it put on the cluster. Flux's own types are
// not needed for that; a version of Flux that says less is understood as well.
package flux

import (
	"fmt"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The kinds that are read.
var (
	Kustomization = schema.GroupKind{Group: "kustomize.toolkit.fluxcd.io", Kind: "Kustomization"}
	GitRepository = schema.GroupKind{Group: "source.toolkit.fluxcd.io", Kind: "GitRepository"}
)

// SourceLabel is on the GitRepositories that the control plane made.
const SourceLabel = "emco/deployment"

// Applied is what a Kustomization says.
type Applied struct {
	Name   string
	Commit string // applied last; empty if it is none of Git
	Error  string // why it is not applied, or not kept so
	Ready  bool   // all of Commit is applied, as far as Flux knows
	Source string // namespace/name of its GitRepository, empty if it has another source
	Held   []ID   // what it put on the cluster
}

// ID is an object that Flux applied.
type ID struct{ Group, Version, Kind, Namespace, Name string }

// Read reads a Kustomization.
func Read(u *unstructured.Unstructured) Applied {
	a := Applied{Name: u.GetName(), Commit: commit(text(u, "status", "lastAppliedRevision")), Held: inventory(u)}
	a.Ready, a.Error = ready(u)
	if suspended, _, _ := unstructured.NestedBool(u.Object, "spec", "suspend"); suspended {
		a.Error = fmt.Sprintf("Kustomization %s is suspended: nothing new is applied", u.GetName())
	}
	if text(u, "spec", "sourceRef", "kind") == GitRepository.Kind {
		a.Source = first(text(u, "spec", "sourceRef", "namespace"), u.GetNamespace()) + "/" + text(u, "spec", "sourceRef", "name")
	}
	return a
}

// SourceError returns what a GitRepository complains about.
func SourceError(u *unstructured.Unstructured) string {
	_, why := ready(u)
	return why
}

// ready reads the condition Ready. One that is about an older generation says nothing.
func ready(u *unstructured.Unstructured) (ok bool, why string) {
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, c := range conditions {
		m, isMap := c.(map[string]any)
		if !isMap || m["type"] != "Ready" {
			continue
		}
		if seen, given := m["observedGeneration"].(int64); given && seen != u.GetGeneration() {
			return false, ""
		}
		if m["status"] == "False" {
			return false, fmt.Sprintf("%s %s not ready: %v: %v", u.GetKind(), u.GetName(), m["reason"], m["message"])
		}
		return m["status"] == "True", ""
	}
	return false, ""
}

// revision is what Flux writes for a commit: "main@sha1:<id>", in old versions "main/<id>".
var revision = regexp.MustCompile(`(?:^|[:/])([0-9a-f]{40}(?:[0-9a-f]{24})?)$`)

func commit(text string) string {
	if m := revision.FindStringSubmatch(text); m != nil {
		return m[1]
	}
	return ""
}

// maxHeld bounds what is read of an inventory.
const maxHeld = 10_000

// inventory reads the list of what was applied.
func inventory(u *unstructured.Unstructured) []ID {
	entries, _, _ := unstructured.NestedSlice(u.Object, "status", "inventory", "entries")
	var held []ID
	for _, e := range entries[:min(len(entries), maxHeld)] {
		m, _ := e.(map[string]any)
		text, _ := m["id"].(string)
		id, ok := parse(text)
		if id.Version, _ = m["v"].(string); ok {
			held = append(held, id)
		}
	}
	return held
}

// parse reads "<namespace>_<name>_<group>_<kind>", where two underscores within a name
// stand for a colon, and namespace and group may be empty.
func parse(text string) (id ID, ok bool) {
	namespace, rest, ok1 := strings.Cut(text, "_")
	k := strings.LastIndexByte(rest, '_')
	if !ok1 || k < 0 {
		return ID{}, false
	}
	g := strings.LastIndexByte(rest[:k], '_')
	if g < 1 || k == len(rest)-1 {
		return ID{}, false
	}
	name := strings.ReplaceAll(rest[:g], "__", ":")
	return ID{Group: rest[g+1 : k], Kind: rest[k+1:], Namespace: namespace, Name: name}, true
}

func text(u *unstructured.Unstructured, path ...string) string {
	s, _, _ := unstructured.NestedString(u.Object, path...)
	return s
}

func first(a, b string) string {
	if a != "" {
		return a
	}
	return b
}
