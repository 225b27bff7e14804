package reconcilerstatus

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/emco-orchestrator/emco/src/monitor/internal/fields"
)

// readApplication reads the status that Argo CD writes for an app. While the app is Synced,
// its commit is the one that it was compared with, even if that commit changed nothing.
// Otherwise it is the commit of the last sync that succeeded.
func readApplication(u *unstructured.Unstructured) Applied {
	a := Applied{Name: u.GetName(), Ready: stringField(u, "status", "sync", "status") == "Synced"}
	phase := stringField(u, "status", "operationState", "phase")
	switch {
	case a.Ready:
		a.Commit = commitOf(stringField(u, "status", "sync", "revision"))
	case phase == "Succeeded":
		a.Commit = commitOf(stringField(u, "status", "operationState", "syncResult", "revision"))
	}
	var failures []string
	if phase == "Failed" || phase == "Error" {
		failures = append(failures, fmt.Sprintf("Application %s: sync %s: %s", u.GetName(), strings.ToLower(phase), stringField(u, "status", "operationState", "message")))
	}
	for _, c := range fields.Conditions(u) {
		if strings.HasSuffix(c.Type, "Error") {
			failures = append(failures, fmt.Sprintf("Application %s: %s: %s", u.GetName(), c.Type, c.Message))
		}
	}
	a.Error, a.Objects = strings.Join(failures, "; "), syncedResources(u)
	return a
}

// resource is an object that Argo CD manages.
type resource struct {
	Group     string `json:"group"`
	Version   string `json:"version"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Status    string `json:"status"`
}

// syncedResources lists the objects that match the files.
func syncedResources(u *unstructured.Unstructured) []ID {
	var out []ID
	for _, r := range fields.List[resource](u, maxObjects, "status", "resources") {
		if r.Status == "Synced" && r.Kind != "" && r.Name != "" {
			out = append(out, ID{r.Group, r.Version, r.Kind, r.Namespace, r.Name})
		}
	}
	return out
}
