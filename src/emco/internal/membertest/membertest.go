// Package membertest changes the members of a value one after the other, so that a test finds the members that its code forgets.
package membertest

import (
	"reflect"
	"testing"
	"time"
)

// Each changes each member of v, also of structs in it and of the elements of its lists, calls check with the member's path, such as
// Resources[0].Status, and changes it back. It leaves out the members at the top whose names are among but. A list must have
// an element, and a member of another kind fails the test.
func Each[T any](t *testing.T, v *T, but []string, check func(path string)) {
	t.Helper()
	top := reflect.ValueOf(v).Elem()
	left := map[string]bool{}
	for _, name := range but {
		if !top.FieldByName(name).IsValid() {
			t.Errorf("%s has no member %s", top.Type(), name)
		}
		left[name] = true
	}
	for i := range top.NumField() {
		if name := top.Type().Field(i).Name; !left[name] {
			visit(t, name, top.Field(i), check)
		}
	}
}

func visit(t *testing.T, path string, member reflect.Value, check func(path string)) {
	t.Helper()
	old := reflect.ValueOf(member.Interface())
	if _, moment := member.Interface().(time.Time); moment {
		member.Set(reflect.ValueOf(time.Unix(7, 0).UTC()))
		check(path)
		member.Set(old)
		return
	}
	switch member.Kind() {
	case reflect.Struct:
		for i := range member.NumField() {
			visit(t, path+"."+member.Type().Field(i).Name, member.Field(i), check)
		}
		return
	case reflect.Slice:
		if member.Len() == 0 {
			t.Fatalf("%s has no element to change", path)
		}
		visit(t, path+"[0]", member.Index(0), check)
		return
	case reflect.String:
		member.SetString("changed")
	case reflect.Bool:
		member.SetBool(!member.Bool())
	case reflect.Int, reflect.Int64:
		member.SetInt(7)
	case reflect.Uint64:
		member.SetUint(7)
	default:
		t.Fatalf("%s is a %s, which this package cannot change", path, member.Kind())
	}
	check(path)
	member.Set(old)
}
