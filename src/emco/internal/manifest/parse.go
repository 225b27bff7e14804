package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Limits on what Parse reads.
const (
	MaxText    = 20 << 20 // bytes of one source
	MaxObject  = 3 << 20  // bytes of one object in canonical form, what an API server accepts
	MaxObjects = 10_000   // objects of one source
	MaxDepth   = 100      // levels of nesting in one document
)

// Parse reads all objects of a YAML or JSON text with one or many documents. It skips empty
// documents, and replaces a List by its items.
//
// Plain scalars follow YAML 1.1, as for Kubernetes: "yes" is true and 0644 is octal.
// Decimal numbers keep all their digits.
//
// Parse continues after a bad document, so that one error reports all of them: it is
// Invalid and holds Problems. It also returns the objects of the good documents, in their
// order.
func Parse(source string, text []byte) ([]Object, error) {
	p := parser{source: source}
	if len(text) > MaxText {
		p.document = 1
		p.problem(1, fmt.Sprintf("text of %d bytes is above the limit of %d", len(text), MaxText))
		return nil, p.problems.err()
	}
	for _, c := range split(text) {
		p.chunk(c)
	}
	return p.objects, p.problems.err()
}

// ToJSON returns a YAML or JSON text of one mapping, such as a patch, in canonical JSON, by the
// rules of Parse. The error is Invalid.
func ToJSON(source string, text []byte) ([]byte, error) {
	if len(text) > MaxText {
		return nil, Problems{{Source: source, Reason: fmt.Sprintf("text of %d bytes is above the limit of %d", len(text), MaxText)}}.err()
	}
	var root yaml.Node
	dec := yaml.NewDecoder(bytes.NewReader(text))
	if err := dec.Decode(&root); err != nil {
		return nil, Problems{{Source: source, Reason: "is no valid YAML: " + strings.TrimPrefix(err.Error(), "yaml: ")}}.err()
	}
	value, err := convert(&root)
	if err != nil {
		bad := locate(err, &root)
		return nil, Problems{{Source: source, Line: bad.line, Reason: bad.reason}}.err()
	}
	tree, ok := value.(objectTree)
	if !ok {
		return nil, Problems{{Source: source, Reason: "is no mapping"}}.err()
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, Problems{{Source: source, Reason: "has more than one document"}}.err()
	}
	return encode(tree)
}

// documentText is the text of one document, and the line on which it begins.
type documentText struct {
	line int
	text []byte
}

// split cuts a stream at its document markers. A line that begins with "---" and white
// space is always a marker: YAML allows it in no scalar.
func split(text []byte) []documentText {
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	var chunks []documentText
	start, startLine, line := 0, 1, 1
	for at := 0; at < len(text); line++ {
		if at > start && marker(text[at:]) {
			chunks = append(chunks, documentText{startLine, text[start:at]})
			start, startLine = at, line
		}
		end := bytes.IndexByte(text[at:], '\n')
		if end < 0 {
			break
		}
		at += end + 1
	}
	chunks = append(chunks, documentText{startLine, text[start:]})
	var full []documentText
	for _, c := range chunks {
		if !blank(c.text) {
			full = append(full, c)
		}
	}
	return full
}

func marker(text []byte) bool {
	return bytes.HasPrefix(text, []byte("---")) && (len(text) == 3 || strings.IndexByte(" \t\r\n", text[3]) >= 0)
}

// blank reports whether a text has only markers, comments and directives.
func blank(text []byte) bool {
	for line := range bytes.Lines(text) {
		if marker(line) {
			line = line[3:]
		}
		line = bytes.TrimSpace(line)
		if len(line) > 0 && line[0] != '#' && line[0] != '%' && !bytes.Equal(line, []byte("...")) {
			return false
		}
	}
	return true
}

// parser collects the objects and the problems of one source.
type parser struct {
	source   string
	document int // number of the current document
	line     int // line of its content
	objects  []Object
	problems Problems
}

func (p *parser) problem(line int, reason string) {
	p.problems.add(Problem{Source: p.source, Document: p.document, Line: line, Reason: reason})
}

// chunk reads the documents of one text: one, unless "..." ends it early.
func (p *parser) chunk(c documentText) {
	dec := yaml.NewDecoder(bytes.NewReader(c.text))
	for {
		var root yaml.Node
		err := dec.Decode(&root)
		if errors.Is(err, io.EOF) {
			return
		}
		p.document++
		if err != nil {
			p.syntax(c.line, err)
			return
		}
		tree, err := convert(&root)
		if err != nil {
			bad := locate(err, &root)
			p.problem(c.line+bad.line-1, bad.reason)
			continue
		}
		p.line = c.line + contentLine(&root) - 1
		p.value(tree)
	}
}

// contentLine returns the line of a document's first value within its text.
func contentLine(root *yaml.Node) int {
	if len(root.Content) > 0 {
		return root.Content[0].Line
	}
	return root.Line
}

// syntax reports an error of the YAML library, which counts lines within the text.
func (p *parser) syntax(start int, err error) {
	reason := strings.TrimPrefix(err.Error(), "yaml: ")
	var line int
	if n, _ := fmt.Sscanf(reason, "line %d:", &line); n == 1 {
		_, reason, _ = strings.Cut(reason, ": ")
		start += line - 1
	}
	p.problem(start, "is no valid YAML: "+reason)
}

// value reads a document's content: nothing, an object, or a list of objects.
func (p *parser) value(v any) {
	if v == nil {
		return
	}
	tree, ok := v.(objectTree)
	if !ok {
		p.problem(p.line, "is no object; give apiVersion, kind and metadata")
		return
	}
	if !isList(tree) {
		p.object(tree, "")
		return
	}
	items, ok := tree["items"].([]any)
	if !ok && tree["items"] != nil {
		p.problem(p.line, "is a list whose items are no list; give items as a list of objects")
		return
	}
	for i, item := range items {
		p.item(i+1, item)
	}
}

// item reads the n-th item of a list.
func (p *parser) item(n int, v any) {
	where := fmt.Sprintf("item %d: ", n)
	tree, ok := v.(objectTree)
	switch {
	case !ok:
		p.problem(p.line, where+"is no object")
	case isList(tree):
		p.problem(p.line, where+"is a list within a list; list its items instead")
	default:
		p.object(tree, where)
	}
}

// isList reports whether an object is a list of objects, such as List or ConfigMapList.
func isList(t objectTree) bool {
	kind, _ := t["kind"].(string)
	items, ok := t["items"]
	if kind == "List" {
		return true
	}
	_, array := items.([]any)
	return ok && array && strings.HasSuffix(kind, "List")
}

// object checks one object and adds its canonical form.
func (p *parser) object(t objectTree, where string) {
	o, err := newObject(t)
	switch {
	case err != nil:
		p.problem(p.line, where+err.Error())
	case len(p.objects) == MaxObjects:
		p.problem(p.line, fmt.Sprintf("more than %d objects in one file", MaxObjects))
	case len(p.objects) < MaxObjects:
		o.Source, o.Line = p.source, p.line
		p.objects = append(p.objects, o)
	}
}
