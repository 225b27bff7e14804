package gac

import (
	"encoding/json"
	"fmt"
	"strings"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/customize"
	"github.com/emco-orchestrator/emco/src/emco/internal/patch"
)

// addJSONPatch adds a JSON patch on the clusters of an edit. If its values depend on the cluster,
// clusters with equal values share an edit.
func (l *editList) addJSONPatch(base customize.Edit, target customize.Target, operations []v2.PatchOperation, app customize.App) error {
	if !differs(operations) {
		p, err := l.jsonPatch(target, operations, "")
		base.Patch = p
		l.Edits.Edits = append(l.Edits.Edits, base)
		return err
	}
	clusters := base.Clusters
	if clusters == nil {
		clusters = app.Clusters
	}
	var edits []customize.Edit
	index := map[string]int{} // of edits, by their patches
	for _, c := range clusters {
		p, err := l.jsonPatch(target, operations, c)
		if err != nil {
			return err
		}
		key := fmt.Sprintf("%q %v", p.Text, p.Fetches)
		i, known := index[key]
		if !known {
			i = len(edits)
			index[key] = i
			e := base
			e.Clusters, e.Patch = nil, p
			edits = append(edits, e)
		}
		edits[i].Clusters = append(edits[i].Clusters, c)
	}
	l.Edits.Edits = append(l.Edits.Edits, edits...)
	return nil
}

// differs reports whether values depend on the cluster.
func differs(operations []v2.PatchOperation) bool {
	for _, o := range operations {
		url, fetched := o.Value.URL()
		if v2.NamesFacts(string(o.Value)) || fetched && perCluster.Replace(url) != url {
			return true
		}
	}
	return false
}

// perCluster changes a URL that differs by cluster.
var perCluster = strings.NewReplacer("{clusterProvider}", "", "{cluster}", "")

// jsonPatch returns the patch for a cluster, empty if it is the same for all.
func (l *editList) jsonPatch(target customize.Target, operations []v2.PatchOperation, cluster v2.ClusterKey) (*customize.Patch, error) {
	out := customize.Patch{Target: target, Type: patch.JSON}
	filled := make([]v2.PatchOperation, len(operations))
	for i, o := range operations {
		if url, ok := o.Value.URL(); ok {
			url = strings.NewReplacer("{clusterProvider}", cluster.Provider(), "{cluster}", cluster.Cluster()).Replace(url)
			if err := l.admit(url); err != nil {
				return nil, err
			}
			out.Fetches = append(out.Fetches, customize.Fetch{Operation: i, URL: url})
			o.Value = v2.PatchValue("null") // until it is read
		} else {
			text, err := v2.FillFacts(string(o.Value), func(name string) (string, error) {
				fact, err := customize.Fact(name, cluster, l.deployment.KeyValues)
				text := string(quoted(fact))
				return text[1 : len(text)-1], err // it stands within a string
			})
			if err != nil {
				return nil, err
			}
			o.Value = v2.PatchValue(text)
		}
		filled[i] = o
	}
	var err error
	out.Text, err = json.Marshal(filled)
	return &out, err
}
