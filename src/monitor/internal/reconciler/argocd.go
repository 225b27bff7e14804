package reconciler

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// readApplication reads what Argo CD says of an app. While it is Synced, the commit that
// it was compared with is the one that is there, also when nothing had to be applied for
// it; else it is that of the last sync that succeeded.
func readApplication(u *unstructured.Unstructured) Applied {
	a := Applied{Name: u.GetName(), Ready: text(u, "status", "sync", "status") == "Synced"}
	phase := text(u, "status", "operationState", "phase")
	switch {
	case a.Ready:
		a.Commit = commit(text(u, "status", "sync", "revision"))
	case phase == "Succeeded":
		a.Commit = commit(text(u, "status", "operationState", "syncResult", "revision"))
	}
	var why []string
	if phase == "Failed" || phase == "Error" {
		why = append(why, fmt.Sprintf("Application %s: sync %s: %s", u.GetName(), strings.ToLower(phase), text(u, "status", "operationState", "message")))
	}
	for _, c := range maps(u, "status", "conditions") {
		kind, _ := c["type"].(string)
		if message, _ := c["message"].(string); strings.HasSuffix(kind, "Error") {
			why = append(why, fmt.Sprintf("Application %s: %s: %s", u.GetName(), kind, message))
		}
	}
	a.Error, a.Held = strings.Join(why, "; "), resources(u)
	return a
}

// resources lists what Argo CD holds as the files say.
func resources(u *unstructured.Unstructured) []ID {
	all := maps(u, "status", "resources")
	var held []ID
	for _, r := range all[:min(len(all), maxHeld)] {
		of := func(member string) string {
			s, _ := r[member].(string)
			return s
		}
		if of("status") == "Synced" && of("kind") != "" && of("name") != "" {
			held = append(held, ID{Group: of("group"), Version: of("version"), Kind: of("kind"), Namespace: of("namespace"), Name: of("name")})
		}
	}
	return held
}

// maps returns the objects in a list.
func maps(u *unstructured.Unstructured, path ...string) []map[string]any {
	list, _, _ := unstructured.NestedSlice(u.Object, path...)
	var out []map[string]any
	for _, item := range list {
		if m, ok := item.(map[string]any); ok {
			out = append(out, m)
		}
	}
	return out
}
