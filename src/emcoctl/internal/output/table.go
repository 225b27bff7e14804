package output

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/emco-orchestrator/emco/src/emcoctl/internal/anchor"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/jsontree"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/printable"
)

// tableColumn is a heading and the path of its value in a document.
type tableColumn struct{ head, path string }

// columns are the columns of a collection's table, in addition to the name.
var columns = map[string][]tableColumn{
	"clusters": {
		{"TYPE", "spec.gitOps.gitOpsType"}, {"REFERENCE", "spec.gitOps.gitOpsReferenceObject"}, {"RESOURCE", "spec.gitOps.gitOpsResourceObject"},
	},
	"composite-apps":       {{"VERSION", "spec.compositeAppVersion"}},
	"profiles":             {{"APP", "spec.app"}},
	"dependency":           {{"APP", "spec.app"}, {"STATUS", "spec.opStatus"}, {"WAIT", "spec.wait"}},
	"app-intents":          {{"APP", "spec.app"}},
	"policies":             {{"CLOUD", "spec.logicalCloud"}, {"MODE", "spec.mode"}, {"NAMESPACES", "spec.namespaces"}},
	"logical-clouds":       {{"LEVEL", "spec.level"}, {"NAMESPACE", "spec.namespace"}, {"USER", "spec.user.userName"}},
	"cluster-references":   {{"PROVIDER", "spec.clusterProvider"}, {"CLUSTER", "spec.cluster"}},
	"user-permissions":     {{"NAMESPACE", "spec.namespace"}},
	"controllers":          controllerColumns,
	"clm-controllers":      controllerColumns,
	"dtc-controllers":      controllerColumns,
	"cluster-sync-objects": {{"KEYS", "spec.kv"}},
	"kv-pairs":             {{"KEYS", "spec.kv"}},
	"deployment-intent-groups": {
		{"VERSION", "spec.version"}, {"PROFILE", "spec.compositeProfile"}, {"LOGICAL-CLOUD", "spec.logicalCloud"},
	},
}

// controllerColumns are those of all three registries of controllers.
var controllerColumns = []tableColumn{
	{"HOST", "spec.host"}, {"PORT", "spec.port"}, {"TYPE", "spec.type"}, {"PRIORITY", "spec.priority"},
}

// tableRow is one document of a list, or a bare name.
type tableRow struct{ jsontree.Node }

// listOf reads the list of a collection: an array, null, or an object whose only member is
// the array "intent".
func listOf(body []byte) ([]tableRow, bool) {
	n, err := jsontree.Parse(body)
	if err != nil {
		return nil, false
	}
	if intents, ok := n.Object["intent"]; ok && len(n.Object) == 1 && intents.List != nil {
		n = intents
	}
	if n.List == nil && !n.Empty() || n.Object != nil {
		return nil, false
	}
	rows := make([]tableRow, len(n.List))
	for i, item := range n.List {
		rows[i] = tableRow{item}
	}
	return rows, true
}

// name returns the document's name, its label, or itself if it is a bare name.
func (r tableRow) name() string {
	switch {
	case r.Text != nil:
		return *r.Text
	case !r.At("metadata.name").Empty():
		return r.At("metadata.name").String()
	}
	return r.At("clusterLabel").String()
}

// show prints the body of a get: a list as a table, an item as YAML, everything else as it
// is.
func show(w io.Writer, r Result, many bool) {
	if many {
		fmt.Fprintf(w, "# %s\n", r.Path)
	}
	rows, ok := listOf(r.Body)
	if ok {
		table(w, anchor.Collection(r.Path), rows)
		return
	}
	if trimmed := bytes.TrimSpace(r.Body); json.Valid(trimmed) && encodeYAML(w, trimmed) == nil {
		return
	}
	fmt.Fprintln(w, printable.Text(string(bytes.TrimRight(r.Body, "\n"))))
}

// table prints a list, with a column of descriptions if any document has one.
func table(w io.Writer, collection string, rows []tableRow) {
	if len(rows) == 0 {
		fmt.Fprintln(w, "none")
		return
	}
	cols := []tableColumn{{"NAME", ""}}
	if slices.ContainsFunc(rows, func(r tableRow) bool { return r.Object != nil }) { // not only names, as of ?label=
		cols = append(cols, columns[collection]...)
	}
	for _, r := range rows {
		if !r.At("metadata.description").Empty() {
			cols = append(cols, tableColumn{"DESCRIPTION", "metadata.description"})
			break
		}
	}
	t := NewTable(w)
	for _, c := range cols {
		t.Cell(c.head)
	}
	t.End()
	for _, r := range rows {
		t.Cell(r.name())
		for _, c := range cols[1:] {
			t.Cell(r.At(c.path).String())
		}
		t.End()
	}
	t.Flush()
}
