package tarball_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/render/rendertest"
	"github.com/emco-orchestrator/emco/src/emco/internal/tarball"
)

// One name, composed and decomposed, is two files on one disk and one file on another.
func TestF77UnicodeTwinsAreRefused(t *testing.T) {
	t.Parallel()
	for name, files := range map[string]map[string]string{
		"files":       {"web/caf\u00e9.yaml": "a", "web/cafe\u0301.yaml": "b"},
		"directories": {"web/caf\u00e9/a.yaml": "a", "web/cafe\u0301/b.yaml": "b"},
		"with case":   {"web/caf\u00e9.yaml": "a", "web/CAFE\u0301.yaml": "b"},
	} {
		packed, err := rendertest.Pack(files)
		if err != nil {
			t.Fatal(err)
		}
		if err := tarball.Check(bytes.NewReader(packed), tarball.Default()); err == nil || !strings.Contains(err.Error(), "form of Unicode (NFC, NFD) only") {
			t.Errorf("%s: got %v", name, err)
		}
	}
	packed, err := rendertest.Pack(map[string]string{"web/caf\u00e9.yaml": "a", "web/cafe.yaml": "b"})
	if err != nil {
		t.Fatal(err)
	}
	if err := tarball.Check(bytes.NewReader(packed), tarball.Default()); err != nil {
		t.Errorf("different names: %v", err)
	}
}

// Manifests with very many keys are refused before the YAML library compares all with all.
func TestF15ManyKeysTakeNoQuadraticTime(t *testing.T) {
	t.Parallel()
	var keys strings.Builder
	for i := range 60_000 {
		fmt.Fprintf(&keys, "k%d: \n", i)
	}
	err := tarball.CheckChart(tarball.Tree{"web/Chart.yaml": []byte(keys.String())}, "web")
	if !errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), "60000 keys") {
		t.Errorf("a chart: %v", err)
	}
	_, err = tarball.ReadProfile(tarball.Tree{"manifest.yaml": []byte("type:\n  " + strings.ReplaceAll(keys.String(), "\n", "\n  "))})
	if !errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), "60000 keys") {
		t.Errorf("a profile: %v", err)
	}
}
