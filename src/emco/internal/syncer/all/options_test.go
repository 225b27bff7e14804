package all_test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/emco/internal/syncer"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer/all"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer/execplugin"
)

var update = flag.Bool("update", false, "rewrite the option tables in docs/backends")

// The marks between which the table of a page is made.
const (
	begin = "<!-- options: made by make gen -->\n"
	end   = "<!-- end of options -->\n"
)

// TestOptionTables compares the tables of docs/backends with the options that backends have:
// their names, their comments, and the examples of the contract test.
func TestOptionTables(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	plugins, err := execplugin.Find([]string{"kapp=" + self}, execplugin.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	r := all.On(all.Platforms{Plugins: plugins})
	for _, name := range r.Names() {
		page := filepath.Join("../../../../../docs/backends", strings.ToLower(name)+".md")
		if err := checkPage(page, r, name); err != nil {
			t.Error(err)
		}
	}
}

// byHand are backends whose tables are written by hand, because they explain several
// options together. They must name all keys.
var byHand = map[string]bool{"azureArcV2": true, "oci": true, "s3": true}

func checkPage(page string, r *syncer.Registry, name string) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	if byHand[name] {
		return named(page, string(text), r.OptionsOf(name))
	}
	table, err := optionTable(r, name)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return fill(page, string(text), table, *update)
}

// named requires that a page names all keys.
func named(page, text string, options reflect.Type) error {
	var missing []string
	for _, field := range reflect.VisibleFields(options) {
		if key := keyOf(field); key != "" && !strings.Contains(text, "`"+key+"`") {
			missing = append(missing, key)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("%s: lacks %s", page, strings.Join(missing, ", "))
	}
	return nil
}

// keyOf is the key that a field stands for, "" if none.
func keyOf(field reflect.StructField) string {
	key, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	if field.Anonymous {
		return ""
	}
	return key
}

// fill compares the table of a page, or puts it there.
func fill(page, text, table string, write bool) error {
	before, rest, begun := strings.Cut(text, begin)
	have, after, ended := strings.Cut(rest, end)
	switch {
	case !begun || !ended:
		return fmt.Errorf("%s: lacks the lines %q and %q between which the table goes", page, strings.TrimSpace(begin), strings.TrimSpace(end))
	case have == table:
		return nil
	case !write:
		return fmt.Errorf("%s: the table of options is not up to date; run make gen", page)
	}
	return os.WriteFile(page, []byte(before+begin+table+end+after), 0o644)
}

// optionTable makes the table of a backend's options, in the order of the struct.
func optionTable(r *syncer.Registry, name string) (string, error) {
	options := r.OptionsOf(name)
	meanings, err := comments(options)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	out.WriteString("| key | for example | meaning |\n|---|---|---|\n")
	example := r.Example(name)
	for _, field := range reflect.VisibleFields(options) {
		key := keyOf(field)
		if key == "" {
			continue
		}
		meaning := meanings[field.Name]
		if meaning == "" {
			return "", fmt.Errorf("field %s of %s has no comment", field.Name, options)
		}
		value := example[key]
		if value == "planted-credential" {
			value = ""
		}
		fmt.Fprintf(&out, "| %s | %s | %s |\n", code(key), code(value), meaning)
	}
	return out.String(), nil
}

func code(text string) string {
	switch text {
	case "":
		return ""
	case "*":
		return "others"
	}
	return "`" + text + "`"
}

// comments returns the comments of the fields of a struct of this module. The
// name of the field, with which a comment begins, is cut.
func comments(of reflect.Type) (map[string]string, error) {
	folder := filepath.Join("..", path.Base(of.PkgPath()))
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			spec, isType := n.(*ast.TypeSpec)
			if !isType || spec.Name.Name != of.Name() {
				return true
			}
			if s, isStruct := spec.Type.(*ast.StructType); isStruct {
				collect(s, out)
			}
			return false
		})
	}
	return out, nil
}

func collect(s *ast.StructType, into map[string]string) {
	for _, field := range s.Fields.List {
		text := field.Doc.Text()
		if text == "" {
			text = field.Comment.Text()
		}
		for _, name := range field.Names {
			into[name.Name] = meaning(name.Name, text)
		}
	}
}

// meaning is a comment in one line, as a cell of a table.
func meaning(field, comment string) string {
	text := strings.Join(strings.Fields(comment), " ")
	for _, verb := range []string{" is ", " are ", " "} {
		if rest, cut := strings.CutPrefix(text, field+verb); cut {
			text = rest
			break
		}
	}
	return strings.ReplaceAll(strings.TrimSuffix(text, "."), "|", "\\|")
}
