package document

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/template"
	"text/template/parse"

	"go.yaml.in/yaml/v3"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

// value is any YAML value: a scalar, a list, a map, or nil. The decoder and text/template
// require this type; it stays within this package.
type value = any

// Values are the input of templates; a document's spec has the same type. Nested maps are
// Values too, unless they have keys other than strings.
type Values map[string]value

// ParseValues reads the first document of a values file. The error is Malformed.
func ParseValues(file string, text []byte) (Values, error) {
	v := Values{}
	err := yaml.NewDecoder(bytes.NewReader(text)).Decode(&v)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, malformed(Position{file, lineOf(err)}, err)
	}
	return v, nil
}

// Merge overrides v with later: maps are merged key by key, everything else is replaced.
func (v Values) Merge(later Values) Values {
	out := Values{}
	for key, item := range v {
		out[key] = item
	}
	for key, item := range later {
		out[key] = overlay(out[key], item)
	}
	return out
}

// overlay overrides one value with another.
func overlay(under, over value) value {
	a, ok := under.(Values)
	b, both := over.(Values)
	if !ok || !both {
		return over
	}
	return a.Merge(b)
}

// maxExpanded bounds the output of a template, in bytes.
const maxExpanded = 64 << 20

// noValue is what text/template prints for a key that is missing.
const noValue = "<no value>"

// Expanded is the output of a template.
type Expanded struct {
	Text    []byte
	Missing []string // a warning for each key without a value
	lines   sourceLines
}

// Expand runs text as a Go template over values, as upstream EMCO does: with built-in functions
// only, and "<no value>" for a missing key. The error is Malformed and names file and line.
func Expand(file string, text []byte, values Values) (Expanded, error) {
	t, err := template.New(file).Parse(string(text))
	if err != nil {
		return Expanded{}, errs.E(errs.Malformed, "", "", errors.New(templateText(err)))
	}
	r := newLineRecorder(t, text)
	if err := t.Execute(r, values); err != nil {
		return Expanded{}, errs.E(errs.Malformed, "", "", errors.New(templateText(err)))
	}
	out := Expanded{Text: r.Bytes(), lines: r.lines}
	if bytes.Count(out.Text, []byte(noValue)) > bytes.Count(text, []byte(noValue)) {
		out.Missing = out.gaps(file, t.Tree, values)
	}
	return out, nil
}

// templateText removes the common prefix of errors of text/template; file, line and column
// follow it.
func templateText(err error) string { return strings.TrimPrefix(err.Error(), "template: ") }

// limitedBuffer is a buffer that refuses to grow beyond a limit.
type limitedBuffer struct {
	bytes.Buffer
	left int
}

func (l *limitedBuffer) Write(p []byte) (int, error) {
	if l.left -= len(p); l.left < 0 {
		return 0, fmt.Errorf("expands to more than %d bytes", maxExpanded)
	}
	return l.Buffer.Write(p)
}

// gaps describes missing values: by key and line of the template where the template shows
// them, else by the line that they are printed in.
func (e Expanded) gaps(file string, tree *parse.Tree, values Values) []string {
	var found []string
	walk(tree.Root, func(n *parse.ActionNode, key []string) {
		if !has(values, key) {
			at, _ := tree.ErrorContext(n)
			found = append(found, fmt.Sprintf("%s: no value for %q", at, strings.Join(key, ".")))
		}
	})
	if len(found) > 0 {
		return found
	}
	for i, line := range strings.Split(string(e.Text), "\n") {
		if !strings.Contains(line, noValue) {
			continue
		}
		text := fmt.Sprintf("%s: no value in %q", Position{file, e.lines.of(i + 1)}, strings.TrimSpace(line))
		if !slices.Contains(found, text) && len(found) < maxUnknown {
			found = append(found, text)
		}
	}
	return found
}

// walk visits the actions that print one plain key of the values, except within range and
// with, which change the dot. It visits both branches of if.
func walk(list *parse.ListNode, visit func(*parse.ActionNode, []string)) {
	if list == nil {
		return
	}
	for _, n := range list.Nodes {
		switch n := n.(type) {
		case *parse.IfNode:
			walk(n.List, visit)
			walk(n.ElseList, visit)
		case *parse.ActionNode:
			if len(n.Pipe.Decl) > 0 || len(n.Pipe.Cmds) != 1 || len(n.Pipe.Cmds[0].Args) != 1 {
				continue
			}
			if field, ok := n.Pipe.Cmds[0].Args[0].(*parse.FieldNode); ok {
				visit(n, field.Ident)
			}
		}
	}
}

// has reports whether the values have something at a path of keys.
func has(values Values, key []string) bool {
	v, ok := values[key[0]]
	if !ok || v == nil {
		return false
	}
	if len(key) == 1 {
		return true
	}
	inner, ok := v.(Values)
	return ok && has(inner, key[1:])
}
