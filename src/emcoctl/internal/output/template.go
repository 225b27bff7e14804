package output

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/template"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/jsonpath"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/jsontree"
)

// The formats with a template, which follows a "=".
const (
	jsonPath      = "jsonpath"
	goTemplate    = "go-template"
	customColumns = "custom-columns"
)

// template reports whether the format has a template.
func (f Format) template() bool {
	name, _, ok := strings.Cut(string(f), "=")
	return ok && (name == jsonPath || name == goTemplate || name == customColumns)
}

// fill fills the template of a format from a value.
func fill(w io.Writer, format Format, value json.RawMessage) error {
	name, text, _ := strings.Cut(string(format), "=")
	var err error
	switch name {
	case jsonPath:
		err = fillPath(w, text, value)
	case goTemplate:
		err = fillGo(w, text, value)
	default:
		err = fillColumns(w, text, value)
	}
	if err != nil {
		return errs.E(errs.Invalid, "print", "-o "+name, err)
	}
	return nil
}

func fillPath(w io.Writer, text string, value json.RawMessage) error {
	t, err := jsonpath.Parse(text)
	if err != nil {
		return err
	}
	n, err := jsontree.Parse(value)
	if err != nil {
		return err
	}
	if n.List != nil && strings.Contains(text, ".items") { // lists of documents are bare; kubectl's are not
		n = jsontree.Node{Object: map[string]jsontree.Node{"items": n}}
	}
	return t.Execute(w, n)
}

// maxTemplate bounds the output of a template, in bytes.
const maxTemplate = 64 << 20

// fillGo fills a template of text/template, with its built-in functions only.
func fillGo(w io.Writer, text string, value json.RawMessage) error {
	t, err := template.New("-o").Parse(text)
	if err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(value))
	dec.UseNumber()
	var data any // text/template requires it
	if err := dec.Decode(&data); err != nil {
		return err
	}
	return t.Execute(&boundedWriter{w, maxTemplate}, data)
}

// boundedWriter refuses to write more than a number of bytes.
type boundedWriter struct {
	w    io.Writer
	left int
}

func (b *boundedWriter) Write(p []byte) (int, error) {
	if b.left -= len(p); b.left < 0 {
		return 0, fmt.Errorf("the template prints more than %d bytes", maxTemplate)
	}
	return b.w.Write(p)
}

// fillColumns prints a table with a row for each item.
func fillColumns(w io.Writer, text string, value json.RawMessage) error {
	var paths []jsonpath.Path
	t := NewTable(w)
	for column := range strings.SplitSeq(text, ",") {
		head, path, ok := strings.Cut(column, ":")
		if !ok || head == "" {
			return fmt.Errorf("%q is not HEAD:PATH, such as NAME:.metadata.name", column)
		}
		p, err := jsonpath.ParsePath(path)
		if err != nil {
			return err
		}
		paths = append(paths, p)
		t.Cell(head)
	}
	t.End()
	n, err := jsontree.Parse(value)
	if err != nil {
		return err
	}
	for _, item := range itemsOf(n) {
		for _, p := range paths {
			var cells []string
			for _, found := range p.Find(item) {
				cells = append(cells, found.String())
			}
			t.Cell(strings.Join(cells, ","))
		}
		t.End()
	}
	t.Flush()
	return nil
}

// itemsOf returns the items of a list or of an object with items, else the value alone.
func itemsOf(n jsontree.Node) []jsontree.Node {
	switch items, ok := n.Object["items"]; {
	case ok && items.List != nil:
		return items.List
	case n.List != nil:
		return n.List
	}
	return []jsontree.Node{n}
}
