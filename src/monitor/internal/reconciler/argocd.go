package reconciler

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/emco-orchestrator/emco/src/monitor/internal/fields"
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
	for _, c := range fields.Conditions(u) {
		if strings.HasSuffix(c.Type, "Error") {
			why = append(why, fmt.Sprintf("Application %s: %s: %s", u.GetName(), c.Type, c.Message))
		}
	}
	a.Error, a.Held = strings.Join(why, "; "), resources(u)
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

// resources lists what Argo CD holds as the files say.
func resources(u *unstructured.Unstructured) []ID {
	var held []ID
	for _, r := range fields.List[resource](u, maxHeld, "status", "resources") {
		if r.Status == "Synced" && r.Kind != "" && r.Name != "" {
			held = append(held, ID{r.Group, r.Version, r.Kind, r.Namespace, r.Name})
		}
	}
	return held
}
