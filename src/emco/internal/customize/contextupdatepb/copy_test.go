package contextupdatepb_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// The controller of examples/04-controller is a module of its own, which cannot import internal
// packages, so it has a copy of the generated files.
func TestTheExampleHasTheGeneratedFiles(t *testing.T) {
	t.Parallel()
	const example = "../../../../../examples/04-controller/contextupdatepb"
	generated, err := filepath.Glob("*.pb.go")
	if err != nil || len(generated) < 2 {
		t.Fatalf("the generated files are %v: %v", generated, err)
	}
	for _, name := range generated {
		want, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join(example, name)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s differs from the copy in examples/04-controller (%v): run make gen", name, err)
		}
	}
	copies, err := filepath.Glob(filepath.Join(example, "*"))
	if err != nil || len(copies) != len(generated) {
		t.Errorf("the example has %v, want the files %v: %v", copies, generated, err)
	}
}
