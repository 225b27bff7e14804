package patch_test

import (
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/patch"
)

var (
	deployment = manifest.ID{Group: "apps", Version: "v1", Kind: "Deployment", Name: "web"}
	custom     = manifest.ID{Group: "example.org", Version: "v1", Kind: "Widget", Name: "web"}
)

const containers = `{"spec":{"template":{"spec":{"containers":[{"name":"web","image":"a"},{"name":"side","image":"b"}]}}}}`

func TestPatchesChangeObjects(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		form    patch.Type
		id      manifest.ID
		content string
		text    string
		want    string
	}{
		{"replace", patch.JSON, deployment, `{"a":{"b":1}}`, `[{"op":"replace","path":"/a/b","value":2}]`, `{"a":{"b":2}}`},
		{"remove without a value", patch.JSON, deployment, `{"a":1,"b":2}`, `[{"op":"remove","path":"/a"}]`, `{"b":2}`},
		{"move", patch.JSON, deployment, `{"a":1}`, `[{"op":"move","from":"/a","path":"/b"}]`, `{"b":1}`},
		{"large numbers keep their digits", patch.JSON, custom, `{"a":12345678901234567890}`, `[{"op":"add","path":"/b","value":1}]`, `{"a":12345678901234567890,"b":1}`},
		{"merge replaces lists", patch.Merge, deployment, `{"a":[1,2],"b":1}`, `{"a":[3],"b":null}`, `{"a":[3]}`},
		{
			"strategic merge keeps the other containers", patch.Strategic, deployment, containers,
			`{"spec":{"template":{"spec":{"containers":[{"name":"side","image":"c"}]}}}}`,
			`{"spec":{"template":{"spec":{"containers":[{"image":"a","name":"web"},{"image":"c","name":"side"}]}}}}`,
		},
		{
			"lists of custom kinds have no keys", patch.Strategic, custom, containers,
			`{"spec":{"template":{"spec":{"containers":[{"name":"side","image":"c"}]}}}}`,
			`{"spec":{"template":{"spec":{"containers":[{"name":"side","image":"c"}]}}}}`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := patch.Apply(tt.form, tt.id, []byte(tt.content), []byte(tt.text))
			if err != nil || string(got) != tt.want {
				t.Errorf("Apply = %s, %v, want %s", got, err, tt.want)
			}
		})
	}
}

func TestBadPatchesAreRefused(t *testing.T) {
	t.Parallel()
	many := "[" + strings.Repeat(`{"op":"test","path":"","value":{}},`, patch.MaxOperations) + `{"op":"test","path":"","value":{}}]`
	grow := `[{"op":"copy","from":"/a","path":"/b"},{"op":"copy","from":"/a","path":"/c"},{"op":"copy","from":"/a","path":"/d"}]`
	for _, tt := range []struct {
		name, content, text, want string
		form                      patch.Type
	}{
		{"a missing path", `{}`, `[{"op":"replace","path":"/a/b","value":2}]`, "json patch: replace operation does not apply", patch.JSON},
		{"a failing test", `{"a":1}`, `[{"op":"test","path":"/a","value":2}]`, "json patch: testing value /a failed", patch.JSON},
		{"no list", `{}`, `{}`, "json patch: ", patch.JSON},
		{"no JSON", `{}`, `{`, "jsonmerge patch: ", patch.Merge},
		{"a strategic patch of the wrong form", containers, `{"spec":{"template":{"spec":{"containers":[1]}}}}`, "merge patch: ", patch.Strategic},
		{"many operations", `{}`, many, "above the limit of 1000", patch.JSON},
		{"a large text", `{}`, `{"a":"` + strings.Repeat("x", patch.MaxText) + `"}`, "above the limit of 1048576", patch.Merge},
		{"copies that grow", `{"a":"` + strings.Repeat("x", 1<<20) + `"}`, grow, "json patch: ", patch.JSON},
		{"an unknown type", `{}`, `{}`, "neither json nor merge", "yaml"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := patch.Apply(tt.form, deployment, []byte(tt.content), []byte(tt.text))
			if !errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Apply = %.200s, %.200v, want Invalid with %q", got, err, tt.want)
			}
		})
	}
}

// FuzzApply looks for patches that end the process or make what is no JSON.
func FuzzApply(f *testing.F) {
	f.Add("json", `[{"op":"add","path":"/spec/replicas","value":2}]`)
	f.Add("merge", `{"spec":{"template":{"spec":{"containers":[{"name":"web","$patch":"delete"}]}}}}`)
	f.Add("jsonmerge", `{"spec":null}`)
	f.Fuzz(func(t *testing.T, form, text string) {
		got, err := patch.Apply(patch.Type(form), deployment, []byte(containers), []byte(text))
		if err != nil && !errs.Is(err, errs.Invalid) {
			t.Errorf("Apply = %v, want Invalid", err)
		}
		if err == nil && len(got) == 0 {
			t.Errorf("Apply made nothing")
		}
	})
}
