package bundlestate

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/emco-orchestrator/emco/src/api/status"
	"github.com/emco-orchestrator/emco/src/monitor/internal/observe"
	"github.com/emco-orchestrator/emco/src/monitor/internal/reconciler"
)

// maxStatus bounds a status, in bytes. API servers take about a megabyte and a half.
const maxStatus = 768 << 10

// tree is a JSON object.
type tree = map[string]any

// lists are the members for kinds that have one of their own; the others share "resourceStatuses".
var lists = map[schema.GroupKind]string{
	{Kind: "Pod"}:                        "podStatuses",
	{Kind: "Service"}:                    "serviceStatuses",
	{Kind: "ConfigMap"}:                  "configMapStatuses",
	{Group: "apps", Kind: "Deployment"}:  "deploymentStatuses",
	{Group: "apps", Kind: "DaemonSet"}:   "daemonSetStatuses",
	{Group: "apps", Kind: "StatefulSet"}: "statefulSetStatuses",
	{Group: "batch", Kind: "Job"}:        "jobStatuses",
	{Group: "certificates.k8s.io", Kind: "CertificateSigningRequest"}: "csrStatuses",
}

const others = "resourceStatuses"

// item is an object on its way into a status.
type item struct {
	list  string
	value tree
	bad   bool // it is not Current
}

// render makes the status of an app. If it is too large, first the specs of objects are
// left out and then objects, those that are well first.
func render(objects []observe.Object) tree {
	body := tree{"ready": ready(objects), "resourceCount": float64(len(objects)), others: []any{}}
	for _, list := range lists {
		body[list] = []any{}
	}
	items := itemsOf(objects, false)
	if sizeOf(items) > maxStatus {
		items = itemsOf(objects, true)
	}
	slices.SortStableFunc(items, func(a, b item) int { return cmp.Compare(order(b.bad), order(a.bad)) })
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

// ready says whether all objects that were rendered are well.
func ready(objects []observe.Object) bool {
	for _, o := range objects {
		if o.Content != "" && o.Status != status.Current {
			return false
		}
	}
	return len(objects) > 0
}

// itemsOf returns what is shown of objects; without specs if they have to be short.
func itemsOf(objects []observe.Object, short bool) []item {
	var items []item
	for _, o := range objects {
		gk := schema.GroupKind{Group: o.Group, Kind: o.Kind}
		if reconciler.IsApplied(gk) || gk == (schema.GroupKind{Kind: "Secret"}) {
			continue
		}
		if x, ok := itemOf(o, lists[gk], short); ok {
			x.bad = o.Status != status.Current
			items = append(items, x)
		}
	}
	return items
}

func itemOf(o observe.Object, list string, short bool) (item, bool) {
	var shown tree
	if err := json.Unmarshal(o.Brief, &shown); err != nil {
		shown = tree{"metadata": tree{"name": o.Name, "namespace": o.Namespace}}
	}
	if short {
		delete(shown, "spec")
	}
	if list != "" {
		return item{list: list, value: shown}, true
	}
	value := tree{"group": o.Group, "version": o.Version, "kind": o.Kind, "name": o.Name}
	if o.Namespace != "" {
		value["namespace"] = o.Namespace
	}
	if text, err := json.Marshal(shown); err == nil && !short {
		value["res"] = base64.StdEncoding.EncodeToString(text)
	}
	return item{list: others, value: value}, true
}

func sizeOf(items []item) (n int) {
	for _, x := range items {
		n += size(x.value) + 1
	}
	return n
}

func size(v tree) int {
	text, err := json.Marshal(v)
	if err != nil {
		return maxStatus // made of JSON; it does not happen
	}
	return len(text)
}
