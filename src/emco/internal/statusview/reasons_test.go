package statusview_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
)

// docs/status.md describes each reason of conditions once, and no others.
func TestTheDocumentationHasAllReasonsOfConditions(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../../docs/status.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "| reason | meaning |\n|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	var described []string
	for line := range strings.Lines(table) {
		cell := strings.Split(line, "|")[1]
		for _, word := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cell, -1) {
			described = append(described, word[1])
		}
	}
	want := append(reasonsInSource(t), pair.HistoryRewritten, pair.ExternalEdit, pair.WaitingForMerge, pair.ProposalClosed)
	slices.Sort(described)
	slices.Sort(want)
	if want = slices.Compact(want); !slices.Equal(described, want) {
		t.Errorf("docs/status.md describes %q, want %q", described, want)
	}
}

// reasonsInSource returns the texts that conditions.go gives to members Reason, and its constants of reasons.
func reasonsInSource(t *testing.T) (reasons []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "conditions.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	add := func(e ast.Expr) {
		if text, ok := e.(*ast.BasicLit); ok {
			reason, err := strconv.Unquote(text.Value)
			if err != nil {
				t.Fatal(err)
			}
			reasons = append(reasons, reason)
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.KeyValueExpr:
			if key, ok := n.Key.(*ast.Ident); ok && key.Name == "Reason" {
				add(n.Value)
			}
		case *ast.AssignStmt:
			for i, to := range n.Lhs {
				if member, ok := to.(*ast.SelectorExpr); ok && member.Sel.Name == "Reason" && len(n.Rhs) == len(n.Lhs) {
					add(n.Rhs[i])
				}
			}
		case *ast.ValueSpec:
			if strings.HasPrefix(n.Names[0].Name, "reason") && len(n.Values) == 1 {
				add(n.Values[0])
			}
		}
		return true
	})
	return reasons
}
