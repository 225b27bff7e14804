package intake

import (
	"reflect"
	"testing"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
)

// notContent are the members of a report that change although its content stays: they name the
// pair, the document, or what the control plane concludes later.
var notContent = map[string]bool{"Key": true, "At": true, "Seq": true, "Ready": true, "Since": true}

// TestF21DigestCoversEveryMember changes each member of a report, so that a new member which
// digestOf leaves out fails here instead of getting lost.
func TestF21DigestCoversEveryMember(t *testing.T) {
	t.Parallel()
	report := appcontext.Report{Resources: make([]appcontext.ResourceStatus, 1)}
	before := digestOf(report)
	checked := 0
	check := func(path string, member reflect.Value) {
		old := reflect.ValueOf(member.Interface())
		switch member.Kind() {
		case reflect.String:
			member.SetString("changed")
		case reflect.Bool:
			member.SetBool(true)
		case reflect.Int, reflect.Int64:
			member.SetInt(7)
		case reflect.Uint64:
			member.SetUint(7)
		default:
			t.Fatalf("%s is a %s: this test cannot change it yet", path, member.Kind())
		}
		if digestOf(report) == before {
			t.Errorf("a change of %s does not change the digest", path)
		}
		member.Set(old)
		checked++
	}
	top := reflect.ValueOf(&report).Elem()
	for i := range top.NumField() {
		switch name := top.Type().Field(i).Name; {
		case notContent[name]:
		case name == "Resources":
			walk("Resources[0]", top.Field(i).Index(0), check)
		case top.Field(i).Kind() == reflect.Struct:
			walk(name, top.Field(i), check)
		default:
			check(name, top.Field(i))
		}
	}
	if checked < 10 {
		t.Errorf("only %d members were checked", checked)
	}
	if report.Resources = nil; digestOf(report) == before {
		t.Error("the number of resources does not change the digest")
	}
}

// walk visits the members of a struct, and those of the structs in it.
func walk(path string, v reflect.Value, visit func(string, reflect.Value)) {
	for i := range v.NumField() {
		name := path + "." + v.Type().Field(i).Name
		if v.Field(i).Kind() == reflect.Struct {
			walk(name, v.Field(i), visit)
		} else {
			visit(name, v.Field(i))
		}
	}
}
