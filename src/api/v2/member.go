package v2

import (
	"reflect"
	"slices"
	"strings"
)

// Member is a member of a document's type.
type Member struct {
	Name    string
	Aliases []string // names of older releases
	Type    string   // string, number, boolean, object, map, "list of objects", …
	Field   string   // the Go field, such as "ClusterSpec.GitOps"
	Members []Member // of an object, and of the objects of a list
}

// Is reports whether key means the member: Decode reads it in any letter case, and by its
// aliases.
func (m Member) Is(key string) bool {
	same := func(name string) bool { return strings.EqualFold(name, key) }
	return same(m.Name) || slices.ContainsFunc(m.Aliases, same)
}

// Closed reports whether the member holds objects with fixed members.
func (m Member) Closed() bool { return len(m.Members) > 0 }

// MembersOf lists the members of a document type in the order of its fields.
func MembersOf[T any]() []Member { return membersOf(reflect.TypeFor[T]()) }

func membersOf(t reflect.Type) (all []Member) {
	for i := range t.NumField() {
		field := t.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if field.Anonymous && name == "" {
			all = append(all, membersOf(field.Type)...)
			continue
		}
		if name == "" || name == "-" {
			continue
		}
		m := Member{Name: name, Type: typeName(field.Type), Field: t.Name() + "." + field.Name}
		for alias := range strings.SplitSeq(field.Tag.Get("alias"), ",") {
			if alias != "" {
				m.Aliases = append(m.Aliases, alias)
			}
		}
		if of := objectIn(field.Type); of != nil {
			m.Members = membersOf(of)
		}
		all = append(all, m)
	}
	return all
}

// objectIn returns the structure that a type is, points to or lists; nil for other types, and
// for those that read themselves.
func objectIn(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || reflect.PointerTo(t).Implements(unmarshaler) {
		return nil
	}
	return t
}

// typeName returns the type as users write it.
func typeName(t reflect.Type) string {
	if t.Kind() == reflect.Slice && reflect.PointerTo(t).Implements(unmarshaler) {
		return "any value"
	}
	switch t.Kind() {
	case reflect.Pointer:
		return typeName(t.Elem())
	case reflect.Slice:
		return "list of " + plural(t.Elem())
	case reflect.Map:
		return "map of " + plural(t.Elem())
	case reflect.Struct:
		return "object"
	case reflect.Bool:
		return "boolean"
	case reflect.String:
		return "string"
	case reflect.Int, reflect.Int32, reflect.Int64, reflect.Float64:
		return "number"
	}
	return "value"
}

// plural is typeName for many values.
func plural(t reflect.Type) string {
	word, rest, more := strings.Cut(typeName(t), " of ")
	if more {
		rest = " of " + rest
	}
	return word + "s" + rest
}
