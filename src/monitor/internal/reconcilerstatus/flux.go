package reconcilerstatus

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/emco-orchestrator/emco/src/monitor/internal/fields"
)

// readKustomization reads the status that Flux writes for an app.
func readKustomization(u *unstructured.Unstructured) Applied {
	a := Applied{Name: u.GetName(), Commit: commitOf(stringField(u, "status", "lastAppliedRevision")), Objects: inventory(u), Generation: u.GetGeneration()}
	a.Ready, a.Error = readReady(u)
	a.Working = working(u)
	if suspended, _, _ := unstructured.NestedBool(u.Object, "spec", "suspend"); suspended {
		a.Error = fmt.Sprintf("Kustomization %s is suspended: nothing new is applied", u.GetName())
	}
	if stringField(u, "spec", "sourceRef", "kind") == GitRepository.Kind {
		a.Source = cmp.Or(stringField(u, "spec", "sourceRef", "namespace"), u.GetNamespace()) + "/" + stringField(u, "spec", "sourceRef", "name")
	}
	return a
}

// readReady reads the condition Ready, unless it is about an older generation.
func readReady(u *unstructured.Unstructured) (ready bool, failure string) {
	c := readyCondition(u)
	if c.Status == "False" {
		return false, fmt.Sprintf("%s %s not ready: %s: %s", u.GetKind(), u.GetName(), c.Reason, c.Message)
	}
	return c.Status == "True", ""
}

// working reports whether Flux runs: it sets Ready to Unknown when it starts.
func working(u *unstructured.Unstructured) bool { return readyCondition(u).Status == "Unknown" }

// readyCondition returns the condition Ready, empty if there is none for this generation.
func readyCondition(u *unstructured.Unstructured) fields.Condition {
	for _, c := range fields.Conditions(u) {
		switch {
		case c.Type != "Ready":
		case c.ObservedGeneration != nil && *c.ObservedGeneration != u.GetGeneration():
			return fields.Condition{}
		default:
			return c
		}
	}
	return fields.Condition{}
}

// revision matches what Flux writes for a commit: "main@sha1:<id>", in old versions "main/<id>".
var revision = regexp.MustCompile(`(?:^|[:/])([0-9a-f]{40}(?:[0-9a-f]{24})?)$`)

func commitOf(text string) string {
	if m := revision.FindStringSubmatch(text); m != nil {
		return m[1]
	}
	return ""
}

// maxObjects bounds the objects that are read from an inventory.
const maxObjects = 10_000

// inventory reads the list of applied objects.
func inventory(u *unstructured.Unstructured) []ID {
	type entry struct {
		ID      string `json:"id"`
		Version string `json:"v"`
	}
	var out []ID
	for _, e := range fields.List[entry](u, maxObjects, "status", "inventory", "entries") {
		if id, ok := parseInventoryID(e.ID); ok {
			id.Version = e.Version
			out = append(out, id)
		}
	}
	return out
}

// parseInventoryID parses "<namespace>_<name>_<group>_<kind>". Two underscores within a name
// mean a colon; namespace and group may be empty.
func parseInventoryID(text string) (id ID, ok bool) {
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
