package bundlestate

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/emco-orchestrator/emco/src/api/status"
	"github.com/emco-orchestrator/emco/src/monitor/internal/observe"
	"github.com/emco-orchestrator/emco/src/monitor/internal/reconcilerstatus"
)

// maxStatus bounds a status, in bytes. API servers take about a megabyte and a half.
const maxStatus = 768 << 10

// tree is a JSON object.
type tree = map[string]any

// listOf has the member of the status for each kind; other kinds share otherObjects.
var listOf = map[schema.GroupKind]string{
	{Kind: "Pod"}:                        "podStatuses",
	{Kind: "Service"}:                    "serviceStatuses",
	{Kind: "ConfigMap"}:                  "configMapStatuses",
	{Group: "apps", Kind: "Deployment"}:  "deploymentStatuses",
	{Group: "apps", Kind: "DaemonSet"}:   "daemonSetStatuses",
	{Group: "apps", Kind: "StatefulSet"}: "statefulSetStatuses",
	{Group: "batch", Kind: "Job"}:        "jobStatuses",
	{Group: "certificates.k8s.io", Kind: "CertificateSigningRequest"}: "csrStatuses",
}

const otherObjects = "resourceStatuses"

// listItem is an object in a list of a status.
type listItem struct {
	list       string
	value      tree
	notCurrent bool // it is not Current
}

// render returns the status of an app. If it is too large, it omits the specs of all objects,
// and then whole objects, first those that are Current.
func render(objects []observe.Object) tree {
	body := tree{"ready": ready(objects), "resourceCount": float64(len(objects)), otherObjects: []any{}}
	for _, list := range listOf {
		body[list] = []any{}
	}
	items := itemsOf(objects, false)
	if sizeOf(items) > maxStatus {
		items = itemsOf(objects, true)
	}
	slices.SortStableFunc(items, func(a, b listItem) int { return cmp.Compare(order(b.notCurrent), order(a.notCurrent)) })
	room := maxStatus
	for _, x := range items {
		if room -= size(x.value) + 1; room < 0 {
			break
		}
		list, _ := body[x.list].([]any)
		body[x.list] = append(list, x.value)
	}
	return body
}

func order(b bool) int {
	if b {
		return 1
	}
	return 0
}

// ready reports whether all rendered objects are Current.
func ready(objects []observe.Object) bool {
	for _, o := range objects {
		if o.Content != "" && o.Status != status.Current {
			return false
		}
	}
	return len(objects) > 0
}

// itemsOf returns the list items of objects, without specs if short is true.
func itemsOf(objects []observe.Object, short bool) []listItem {
	var items []listItem
	for _, o := range objects {
		gk := schema.GroupKind{Group: o.Group, Kind: o.Kind}
		if reconcilerstatus.ReportsApp(gk) || gk == (schema.GroupKind{Kind: "Secret"}) {
			continue
		}
		if x, ok := itemOf(o, listOf[gk], short); ok {
			x.notCurrent = o.Status != status.Current
			items = append(items, x)
		}
	}
	return items
}

func itemOf(o observe.Object, list string, short bool) (listItem, bool) {
	var shown tree
	if err := json.Unmarshal(o.Brief, &shown); err != nil {
		shown = tree{"metadata": tree{"name": o.Name, "namespace": o.Namespace}}
	}
	if short {
		delete(shown, "spec")
	}
	if list != "" {
		return listItem{list: list, value: shown}, true
	}
	value := tree{"group": o.Group, "version": o.Version, "kind": o.Kind, "name": o.Name}
	if o.Namespace != "" {
		value["namespace"] = o.Namespace
	}
	if text, err := json.Marshal(shown); err == nil && !short {
		value["res"] = base64.StdEncoding.EncodeToString(text)
	}
	return listItem{list: otherObjects, value: value}, true
}

func sizeOf(items []listItem) (n int) {
	for _, x := range items {
		n += size(x.value) + 1
	}
	return n
}

func size(v tree) int {
	text, err := json.Marshal(v)
	if err != nil {
		return maxStatus // cannot happen: it was parsed from JSON
	}
	return len(text)
}
