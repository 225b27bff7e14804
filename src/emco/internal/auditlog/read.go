package auditlog

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"iter"
	"math"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/emco-orchestrator/emco/src/api/audit"
	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
)

// heads returns the last line of each stream whose head can be read.
func (t *Log) heads(ctx context.Context) ([]audit.Head, error) {
	v, err := t.view(ctx)
	return v.heads, err
}

// streamHeads is the streams at a revision of etcd.
type streamHeads struct {
	rev    int64
	heads  []audit.Head
	spoilt []string // streams whose heads cannot be read
}

// view reads the heads of all streams. One that cannot be read hides no other one.
func (t *Log) view(ctx context.Context) (v streamHeads, err error) {
	prefix := t.o.KV.Key("audit", "head") + "/"
	r, err := t.o.KV.Get(ctx, prefix, clientv3.WithPrefix())
	if err != nil {
		return v, err
	}
	v.rev = r.Header.Revision
	for _, item := range r.Kvs {
		name := strings.TrimPrefix(string(item.Key), prefix)
		h, err := etcdkv.Decode[headRecord](item)
		if err != nil {
			t.damaged("the head of a stream of the audit log cannot be read", string(item.Key), err)
			v.spoilt = append(v.spoilt, name)
			continue
		}
		v.heads = append(v.heads, audit.Head{Stream: name, Seq: h.Seq, Hash: h.Hash})
	}
	return v, nil
}

// Export hands all lines to send, stream by stream, with the notes of an export. All are of one moment. It reads them in portions and
// holds one in memory. If that takes so long that etcd removes the moment from its history, it ends with Unavailable.
func (t *Log) Export(ctx context.Context, send func(line []byte) error) error {
	_ = t.Flush(ctx) // else lines that wait are missing: a log that cannot be written is still read
	v, err := t.view(ctx)
	if err != nil {
		return err
	}
	anchors, err := t.anchors(ctx, v.rev)
	if err != nil {
		return err
	}
	names := append([]string{}, v.spoilt...)
	for _, h := range v.heads {
		names = append(names, h.Stream)
	}
	if err := note(audit.Note{Begin: names}, send); err != nil {
		return err
	}
	for _, name := range v.spoilt {
		err := note(audit.Note{Spoilt: &audit.Spoilt{Stream: name, Key: headKey(t.o.KV, name)}}, send)
		if a, ok := anchors[name]; ok {
			err = errors.Join(err, note(audit.Note{Anchor: &a}, send))
		}
		if err == nil {
			err = t.exportStream(ctx, name, v.rev, send)
		}
		if err != nil {
			return err
		}
	}
	for _, h := range v.heads {
		if a, ok := anchors[h.Stream]; ok {
			err = errors.Join(err, note(audit.Note{Anchor: &a}, send))
		}
		if err == nil {
			err = t.exportStream(ctx, h.Stream, v.rev, send)
		}
		if err == nil {
			err = note(audit.Note{Head: &h}, send)
		}
		if err != nil {
			return err
		}
	}
	return note(audit.Note{End: names}, send)
}

// exportStream hands the lines of a stream to send, after notes that name what of it cannot be read.
func (t *Log) exportStream(ctx context.Context, name string, rev int64, send func(line []byte) error) error {
	for b, err := range t.blocks(ctx, name, 0, rev, true) {
		if err == nil && b.spoilt != "" {
			err = note(audit.Note{Spoilt: &audit.Spoilt{Stream: name, Seq: b.first, Key: b.spoilt}}, send)
		}
		if err != nil {
			return err
		}
	}
	return t.each(ctx, t.blocks(ctx, name, 0, rev, false), 0, rev, func(_ int64, line []byte) error { return send(line) })
}

func note(n audit.Note, send func(line []byte) error) error {
	text, err := json.Marshal(n)
	if err == nil {
		err = send(text)
	}
	return err
}

// each hands the lines in blocks of a stream after one to send, in order.
func (t *Log) each(ctx context.Context, blocks iter.Seq2[block, error], after, rev int64, send func(seq int64, line []byte) error) error {
	for b, err := range blocks {
		if err != nil {
			return err
		}
		if b.last <= after {
			continue
		}
		lines, err := t.load(ctx, b, rev)
		if err != nil {
			return err
		}
		for i, line := range lines {
			if seq := b.first + int64(i); seq > after {
				if err := send(seq, line); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// block is lines that are stored together.
type block struct {
	stream      string
	first, last int64
	from, until time.Time // of the oldest and the newest line of a segment; zero: unknown
	lines       [][]byte  // nil: they are in a segment
	spoilt      string    // key of what cannot be read of it; empty: nothing
}

// portionKeys is how many groups of lines the first portion of a stream has; the next ones have about 2 MiB.
const portionKeys = 4

// blocks yields what the lines of a stream after one are stored in, and perhaps blocks before it, in order, at a
// revision of etcd; it ends at the first error. With keysOnly the blocks have no lines.
func (t *Log) blocks(ctx context.Context, name string, after, rev int64, keysOnly bool) iter.Seq2[block, error] {
	return func(yield func(block, error) bool) {
		segments, err := t.index(ctx, name, after-segmentKeys*maxGroup, rev)
		if err != nil {
			yield(block{}, err)
			return
		}
		for _, s := range segments {
			if !yield(s.block(), nil) {
				return
			}
		}
		scan := etcdkv.Scan{
			Prefix: t.o.KV.Key("audit", "line", name) + "/", After: lineKey(t.o.KV, name, max(0, after-maxGroup)), Revision: rev,
			KeysOnly: keysOnly, First: portionKeys,
		}
		if keysOnly {
			scan.First = 0
		}
		for item, err := range t.o.KV.List(ctx, scan) {
			if err != nil {
				yield(block{}, err)
				return
			}
			if !yield(t.group(name, item), nil) {
				return
			}
		}
	}
}

func (s segment) block() block {
	return block{stream: s.Stream, first: s.First, last: s.Last, from: s.From, until: s.Until, spoilt: s.Spoilt}
}

// group returns the block of lines that are stored under a key.
func (t *Log) group(name string, item *mvccpb.KeyValue) block {
	_, first, err := place(t.o.KV, item.Key)
	if err != nil {
		t.damaged("lines of the audit log have no place", string(item.Key), err)
		return block{stream: name, last: -1, spoilt: string(item.Key)}
	}
	lines := bytes.Split(item.Value, []byte("\n"))
	return block{stream: name, first: first, last: first + int64(len(lines)) - 1, lines: lines}
}

// load returns the lines of a block; none if its segment is missing or spoilt: verify then names its first line.
func (t *Log) load(ctx context.Context, b block, rev int64) ([][]byte, error) {
	if b.lines != nil {
		return b.lines, nil
	}
	lines, _, err := t.unpacked(ctx, b.stream, b.first, rev)
	return lines, err
}

// unpacked returns the lines of the segment that begins with a line, and its size; none if it is missing or spoilt.
func (t *Log) unpacked(ctx context.Context, name string, first, rev int64) (lines [][]byte, size int64, err error) {
	key := segmentKey(t.o.KV, name, first)
	r, err := t.o.KV.Get(ctx, key, clientv3.WithRev(rev))
	if err != nil || len(r.Kvs) == 0 {
		return nil, 0, err
	}
	packed := r.Kvs[0].Value
	text, err := unpack(packed)
	if err != nil {
		t.damaged("a segment of the audit log is spoilt", key, etcdkv.Corrupt(key, err))
		return nil, 0, nil
	}
	return bytes.Split(text, []byte("\n")), int64(len(packed)), nil
}

// Query selects lines.
type Query struct {
	Since, Until time.Time // zero: any
	Limit        int
	Continue     string
	Admit        func(audit.Line) bool
}

// Bounds of what one List reads.
const (
	maxSeen    = 20_000 // lines
	lineWindow = 512    // line numbers at once, of lines that are in no segment yet
)

// slack is how much newer than its last line a segment may be, if an earlier version made it: requests take their times at once, and lines
// their places later.
const slack = time.Minute

// List returns lines, newest first. A page may be shorter than its limit, even empty, while there are more.
func (t *Log) List(ctx context.Context, q Query) (audit.Page, error) {
	if q.Continue == "" {
		_ = t.Flush(ctx) // as for Export
	}
	v, err := t.view(ctx)
	if err != nil {
		return audit.Page{}, err
	}
	heads := v.heads
	for _, name := range v.spoilt {
		heads = append(heads, audit.Head{Stream: name, Seq: unknownEnd - 1})
	}
	at, err := readPositions(q.Continue)
	if err != nil {
		return audit.Page{}, err
	}
	var all []*cursor
	seen := 0
	for _, h := range heads {
		next, begun := at[h.Stream]
		if q.Continue != "" && !begun {
			continue // it was made after the first page, or there is no more of it
		}
		if !begun {
			next = h.Seq + 1
		}
		c := &cursor{log: t, rev: v.rev, stream: h.Stream, next: next, seen: &seen}
		if err := c.open(ctx); err != nil {
			return audit.Page{}, err
		}
		if err := c.back(ctx, q.Since, q.Until); err != nil {
			return audit.Page{}, err
		}
		if !c.ended {
			all = append(all, c)
		}
	}
	page := audit.Page{Items: []json.RawMessage{}}
	for len(all) > 0 && len(page.Items) < q.Limit && seen < maxSeen { // so each has a current line
		c := slices.MaxFunc(all, func(a, b *cursor) int { return a.parsed.Time.Compare(b.parsed.Time) })
		if (q.Until.IsZero() || c.parsed.Time.Before(q.Until)) && q.Admit(c.parsed) {
			page.Items = append(page.Items, c.line)
		}
		if err := c.back(ctx, q.Since, q.Until); err != nil {
			return audit.Page{}, err
		}
		if c.ended {
			all = slices.DeleteFunc(all, func(of *cursor) bool { return of == c })
		}
	}
	if len(all) > 0 {
		page.Continue, err = positions(all)
	}
	return page, err
}

// cursor reads a stream backwards, in portions.
type cursor struct {
	log      *Log
	rev      int64
	stream   string
	seen     *int    // lines that all cursors have read
	segments []block // those that are not read yet
	lowest   int64   // of the lines that are in no segment; those from it on come first
	blocks   []block // what is being read; the last one first
	begin    int64   // of a portion of lines that are in no segment
	next     int64   // the number of the line after the current one, or after those that are not read yet
	line     []byte  // the current line; nil at the end, and when maxSeen lines were read
	ended    bool    // there is no line before next
	parsed   audit.Line
}

// open reads which segments there are, and where the lines begin that are in none.
func (c *cursor) open(ctx context.Context) error {
	segments, err := c.log.index(ctx, c.stream, 0, c.rev)
	if err != nil {
		return err
	}
	for _, s := range segments {
		c.segments = append(c.segments, s.block())
	}
	c.lowest, c.begin = unknownEnd, unknownEnd
	prefix := c.log.o.KV.Key("audit", "line", c.stream) + "/"
	for item, err := range c.log.o.KV.List(ctx, etcdkv.Scan{Prefix: prefix, First: 1, Revision: c.rev}) {
		if err != nil {
			return err
		}
		if b := c.log.group(c.stream, item); b.spoilt == "" {
			c.lowest = b.first
			break
		}
	}
	if c.next < unknownEnd {
		return nil
	}
	r, err := c.log.o.KV.Get(ctx, prefix, append(clientv3.WithLastKey(), clientv3.WithKeysOnly(), clientv3.WithRev(c.rev))...)
	if err != nil || len(r.Kvs) == 0 {
		return err
	}
	if _, first, err := place(c.log.o.KV, r.Kvs[0].Key); err == nil {
		c.next = first + maxGroup
	}
	return nil
}

// back goes to the line before that is from since or later. Some that are from until or later are left out. The order of lines is not that of
// their times: a process may write lines that its spool kept for hours.
func (c *cursor) back(ctx context.Context, since, until time.Time) error {
	c.line = nil
	for {
		if len(c.blocks) == 0 {
			if err := c.portion(ctx); err != nil || c.ended {
				return err
			}
		}
		b := &c.blocks[len(c.blocks)-1]
		n := min(c.next-1, b.last)
		early := !b.until.IsZero() && b.until.Add(slack).Before(since)
		late := !b.from.IsZero() && !until.IsZero() && !b.from.Before(until)
		if n < b.first || early || late {
			c.blocks = c.blocks[:len(c.blocks)-1]
			continue
		}
		lines, err := c.log.load(ctx, *b, c.rev)
		if err != nil {
			return err
		}
		if n-b.first >= int64(len(lines)) { // the log is not whole; verify reports that
			c.blocks = c.blocks[:len(c.blocks)-1]
			continue
		}
		if *c.seen >= maxSeen {
			c.next = n + 1
			return nil
		}
		*c.seen++
		b.lines = lines
		line := lines[n-b.first]
		c.next, c.parsed = n, audit.Line{}
		if json.Unmarshal(line, &c.parsed) != nil || c.parsed.Time.Before(since) {
			continue
		}
		c.line = line
		return nil
	}
}

// portion reads the blocks before those that were read, or finds that there are none: the lines that are in no segment come in windows
// of numbers, which grow while they are empty, because lines may be missing.
func (c *cursor) portion(ctx context.Context) error {
	c.next = min(c.next, c.begin)
	for window := int64(lineWindow); c.next > c.lowest; {
		after := max(0, c.next-1-window)
		groups, all, err := c.log.groups(ctx, c.stream, after, c.next, c.rev)
		switch {
		case err != nil:
			return err
		case !all:
			window /= 2
		case len(groups) == 0:
			c.next = after + 1
			window = min(2*window, unknownEnd/4)
		default:
			c.blocks, c.begin = groups, groups[0].first
			return nil
		}
	}
	c.blocks, c.segments = c.segments, nil
	c.ended = len(c.blocks) == 0
	return nil
}

// groups returns the blocks of lines between two numbers that are in no segment, and perhaps blocks before them, in order; not all if there
// are more than a window of lineWindow numbers can have.
func (t *Log) groups(ctx context.Context, name string, after, before, rev int64) (out []block, all bool, err error) {
	scan := etcdkv.Scan{
		Prefix: t.o.KV.Key("audit", "line", name) + "/", After: lineKey(t.o.KV, name, max(0, after-maxGroup)), Before: lineKey(t.o.KV, name, before),
		Revision: rev,
	}
	for item, err := range t.o.KV.List(ctx, scan) {
		if err != nil {
			return nil, false, err
		}
		if len(out) == lineWindow+maxGroup {
			return nil, false, nil
		}
		if b := t.group(name, item); b.spoilt == "" {
			out = append(out, b)
		}
	}
	return out, true, nil
}

// unknownEnd is the number after the last line of a stream whose head cannot be read.
const unknownEnd = math.MaxInt64

// positions returns the token that continues a list.
func positions(all []*cursor) (string, error) {
	at := map[string]int64{}
	for _, c := range all {
		at[c.stream] = c.next
		if c.line != nil {
			at[c.stream]++ // it is read again
		}
	}
	text, err := json.Marshal(at)
	return base64.RawURLEncoding.EncodeToString(text), err
}

// readPositions reads what positions returned.
func readPositions(token string) (at map[string]int64, err error) {
	if token == "" {
		return nil, nil
	}
	text, err := base64.RawURLEncoding.DecodeString(token)
	if err == nil {
		err = json.Unmarshal(text, &at)
	}
	if err != nil {
		return nil, errs.New(errs.Invalid, "continue is not a token of a page before")
	}
	return at, nil
}
