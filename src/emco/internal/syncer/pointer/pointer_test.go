package pointer_test

import (
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer/pointer"
)

func TestNamesAreValidInKubernetesAndDistinct(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.String().Draw(t, "a"), rapid.String().Draw(t, "b")
		most := rapid.IntRange(12, 63).Draw(t, "most")
		x, y := pointer.Short(a, most), pointer.Short(b, most)
		if len(x) > most || len(validation.IsDNS1123Label(x)) > 0 {
			t.Fatalf("Short(%q, %d) = %q is no name", a, most, x)
		}
		if (x == y) != (a == b) {
			t.Fatalf("Short(%q) = %q, Short(%q) = %q", a, x, b, y)
		}
	})
	if got := pointer.Name("emco-7-web"); got != "emco-7-web" {
		t.Errorf("a name that is fine became %q", got)
	}
}

func TestAnObjectHasOnlyGivenMembers(t *testing.T) {
	t.Parallel()
	text, err := json.Marshal(pointer.Object{APIVersion: "v1", Kind: "K", Metadata: pointer.Metadata{Name: "n"}})
	if want := `{"apiVersion":"v1","kind":"K","metadata":{"name":"n"}}`; err != nil || string(text) != want {
		t.Errorf("got %s, %v; want %s", text, err, want)
	}
}

func TestAFileHoldsItsObjectsInOrder(t *testing.T) {
	t.Parallel()
	text, err := pointer.File([]pointer.Object{
		{APIVersion: "v1", Kind: "B", Metadata: pointer.Metadata{Name: "b"}, Members: map[string]any{"roleRef": "r"}},
		{APIVersion: "v1", Kind: "A", Metadata: pointer.Metadata{Name: "a"}, Spec: map[string]int{"x": 1}},
	})
	want := "apiVersion: v1\nkind: B\nmetadata:\n  name: b\nroleRef: r\n---\napiVersion: v1\nkind: A\nmetadata:\n  name: a\nspec:\n  x: 1\n"
	if err != nil || string(text) != want {
		t.Errorf("got %s, %v; want %s", text, err, want)
	}
}

func TestLabelsAreValidInKubernetes(t *testing.T) {
	t.Parallel()
	for _, app := range []string{"", "web", "We_b", strings.Repeat("long", 40)} {
		for key, value := range pointer.Labels(syncer.Target{Deployment: "7"}, app) {
			if why := validation.IsValidLabelValue(value); len(why) > 0 {
				t.Errorf("app %q: label %s=%q: %v", app, key, value, why)
			}
		}
	}
}

func TestCheckName(t *testing.T) {
	t.Parallel()
	if err := pointer.CheckName("b", "secretRef", "no name"); !errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), "secretRef") {
		t.Errorf("CheckName = %v, want Invalid that names the key", err)
	}
	for _, fine := range []string{"", "a.b"} {
		if err := pointer.CheckName("b", "secretRef", fine); err != nil {
			t.Errorf("CheckName(%q) = %v", fine, err)
		}
	}
}
