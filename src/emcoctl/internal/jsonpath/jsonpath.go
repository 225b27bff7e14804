// Package jsonpath fills templates in kubectl's form of JSONPath, such as
// {range .items[*]}{.metadata.name}{"\n"}{end}, from JSON values.
package jsonpath

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/emco-orchestrator/emco/src/emcoctl/internal/jsontree"
)

// Template is a parsed template.
type Template struct{ parts []part }

// part is a literal text, a path, or a range with the parts inside of it.
type part struct {
	text   string
	path   Path
	isPath bool
	inside []part // of a range
	ranges bool
}

// Parse reads a template. A template without braces is one path, such as .metadata.name.
func Parse(text string) (Template, error) {
	if !strings.Contains(text, "{") {
		text = "{" + text + "}"
	}
	p := templateParser{rest: text}
	parts, err := p.parts(false)
	return Template{parts}, err
}

// Execute writes the template, filled from a value.
func (t Template) Execute(w io.Writer, value jsontree.Node) error {
	return execute(w, t.parts, value)
}

func execute(w io.Writer, parts []part, value jsontree.Node) error {
	for _, p := range parts {
		var err error
		switch {
		case p.ranges:
			for _, item := range p.path.Find(value) {
				if err := execute(w, p.inside, item); err != nil {
					return err
				}
			}
		case p.isPath:
			err = write(w, p.path.Find(value))
		default:
			_, err = io.WriteString(w, p.text)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// write prints values with spaces between them: strings as they are, others as JSON.
func write(w io.Writer, values []jsontree.Node) error {
	texts := make([]string, len(values))
	for i, v := range values {
		if v.Text != nil {
			texts[i] = *v.Text
			continue
		}
		text, err := v.JSON()
		if err != nil {
			return err
		}
		texts[i] = string(text)
	}
	_, err := io.WriteString(w, strings.Join(texts, " "))
	return err
}

// templateParser reads the parts of a template.
type templateParser struct {
	rest  string
	depth int
}

// maxDepth bounds nested ranges.
const maxDepth = 20

func (p *templateParser) parts(inRange bool) (parts []part, err error) {
	for p.rest != "" {
		literal, after, found := strings.Cut(p.rest, "{")
		if literal != "" {
			parts = append(parts, part{text: literal})
		}
		if !found {
			p.rest = ""
			break
		}
		action, rest, err := cutAction(after)
		if err != nil {
			return nil, err
		}
		p.rest = rest
		if action == "end" {
			if !inRange {
				return nil, errors.New("{end} without {range}")
			}
			return parts, nil
		}
		next, err := p.action(action)
		if err != nil {
			return nil, err
		}
		parts = append(parts, next)
	}
	if inRange {
		return nil, errors.New("{range} without {end}")
	}
	return parts, nil
}

func (p *templateParser) action(action string) (next part, err error) {
	over, ranges := strings.CutPrefix(action, "range ")
	switch {
	case ranges:
		if p.depth++; p.depth > maxDepth {
			return next, fmt.Errorf("ranges nest deeper than %d levels", maxDepth)
		}
		next.ranges = true
		if next.path, err = ParsePath(strings.TrimSpace(over)); err == nil {
			next.inside, err = p.parts(true)
		}
		p.depth--
		return next, err
	case strings.HasPrefix(action, `"`):
		next.text, err = strconv.Unquote(action)
		if err != nil {
			err = fmt.Errorf("%s is not a quoted text", action)
		}
		return next, err
	}
	next.isPath = true
	next.path, err = ParsePath(action)
	return next, err
}

// cutAction returns the text up to the closing brace, which may be quoted inside of it.
func cutAction(text string) (action, rest string, err error) {
	var quote rune
	escaped := false
	for i, r := range text {
		switch {
		case escaped:
			escaped = false
		case quote != 0 && r == '\\':
			escaped = true
		case quote != 0:
			if r == quote {
				quote = 0
			}
		case r == '"' || r == '\'':
			quote = r
		case r == '}':
			return strings.TrimSpace(text[:i]), text[i+1:], nil
		}
	}
	return "", "", errors.New("a { has no }")
}

// Path selects values, such as .items[*].metadata.name.
type Path struct{ steps []Step }

// Step is a part of a path, which selects from one value.
type Step struct {
	Name string // of the member that it selects; All for all members or items; empty for items by their places
	Deep bool   // it selects the member at any depth
	find selector
}

// All is the name of a step that may select each member of an object and each item of a list.
const All = "*"

// selector selects from one value.
type selector func(jsontree.Node) []jsontree.Node

// Steps returns the parts of the path.
func (p Path) Steps() []Step { return p.steps }

// Find returns the selected values, in order. A member that does not exist selects nothing.
func (p Path) Find(value jsontree.Node) []jsontree.Node {
	now := []jsontree.Node{value}
	for _, s := range p.steps {
		var next []jsontree.Node
		for _, n := range now {
			next = append(next, s.find(n)...)
		}
		now = next
	}
	return now
}

// ParsePath reads a path. The leading $, @ or dot may be absent.
func ParsePath(text string) (p Path, err error) {
	rest := strings.TrimLeft(text, "$@")
	for rest != "" {
		var s Step
		switch {
		case strings.HasPrefix(rest, ".."):
			name, after := cutName(rest[2:])
			if name == "" {
				return p, fmt.Errorf("%s: a name is missing", text)
			}
			s, rest = Step{Name: name, Deep: true, find: recursive(name)}, after
		case strings.HasPrefix(rest, ".["), rest == ".":
			rest = rest[1:]
			continue
		case rest[0] == '[':
			inside, after, ok := cutBracket(rest)
			if !ok {
				return p, fmt.Errorf("%s: a [ has no ]", text)
			}
			if s, err = bracket(inside); err != nil {
				return p, fmt.Errorf("%s: %w", text, err)
			}
			rest = after
		default:
			name, after := cutName(strings.TrimPrefix(rest, "."))
			if name == "" {
				return p, fmt.Errorf("%s: a name is missing", text)
			}
			s, rest = Step{Name: name, find: member(name)}, after
		}
		p.steps = append(p.steps, s)
	}
	return p, nil
}

// cutName returns the name before the next dot or bracket.
func cutName(text string) (name, rest string) {
	i := strings.IndexAny(text, ".[")
	if i < 0 {
		return text, ""
	}
	return text[:i], text[i:]
}

// cutBracket returns the content of the bracket that text begins with.
func cutBracket(text string) (inside, rest string, ok bool) {
	var quote rune
	for i, r := range text {
		switch {
		case quote != 0:
			if r == quote {
				quote = 0
			}
		case r == '"' || r == '\'':
			quote = r
		case r == ']':
			return strings.TrimSpace(text[1:i]), text[i+1:], true
		}
	}
	return "", "", false
}

func member(name string) selector {
	if name == All {
		return all
	}
	return func(n jsontree.Node) []jsontree.Node {
		if m, ok := n.Object[name]; ok {
			return []jsontree.Node{m}
		}
		return nil
	}
}

// all selects the items of a list, or the members of an object by their names.
func all(n jsontree.Node) []jsontree.Node {
	if n.List != nil {
		return n.List
	}
	var out []jsontree.Node
	for _, name := range slices.Sorted(maps.Keys(n.Object)) {
		out = append(out, n.Object[name])
	}
	return out
}

func recursive(name string) selector {
	var find selector
	find = func(n jsontree.Node) []jsontree.Node {
		out := member(name)(n)
		for _, child := range all(n) {
			out = append(out, find(child)...)
		}
		return out
	}
	return find
}

// bracket reads [*], [2], [-1], [1:3], ['name'] and [?(@.type=="Ready")].
func bracket(inside string) (s Step, err error) {
	if inside == All {
		return Step{Name: All, find: all}, nil
	}
	if name, ok := unquote(inside); ok {
		return Step{Name: name, find: member(name)}, nil
	}
	if strings.HasPrefix(inside, "?(") && strings.HasSuffix(inside, ")") {
		s.Name = All
		s.find, err = filter(strings.TrimSpace(inside[2 : len(inside)-1]))
		return s, err
	}
	if from, to, slice := strings.Cut(inside, ":"); slice {
		s.find, err = slicing(from, to)
		return s, err
	}
	i, err := strconv.Atoi(inside)
	if err != nil {
		return s, fmt.Errorf("[%s] is neither *, a number, a range, a quoted name nor ?(…)", inside)
	}
	s.find = item(i)
	return s, nil
}

// item selects the item at a place; a negative one counts from the end.
func item(i int) selector {
	return func(n jsontree.Node) []jsontree.Node {
		at := i
		if at < 0 {
			at += len(n.List)
		}
		if at < 0 || at >= len(n.List) {
			return nil
		}
		return n.List[at : at+1]
	}
}

func slicing(from, to string) (selector, error) {
	bounds := [2]int{0, -1}
	for i, text := range []string{from, to} {
		if text == "" {
			continue
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("[%s:%s] is not a range of numbers", from, to)
		}
		bounds[i] = n
	}
	return func(n jsontree.Node) []jsontree.Node {
		end := len(n.List)
		if bounds[1] >= 0 {
			end = min(end, bounds[1])
		}
		return n.List[min(bounds[0], end):end]
	}, nil
}

// filter reads @.path, @.path=="text" and @.path!="text".
func filter(text string) (selector, error) {
	for _, operator := range []string{"==", "!="} {
		left, right, ok := strings.Cut(text, operator)
		if !ok {
			continue
		}
		path, err := ParsePath(strings.TrimSpace(left))
		if err != nil {
			return nil, err
		}
		want := strings.TrimSpace(right)
		if quoted, ok := unquote(want); ok {
			want = quoted
		}
		return selecting(func(n jsontree.Node) bool {
			found := path.Find(n)
			return (len(found) > 0 && found[0].String() == want) == (operator == "==")
		}), nil
	}
	path, err := ParsePath(text)
	return selecting(func(n jsontree.Node) bool { return len(path.Find(n)) > 0 }), err
}

func selecting(keep func(jsontree.Node) bool) selector {
	return func(n jsontree.Node) (out []jsontree.Node) {
		for _, item := range all(n) {
			if keep(item) {
				out = append(out, item)
			}
		}
		return out
	}
}

// unquote returns the text within quotes of either kind.
func unquote(text string) (string, bool) {
	if len(text) < 2 || text[0] != text[len(text)-1] || text[0] != '"' && text[0] != '\'' {
		return "", false
	}
	return text[1 : len(text)-1], true
}
