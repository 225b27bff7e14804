package reconcilerstatus

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/emco-orchestrator/emco/src/monitor/internal/fields"
)

// maxErrors bounds the errors of one sync in a report.
const maxErrors = 3

// syncError is an entry of the errors that Config Sync lists.
type syncError struct {
	Message string `json:"errorMessage"`
}

// readSync reads the status that Config Sync writes for a deployment: the applied commit, and
// errors in reading, rendering or applying the files.
func readSync(u *unstructured.Unstructured) DeploymentStatus {
	s := DeploymentStatus{Deployment: u.GetLabels()[SourceLabel], Commit: commitOf(stringField(u, "status", "sync", "commit"))}
	var failures []string
	for _, part := range []string{"source", "rendering", "sync"} {
		for _, e := range fields.List[syncError](u, maxErrors, "status", part, "errors") {
			failures = append(failures, fmt.Sprintf("%s %s: %s: %s", u.GetKind(), u.GetName(), part, e.Message))
		}
	}
	for _, c := range fields.Conditions(u) {
		if c.Type == "Stalled" && c.Status == "True" {
			failures = append(failures, fmt.Sprintf("%s %s is stalled: %s", u.GetKind(), u.GetName(), c.Message))
		}
	}
	s.Error = strings.Join(failures[:min(len(failures), maxErrors)], "; ")
	return s
}
