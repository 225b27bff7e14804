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
	found := len(items) == 0 || isMember(members, path)
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

// isMember reports whether a path names a member, or what may be inside of one without fixed members.
func isMember(members []v2.Member, path string) bool {
	for name := range strings.SplitSeq(strings.TrimPrefix(path, "."), ".") {
		i := slices.IndexFunc(members, func(m v2.Member) bool { return m.Name == name })
		if i < 0 {
			return false
		}
		if members = members[i].Members; len(members) == 0 {
			return true
		}
	}
	return true
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
