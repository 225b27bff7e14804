package all_test

import (
	"maps"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer/all"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer/syncertest"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncobjects"
)

// Every linked backend keeps the contract; a new line in Backends is tested by being there.
func TestBackendsKeepTheContract(t *testing.T) {
	t.Parallel()
	r := all.Backends()
	for _, name := range r.Names() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, err := r.Open(name, r.Example(name))
			if err != nil {
				t.Fatalf("Open(%s): %v", name, err)
			}
			if err := syncertest.Check(b); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestEveryBackendHasATypeOfItsName(t *testing.T) {
	t.Parallel()
	for _, name := range all.Backends().Names() {
		if got, err := syncobjects.Canonical(name); err != nil || got != name {
			t.Errorf("Canonical(%q) = %q, %v; want the name itself", name, got, err)
		}
	}
}

func TestEveryBackendAcceptsTheCommonKeys(t *testing.T) {
	t.Parallel()
	s, err := syncobjects.Read("flux", syncobjects.Object{Name: "repo", KV: []map[string]string{
		{"url": "https://git.example.org/fleet.git", "userName": "u", "gitToken": "t"},
	}}, syncobjects.Object{}, syncobjects.Rules{})
	if err != nil {
		t.Fatalf("Read: %v", err)
	}
	r := all.Backends()
	for _, name := range r.Names() {
		given := r.Example(name) // some cannot do without keys of their own
		maps.Copy(given, s.Options)
		if _, err := r.Open(name, given); err != nil {
			t.Errorf("Open(%s, %v): %v", name, s.Options, err)
		}
		if _, err := r.Open(name, syncer.Options{"colour": "red"}); !errs.Is(err, errs.Invalid) {
			t.Errorf("Open(%s) with an unknown option: %v, want Invalid", name, err)
		}
	}
}
