// Package archtest has checks for tests: which packages a module may import and link, and whether structs name what
// their mutexes guard. Its own test checks this module,
// which needs the standard library only, so that every module can use it.
package archtest

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Rule returns what is wrong with the import name of the package in folder pkg, or of its
// tests; "" if it is allowed.
type Rule func(pkg, name string, test bool) string

// Check reads the imports of all Go files below top and fails the test for each that
// breaks the rule, or if there are fewer files than least.
func Check(t *testing.T, top string, least int, rule Rule) {
	t.Helper()
	seen := 0
	err := fs.WalkDir(os.DirFS(top), ".", func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(file, ".go") {
			return err
		}
		seen++
		names, err := imports(path.Join(top, file))
		for _, name := range names {
			if why := rule(path.Dir(file), name, strings.HasSuffix(file, "_test.go")); why != "" {
				t.Errorf("%s imports %s: %s", file, name, why)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen < least {
		t.Errorf("only %d files were looked at, want %d at least", seen, least)
	}
}

// Module is what the packages of a module may import besides the standard library.
type Module struct {
	Path   string
	Arrows map[string]Arrow // by folder below the module's; "." is the module's own package
	Never  []string         // what no package may import, tests included, with all packages below
}

// Arrow is what one package may import; its tests may import anything except Never.
type Arrow struct {
	Own    []string // folders of the same module
	Others []string // packages; a name that ends in "/" stands for all packages below it
}

// Fault is the Rule of the module.
func (m Module) Fault(pkg, name string, test bool) string {
	may, listed := m.Arrows[pkg]
	own, inside := strings.CutPrefix(name, m.Path+"/")
	switch {
	case !listed:
		return "the package has no row in the table of arrows; add one"
	case Below(name, m.Never):
		return "no package here may import it"
	case test || standard(name):
		return ""
	case inside && !slices.Contains(may.Own, own):
		return "arrow goes the wrong way"
	case !inside && !slices.ContainsFunc(may.Others, func(p string) bool { return name == p || strings.HasSuffix(p, "/") && strings.HasPrefix(name, p) }):
		return "not a package that it may import"
	}
	return ""
}

// Below reports whether a package is one of these, or below one of them.
func Below(name string, packages []string) bool {
	return slices.ContainsFunc(packages, func(p string) bool { return name == p || strings.HasPrefix(name, p+"/") })
}

// standard reports whether a package is of the standard library: no other has a first part
// without a dot.
func standard(name string) bool {
	first, _, _ := strings.Cut(name, "/")
	return !strings.Contains(first, ".")
}

// CheckLinked fails the test for each package that the one in folder top links although why
// returns a reason against it, or if there are fewer packages than least. It leaves out the
// standard library.
func CheckLinked(t *testing.T, top string, least int, why func(pkg string) string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", ".")
	cmd.Dir = top
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	packages := slices.DeleteFunc(strings.Fields(string(out)), standard)
	if len(packages) < least {
		t.Fatalf("go list names only %d packages, want %d at least", len(packages), least)
	}
	for _, p := range packages {
		if reason := why(p); reason != "" {
			t.Errorf("%s is linked: %s", p, reason)
		}
	}
}

// imports lists what a file imports. The test process opens it, so that the test cache
// notices edits.
func imports(file string) (names []string, err error) {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
	if err != nil {
		return nil, err
	}
	for _, spec := range parsed.Imports {
		name, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, nil
}
