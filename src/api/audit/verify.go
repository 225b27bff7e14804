package audit

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
)

// maxLine is the length of the longest line, in bytes.
const maxLine = 1 << 20

// Broken is the place where the log is not whole.
type Broken struct {
	Stream string
	Seq    int64 // of the first line that is wrong or missing
	Why    string
}

func (b *Broken) Error() string { return fmt.Sprintf("stream %s, line %d: %s", b.Stream, b.Seq, b.Why) }

// Report is what a check found.
type Report struct {
	Lines   int64    `json:"lines"`
	Streams []Stream `json:"streams"`
	Whole   bool     `json:"whole"` // false: a file without the notes of an export, whose first and last lines may be missing
}

// Stream is a checked stream.
type Stream struct {
	Head
	First int64 `json:"first"` // number of its first line that is still kept; 0 for none
}

// Verifier checks lines as they come: those of a stream in order, streams in any order.
type Verifier struct {
	streams map[string]*chain
	marks   []mention       // heads that lines name
	removed map[string]Head // the last line of each stream that a line permits to remove
	spoilt  *Spoilt         // the first record that cannot be read; nil: none
	export  bool            // the input has notes, so it is an export
	end     []string
	ended   bool
	lines   int64
}

// chain is what is known of a stream.
type chain struct {
	anchor *Head
	head   *Head
	first  int64
	seq    int64 // of the last line
	hash   string
	prints []uint64 // the first bytes of the hash of each line, from first on
}

// mention is a head that a line names.
type mention struct {
	Head
	by string // stream
	at int64  // line
}

// NewVerifier returns a Verifier that has seen nothing.
func NewVerifier() *Verifier {
	return &Verifier{streams: map[string]*chain{}, removed: map[string]Head{}}
}

// Verify checks an export, or a file of lines. The error is *Broken if the log is not whole.
func Verify(r io.Reader) (Report, error) {
	v := NewVerifier()
	if err := v.Read(r); err != nil {
		return v.report(), err
	}
	return v.Finish()
}

// Read checks the lines of r.
func (v *Verifier) Read(r io.Reader) error {
	in := bufio.NewScanner(r)
	in.Buffer(make([]byte, 64<<10), maxLine)
	for in.Scan() {
		if err := v.Add(in.Bytes()); err != nil {
			return err
		}
	}
	return in.Err()
}

// Add checks the next line.
func (v *Verifier) Add(text []byte) error {
	if len(bytes.TrimSpace(text)) == 0 {
		return nil
	}
	if v.ended {
		return errors.New("there are lines after the end of the export")
	}
	if isNote(text) {
		return v.note(text)
	}
	var l Line
	if err := json.Unmarshal(text, &l); err != nil || l.Stream == "" || l.Seq < 1 {
		return v.unreadable(text)
	}
	c := v.chain(l.Stream)
	if c.head != nil {
		return &Broken{l.Stream, l.Seq, "the line stands after the end of its stream"}
	}
	hash := Hash(text)
	if c.seq > 0 && l.Seq <= c.seq {
		return c.again(l, hash)
	}
	if err := c.follows(l); err != nil {
		return err
	}
	if c.first == 0 {
		c.first = l.Seq
	}
	c.seq, c.hash, c.prints = l.Seq, hash, append(c.prints, fingerprint(hash))
	v.lines++
	for _, h := range l.Heads {
		v.marks = append(v.marks, mention{h, l.Stream, l.Seq})
		if l.Phase == Trim && h.Seq > v.removed[h.Stream].Seq {
			v.removed[h.Stream] = h
		}
	}
	return nil
}

func (v *Verifier) chain(stream string) *chain {
	c := v.streams[stream]
	if c == nil {
		c = &chain{}
		v.streams[stream] = c
	}
	return c
}

// unreadable returns the error for the line that cannot be read: the one after the last that could.
func (v *Verifier) unreadable(text []byte) error {
	var l Line
	_ = json.Unmarshal(text, &l)
	if l.Stream == "" {
		l.Stream = "unknown"
	}
	if c := v.streams[l.Stream]; c != nil {
		l.Seq = c.seq + 1
	}
	return &Broken{l.Stream, l.Seq, fmt.Sprintf("line %d of the input is no line of the audit log", v.lines+1)}
}

// again admits a line that stands in the input twice, as sinks may write it.
func (c *chain) again(l Line, hash string) error {
	if l.Seq < c.first || c.prints[l.Seq-c.first] != fingerprint(hash) {
		return &Broken{l.Stream, l.Seq, "the line stands in the wrong place, or was changed"}
	}
	return nil
}

// follows checks that a line is the next one of its stream.
func (c *chain) follows(l Line) error {
	want, hash := c.seq+1, c.hash
	if c.seq == 0 && c.anchor != nil {
		want, hash = c.anchor.Seq+1, c.anchor.Hash
	} else if c.seq == 0 && l.Seq > 1 { // Finish decides whether the lines before may be missing
		want, hash = l.Seq, l.Prev
	}
	switch {
	case l.Seq > want:
		return &Broken{l.Stream, want, fmt.Sprintf("the line is missing; the next one is %d", l.Seq)}
	case l.Seq < want:
		return &Broken{l.Stream, l.Seq, "the line stands in the wrong place"}
	case l.Prev != hash && want == 1:
		return &Broken{l.Stream, l.Seq, "the first line names a line before it"}
	case l.Prev != hash:
		return &Broken{l.Stream, want - 1, fmt.Sprintf("the line was changed: line %d names another hash of it", want)}
	}
	return nil
}

// fingerprint is the first bytes of a hash.
func fingerprint(hash string) uint64 {
	b, err := hex.DecodeString(hash)
	if err != nil || len(b) < 8 {
		return 0
	}
	return binary.BigEndian.Uint64(b)
}

// note reads a note of an export about its streams.
func (v *Verifier) note(text []byte) error {
	var n Note
	if err := json.Unmarshal(text, &n); err != nil {
		return v.unreadable(text)
	}
	v.export = true
	switch {
	case n.Begin != nil:
		if len(v.streams) > 0 {
			return errors.New("an export begins within the input; verify each export separately")
		}
		for _, name := range n.Begin {
			v.chain(name)
		}
	case n.Anchor != nil:
		c := v.chain(n.Anchor.Stream)
		if c.seq > 0 || c.anchor != nil {
			return &Broken{n.Anchor.Stream, n.Anchor.Seq, "the note of removed lines stands within the stream"}
		}
		c.anchor = n.Anchor
	case n.Spoilt != nil:
		if v.spoilt == nil {
			v.spoilt = n.Spoilt
		}
	case n.Head != nil:
		return v.chain(n.Head.Stream).ends(*n.Head)
	default:
		v.end, v.ended = n.End, true
	}
	return nil
}

// ends checks that a stream ends with the line that its head names.
func (c *chain) ends(h Head) error {
	seq, hash := c.seq, c.hash
	if seq == 0 && c.anchor != nil {
		seq, hash = c.anchor.Seq, c.anchor.Hash
	}
	switch {
	case seq < h.Seq:
		return &Broken{h.Stream, seq + 1, fmt.Sprintf("the line is missing; the stream ends with line %d", h.Seq)}
	case seq > h.Seq:
		return &Broken{h.Stream, h.Seq + 1, fmt.Sprintf("the stream ends with line %d", h.Seq)}
	case hash != h.Hash:
		return &Broken{h.Stream, h.Seq, "the last line was changed"}
	}
	c.head = &h
	return nil
}

// Finish checks what concerns several streams, after the last line.
func (v *Verifier) Finish() (Report, error) {
	if !v.export && v.lines == 0 {
		return v.report(), errors.New("there is no line of the audit log")
	}
	if v.export && !v.ended {
		return v.report(), v.cut()
	}
	for _, name := range slices.Sorted(maps.Keys(v.streams)) {
		c := v.streams[name]
		if err := v.whole(name, c); err != nil {
			return v.report(), err
		}
	}
	for _, name := range v.end {
		if v.streams[name] == nil {
			return v.report(), &Broken{name, 1, "the stream is missing"}
		}
	}
	for _, m := range v.marks {
		if err := v.keeps(m.Head, fmt.Sprintf("line %d of stream %s names it", m.at, m.by)); err != nil {
			return v.report(), err
		}
	}
	if s := v.spoilt; s != nil {
		return v.report(), &Broken{s.Stream, s.Seq, "the record " + s.Key + " cannot be read; no line is missing or changed"}
	}
	return v.report(), nil
}

// cut returns the place where an export without its end was cut: in the first stream that has lines and no head, or else before
// the first that has neither.
func (v *Verifier) cut() error {
	const why = "the export is cut: its last line is missing"
	names := slices.Sorted(maps.Keys(v.streams))
	at := slices.IndexFunc(names, func(name string) bool { c := v.streams[name]; return c.head == nil && c.seq > 0 })
	if at < 0 {
		at = slices.IndexFunc(names, func(name string) bool { return v.streams[name].head == nil })
	}
	if at < 0 {
		return errors.New(why)
	}
	c := v.streams[names[at]]
	if c.seq == 0 && c.anchor != nil {
		return &Broken{names[at], c.anchor.Seq + 1, why}
	}
	return &Broken{names[at], c.seq + 1, why}
}

// whole checks the ends of a stream. Only an export knows them.
func (v *Verifier) whole(name string, c *chain) error {
	if !v.ended {
		return nil
	}
	switch r := v.removed[name]; {
	case !slices.Contains(v.end, name):
		return &Broken{name, max(c.first, 1), "the stream is not in the list of streams"}
	case c.head == nil && v.spoilt != nil && v.spoilt.Stream == name:
		return &Broken{name, c.seq + 1, "the record " + v.spoilt.Key + " cannot be read, so lines from here on may be missing"}
	case c.head == nil:
		return &Broken{name, c.seq + 1, "the line with the head of the stream is missing"}
	case c.anchor == nil && c.first > 1:
		return &Broken{name, 1, fmt.Sprintf("the line is missing; the stream begins with line %d", c.first)}
	case c.anchor != nil && (c.anchor.Seq > r.Seq || c.anchor.Seq == r.Seq && c.anchor.Hash != r.Hash):
		return &Broken{name, c.anchor.Seq, "the line and all before it are missing, and no line records their removal"}
	}
	return nil
}

// keeps checks that a line which was there is there unchanged, or was removed with a record.
func (v *Verifier) keeps(h Head, why string) error {
	c := v.streams[h.Stream]
	if c == nil {
		if !v.ended {
			return nil
		}
		return &Broken{h.Stream, h.Seq, "the stream is missing; " + why}
	}
	last := c.seq
	if c.seq == 0 && c.anchor != nil {
		last = c.anchor.Seq
	}
	switch {
	case h.Seq > last && v.ended:
		return &Broken{h.Stream, last + 1, "the line is missing; " + why}
	case c.first == 0 || h.Seq < c.first || h.Seq > last:
		return nil
	case c.prints[h.Seq-c.first] != fingerprint(h.Hash):
		return &Broken{h.Stream, h.Seq, "the line was changed; " + why}
	}
	return nil
}

// Keeps checks that lines which were there at an earlier check are there unchanged, or were removed with a
// record. It is for after Finish.
func (v *Verifier) Keeps(earlier []Head) error {
	for _, h := range earlier {
		if err := v.keeps(h, "an earlier check has seen it"); err != nil {
			return err
		}
	}
	return nil
}

func (v *Verifier) report() Report {
	r := Report{Lines: v.lines, Whole: v.ended, Streams: []Stream{}}
	for _, name := range slices.Sorted(maps.Keys(v.streams)) {
		c := v.streams[name]
		s := Stream{Head: Head{name, c.seq, c.hash}, First: c.first}
		if c.seq == 0 && c.anchor != nil {
			s.Head = *c.anchor
		}
		r.Streams = append(r.Streams, s)
	}
	return r
}
