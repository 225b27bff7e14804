package fields_test

import (
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/emco-orchestrator/emco/src/monitor/internal/fields"
)

func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return u
}

func TestConditions(t *testing.T) {
	t.Parallel()
	two := int64(2)
	for _, c := range []struct {
		name, status string
		want         []fields.Condition
	}{
		{"none", `{}`, nil},
		{"no list", `{"conditions":{"type":"Ready"}}`, nil},
		{"as they are", `{"conditions":[{"type":"Ready","status":"False","reason":"R","message":"m","observedGeneration":2,"lastTransitionTime":"2026-01-01T00:00:00Z"},{"type":"B","status":"True"}]}`, []fields.Condition{
			{"Ready", "False", "R", "m", &two}, {Type: "B", Status: "True"},
		}},
		{"some that are none", `{"conditions":[7,"x",null,{"type":"A","status":true},{"type":"B"}]}`, []fields.Condition{{Type: "B"}}},
	} {
		u := parse(t, `{"apiVersion":"v1","kind":"K","metadata":{"name":"n"},"status":`+c.status+`}`)
		if got := fields.Conditions(u); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

func TestListsAreBounded(t *testing.T) {
	t.Parallel()
	u := parse(t, `{"apiVersion":"v1","kind":"K","metadata":{"name":"n"},"items":[{"id":"a"},{"id":"b"},{"id":"c"}]}`)
	got := fields.List[struct {
		ID string `json:"id"`
	}](u, 2, "items")
	if len(got) != 2 || got[1].ID != "b" {
		t.Errorf("the first two are %+v", got)
	}
}
