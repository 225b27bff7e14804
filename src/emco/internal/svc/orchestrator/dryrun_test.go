package orchestrator

import (
	"context"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
)

func TestDryRunsWaitForEachOther(t *testing.T) {
	t.Parallel()
	h := newDryRunner(nil)
	var leave []func()
	for range maxDryRunsOf {
		l, err := h.acquire(t.Context(), "p")
		if err != nil {
			t.Fatal(err)
		}
		leave = append(leave, l)
	}
	late, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := h.acquire(late, "p"); !errs.Is(err, errs.Throttled) || errs.RetryAfter(err) == 0 {
		t.Errorf("one too many: got %v, want to come back later", err)
	}
	if _, err := h.acquire(t.Context(), "q"); err != nil {
		t.Errorf("another project: %v", err)
	}
	leave[0]()
	if _, err := h.acquire(t.Context(), "p"); err != nil {
		t.Errorf("after one has left: %v", err)
	}
}

func TestADryRunHoldsOnlySoMuch(t *testing.T) {
	t.Parallel()
	m := &dryRunBlobs{held: map[appcontext.Digest][]byte{}, size: maxDryRunBytes - 1}
	one := map[appcontext.Digest][]byte{"a": []byte("x")}
	for range 2 { // what is there already does not count again
		if err := m.PutBlobs(t.Context(), one); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.PutBlobs(t.Context(), map[appcontext.Digest][]byte{"b": []byte("x")}); !errs.Is(err, errs.TooLarge) {
		t.Errorf("above the limit: got %v", err)
	}
}

// An object that becomes a hook, or has another version, is compared with its earlier form.
func TestChangesOfThings(t *testing.T) {
	t.Parallel()
	id := manifest.ID{Group: "apps", Version: "v1", Kind: "Deployment", Name: "web"}
	old := id
	old.Version = "v1beta1"
	crd := manifest.ID{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition", Name: "c"}
	hook := appcontext.HookRef{Ref: appcontext.Ref{ID: id, Digest: "1"}, Events: []string{"post-install"}}
	for _, tt := range []struct {
		name      string
		now, then appcontext.Bundle
		want      []string
	}{
		{"the same", appcontext.Bundle{Objects: []appcontext.Ref{{ID: id, Digest: "1"}}}, appcontext.Bundle{Objects: []appcontext.Ref{{ID: id, Digest: "1"}}}, []string{v2.ChangeKeep}},
		{"another version", appcontext.Bundle{Objects: []appcontext.Ref{{ID: old, Digest: "1"}}}, appcontext.Bundle{Objects: []appcontext.Ref{{ID: id, Digest: "2"}}}, []string{v2.ChangeChange}},
		{"an object becomes a hook", appcontext.Bundle{Objects: []appcontext.Ref{{ID: id, Digest: "1"}}}, appcontext.Bundle{Hooks: []appcontext.HookRef{hook}}, []string{v2.ChangeRemove, v2.ChangeAdd}},
		{"definitions stay", appcontext.Bundle{CRDs: []appcontext.Ref{{ID: crd, Digest: "1"}}}, appcontext.Bundle{}, []string{v2.ChangeKeep}},
		{"and move", appcontext.Bundle{CRDs: []appcontext.Ref{{ID: crd, Digest: "1"}}}, appcontext.Bundle{Objects: []appcontext.Ref{{ID: crd, Digest: "1"}}}, []string{v2.ChangeKeep}},
	} {
		before, after := bundleItems(tt.now), bundleItems(tt.then)
		all := mergedItems(before, after)
		if len(all) != len(tt.want) {
			t.Errorf("%s: %d things, want %d", tt.name, len(all), len(tt.want))
			continue
		}
		for i, thing := range all {
			was, there := before[thing.key()]
			_, stays := after[thing.key()]
			if got := changeOf(was, thing, there, stays); got != tt.want[i] {
				t.Errorf("%s: thing %d: got %s, want %s", tt.name, i, got, tt.want[i])
			}
		}
	}
}
