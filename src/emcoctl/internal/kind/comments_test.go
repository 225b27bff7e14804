package kind_test

import (
	"encoding/json"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/kind"
)

var update = flag.Bool("update", false, "rewrite comments.json and limits.json")

// TestLimits compares limits.json with the pages of the reference.
func TestLimits(t *testing.T) {
	t.Parallel()
	want := map[string]map[string]string{}
	for _, k := range kind.All() {
		if k.Type != "" {
			want[k.Type] = limitsOf(t, k.Type)
		}
	}
	if *update {
		text, err := json.MarshalIndent(want, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile("limits.json", append(text, '\n'), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	for _, k := range kind.All() {
		have, err := k.Limits()
		if err != nil || !maps.Equal(have, want[k.Type]) {
			t.Errorf("the limits of %s are %v, %v; those of the reference %v: run make gen", k.Type, have, err, want[k.Type])
		}
	}
	if got := want["RoleBinding"]["spec.role"]; got != "required; a name" {
		t.Errorf("the limits of a binding's role are %q", got)
	}
}

// limitsOf reads the table of a page of the reference: | `member` | type | default | limits | description |.
func limitsOf(t *testing.T, name string) map[string]string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("../../../../docs/reference/documents", strings.ToLower(name)+".md"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(line, " | ")
		member, found := strings.CutPrefix(cells[0], "| `")
		if !found || len(cells) < 5 {
			continue
		}
		path := strings.NewReplacer("`", "", "[]", "", ".*", "").Replace(member)
		text := strings.TrimSpace(cells[3])
		if byDefault := strings.Trim(cells[2], " `"); byDefault != "" {
			text = strings.TrimPrefix(text+"; default "+byDefault, "; ")
		}
		if text != "" {
			out[path] = text
		}
	}
	return out
}

// TestComments compares comments.json with the types of documents.
func TestComments(t *testing.T) {
	t.Parallel()
	all := commentsOf(t, "../../../api/v2/*.go")
	want := map[string]string{}
	take := func(name string) {
		if all[name] != "" {
			want[name] = all[name]
		}
	}
	var walk func([]v2.Member)
	walk = func(members []v2.Member) {
		for _, m := range members {
			take(m.Field)
			owner, _, _ := strings.Cut(m.Field, ".")
			take(owner)
			walk(m.Members)
		}
	}
	for _, k := range kind.All() {
		take(k.Type)
		walk(k.Members)
	}
	if *update {
		text, err := json.MarshalIndent(want, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile("comments.json", append(text, '\n'), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	have, err := kind.Comments()
	if err != nil || len(want) < 40 || !maps.Equal(have, want) {
		t.Errorf("comments.json (%d comments, %v) is not that of the types (%d): run make gen", len(have), err, len(want))
	}
}

// commentsOf returns the comments of types and of their fields in Go files.
func commentsOf(t *testing.T, glob string) map[string]string {
	t.Helper()
	files, err := filepath.Glob(glob)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			decl, ok := n.(*ast.GenDecl)
			if !ok || decl.Tok != token.TYPE {
				return true
			}
			for _, spec := range decl.Specs {
				named := spec.(*ast.TypeSpec)
				out[named.Name.Name] = strings.Join(strings.Fields(decl.Doc.Text()+named.Doc.Text()), " ")
				body, ok := named.Type.(*ast.StructType)
				if !ok {
					continue
				}
				for _, field := range body.Fields.List {
					for _, id := range field.Names {
						out[named.Name.Name+"."+id.Name] = strings.Join(strings.Fields(field.Doc.Text()+" "+field.Comment.Text()), " ")
					}
				}
			}
			return true
		})
	}
	return out
}

func TestLookup(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"clusters":                            "",
		"cl.spec.gitops":                      "gitOps",
		"dig.spec.overrideValues.values":      "values",
		"app-intents.spec.intent.allOf.anyOf": "anyOf",
	} {
		if _, m, at, err := kind.Lookup(path); err != nil || m.Name != want || at[strings.LastIndexByte(at, '.')+1:] != want {
			t.Errorf("Lookup(%s) = %q at %q, %v; want %q", path, m.Name, at, err, want)
		}
	}
	for path, want := range map[string]string{
		"clusterz":                   `"clusterz" is no kind of documents; did you mean "clusters"?`,
		"clusters.spec.gitOp":        `"gitOp" is no member of clusters.spec; did you mean "gitOps"?`,
		"clusters.spec.gitOps.zebra": `"zebra" is no member of clusters.spec.gitOps; there are gitOpsType, gitOpsReferenceObject, gitOpsResourceObject, gitOpsRefMode, gitOpsShard, gitOpsFanOut, gitOpsMoved`,
		"zebras":                     `"zebras" is no kind of documents; list them with: emcoctl api-resources`,
		"clusters.metadata.name.x":   `"x" is no member of clusters.metadata.name; it has no members`,
	} {
		if _, _, _, err := kind.Lookup(path); err == nil || err.Error() != want {
			t.Errorf("Lookup(%s): %v, want %s", path, err, want)
		}
	}
}

func TestPaths(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"projects":    "projects",
		"clusters":    "cluster-providers/{name}/clusters",
		"app-intents": "projects/{name}/composite-apps/{name}/{version}/deployment-intent-groups/{name}/generic-placement-intents/{name}/app-intents",
	} {
		if k, _ := kind.Of(name); k.Path() != want {
			t.Errorf("the path of %s is %s, want %s", name, k.Path(), want)
		}
	}
}

// What explain prints is for people who write documents: it names members, not the types and
// functions of our source.
func TestExplainedMembersNameNothingOfTheSource(t *testing.T) {
	t.Parallel()
	comments, err := kind.Comments()
	if err != nil {
		t.Fatal(err)
	}
	ours := regexp.MustCompile(`zero value|\b(Masked|Unmask|Validate|GitOpsTypes?|AllOf|AnyOf|Bake|[A-Z][A-Za-z]+Spec|[A-Z][A-Za-z]+Selection)\b`)
	shown := func(path, text string) {
		if found := ours.FindString(text); found != "" {
			t.Errorf("explain %s names %s: %s", path, found, text)
		}
	}
	var walk func(path string, members []v2.Member)
	walk = func(path string, members []v2.Member) {
		for _, m := range members {
			if comments[m.Field] == "" {
				t.Errorf("explain %s.%s has no text: %s needs a comment", path, m.Name, m.Field)
			}
			shown(path+"."+m.Name, comments[m.Field])
			walk(path+"."+m.Name, m.Members)
		}
	}
	for _, k := range kind.All() {
		shown(k.Collection, comments[k.Type])
		walk(k.Collection, k.Members)
	}
}
