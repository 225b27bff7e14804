package output

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/jsonpath"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/jsontree"
)

// Sort returns a JSON list with its items ordered by the value at a path, such as
// .metadata.name; numbers are ordered as numbers. Other values stay as they are.
func Sort(list json.RawMessage, path string) (json.RawMessage, error) {
	p, err := jsonpath.ParsePath(path)
	if err != nil {
		return nil, errs.E(errs.Invalid, "sort", "--sort-by", err)
	}
	var items []json.RawMessage
	if json.Unmarshal(list, &items) != nil {
		return list, nil
	}
	type sortable struct {
		text json.RawMessage
		key  string
	}
	all := make([]sortable, len(items))
	for i, item := range items {
		n, err := jsontree.Parse(item)
		if err != nil {
			return nil, err
		}
		all[i].text = item
		if found := p.Find(n); len(found) > 0 {
			all[i].key = found[0].String()
		}
	}
	slices.SortStableFunc(all, func(a, b sortable) int { return compareKeys(a.key, b.key) })
	for i := range all {
		items[i] = all[i].text
	}
	return json.Marshal(items)
}

func compareKeys(a, b string) int {
	x, errX := strconv.ParseFloat(a, 64)
	y, errY := strconv.ParseFloat(b, 64)
	if errX == nil && errY == nil {
		return cmp.Compare(x, y)
	}
	return cmp.Compare(a, b)
}
