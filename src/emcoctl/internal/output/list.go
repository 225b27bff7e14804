package output

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/emco-orchestrator/emco/src/api/client"
	"github.com/emco-orchestrator/emco/src/api/errs"
)

// listPrinter collects all results and prints one value at the end: the body of a single
// get, or an object with the member "items".
type listPrinter struct {
	o     Options
	items []json.RawMessage
}

func (p *listPrinter) Begin(string) {}
func (p *listPrinter) Called(Call)  {}

// Done keeps the result for the end; it also explains failures at once.
func (p *listPrinter) Done(r Result) {
	note(p.o, r)
	if r.Outcome == Failed {
		explain(p.o.Err, r)
	}
	if r.Outcome == Fetched {
		p.items = append(p.items, asJSON(r.Body))
		return
	}
	p.items = append(p.items, encode(listItem{
		Path: r.Path, Result: string(r.Outcome), Code: r.Status, DryRun: r.DryRun, Error: problem(r), Where: where(r),
	}))
}

// listItem is a result in a list.
type listItem struct {
	Path   string       `json:"path"`
	Result string       `json:"result"`
	DryRun bool         `json:"dryRun,omitempty"`
	Code   int          `json:"code,omitempty"`
	Where  string       `json:"where,omitempty"`
	Error  *listFailure `json:"error,omitempty"`
}

// listFailure is an error for programs: the kinds are those of package errs.
type listFailure struct {
	Kind string `json:"kind"`
	Text string `json:"text"`
}

// where returns the position of the document, "" for the command line.
func where(r Result) string {
	if r.At.File == "" {
		return ""
	}
	return r.At.String()
}

// problem returns the error of a result, with the server's text if there is one.
func problem(r Result) *listFailure {
	if r.Err == nil {
		return nil
	}
	text := r.Err.Error()
	if refusal, ok := errors.AsType[*client.Refusal](r.Err); ok {
		text = refusal.Text
	}
	return &listFailure{Kind: errs.KindOf(r.Err).String(), Text: text}
}

// End prints the list. It prints nothing for a single failed get, which Done has explained.
func (p *listPrinter) End() error {
	if !p.o.Many {
		if len(p.items) == 0 {
			return nil
		}
		return Encode(p.o.Out, p.o.Format, p.items[0])
	}
	if p.items == nil {
		p.items = []json.RawMessage{}
	}
	return Encode(p.o.Out, p.o.Format, encode(struct {
		Items []json.RawMessage `json:"items"`
	}{p.items}))
}

// encode encodes our own types as JSON, which cannot fail.
func encode[T any](v T) json.RawMessage {
	text, err := json.Marshal(v)
	if err != nil {
		panic("report: " + err.Error())
	}
	return text
}

// asJSON returns a body as JSON: itself, or as a string if it is not JSON.
func asJSON(body []byte) json.RawMessage {
	if trimmed := bytes.TrimSpace(body); json.Valid(trimmed) {
		return trimmed
	}
	return encode(string(body))
}

// Encode writes a JSON value as indented JSON or as YAML, in the order of its members, or fills
// the template of the format from it.
func Encode(w io.Writer, format Format, value json.RawMessage) error {
	switch {
	case format == YAML:
		return encodeYAML(w, value)
	case format.template():
		return fill(w, format, value)
	}
	var out bytes.Buffer
	if err := json.Indent(&out, value, "", "  "); err != nil {
		return errs.E(errs.Malformed, "print", "answer", err)
	}
	_, err := fmt.Fprintln(w, out.String())
	return err
}

// encodeYAML keeps the order of members, which maps would lose.
func encodeYAML(w io.Writer, value json.RawMessage) error {
	var node yaml.Node
	if err := yaml.Unmarshal(value, &node); err != nil { // JSON is YAML
		return errs.E(errs.Malformed, "print", "answer", err)
	}
	block(&node)
	enc := yaml.NewEncoder(w)
	enc.SetIndent(2)
	if err := enc.Encode(&node); err != nil {
		return err
	}
	return enc.Close()
}

// oldBool are words that are booleans in YAML 1.1.
var oldBool = map[string]bool{"y": true, "n": true, "yes": true, "no": true, "on": true, "off": true}

// block converts JSON's flow style to YAML's block style; empty lists and maps stay. Strings
// keep quotes where YAML would read another type.
func block(n *yaml.Node) {
	if len(n.Content) > 0 {
		n.Style &^= yaml.FlowStyle
	}
	if n.Kind == yaml.ScalarNode && n.Tag == "!!str" && !oldBool[strings.ToLower(n.Value)] {
		n.Style &^= yaml.DoubleQuotedStyle
	}
	for _, child := range n.Content {
		block(child)
	}
}
