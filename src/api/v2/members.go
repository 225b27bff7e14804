package v2

import (
	"encoding/json"
	"reflect"
	"strings"
)

// memberResolver renames the members of a value to those of the type that it is read into:
// without regard to case, and by the names of older releases, which stand in the
// field's tag "alias". Two spellings of one member are a violation.
type memberResolver struct {
	strict bool
	check  violationList
}

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

func (f *memberResolver) value(n node, t reflect.Type, path string) node {
	if reflect.PointerTo(t).Implements(unmarshaler) {
		return n
	}
	switch t.Kind() {
	case reflect.Pointer:
		return f.value(n, t.Elem(), path)
	case reflect.Slice:
		for i := range n.items {
			n.items[i] = f.value(n.items[i], t.Elem(), path)
		}
	case reflect.Map:
		for i := range n.members {
			n.members[i].value = f.value(n.members[i].value, t.Elem(), join(path, n.members[i].key))
		}
	case reflect.Struct:
		if n.scalar == nil && !n.array {
			n.members = f.object(n.members, t, path)
		}
	}
	return n
}

// object returns the known members under their canonical names.
func (f *memberResolver) object(members []jsonMember, t reflect.Type, path string) []jsonMember {
	fields := map[string]reflect.StructField{}
	collect(t, fields)
	known := members[:0:0]
	from := map[string]string{} // canonical name -> the spelling that was used
	for _, m := range members {
		name, ok := canonical(m.key, fields)
		if !ok {
			if f.strict {
				f.check.fail(join(path, m.key), "there is no such member")
			}
			continue
		}
		if first, twice := from[name]; twice {
			f.check.fail(join(path, m.key), "given twice, as %s and as %s", quote(first), quote(m.key))
			continue
		}
		from[name] = m.key
		known = append(known, jsonMember{name, f.value(m.value, fields[name].Type, join(path, name))})
	}
	return known
}

// collect finds the fields of a structure by their JSON names, those of embedded
// structures included.
func collect(t reflect.Type, fields map[string]reflect.StructField) {
	for i := range t.NumField() {
		field := t.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if field.Anonymous && name == "" {
			collect(field.Type, fields)
			continue
		}
		if name != "" && name != "-" {
			fields[name] = field
		}
	}
}

// canonical returns the name of the field that key means: the same, the same but
// for case, or an alias.
func canonical(key string, fields map[string]reflect.StructField) (string, bool) {
	if _, ok := fields[key]; ok {
		return key, true
	}
	for name, field := range fields {
		if strings.EqualFold(name, key) || isAlias(key, field) {
			return name, true
		}
	}
	return "", false
}

func isAlias(key string, field reflect.StructField) bool {
	for alias := range strings.SplitSeq(field.Tag.Get("alias"), ",") {
		if alias != "" && strings.EqualFold(alias, key) {
			return true
		}
	}
	return false
}
