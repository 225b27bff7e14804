package document

import (
	"bytes"
	"text/template"
	"text/template/parse"

	"go.yaml.in/yaml/v3"
)

// sourceLines are the lines of a template that the lines of its output come from: line n of the output comes
// from line sourceLines[n-1]. A file that was not expanded has none.
type sourceLines []int

// of returns the line of the file that a line of its text comes from.
func (l sourceLines) of(line int) int {
	if len(l) == 0 || line < 1 {
		return line
	}
	return l[min(line, len(l))-1]
}

// relocate gives a node, and all below it, the lines of the file.
func (l sourceLines) relocate(n *yaml.Node) {
	n.Line = l.of(n.Line)
	for _, inner := range n.Content {
		l.relocate(inner)
	}
}

// lineRecorder is the output of a template. It records the line of the template for each of its own lines.
type lineRecorder struct {
	limitedBuffer
	texts map[*byte]int // the line of each text of the template, by its first byte: text/template writes the bytes of its tree
	line  int           // of the template
	lines sourceLines
}

// newLineRecorder returns the output of a template that was parsed from text.
func newLineRecorder(t *template.Template, text []byte) *lineRecorder {
	r := &lineRecorder{limitedBuffer: limitedBuffer{left: maxExpanded}, texts: map[*byte]int{}, line: 1, lines: sourceLines{1}}
	for _, one := range t.Templates() {
		eachText(one.Root, func(n *parse.TextNode) {
			r.texts[&n.Text[0]] = 1 + bytes.Count(text[:n.Pos], []byte("\n"))
		})
	}
	return r
}

// Write records the lines of p. The lines of a value have the line of the template where the value is printed.
func (r *lineRecorder) Write(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	at, source := r.texts[&p[0]]
	if source {
		r.line = at
		if written := r.Bytes(); len(written) == 0 || written[len(written)-1] == '\n' {
			r.lines[len(r.lines)-1] = at
		}
	}
	for range bytes.Count(p, []byte("\n")) {
		if source {
			r.line++
		}
		r.lines = append(r.lines, r.line)
	}
	return r.limitedBuffer.Write(p)
}

// eachText visits the texts of a template, in all branches.
func eachText(list *parse.ListNode, visit func(*parse.TextNode)) {
	if list == nil {
		return
	}
	for _, n := range list.Nodes {
		var branch parse.BranchNode
		switch n := n.(type) {
		case *parse.TextNode:
			if len(n.Text) > 0 {
				visit(n)
			}
		case *parse.IfNode:
			branch = n.BranchNode
		case *parse.RangeNode:
			branch = n.BranchNode
		case *parse.WithNode:
			branch = n.BranchNode
		}
		eachText(branch.List, visit)
		eachText(branch.ElseList, visit)
	}
}
