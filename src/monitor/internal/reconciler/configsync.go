package reconciler

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/emco-orchestrator/emco/src/monitor/internal/fields"
)

// maxErrors bounds what is repeated of the errors of one sync.
const maxErrors = 3

// syncError is one of those that Config Sync lists.
type syncError struct {
	Message string `json:"errorMessage"`
}

// readSync reads what Config Sync says of a deployment: the commit that it has applied,
// and why it could not read, render or apply the files.
func readSync(u *unstructured.Unstructured) Source {
	s := Source{Deployment: u.GetLabels()[SourceLabel], Commit: commit(text(u, "status", "sync", "commit"))}
	var why []string
	for _, part := range []string{"source", "rendering", "sync"} {
		for _, e := range fields.List[syncError](u, maxErrors, "status", part, "errors") {
			why = append(why, fmt.Sprintf("%s %s: %s: %s", u.GetKind(), u.GetName(), part, e.Message))
		}
	}
	for _, c := range fields.Conditions(u) {
		if c.Type == "Stalled" && c.Status == "True" {
			why = append(why, fmt.Sprintf("%s %s is stalled: %s", u.GetKind(), u.GetName(), c.Message))
		}
	}
	s.Error = strings.Join(why[:min(len(why), maxErrors)], "; ")
	return s
}
