package v2

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
)

// memberResolver renames the members of a value to those of the type that it is read into:
// without regard to case, and by the names of older releases, which stand in the
// field's tag "alias". Two spellings of one member are a violation.
type memberResolver struct {
	strict bool
	at     place
	known  map[reflect.Type][]field // of structures that occurred
	check  violationList
}

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

func (f *memberResolver) value(n node, t reflect.Type) node {
	if reflect.PointerTo(t).Implements(unmarshaler) {
		return n
	}
	switch t.Kind() {
	case reflect.Pointer:
		return f.value(n, t.Elem())
	case reflect.Slice:
		for i := range n.items {
			f.at.enter(step{index: i})
			n.items[i] = f.value(n.items[i], t.Elem())
			f.at.leave()
		}
	case reflect.Map:
		for i, m := range n.members {
			f.at.enter(step{key: m.key, member: true})
			n.members[i].value = f.value(m.value, t.Elem())
			f.at.leave()
		}
	case reflect.Struct:
		if n.scalar == nil && !n.array {
			n.members = f.object(n.members, t)
		}
	}
	return n
}

// object returns the known members under their canonical names.
func (f *memberResolver) object(members []jsonMember, t reflect.Type) []jsonMember {
	fields := f.fields(t)
	known := members[:0:0]
	from := map[string]string{} // canonical name -> the spelling that was used
	for _, m := range members {
		f.at.enter(step{key: m.key, member: true})
		to, ok := canonical(m.key, fields)
		first, twice := from[to.name]
		switch {
		case !ok && f.strict:
			f.check.fail(f.at.String(), "there is no such member")
		case ok && twice:
			f.check.fail(f.at.String(), "given twice, as %s and as %s", quote(first), quote(m.key))
		case ok:
			from[to.name] = m.key
			known = append(known, jsonMember{to.name, f.value(m.value, to.of)})
		}
		f.at.leave()
	}
	return known
}

// field is a field of a structure as JSON knows it.
type field struct {
	name    string
	aliases string // of older releases, separated by commas
	of      reflect.Type
}

func (f *memberResolver) fields(t reflect.Type) []field {
	found, ok := f.known[t]
	if !ok {
		if f.known == nil {
			f.known = map[reflect.Type][]field{}
		}
		found = fieldsOf(t, nil)
		f.known[t] = found
	}
	return found
}

// fieldsOf appends the fields of a structure, those of embedded structures included.
func fieldsOf(t reflect.Type, all []field) []field {
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" {
			all = fieldsOf(f.Type, all)
		} else if name != "" && name != "-" {
			all = append(all, field{name, f.Tag.Get("alias"), f.Type})
		}
	}
	return all
}

// canonical returns the field that key means: the same, the same but for case, or an alias.
func canonical(key string, fields []field) (field, bool) {
	i := slices.IndexFunc(fields, func(f field) bool { return f.name == key })
	if i < 0 {
		i = slices.IndexFunc(fields, func(f field) bool { return strings.EqualFold(f.name, key) || f.isAlias(key) })
	}
	if i < 0 {
		return field{}, false
	}
	return fields[i], true
}

func (f field) isAlias(key string) bool {
	for alias := range strings.SplitSeq(f.aliases, ",") {
		if alias != "" && strings.EqualFold(alias, key) {
			return true
		}
	}
	return false
}
