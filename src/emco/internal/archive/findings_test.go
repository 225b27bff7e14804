package archive_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/emco/internal/archive"
	"github.com/emco-orchestrator/emco/src/emco/internal/render/rendertest"
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
		if err := archive.Check(bytes.NewReader(packed), archive.Default()); err == nil || !strings.Contains(err.Error(), "form of Unicode (NFC, NFD) only") {
			t.Errorf("%s: got %v", name, err)
		}
	}
	packed, err := rendertest.Pack(map[string]string{"web/caf\u00e9.yaml": "a", "web/cafe.yaml": "b"})
	if err != nil {
		t.Fatal(err)
	}
	if err := archive.Check(bytes.NewReader(packed), archive.Default()); err != nil {
		t.Errorf("different names: %v", err)
	}
}
