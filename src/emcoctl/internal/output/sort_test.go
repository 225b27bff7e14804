package output_test

import (
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/output"
)

// A path that no item has is refused, unless items may have it.
func TestPathsThatNoItemCanHaveAreRefused(t *testing.T) {
	t.Parallel()
	list := []byte(`[{"path":"a"},{"path":"b"}]`)
	type inner struct {
		Name string `json:"name"`
	}
	type item struct {
		v2.Named
		Cluster string              `json:"cluster"`
		Labels  []string            `json:"labels"`
		Facts   map[string]int      `json:"facts"`
		Groups  map[string][]string `json:"groups"`
		Waves   []inner             `json:"waves"`
		Rest    any                 `json:"rest"`
	}
	for path, ok := range map[string]bool{
		".cluster": true, "$.cluster": true, "['cluster']": true, ".cluster.name": false, ".cluster[0]": false, ".nothing": false,
		".metadata.name": true, ".metadata.name.x": false, ".metadata['name']": true, ".metadata.nam": false, ".metadata[0]": false, ".metadata.*": true,
		".labels": true, ".labels[0]": true, ".labels[-1]": true, ".labels[0:2]": true, ".labels[*]": true, ".labels[0].x": false, ".labels.x": false,
		".facts.rack": true, ".facts['a.b']": true, ".facts.rack.x": false, ".facts[0]": false,
		".groups.a[0]": true, ".groups.a.b": false,
		".waves[0].name": true, ".waves.name": false, ".waves[?(@.name==\"x\")].name": true, ".waves[0].nam": false,
		".rest.a[0].b": true, "..name": true,
	} {
		_, err := output.Sort(list, path, v2.MembersOf[item]())
		if ok && err != nil || !ok && !errs.Is(err, errs.Invalid) {
			t.Errorf("%s: %v, want that items can have it: %v", path, err, ok)
		}
	}
	if _, err := output.Sort(list, "..nam", v2.MembersOf[inner]()); !errs.Is(err, errs.Invalid) {
		t.Errorf("a name that is at no depth: %v, want Invalid", err)
	}
}
