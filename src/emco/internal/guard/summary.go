package guard

import (
	"fmt"
	"slices"
	"strings"

	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
)

const (
	maxNamed  = 3  // objects that a finding names
	maxListed = 20 // breaches that a refusal lists
)

// Findings returns the breaches that do not refuse the app as one line for each policy, rule and
// text, in their order.
func Findings(breaches []Breach) (out []string) {
	type group struct{ policy, rule, text string }
	objects, order := map[group][]string{}, []group{}
	for _, b := range breaches {
		if b.Strict {
			continue
		}
		g := group{b.Policy, b.Rule, b.Text}
		if objects[g] == nil {
			order = append(order, g)
		}
		objects[g] = append(objects[g], b.Object.ID.String())
	}
	for _, g := range order {
		names := objects[g]
		text := strings.Join(names[:min(len(names), maxNamed)], ", ")
		if more := len(names) - maxNamed; more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
		out = append(out, fmt.Sprintf("%s: %s (%s: %s)", text, g.text, g.policy, g.rule))
	}
	return out
}

// Refusal returns why the app is refused, as the first breach's place and a text that lists the
// others; false if it is not refused.
func Refusal(breaches []Breach) (file string, line int, text string, refused bool) {
	strict := slices.DeleteFunc(slices.Clone(breaches), func(b Breach) bool { return !b.Strict })
	if len(strict) == 0 {
		return "", 0, "", false
	}
	var lines []string
	for i, b := range strict {
		if i == maxListed {
			lines = append(lines, fmt.Sprintf("and %d more", len(strict)-i))
			break
		}
		at := ""
		if i > 0 {
			at = place(b.Object)
		}
		lines = append(lines, fmt.Sprintf("%s%s %s (%s: %s)", at, b.Object.ID, b.Text, b.Policy, b.Rule))
	}
	first := strict[0].Object
	if first.Line > 0 {
		lines[0] += " (the line counts in the template's output)"
	}
	return first.Source, first.Line, strings.Join(lines, "\n"), true
}

// place returns the file and the line of an object as the prefix of a text.
func place(o manifest.Object) string {
	switch {
	case o.Source == "":
		return ""
	case o.Line == 0:
		return o.Source + ": "
	}
	return fmt.Sprintf("%s:%d: ", o.Source, o.Line)
}
