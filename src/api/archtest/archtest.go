// Package archtest keeps the arrows of imports: it reads what the packages of a module
// import, for the tests that say what they may. It is for tests alone. Its own test keeps
// the arrows of this module: it needs the standard library only, so that everybody can
// afford it.
package archtest

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"testing"
)

// Rule says what is wrong with the import name of the package in folder pkg, or of its
// tests; nothing if it is fine.
type Rule func(pkg, name string, test bool) string

// Check reads the imports of all Go files below top, of which there must be at least a
// number, and fails the test for each that breaks the rule.
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

// imports lists what a file imports. It is opened by this process, so that an edit is not
// served from the test cache.
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
