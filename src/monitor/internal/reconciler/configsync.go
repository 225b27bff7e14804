package reconciler

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// maxErrors bounds what is repeated of the errors of one sync.
const maxErrors = 3

// readSync reads what Config Sync says of a deployment: the commit that it has applied,
// and why it could not read, render or apply the files.
func readSync(u *unstructured.Unstructured) Source {
	s := Source{Deployment: u.GetLabels()[SourceLabel], Commit: commit(text(u, "status", "sync", "commit"))}
	var why []string
	for _, part := range []string{"source", "rendering", "sync"} {
		for _, e := range maps(u, "status", part, "errors") {
			message, _ := e["errorMessage"].(string)
			why = append(why, fmt.Sprintf("%s %s: %s: %s", u.GetKind(), u.GetName(), part, message))
		}
	}
	for _, c := range maps(u, "status", "conditions") {
		if message, _ := c["message"].(string); c["type"] == "Stalled" && c["status"] == "True" {
			why = append(why, fmt.Sprintf("%s %s is stalled: %s", u.GetKind(), u.GetName(), message))
		}
	}
	s.Error = strings.Join(why[:min(len(why), maxErrors)], "; ")
	return s
}
