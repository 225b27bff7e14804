package kube

import (
	"bytes"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// maxUndeclared bounds how often an object is applied again without fields. The server may name
// one field in each answer, or all.
const maxUndeclared = 50

// undeclared matches the answer to an apply of fields that the kind's schema does not
// declare. It has status 500 and no other mark.
var undeclared = regexp.MustCompile(`(?s)^failed to create typed patch object \([^)]*\): (?:errors:\n)?(.+)$`)

// undeclaredFields returns the paths of the fields that the server does not know, such as
// .spec.containers[name="web"].limits; none if err is another one.
func undeclaredFields(err error) (paths []string) {
	status, answered := statusOf(err)
	if !answered {
		return nil
	}
	match := undeclared.FindStringSubmatch(status.Message)
	if match == nil {
		return nil
	}
	for line := range strings.Lines(match[1]) {
		if path, ok := strings.CutSuffix(strings.TrimSpace(line), ": field not declared in schema"); ok {
			paths = append(paths, path)
		}
	}
	return paths
}

// withoutFields returns an object's content without the fields of paths, and those that it
// had. Elements of a list have the same schema, so a field is removed from all.
func withoutFields(content []byte, paths []string) (out []byte, removed []string) {
	d := json.NewDecoder(bytes.NewReader(content))
	d.UseNumber()
	var tree map[string]any
	if d.Decode(&tree) != nil {
		return content, nil
	}
	for _, path := range paths {
		if removeField(tree, path) {
			removed = append(removed, path)
		}
	}
	out, err := json.Marshal(tree)
	if err != nil {
		return content, nil
	}
	return out, removed
}

// removeField removes the field of a path from a tree, and reports whether it was there.
func removeField(v any, path string) bool {
	switch v := v.(type) {
	case []any:
		rest, ok := afterKey(path)
		if !ok || rest == "" {
			return false
		}
		removed := false
		for _, item := range v {
			removed = removeField(item, rest) || removed
		}
		return removed
	case map[string]any:
		name, ok := strings.CutPrefix(path, ".")
		if !ok {
			return false
		}
		if _, there := v[name]; there {
			delete(v, name)
			return true
		}
		for _, k := range slices.Sorted(maps.Keys(v)) { // a key may contain dots
			if rest, ok := strings.CutPrefix(name, k); ok && strings.IndexAny(rest, ".[") == 0 && removeField(v[k], rest) {
				return true
			}
		}
	}
	return false
}

// afterKey cuts the key of a list's element, such as [name="web"], from the front of a path.
func afterKey(path string) (rest string, ok bool) {
	quoted := false
	for i := 0; i < len(path); i++ {
		switch c := path[i]; {
		case i == 0 && c != '[':
			return "", false
		case c == '\\' && quoted:
			i++
		case c == '"':
			quoted = !quoted
		case c == ']' && !quoted:
			return path[i+1:], true
		}
	}
	return "", false
}
