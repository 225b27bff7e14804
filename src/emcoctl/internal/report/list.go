package report

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

// listPrinter gathers all results and prints one value at the end: what a single get
// returned, or an object with the member "items".
type listPrinter struct {
	o     Options
	items []json.RawMessage
}

func (p *listPrinter) Begin(string) {}
func (p *listPrinter) Called(Call)  {}

// Done keeps the result for the end; failures are explained at once, too.
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
		Path: r.Path, Result: string(r.Outcome), Code: r.Status, Error: problem(r), Where: where(r),
	}))
}

// listItem is how a result looks in a list.
type listItem struct {
	Path   string       `json:"path"`
	Result string       `json:"result"`
	Code   int          `json:"code,omitempty"`
	Where  string       `json:"where,omitempty"`
	Error  *listFailure `json:"error,omitempty"`
}

// listFailure is an error that programs can branch on: the kinds are those of errs.
type listFailure struct {
	Kind string `json:"kind"`
	Text string `json:"text"`
}

// where is the place of the document, empty for the command line.
func where(r Result) string {
	if r.At.File == "" {
		return ""
	}
	return r.At.String()
}

// problem is the error of a result; the server's words if it gave any.
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

// End prints. A single get that failed has said so; it prints nothing.
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

// encode makes JSON of our own types, which cannot fail.
func encode[T any](v T) json.RawMessage {
	text, err := json.Marshal(v)
	if err != nil {
		panic("report: " + err.Error())
	}
	return text
}

// asJSON returns a body as JSON: itself, or as a string if it is something else.
func asJSON(body []byte) json.RawMessage {
	if trimmed := bytes.TrimSpace(body); json.Valid(trimmed) {
		return trimmed
	}
	return encode(string(body))
}

// Encode writes a JSON value as indented JSON or as YAML, with members in the order
// that they have.
func Encode(w io.Writer, format Format, value json.RawMessage) error {
	if format == YAML {
		return encodeYAML(w, value)
	}
	var out bytes.Buffer
	if err := json.Indent(&out, value, "", "  "); err != nil {
		return errs.E(errs.Malformed, "print", "answer", err)
	}
	_, err := fmt.Fprintln(w, out.String())
	return err
}

// encodeYAML keeps the order of members, which a detour by maps would lose.
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

// oldBool are words that readers of YAML 1.1 take for booleans.
var oldBool = map[string]bool{"y": true, "n": true, "yes": true, "no": true, "on": true, "off": true}

// block turns JSON's flow style and quotes into YAML's block style; empty lists and
// maps stay as they are. Strings keep quotes where they would read as something else.
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
