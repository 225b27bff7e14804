// Package archtest checks imports: it reads what the packages of a module import, for
// tests that define what they may. It is for tests alone. Its own test checks this module,
// which needs the standard library only, so that every module can use it.
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
