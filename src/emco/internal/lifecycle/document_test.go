package lifecycle

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
)

var update = flag.Bool("update", false, "rewrite what is generated in docs/lifecycle.md")

const document = "../../../../docs/lifecycle.md"

// The diagrams and tables of the document stand between marks; the text around them is
// written by hand.
func TestTheDocumentIsCurrent(t *testing.T) {
	old, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	text := string(old)
	for name, table := range map[string]Table{"groups": GroupTable(), "clouds": CloudTable(), "networks": NetworkTable()} {
		text = replace(t, text, name, diagram(table)+"\n"+matrix(table))
	}
	if text == string(old) {
		return
	}
	if !*update {
		t.Fatalf("%s does not show the tables as they are; make gen rewrites it", document)
	}
	if err := os.WriteFile(document, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// replace puts what is generated between the marks of a name.
func replace(t *testing.T, text, name, generated string) string {
	t.Helper()
	begin, end := "<!-- begin "+name+": generated, see make gen -->\n", "<!-- end "+name+" -->"
	before, rest, found := strings.Cut(text, begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s lacks the marks of %s", document, name)
	}
	return before + begin + generated + end + after
}

// states lists all states.
func states() (out []appcontext.State) {
	for s := appcontext.Created; s <= appcontext.TerminateStopped; s++ {
		out = append(out, s)
	}
	return out
}

// words is an action with its condition.
func words(a Action, step Transition) string {
	if step.If == Always {
		return a.String()
	}
	return a.String() + " " + step.If.String()
}

// diagram draws a table for Mermaid: an arrow for each pair of states, with all actions
// that lead from one to the other.
func diagram(table Table) string {
	var b strings.Builder
	b.WriteString("```mermaid\nstateDiagram-v2\n    [*] --> Created\n")
	for _, from := range states() {
		for _, to := range states() {
			var actions []string
			for _, e := range Actions() {
				if step, ok := table[e][from]; ok && step.To == to {
					actions = append(actions, words(e, step))
				}
			}
			if len(actions) > 0 {
				fmt.Fprintf(&b, "    %s --> %s: %s\n", from, to, strings.Join(actions, ", "))
			}
		}
	}
	b.WriteString("```\n")
	return b.String()
}

// matrix writes a table as one: a row a state, a column an action.
func matrix(table Table) string {
	var b strings.Builder
	b.WriteString("| in state |")
	rule := "|---|"
	for _, e := range Actions() {
		if len(table[e]) > 0 {
			b.WriteString(" " + e.String() + " |")
			rule += "---|"
		}
	}
	b.WriteString("\n" + rule + "\n")
	for _, s := range states() {
		row, allowed := "| "+s.String()+" |", false
		for _, e := range Actions() {
			if len(table[e]) == 0 {
				continue
			}
			cell := "409"
			if step, ok := table[e][s]; ok {
				cell, allowed = strings.TrimSpace(step.To.String()+" "+step.If.String()), true
			}
			row += " " + cell + " |"
		}
		if allowed {
			b.WriteString(row + "\n")
		}
	}
	return b.String()
}
