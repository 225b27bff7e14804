package v2

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

// Bounds of a document, so that hostile input exhausts neither the stack nor the memory: how deeply it nests, and
// how many values it has. The deepest document of the API has seven levels; ten thousand selectors are 40,000 values.
const (
	maxDepth  = 100
	maxValues = 100_000
)

// Mode selects what happens to unknown members.
type Mode bool

// The modes of Decode.
const (
	Lenient Mode = false // drop unknown members, as upstream EMCO does
	Strict  Mode = true  // report them as violations
)

// Decode reads one document and converts it to canonical form; it does not Validate it. Errors are Invalid for an empty body, a member that is given twice
// and, in Strict mode, unknown members; they are Malformed for what is not JSON or
// has a wrong type, as in upstream EMCO (400 and 422).
func Decode[T any](data []byte, mode Mode) (T, error) {
	var doc T
	tree, err := parse(data)
	if err != nil {
		return doc, err
	}
	fit := memberResolver{strict: mode == Strict}
	tree = fit.value(tree, reflect.TypeFor[T]())
	if err := fit.check.err(); err != nil {
		return doc, err
	}
	if err := json.Unmarshal(tree.append(nil), &doc); err != nil {
		return doc, malformed(err)
	}
	if n, ok := any(&doc).(documentNormalizer); ok {
		n.normalize()
	}
	return doc, nil
}

// malformed classifies an error of the JSON decoder, unless one of our types did.
func malformed(err error) error {
	if classified, ok := errors.AsType[*errs.Error](err); ok {
		return classified
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		into := "a document"
		if field := fieldOf(wrong.Field); field != "" {
			into = "field " + field
		}
		text := fmt.Sprintf("json: cannot unmarshal %s into %s of type %s", kindOf(wrong.Value), into, typeName(wrong.Type))
		if scalar := kindOf(wrong.Value); wrong.Type.Kind() == reflect.String && (scalar == "number" || scalar == "bool") {
			text += "; put the value in quotes"
		}
		return errs.New(errs.Malformed, text)
	}
	return errs.New(errs.Malformed, err.Error())
}

// kindOf drops the value from the decoder's description, such as "number 12": it may be
// part of a secret.
func kindOf(value string) string {
	kind, _, _ := strings.Cut(value, " ")
	return kind
}

// fieldOf drops embedded structures from a field's path: the parts that begin with a
// capital. They have no name in JSON.
func fieldOf(path string) string {
	var names []string
	for name := range strings.SplitSeq(path, ".") {
		if name != "" && (name[0] < 'A' || name[0] > 'Z') {
			names = append(names, name)
		}
	}
	return strings.Join(names, ".")
}

// node is a JSON value. Members keep their order; scalars keep their text.
type node struct {
	members []jsonMember    // of an object
	items   []node          // of an array
	scalar  json.RawMessage // set for all but objects and arrays
	array   bool
}

type jsonMember struct {
	key   string
	value node
}

// parse reads one JSON value and refuses equal keys within an object.
func parse(data []byte) (node, error) {
	if len(bytes.TrimSpace(data)) == 0 {
		return node{}, errs.New(errs.Invalid, "Empty body")
	}
	if !utf8.Valid(data) {
		return node{}, errs.New(errs.Malformed, "body is not valid UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	p := parser{dec: dec}
	tree, err := p.value()
	if err != nil {
		return node{}, malformed(eof(err))
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return node{}, errs.New(errs.Malformed, "body has more than one JSON value")
	}
	return tree, p.check.err()
}

func eof(err error) error {
	if errors.Is(err, io.EOF) {
		return errors.New("unexpected end of JSON input")
	}
	return err
}

type parser struct {
	dec    *json.Decoder
	at     place
	values int // that have begun
	check  violationList
}

func (p *parser) value() (node, error) {
	if len(p.at) > maxDepth {
		return node{}, errs.New(errs.Malformed, fmt.Sprintf("body nests deeper than %d levels", maxDepth))
	}
	if p.values++; p.values > maxValues {
		return node{}, errs.New(errs.Malformed, fmt.Sprintf("body has more than %d values", maxValues))
	}
	token, err := p.dec.Token()
	if err != nil {
		return node{}, err
	}
	switch t := token.(type) {
	case json.Delim:
		if t == '[' {
			return p.array()
		}
		return p.object()
	case string:
		return node{scalar: quoted(t)}, nil
	case json.Number:
		return node{scalar: json.RawMessage(t)}, nil
	case bool:
		return node{scalar: strconv.AppendBool(nil, t)}, nil
	}
	return node{scalar: json.RawMessage("null")}, nil
}

func (p *parser) array() (node, error) {
	n := node{array: true}
	for p.dec.More() {
		p.at.enter(step{index: len(n.items)})
		item, err := p.value()
		if err != nil {
			return node{}, err
		}
		p.at.leave()
		n.items = append(n.items, item)
	}
	_, err := p.dec.Token()
	return n, err
}

func (p *parser) object() (node, error) {
	var n node
	seen := map[string]bool{}
	for p.dec.More() {
		token, err := p.dec.Token()
		if err != nil {
			return node{}, err
		}
		key, _ := token.(string)
		p.at.enter(step{key: key, member: true})
		if seen[key] {
			p.check.fail(p.at.String(), "given twice")
		}
		seen[key] = true
		value, err := p.value()
		if err != nil {
			return node{}, err
		}
		p.at.leave()
		n.members = append(n.members, jsonMember{key, value})
	}
	_, err := p.dec.Token()
	return n, err
}

// place is where a value stands in a document. Its text is made for messages only.
type place []step

// step leads from a value to a member of it, or to an item.
type step struct {
	key    string
	index  int
	member bool
}

func (p *place) enter(s step) { *p = append(*p, s) }

func (p *place) leave() { *p = (*p)[:len(*p)-1] }

func (p place) String() (path string) {
	for _, s := range p {
		if s.member {
			path = join(path, s.key)
		} else {
			path += fmt.Sprintf("[%d]", s.index)
		}
	}
	return path
}

// join builds the path of a member. Keys that are not plain words are escaped.
func join(path, key string) string {
	if !ValidName(key) {
		key = quote(key)
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

// append writes the value as JSON.
func (n node) append(b []byte) []byte {
	if n.scalar != nil {
		return append(b, n.scalar...)
	}
	if n.array {
		b = append(b, '[')
		for i, item := range n.items {
			if i > 0 {
				b = append(b, ',')
			}
			b = item.append(b)
		}
		return append(b, ']')
	}
	b = append(b, '{')
	for i, m := range n.members {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, quoted(m.key)...)
		b = append(b, ':')
		b = m.value.append(b)
	}
	return append(b, '}')
}

// quoted returns s as a JSON string.
func quoted(s string) json.RawMessage {
	b, err := json.Marshal(s)
	if err != nil {
		panic("v2: a string that has no JSON form: " + err.Error())
	}
	return b
}
