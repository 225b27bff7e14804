package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
)

// CheckGuards fails the test for each struct below top that has a mutex and does not name what the mutex guards: a comment of
// the struct or of a field must have the word "guarded" or "guards", or name when the mutex is "held" if it guards no field.
// Tests are left out.
func CheckGuards(t *testing.T, top string) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(top), ".", func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path.Join(top, file))
		if err != nil {
			return err
		}
		names, err := unguarded(string(text))
		for _, name := range names {
			t.Errorf("%s: %s has a mutex, and no field names it as its guard", file, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

var namesGuard = regexp.MustCompile(`\b(?:guarded|guards|held)\b`)

// unguarded returns the structs of a file whose mutex guards nothing by name.
func unguarded(text string) (names []string, err error) {
	parsed, err := parser.ParseFile(token.NewFileSet(), "", text, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	for _, decl := range parsed.Decls {
		of, ok := decl.(*ast.GenDecl)
		if !ok || of.Tok != token.TYPE {
			continue
		}
		for _, spec := range of.Specs {
			named := spec.(*ast.TypeSpec)
			fields, ok := named.Type.(*ast.StructType)
			if ok && hasMutex(fields) && !namesGuard.MatchString(of.Doc.Text()+named.Doc.Text()+commentsOf(fields)) {
				names = append(names, named.Name.Name)
			}
		}
	}
	return names, nil
}

func hasMutex(s *ast.StructType) bool {
	for _, f := range s.Fields.List {
		of, ok := f.Type.(*ast.SelectorExpr)
		if !ok {
			continue
		}
		if from, ok := of.X.(*ast.Ident); ok && from.Name == "sync" && (of.Sel.Name == "Mutex" || of.Sel.Name == "RWMutex") {
			return true
		}
	}
	return false
}

func commentsOf(s *ast.StructType) (text string) {
	for _, f := range s.Fields.List {
		text += f.Doc.Text() + f.Comment.Text()
	}
	return text
}
