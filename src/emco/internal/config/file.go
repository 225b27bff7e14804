package config

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"

	yaml3 "go.yaml.in/yaml/v3"

	"github.com/emco-orchestrator/emco/src/api/nearest"
)

// readFile fills c from a file in YAML; an empty path names no file. The reader that it returns has what is wrong in the file; the
// error is that of a file that cannot be read at all.
func readFile(path string, c *Config) (*fileReader, error) {
	r := &fileReader{path: path, settings: namedSettings(c), places: map[string]string{}}
	if path == "" {
		return r, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("configuration file: %w", err)
	}
	var doc yaml3.Node
	if err := yaml3.Unmarshal(text, &doc); err != nil {
		return nil, fmt.Errorf("configuration file %s: %w", path, err)
	}
	for _, root := range doc.Content {
		r.section(root, reflect.ValueOf(c).Elem(), "")
	}
	return r, nil
}

// fileReader sets what a file has, and collects all that is wrong, each with its line. A wrong value leaves the setting as it was.
type fileReader struct {
	path     string
	settings []namedSetting
	places   map[string]string // FILE:LINE of each setting and section that the file has, by name
	errs     []error
}

// bad reports what is wrong at a node.
func (r *fileReader) bad(n *yaml3.Node, format string, args ...any) {
	r.errs = append(r.errs, fmt.Errorf("%s: "+format, append([]any{r.place(n)}, args...)...))
}

func (r *fileReader) place(n *yaml3.Node) string { return fmt.Sprintf("%s:%d", r.path, n.Line) }

// section sets the fields of a struct from the members of a mapping. prefix begins the names of the members.
func (r *fileReader) section(n *yaml3.Node, v reflect.Value, prefix string) {
	n = follow(n)
	switch {
	case isNull(n):
		return
	case n.Kind != yaml3.MappingNode && prefix == "":
		r.bad(n, "write settings as name: value")
		return
	case n.Kind != yaml3.MappingNode:
		r.bad(n, "%s has settings of its own; write them as {name: value}", strings.TrimSuffix(prefix, "."))
		return
	}
	lines := map[string]int{}
	for _, m := range members(n) {
		field, known := fieldOf(v.Type(), m.key.Value)
		if !known {
			r.bad(m.key, "there is no setting %s%s%s", prefix, m.key.Value, r.hint(v.Type(), prefix, m.key.Value))
			continue
		}
		name := prefix + field.Tag.Get("json")
		if first, again := lines[name]; again {
			r.bad(m.key, "%s is set twice, first in line %d", name, first)
			continue
		}
		lines[name], r.places[name] = m.key.Line, r.place(m.key)
		if field.Type.Kind() == reflect.Struct {
			r.section(m.value, v.FieldByIndex(field.Index), name+".")
		} else {
			r.setting(m.value, v.FieldByIndex(field.Index), name)
		}
	}
}

// setting sets one setting from its value in the file.
func (r *fileReader) setting(n *yaml3.Node, v reflect.Value, name string) {
	n = follow(n)
	isList := v.Kind() == reflect.Slice
	switch {
	case isNull(n) && isList:
		v.SetZero()
	case isNull(n):
	case isList && n.Kind == yaml3.ScalarNode && v.Type().Elem().Kind() == reflect.String:
		r.bad(n, "%s: %q is no list; write [%s]", name, n.Value, strings.Join(list(n.Value), ", "))
	case isList && n.Kind != yaml3.SequenceNode:
		r.bad(n, "%s: write a list", name)
	case isList:
		v.Set(reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content)))
		for i, item := range n.Content {
			r.item(item, v.Index(i), fmt.Sprintf("%s[%d]", name, i))
		}
	case n.Kind != yaml3.ScalarNode:
		r.bad(n, "%s: write %s, no list and no section", name, wanted(v.Type()))
	default:
		if err := assign(v, n.Value); err != nil {
			r.bad(n, "%s: %w", name, err)
		}
	}
}

// item sets one item of a list.
func (r *fileReader) item(n *yaml3.Node, v reflect.Value, name string) {
	switch {
	case v.Kind() == reflect.Struct:
		r.section(n, v, name+".")
	case isNull(follow(n)):
		r.bad(n, "%s: write %s", name, wanted(v.Type()))
	default:
		r.setting(n, v, name)
	}
}

// follow returns what an alias stands for.
func follow(n *yaml3.Node) *yaml3.Node {
	if n.Kind == yaml3.AliasNode {
		return n.Alias
	}
	return n
}

func isNull(n *yaml3.Node) bool { return n.Kind == yaml3.ScalarNode && n.Tag == "!!null" }

// fileMember is a member of a mapping.
type fileMember struct{ key, value *yaml3.Node }

// members returns the members of a mapping, then those that it merges (<<: *other) and does not have itself. outer are the
// mappings that merge it.
func members(n *yaml3.Node, outer ...*yaml3.Node) (out []fileMember) {
	var merged []*yaml3.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], follow(n.Content[i+1])
		switch {
		case key.Tag != "!!merge":
			out = append(out, fileMember{key, value})
		case value.Kind == yaml3.SequenceNode:
			merged = append(merged, value.Content...)
		default:
			merged = append(merged, value)
		}
	}
	for _, m := range merged {
		if m = follow(m); m.Kind != yaml3.MappingNode || m == n || slices.Contains(outer, m) {
			continue
		}
		for _, add := range members(m, append(outer, n)...) {
			if !slices.ContainsFunc(out, func(own fileMember) bool { return strings.EqualFold(own.key.Value, add.key.Value) }) {
				out = append(out, add)
			}
		}
	}
	return out
}

// fieldOf finds a field by its name in files; letter case does not count.
func fieldOf(t reflect.Type, name string) (reflect.StructField, bool) {
	for i := range t.NumField() {
		if f := t.Field(i); strings.EqualFold(f.Tag.Get("json"), name) {
			return f, true
		}
	}
	return reflect.StructField{}, false
}

// hint names the nearest member of the same section, or a setting of that name elsewhere.
func (r *fileReader) hint(t reflect.Type, prefix, name string) string {
	var siblings []string
	for i := range t.NumField() {
		siblings = append(siblings, t.Field(i).Tag.Get("json"))
	}
	if near, ok := nearest.To(name, siblings); ok {
		return "; did you mean " + prefix + near + "?"
	}
	for _, l := range r.settings {
		if strings.EqualFold(lastPart(l.name), name) {
			return "; did you mean " + l.name + "?"
		}
	}
	return ""
}

// lastPart is a name without its sections.
func lastPart(name string) string { return name[strings.LastIndex(name, ".")+1:] }
