// Package jsonread reads JSON of a form that is known, as programs write it: each member once
// and under its exact name. It is for documents that come thousands of times a second.
//
// Whatever looks otherwise makes a Text fail: members that are not known or come twice, null
// where a list may not be, numbers with a fraction. A reader made of this package leaves
// such a document to encoding/json, and so never takes more or less than that does.
package jsonread

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"time"
)

// Text is a document that is read from the front. Its strings are parts of the document:
// who keeps one keeps all of it. It belongs to one goroutine.
type Text struct {
	rest   string
	failed bool
}

// New returns the text of a document, which must be UTF-8.
func New(document string) *Text { return &Text{rest: document} }

// Done reports whether all was read, and was as it is expected.
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

// at takes a mark, if it comes next.
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

// Member is a member of an object, and where its value goes: one of the others is set.
type Member struct {
	Name string
	Text *string
	Uint *uint64
	Int  *int
	Bool *bool
	Time *time.Time
	Read func() // the value, which is not of these
}

// Object reads an object of at most 32 members, any of which may be absent. Those that
// follow each other here are found fastest if they do so in the text.
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

// find looks for a member, first from the place where it is expected; -1 if there is none.
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

// escaped reads a string, behind its first mark, that has a backslash at from.
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

// word takes what comes before the next mark.
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

// uint reads a number that is whole, and neither below zero nor above most.
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
