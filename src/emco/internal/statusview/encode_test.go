package statusview

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
)

// The encoder must cover all members of the types: every member is set here.
func TestJSONByHandHasAllMembers(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 21, 12, 0, 0, 5, time.FixedZone("", 3600))
	full := v2.ClusterStatus{Findings: []string{"one", "\"two\" \u2028<&>"}, Since: &at, NextAttempt: &at, LastReport: &at, ExternalEdit: &v2.ExternalEdit{Commit: "c", Paths: []string{"a"}, At: at}}
	fill(t, reflect.ValueOf(&full).Elem())
	resource := v2.ResourceStatus{GVK: v2.GVK{Group: "g", Version: "v", Kind: "k"}, Detail: json.RawMessage(`{"a":1}`)}
	fill(t, reflect.ValueOf(&resource).Elem())
	plain := v2.ClusterStatus{Provider: "p", Cluster: "c"}
	a := Answer{
		status: v2.Status{StatusSubject: v2.StatusSubject{Name: "d"}},
		apps: []appPart{{status: v2.AppStatus{Name: "a"}, clusters: []clusterPart{
			{status: full, objects: &objectBlock{list: []v2.ResourceStatus{resource, {Name: "second"}}}, extras: []v2.ResourceStatus{resource, resource}},
			{status: plain, extras: []v2.ResourceStatus{resource}},
			{status: plain, objects: &objectBlock{list: []v2.ResourceStatus{resource}}},
			{status: plain},
		}}, {status: v2.AppStatus{Name: "b"}}},
		clusters: []clusterPart{{status: full}, {status: plain}},
		cluster:  &clusterPart{status: full, objects: &objectBlock{list: []v2.ResourceStatus{resource}}},
	}
	text, err := a.JSON()
	if err != nil {
		t.Fatal(err)
	}
	var got v2.Status
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	if one, two := asJSON(got), asJSON(a.Status()); one != two {
		t.Errorf("got\n%s\nwant\n%s", one, two)
	}
}

// fill gives each member that is not set a value that is not empty.
func fill(t *testing.T, v reflect.Value) {
	t.Helper()
	for i := range v.NumField() {
		f, name := v.Field(i), v.Type().Field(i).Name
		if name == "Resources" || !f.IsZero() {
			continue
		}
		switch f.Kind() {
		case reflect.String:
			f.SetString(name + " é")
		case reflect.Int, reflect.Int64:
			f.SetInt(7)
		case reflect.Bool:
			f.SetBool(true)
		default:
			t.Fatalf("member %s is of a kind that this test does not know", name)
		}
	}
}
