package objectdiff_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/contexttest"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/objectdiff"
)

func TestAnOverlayHoldsOnlySoMuch(t *testing.T) {
	t.Parallel()
	o := objectdiff.NewOverlay(nil)
	large := map[appcontext.Digest][]byte{"a": make([]byte, 256<<20)}
	for range 2 { // what is there already does not count again
		if err := o.PutBlobs(t.Context(), large); err != nil {
			t.Fatal(err)
		}
	}
	if err := o.PutBlobs(t.Context(), map[appcontext.Digest][]byte{"b": []byte("x")}); !errs.Is(err, errs.TooLarge) {
		t.Errorf("above the limit: got %v", err)
	}
}

// An object that becomes a hook, or has another version, is compared with its earlier form.
func TestChangesOfObjects(t *testing.T) {
	t.Parallel()
	contexts := contexttest.New(t)
	id := manifest.ID{Group: "apps", Version: "v1", Kind: "Deployment", Name: "web"}
	old := id
	old.Version = "v1beta1"
	crd := manifest.ID{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition", Name: "c"}
	// ref refers to an object with a number in it, which the AppContext or the overlay has.
	stored := map[appcontext.Digest][]byte{}
	ref := func(id manifest.ID, n int) appcontext.Ref {
		api := id.Version
		if id.Group != "" {
			api = id.Group + "/" + id.Version
		}
		text := fmt.Appendf(nil, `{"apiVersion":%q,"kind":%q,"metadata":{"name":%q},"spec":{"number":%d}}`, api, id.Kind, id.Name, n)
		d := manifest.DigestOf(text)
		stored[d] = text
		return appcontext.Ref{ID: id, Digest: d}
	}
	hook := appcontext.HookRef{Ref: ref(id, 1), Events: []string{"post-install"}}
	for _, tt := range []struct {
		name      string
		now, then appcontext.Bundle
		want      string
	}{
		{"the same", appcontext.Bundle{Objects: []appcontext.Ref{ref(id, 1)}}, appcontext.Bundle{Objects: []appcontext.Ref{ref(id, 1)}}, "keep"},
		{"another version", appcontext.Bundle{Objects: []appcontext.Ref{ref(old, 1)}}, appcontext.Bundle{Objects: []appcontext.Ref{ref(id, 2)}}, "change 1 2"},
		{"an object becomes a hook", appcontext.Bundle{Objects: []appcontext.Ref{ref(id, 1)}}, appcontext.Bundle{Hooks: []appcontext.HookRef{hook}}, "remove 1, add 1 post-install"},
		{"definitions stay", appcontext.Bundle{CRDs: []appcontext.Ref{ref(crd, 1)}}, appcontext.Bundle{}, "keep"},
		{"and move", appcontext.Bundle{CRDs: []appcontext.Ref{ref(crd, 1)}}, appcontext.Bundle{Objects: []appcontext.Ref{ref(crd, 1)}}, "keep"},
	} {
		o := objectdiff.NewOverlay(contexts)
		from, err := contexts.PutBundle(t.Context(), tt.now)
		if err == nil {
			err = contexts.PutBlobs(t.Context(), stored)
		}
		if err != nil {
			t.Fatal(err)
		}
		to, text, err := tt.then.Blob()
		if err == nil {
			err = o.PutBlobs(t.Context(), map[appcontext.Digest][]byte{to: text})
		}
		if err != nil {
			t.Fatal(err)
		}
		changes, err := o.Compare(t.Context(), from, to)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		var got []string
		for _, c := range changes {
			got = append(got, strings.Join(strings.Fields(c.Change+" "+number(t, c.Before)+" "+number(t, c.After)+" "+c.Hook), " "))
		}
		if all := strings.Join(got, ", "); all != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, all, tt.want)
		}
	}
	if _, err := objectdiff.NewOverlay(contexts).Compare(t.Context(), "", "unknown"); !errs.Is(err, errs.NotFound) {
		t.Errorf("a bundle that is stored nowhere: got %v", err)
	}
	if changes, err := objectdiff.NewOverlay(contexts).Compare(t.Context(), "", ""); err != nil || len(changes) > 0 || changes == nil {
		t.Errorf("nothing to nothing: got %v, %v", changes, err)
	}
}

// number returns the number in an object, empty if there is no object.
func number(t *testing.T, object json.RawMessage) string {
	t.Helper()
	if len(object) == 0 {
		return ""
	}
	var o struct {
		Spec struct{ Number int }
	}
	if err := json.Unmarshal(object, &o); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(o.Spec.Number)
}
