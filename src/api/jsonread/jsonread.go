// Package jsonread reads JSON as programs write it: each member once, under its exact
// name. It is for documents that arrive thousands of times a second.
//
// Everything else makes a Text fail: members that are unknown or given twice, null for anything
// but a list, numbers with a fraction. The caller then decodes the document with
// encoding/json, so that both together accept exactly what encoding/json accepts.
package jsonread

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"time"
)

// Text is a document that is read from front to back. Its strings share the memory of the
// document, so that a kept string keeps the whole document. It belongs to one goroutine.
type Text struct {
	rest   string
	failed bool
}

// New returns the text of a document, which must be UTF-8.
func New(document string) *Text { return &Text{rest: document} }

// Done reports whether the whole document was read without a failure.
func (t *Text) Done() bool {
	t.space()
	return !t.failed && t.rest == ""
}

func (t *Text) fail() { t.failed, t.rest = true, "" }

func (t *Text) space() {
	for len(t.rest) > 0 && (t.rest[0] == ' ' || t.rest[0] == '\n' || t.rest[0] == '\t' || t.rest[0] == '\r') {
		t.rest = t.rest[1:]
	}
}

// at skips a mark, if it is next.
func (t *Text) at(mark byte) bool {
	t.space()
	if len(t.rest) == 0 || t.rest[0] != mark {
		return false
	}
	t.rest = t.rest[1:]
	return true
}

func (t *Text) must(mark byte) {
	if !t.at(mark) {
		t.fail()
	}
}

// Member is a member of an object, with the destination of its value: exactly one of the
// other fields is set.
type Member struct {
	Name string
	Text *string
	Uint *uint64
	Int  *int
	Bool *bool
	Time *time.Time
	Read func() // reads a value of another type
}

// Object reads an object of at most 32 members, all of them optional. It is fastest if the
// text has the members in the same order.
func (t *Text) Object(members []Member) {
	if t.must('{'); t.failed || t.at('}') {
		return
	}
	seen, next := uint32(0), 0
	for !t.failed {
		name := t.String()
		t.must(':')
		i := find(members, name, next)
		if i < 0 || seen&(1<<i) != 0 {
			t.fail()
			return
		}
		seen, next = seen|1<<i, i+1
		if t.value(&members[i]); t.at('}') {
			return
		}
		t.must(',')
	}
}

// find returns the index of a member, searching from the expected one; -1 if it is unknown.
func find(members []Member, name string, from int) int {
	for k := range members {
		if i := (from + k) % len(members); members[i].Name == name {
			return i
		}
	}
	return -1
}

func (t *Text) value(m *Member) {
	switch {
	case m.Text != nil:
		*m.Text = t.String()
	case m.Uint != nil:
		*m.Uint = t.uint(math.MaxUint64)
	case m.Int != nil:
		*m.Int = int(t.uint(math.MaxInt32))
	case m.Bool != nil:
		*m.Bool = t.bool()
	case m.Time != nil:
		*m.Time = t.time()
	default:
		m.Read()
	}
}

// List reads a list by reading each of its items; nil for null.
func List[T any](t *Text, item func() T) []T {
	if t.null() {
		return nil
	}
	out := []T{}
	if t.must('['); t.failed || t.at(']') {
		return out
	}
	for !t.failed {
		if out = append(out, item()); t.at(']') {
			break
		}
		t.must(',')
	}
	return out
}

func (t *Text) null() bool {
	t.space()
	rest, null := strings.CutPrefix(t.rest, "null")
	t.rest = rest
	return null
}

// String reads a string.
func (t *Text) String() string {
	if t.must('"'); t.failed {
		return ""
	}
	for i := range len(t.rest) {
		switch c := t.rest[i]; {
		case c == '"':
			out := t.rest[:i]
			t.rest = t.rest[i+1:]
			return out
		case c == '\\':
			return t.escaped(i)
		case c < ' ':
			t.fail()
			return ""
		}
	}
	t.fail()
	return ""
}

// escaped reads a string that has a backslash at from; its first mark is read already.
func (t *Text) escaped(from int) (out string) {
	for i := from; i < len(t.rest); i++ {
		if t.rest[i] == '\\' {
			i++
		} else if t.rest[i] == '"' {
			if json.Unmarshal([]byte(`"`+t.rest[:i+1]), &out) != nil {
				break
			}
			t.rest = t.rest[i+1:]
			return out
		}
	}
	t.fail()
	return ""
}

// word reads up to the next mark.
func (t *Text) word() string {
	t.space()
	end := strings.IndexAny(t.rest, ",}] \n\t\r")
	if end < 0 {
		end = len(t.rest)
	}
	out := t.rest[:end]
	t.rest = t.rest[end:]
	return out
}

// uint reads a whole number from zero to most.
func (t *Text) uint(most uint64) uint64 {
	word := t.word()
	n, err := strconv.ParseUint(word, 10, 64)
	if err != nil || n > most || len(word) > 1 && (word[0] == '0' || word[0] == '+') {
		t.fail()
	}
	return n
}

func (t *Text) bool() bool {
	word := t.word()
	if word != "true" && word != "false" {
		t.fail()
	}
	return word == "true"
}

// time reads a time as encoding/json does.
func (t *Text) time() (out time.Time) {
	t.space()
	before := t.rest
	_ = t.String()
	if t.failed || out.UnmarshalJSON([]byte(before[:len(before)-len(t.rest)])) != nil {
		t.fail()
	}
	return out
}
