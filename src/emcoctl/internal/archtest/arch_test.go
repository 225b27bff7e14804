package archtest_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/emco-orchestrator/emco/src/emcoctl"

// levels says for each package how high it stands: it may import lower ones only.
var levels = map[string]int{
	"internal/diff":     0,
	"internal/nearest":  0,
	"internal/plain":    0,
	"internal/jsontree": 0,
	"internal/archtest": 0,
	"keepdeps":          0,
	"internal/anchor":   1,
	"internal/document": 2,
	"internal/config":   2,
	"internal/progress": 2,
	"internal/report":   3,
	"internal/engine":   4,
	"internal/preview":  4,
	"internal/cmd":      5,
	".":                 6,
}

// outside lists what may be imported from other modules, besides src/api.
var outside = map[string][]string{
	"internal/document": {"go.yaml.in/yaml/v3"},
	"internal/config":   {"go.yaml.in/yaml/v3"},
	"internal/report":   {"go.yaml.in/yaml/v3"},
	"internal/cmd":      {"github.com/spf13/cobra", "golang.org/x/term"},
}

func TestArrows(t *testing.T) {
	t.Parallel()
	err := filepath.WalkDir("../..", func(file string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return err
		}
		rel, err := filepath.Rel("../..", file)
		if err != nil {
			return err
		}
		check(t, path.Dir(filepath.ToSlash(rel)), file)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func check(t *testing.T, pkg, file string) {
	t.Helper()
	level, ok := levels[pkg]
	if !ok {
		t.Errorf("%s: package %s is new; say in levels where it belongs", file, pkg)
		return
	}
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
	if err != nil {
		t.Error(err)
		return
	}
	for _, spec := range f.Imports {
		name, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Error(err)
			continue
		}
		own, inside := strings.CutPrefix(name, module+"/")
		switch {
		case pkg == "keepdeps":
		case inside && levels[own] >= level:
			t.Errorf("%s: %s must not import %s", file, pkg, own)
		case !inside && strings.Contains(name, ".") && !allowed(pkg, name):
			t.Errorf("%s: %s must not import %s", file, pkg, name)
		}
	}
}

func allowed(pkg, name string) bool {
	if strings.HasPrefix(name, "github.com/emco-orchestrator/emco/src/api/") {
		return true
	}
	for _, ok := range outside[pkg] {
		if name == ok {
			return true
		}
	}
	return false
}
