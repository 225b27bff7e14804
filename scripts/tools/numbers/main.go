// Command numbers compares the code with the project's style: lengths of functions and files,
// parameters, empty interfaces, comments, names of types and prose. It prints the wanted values
// beside the figures, and other figures are no errors.
package main

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// treeStats contains the counts of one folder.
type treeStats struct {
	code, comments, tests int
	functions             []int // lines of each
	files                 []int // lines of each
	wide, empty           int   // functions with more than five parameters; uses of any
	types, oneWord        int   // unexported types; those named by one everyday word
}

func main() {
	docs := flag.String("docs", "", "more files and folders with prose, separated by commas")
	worst := flag.Int("worst", 10, "how many files with most phrases are listed")
	flag.Parse()
	if err := run(flag.Args(), strings.FieldsFunc(*docs, func(r rune) bool { return r == ',' }), *worst); err != nil {
		fmt.Fprintln(os.Stderr, "numbers:", err)
		os.Exit(1)
	}
}

func run(roots, docs []string, worst int) error {
	fmt.Printf("%-34s %6s %6s %5s %8s %5s %6s %7s %5s\n", "tree", "code", "test%", "comm%", "fn 50/95", "p>5%", "any/k", "file95", "1word")
	for _, root := range roots {
		t, err := count(root)
		if err != nil {
			return err
		}
		t.print(root)
	}
	fmt.Println("wanted: fn median <= 12, p95 <= 60; file p95 <= 500; p>5 <= 1%; any/k <= 3; comments 12-18%;")
	fmt.Println("1word, unexported types named by one everyday word: 0-12 % in well-kept Go projects")
	return printProse(append(roots, docs...), worst)
}

func count(root string) (*treeStats, error) {
	t := &treeStats{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && d.Name() == "testdata" {
			return fs.SkipDir
		}
		if filepath.Ext(path) != ".go" || strings.HasSuffix(path, ".pb.go") {
			return nil
		}
		return t.add(path)
	})
	return t, err
}

// add counts one file. Tests count as lines only.
func (t *treeStats) add(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	lines := strings.Count(string(text), "\n")
	if strings.HasSuffix(path, "_test.go") {
		t.tests += lines
		return nil
	}
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, path, text, parser.ParseComments)
	if err != nil {
		return err
	}
	if ast.IsGenerated(file) {
		return nil
	}
	t.code += lines
	t.files = append(t.files, lines)
	t.walk(fset, file)
	return nil
}

func (t *treeStats) walk(fset *token.FileSet, file *ast.File) {
	span := func(n ast.Node) int { return fset.Position(n.End()).Line - fset.Position(n.Pos()).Line + 1 }
	for _, group := range file.Comments {
		t.comments += span(group)
	}
	for n := range ast.Preorder(file) {
		switch n := n.(type) {
		case *ast.FuncDecl:
			t.functions = append(t.functions, span(n))
			if n.Type.Params.NumFields() > 5 {
				t.wide++
			}
		case *ast.Ident:
			if n.Name == "any" {
				t.empty++
			}
		case *ast.InterfaceType:
			if n.Methods.NumFields() == 0 {
				t.empty++
			}
		case *ast.FuncType:
			t.empty -= constraints(n.TypeParams)
		case *ast.TypeSpec:
			t.empty -= constraints(n.TypeParams)
			if !n.Name.IsExported() {
				t.types++
				if vague(n.Name.Name) {
					t.oneWord++
				}
			}
		}
	}
}

// constraints counts type parameters with the constraint any, which are no empty interfaces.
func constraints(params *ast.FieldList) (n int) {
	if params == nil {
		return 0
	}
	for _, f := range params.List {
		if id, ok := f.Type.(*ast.Ident); ok && id.Name == "any" {
			n++
		}
	}
	return n
}

func (t *treeStats) print(name string) {
	fmt.Printf("%-34s %6d %6.0f %5.0f %4d/%-3d %5.1f %6.1f %7d %4.0f%%\n", name, t.code,
		share(t.tests, t.code), share(t.comments, t.code), percentile(t.functions, 50), percentile(t.functions, 95),
		share(t.wide, len(t.functions)), share(t.empty, t.code)*10, percentile(t.files, 95), share(t.oneWord, t.types))
}

func share(part, whole int) float64 {
	if whole == 0 {
		return 0
	}
	return 100 * float64(part) / float64(whole)
}

func percentile(values []int, p int) int {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[(len(values)-1)*p/100]
}
