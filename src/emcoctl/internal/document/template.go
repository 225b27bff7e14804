package document

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/template"
	"text/template/parse"

	"go.yaml.in/yaml/v3"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

// value is whatever YAML can hold: a scalar, a list, a map, or nil. The decoder and
// text/template leave no other type for it; it does not leave this package.
type value = any

// Values feed templates; a document's spec is of the same kind. Maps within them are
// Values again, but for those with keys that are not strings.
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

// Merge lays later over v: maps are merged key by key, all else is replaced.
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

// overlay lays one value over another.
func overlay(under, over value) value {
	a, ok := under.(Values)
	b, both := over.(Values)
	if !ok || !both {
		return over
	}
	return a.Merge(b)
}

// maxExpanded bounds what a template may grow to, in bytes.
const maxExpanded = 64 << 20

// noValue is what text/template prints for a key that is missing.
const noValue = "<no value>"

// Expand runs text as a Go template over values, as EMCO does: no functions beyond
// the built-in ones, and a missing key prints "<no value>". Each place where that
// happened is returned as a warning. The error is Malformed and names file and line.
func Expand(file string, text []byte, values Values) (expanded []byte, missing []string, err error) {
	t, err := template.New(file).Parse(string(text))
	if err != nil {
		return nil, nil, errs.E(errs.Malformed, "", "", errors.New(templateText(err)))
	}
	out := limited{left: maxExpanded}
	if err := t.Execute(&out, values); err != nil {
		return nil, nil, errs.E(errs.Malformed, "", "", errors.New(templateText(err)))
	}
	if bytes.Count(out.Bytes(), []byte(noValue)) > bytes.Count(text, []byte(noValue)) {
		missing = gaps(file, t.Tree, out.Bytes(), values)
	}
	return out.Bytes(), missing, nil
}

// templateText cuts what is the same in all errors of text/template; they go on with
// file, line and column.
func templateText(err error) string { return strings.TrimPrefix(err.Error(), "template: ") }

// limited is a buffer that refuses to grow beyond a limit.
type limited struct {
	bytes.Buffer
	left int
}

func (l *limited) Write(p []byte) (int, error) {
	if l.left -= len(p); l.left < 0 {
		return 0, fmt.Errorf("expands to more than %d bytes", maxExpanded)
	}
	return l.Buffer.Write(p)
}

// gaps describes what has no value: by key and line of the template where that can
// be told from the template itself, else by the expanded line.
func gaps(file string, tree *parse.Tree, expanded []byte, values Values) []string {
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
	for i, line := range strings.Split(string(expanded), "\n") {
		if strings.Contains(line, noValue) {
			found = append(found, fmt.Sprintf("%s: no value in %q, line %d of the expanded text", file, strings.TrimSpace(line), i+1))
		}
	}
	return found
}

// walk visits the actions that print one plain key of the values, outside of range
// and with, where the dot is something else. Branches of if are visited both.
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
