package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// keysHomes are the files that make the texts of keys and take them apart: those of clusters, and
// those of documents below a project.
var keysHomes = []string{"src/api/v2/key.go", "src/api/v2/projectkey.go"}

// plusUsers are the other files that put a "+" between strings or look for one, with what
// the "+" means there.
var plusUsers = map[string]string{
	"src/emco/internal/manifest/scalar.go":              "the sign of a number in YAML",
	"src/emco/internal/syncer/paths.go":                 "the name of an object's file, with its kind",
	"src/emco/internal/syncer/syncertest/syncertest.go": "backends must refuse keys that are not valid",
	"src/simfleet/internal/fetch/shared.go":             "whether a folder is a cluster's, asked for every file of a fleet",
}

// Keys are made and read by the key types of package v2 alone, in all modules. Tests may write
// them as text.
func TestKeysAreMadeInOnePlace(t *testing.T) {
	t.Parallel()
	seen, used := 0, map[string]bool{}
	root := os.DirFS(repository)
	for _, top := range []string{"src", "scripts"} {
		err := fs.WalkDir(root, top, func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || slices.Contains(keysHomes, name) {
				return err
			}
			seen++
			files := token.NewFileSet()
			file, err := parser.ParseFile(files, path.Join(repository, name), nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			for _, found := range gluedKeys(file) {
				used[name] = true
				if plusUsers[name] == "" {
					t.Errorf("%s:%d: %s; use the key types of package v2", name, files.Position(found.at).Line, found.what)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if seen < 300 {
		t.Errorf("only %d files were looked at, want 300 at least", seen)
	}
	for name := range plusUsers {
		if !used[name] {
			t.Errorf("%s has no \"+\" that needs an exception", name)
		}
	}
}

// glue is a place that makes a key by hand or takes it apart.
type glue struct {
	at   token.Pos
	what string
}

var plusFormat = regexp.MustCompile(`%[sqv]\+%[sqv]`)

// inCollection matches paths of collections, which code completes with the name of a document.
var inCollection = regexp.MustCompile(`(^|/)(cluster-providers|projects|composite-apps|deployment-intent-groups|logical-clouds)/$`)

// gluedKeys returns the places in a file, except constants: those name fixed places.
func gluedKeys(file *ast.File) (out []glue) {
	add := func(n ast.Node, format string, args ...any) {
		out = append(out, glue{n.Pos(), fmt.Sprintf(format, args...)})
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GenDecl:
			return n.Tok != token.CONST
		case *ast.BinaryExpr:
			for _, operand := range []ast.Expr{n.X, n.Y} {
				text, ok := literal(operand)
				if ok && n.Op == token.ADD && (text == "+" || inCollection.MatchString(text)) {
					add(n, "%q is part of a sum", text)
				}
			}
		case *ast.CallExpr:
			if called, ok := n.Fun.(*ast.SelectorExpr); ok && isPackage(called.X, "strings") {
				if slices.ContainsFunc(n.Args, func(arg ast.Expr) bool { text, ok := literal(arg); return ok && text == "+" }) {
					add(n, "strings.%s looks for %q", called.Sel.Name, "+")
				}
			}
		case *ast.BasicLit:
			if text, ok := literal(n); ok && plusFormat.MatchString(text) {
				add(n, "%q is a format", text)
			}
		}
		return true
	})
	return out
}

func isPackage(e ast.Expr, name string) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == name
}

// literal returns the value of a string literal.
func literal(e ast.Expr) (string, bool) {
	l, ok := e.(*ast.BasicLit)
	if !ok || l.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(l.Value)
	return text, err == nil
}

// The check finds each kind of glued key.
func TestGluedKeysAreFound(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]int{
		`provider + "+" + cluster`:                                    1,
		`vars["p"] + "+" + strings.Join(a, "/")`:                      1,
		`f(list("sim" + "+"))`:                                        1,
		`"/v2/cluster-providers/" + p`:                                1,
		`fmt.Sprintf("%s+%s", p, c)`:                                  1,
		`fmt.Errorf("%v+%v: %w", p, c, err)`:                          1,
		`cut(strings.Cut(key, "+"))`:                                  1,
		`strings.Split(key, "+")`:                                     1,
		`strings.Join([]string{p, c}, "+")`:                           1,
		`v2.NewClusterKey(p, c).String()`:                             0,
		`strings.Cut(key, "/")`:                                       0,
		`"cluster-providers/{clusterProvider}"`:                       0,
		`"projects/" + p`:                                             1,
		`app + "/deployment-intent-groups/" + g`:                      1,
		`"/v2/views/projects/" + p`:                                   1,
		`app + "/deployment-intent-groups"`:                           0,
		`func() { const at = "cluster-providers/" + fleet.Provider }`: 0,
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "", "package p\nvar x = "+code, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if got := gluedKeys(file); len(got) != want {
			t.Errorf("%s: %v, want %d", code, got, want)
		}
	}
}
