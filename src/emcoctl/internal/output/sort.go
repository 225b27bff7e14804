package output

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/jsonpath"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/jsontree"
)

// Sort returns a JSON list with its items ordered by the value at a path, such as
// .metadata.name; numbers are ordered as numbers. Items without a value there come first. A path
// that no item has is refused, unless it is that of one of the members that items may have.
// Other values than lists stay as they are.
func Sort(list json.RawMessage, path string, members []v2.Member) (json.RawMessage, error) {
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
	all, paths := make([]sortable, len(items)), map[string]bool{}
	found := len(items) == 0 || canHave(members, p)
	for i, item := range items {
		n, err := jsontree.Parse(item)
		if err != nil {
			return nil, err
		}
		all[i].text = item
		if values := p.Find(n); len(values) > 0 {
			all[i].key, found = values[0].String(), true
		}
		if !found {
			addPaths(paths, "", n)
		}
	}
	if !found {
		addMembers(paths, "", members)
		return nil, errs.E(errs.Invalid, "sort", "--sort-by "+path, fmt.Errorf("no item has it; there are %s", listed(paths)))
	}
	slices.SortStableFunc(all, func(a, b sortable) int { return compareKeys(a.key, b.key) })
	for i := range all {
		items[i] = all[i].text
	}
	return json.Marshal(items)
}

// canHave reports whether a path can select something of an item with these members.
func canHave(members []v2.Member, path jsonpath.Path) bool {
	at := []v2.Member{{Type: "object", Members: members}}
	for _, step := range path.Steps() {
		var next []v2.Member
		for _, m := range at {
			next = append(next, selected(m, step)...)
		}
		at = next
	}
	return len(at) > 0
}

// selected returns what a step can select of a member.
func selected(m v2.Member, s jsonpath.Step) (all []v2.Member) {
	outer, inner, _ := strings.Cut(m.Type, " of ")
	items, inside := false, m.Members
	switch outer {
	case "list", "lists":
		items, inside = true, []v2.Member{{Type: inner, Members: m.Members}}
	case "map", "maps":
		inside = []v2.Member{{Name: s.Name, Type: inner, Members: m.Members}}
	case "string", "strings", "number", "numbers", "boolean", "booleans":
		return nil
	default:
		if len(inside) == 0 { // any value
			return []v2.Member{m}
		}
	}
	for _, in := range inside {
		if s.Name == jsonpath.All || items && s.Name == "" || !items && s.Name != "" && s.Name == in.Name {
			all = append(all, in)
		}
		if s.Deep {
			all = append(all, selected(in, s)...)
		}
	}
	return all
}

// addMembers adds the paths of members below a path.
func addMembers(paths map[string]bool, at string, members []v2.Member) {
	for _, m := range members {
		if m.Closed() {
			addMembers(paths, at+"."+m.Name, m.Members)
		} else {
			paths[at+"."+m.Name] = true
		}
	}
}

// addPaths adds the paths of the scalars in a value that is at a path.
func addPaths(paths map[string]bool, at string, n jsontree.Node) {
	for name, member := range n.Object {
		addPaths(paths, at+"."+name, member)
	}
	if at != "" && n.Object == nil && n.List == nil {
		paths[at] = true
	}
}

// maxListed bounds the paths that an error lists.
const maxListed = 40

// listed returns paths in order.
func listed(paths map[string]bool) string {
	sorted := slices.Sorted(maps.Keys(paths))
	switch {
	case len(sorted) == 0:
		return "none: the items have no members"
	case len(sorted) > maxListed:
		sorted = append(sorted[:maxListed], "…")
	}
	return strings.Join(sorted, ", ")
}

func compareKeys(a, b string) int {
	x, errX := strconv.ParseFloat(a, 64)
	y, errY := strconv.ParseFloat(b, 64)
	if errX == nil && errY == nil {
		return cmp.Compare(x, y)
	}
	return cmp.Compare(a, b)
}
