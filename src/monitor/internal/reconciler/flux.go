package reconciler

import (
	"fmt"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/emco-orchestrator/emco/src/monitor/internal/fields"
)

// readKustomization reads what Flux says of an app.
func readKustomization(u *unstructured.Unstructured) Applied {
	a := Applied{Name: u.GetName(), Commit: commit(text(u, "status", "lastAppliedRevision")), Held: inventory(u), Generation: u.GetGeneration()}
	a.Ready, a.Error = ready(u)
	a.Working = working(u)
	if suspended, _, _ := unstructured.NestedBool(u.Object, "spec", "suspend"); suspended {
		a.Error = fmt.Sprintf("Kustomization %s is suspended: nothing new is applied", u.GetName())
	}
	if text(u, "spec", "sourceRef", "kind") == GitRepository.Kind {
		a.Source = first(text(u, "spec", "sourceRef", "namespace"), u.GetNamespace()) + "/" + text(u, "spec", "sourceRef", "name")
	}
	return a
}

// ready reads the condition Ready. One that is about an older generation says nothing.
func ready(u *unstructured.Unstructured) (ok bool, why string) {
	c := readyCondition(u)
	if c.Status == "False" {
		return false, fmt.Sprintf("%s %s not ready: %s: %s", u.GetKind(), u.GetName(), c.Reason, c.Message)
	}
	return c.Status == "True", ""
}

// working says whether Flux is at work: what it writes when it begins, before it knows.
func working(u *unstructured.Unstructured) bool { return readyCondition(u).Status == "Unknown" }

// readyCondition is empty if nothing is said of this generation.
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
	type entry struct {
		ID      string `json:"id"`
		Version string `json:"v"`
	}
	var held []ID
	for _, e := range fields.List[entry](u, maxHeld, "status", "inventory", "entries") {
		if id, ok := parse(e.ID); ok {
			id.Version = e.Version
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
