package audit_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/audit"
)

// log makes chained lines.
type log struct {
	t     *testing.T
	heads map[string]audit.Head
	lines map[string][]string
}

func newLog(t *testing.T) *log {
	return &log{t, map[string]audit.Head{}, map[string][]string{}}
}

func (l *log) add(stream string, line audit.Line) {
	l.t.Helper()
	h := l.heads[stream]
	line.Version, line.Stream, line.Seq, line.Prev = audit.Version, stream, h.Seq+1, h.Hash
	line.Time = time.Unix(line.Seq, 0).UTC()
	text, err := line.Encode()
	if err != nil {
		l.t.Fatal(err)
	}
	l.heads[stream] = audit.Head{Stream: stream, Seq: line.Seq, Hash: audit.Hash(text)}
	l.lines[stream] = append(l.lines[stream], string(text))
}

func (l *log) all() []audit.Head { return []audit.Head{l.heads["00"], l.heads["01"]} }

func (l *log) note(n audit.Note) string {
	text, err := json.Marshal(n)
	if err != nil {
		l.t.Fatal(err)
	}
	return string(text)
}

// export is the whole log with its notes.
func (l *log) export() []string {
	out := []string{l.note(audit.Note{Begin: []string{"00", "01"}})}
	for _, s := range []string{"00", "01"} {
		h := l.heads[s]
		out = append(append(out, l.lines[s]...), l.note(audit.Note{Head: &h}))
	}
	return append(out, l.note(audit.Note{End: []string{"00", "01"}}))
}

// two has two streams of six lines; the last line of 01 names the heads of both.
func two(t *testing.T) *log {
	l := newLog(t)
	for range 5 {
		l.add("00", audit.Line{Phase: audit.Intent, Path: "/v2/projects"})
		l.add("01", audit.Line{Phase: audit.Outcome})
	}
	l.add("00", audit.Line{Phase: audit.Stop})
	l.add("01", audit.Line{Phase: audit.Mark, Heads: []audit.Head{l.heads["00"]}})
	return l
}

func verify(lines []string) (audit.Report, error) {
	return audit.Verify(strings.NewReader(strings.Join(lines, "\n") + "\n"))
}

func TestAWholeLogIsWhole(t *testing.T) {
	t.Parallel()
	r, err := verify(two(t).export())
	if err != nil || r.Lines != 12 || !r.Whole || len(r.Streams) != 2 || r.Streams[1].Seq != 6 || r.Streams[1].First != 1 {
		t.Errorf("got %+v, %v", r, err)
	}
}

// Each way to spoil an export is found, and the first line that is wrong is named.
func TestSpoiltLogsAreFound(t *testing.T) {
	t.Parallel()
	// The export without its first line: 00 is lines 0 to 5, its head 6; 01 is 7 to 12, its head 13; the end 14.
	for name, c := range map[string]struct {
		spoil  func(l []string) []string
		stream string
		seq    int64
	}{
		"changed":             {func(l []string) []string { l[2] = strings.Replace(l[2], "projects", "projectz", 1); return l }, "00", 3},
		"last changed":        {func(l []string) []string { l[5] = strings.Replace(l[5], "stop", "intent", 1); return l }, "00", 6},
		"dropped":             {func(l []string) []string { return slices.Delete(l, 2, 3) }, "00", 3},
		"first dropped":       {func(l []string) []string { return slices.Delete(l, 0, 1) }, "00", 1},
		"swapped":             {func(l []string) []string { l[2], l[3] = l[3], l[2]; return l }, "00", 3},
		"cut":                 {func(l []string) []string { return slices.Delete(l, 4, 6) }, "00", 5},
		"cut with head":       {func(l []string) []string { return slices.Delete(l, 4, 7) }, "00", 5},
		"export cut":          {func(l []string) []string { return l[:10] }, "01", 4},
		"line cut":            {func(l []string) []string { l[3] = l[3][:40]; return l }, "unknown", 0},
		"garbage":             {func(l []string) []string { l[3] = "{}"; return l }, "unknown", 0},
		"stream dropped":      {func(l []string) []string { return l[7:] }, "00", 1},
		"stream and its name": {func(l []string) []string { l = l[7:]; l[len(l)-1] = `{"end":["01"]}`; return l }, "00", 6},
		"inserted":            {func(l []string) []string { return slices.Insert(l, 3, l[2][:len(l[2])-1]+`,"count":1}`) }, "00", 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := verify(c.spoil(two(t).export()[1:]))
			b, ok := errors.AsType[*audit.Broken](err)
			if !ok || b.Stream != c.stream || b.Seq != c.seq {
				t.Errorf("got %v, want stream %s, line %d", err, c.stream, c.seq)
			}
		})
	}
}

// A consistent stream that lost its last lines together with its head is found by the streams that saw them.
func TestACutThatHidesItselfIsFoundByOtherStreams(t *testing.T) {
	t.Parallel()
	l := two(t)
	short := newLog(t)
	for range 3 {
		short.add("00", audit.Line{Phase: audit.Intent, Path: "/v2/projects"})
	}
	l.lines["00"], l.heads["00"] = short.lines["00"], short.heads["00"]
	_, err := verify(l.export())
	if b, ok := errors.AsType[*audit.Broken](err); !ok || b.Stream != "00" || b.Seq != 4 {
		t.Errorf("got %v", err)
	}
}

// A stream that was written again from the beginning is found by the heads of an earlier check.
func TestEarlierHeadsFindALogThatWasWrittenAgain(t *testing.T) {
	t.Parallel()
	earlier := two(t).all()
	l := newLog(t)
	for range 8 {
		l.add("00", audit.Line{Phase: audit.Intent, Path: "/v2/tokens"})
		l.add("01", audit.Line{Phase: audit.Outcome})
	}
	for name, c := range map[string]struct {
		l    *log
		want bool
	}{"another": {l, true}, "the same": {two(t), false}} {
		v := audit.NewVerifier()
		if err := v.Read(strings.NewReader(strings.Join(c.l.export(), "\n"))); err != nil {
			t.Fatal(err)
		}
		if _, err := v.Finish(); err != nil {
			t.Fatal(err)
		}
		if err := v.Keeps(earlier); c.want != (err != nil) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Lines may be removed at the beginning if a line records it, and only then.
func TestRemovedLinesNeedARecord(t *testing.T) {
	t.Parallel()
	l := two(t)
	removed := audit.Head{Stream: "00", Seq: 3, Hash: audit.Hash([]byte(l.lines["00"][2]))}
	l.lines["00"] = append([]string{l.note(audit.Note{Anchor: &removed})}, l.lines["00"][3:]...)
	if _, err := verify(l.export()); err == nil {
		t.Error("a removal without a record passed")
	}
	l.add("01", audit.Line{Phase: audit.Trim, Heads: []audit.Head{removed}})
	if r, err := verify(l.export()); err != nil || r.Streams[0].First != 4 {
		t.Errorf("a recorded removal: %+v, %v", r, err)
	}
	other := removed
	other.Hash = audit.Hash([]byte("other"))
	l.lines["00"][0] = l.note(audit.Note{Anchor: &other})
	if _, err := verify(l.export()); err == nil {
		t.Error("an anchor with another hash passed")
	}
}

// A file of lines, as the file sink writes it, may begin late, end early, and have lines twice.
func TestAFileOfLines(t *testing.T) {
	t.Parallel()
	l := two(t)
	lines := slices.Concat(l.lines["00"][2:4], l.lines["00"][3:5], l.lines["01"][:2])
	if r, err := verify(lines); err != nil || r.Whole || r.Lines != 5 {
		t.Errorf("got %+v, %v", r, err)
	}
	if _, err := verify(slices.Delete(slices.Clone(lines), 1, 3)); err == nil {
		t.Error("a gap passed")
	}
}

// An export that ends anywhere before its end, also within a line, is not accepted as a part of a log.
func TestACutExportIsFoundWhereverItWasCut(t *testing.T) {
	t.Parallel()
	text := strings.Join(two(t).export(), "\n")
	for n := range len(text) - len(`{"end":["00","01"]}`) {
		if _, err := audit.Verify(strings.NewReader(text[:n])); err == nil {
			t.Fatalf("the first %d bytes pass:\n%s", n, text[:n])
		}
	}
	lines := two(t).export()
	for n, want := range map[int]string{1: "stream 00, line 1: the export is cut", 4: "stream 00, line 4: the export is cut", 8: "stream 01, line 1: the export is cut"} {
		if _, err := verify(lines[:n]); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%d lines: %v, want %s", n, err, want)
		}
	}
	if _, err := verify(append(two(t).export()[1:4:4], two(t).export()...)); err == nil || !strings.Contains(err.Error(), "begins within the input") {
		t.Errorf("an export after lines: %v", err)
	}
}

// The export of a log without streams has a last line, too.
func TestAnEmptyExportHasAnEnd(t *testing.T) {
	t.Parallel()
	l := newLog(t)
	end := l.note(audit.Note{End: []string{}})
	if !audit.IsEnd([]byte(end)) || audit.IsEnd([]byte(l.note(audit.Note{Head: &audit.Head{}}))) {
		t.Errorf("the last line is %s", end)
	}
	if r, err := verify([]string{end}); err != nil || !r.Whole {
		t.Errorf("got %+v, %v", r, err)
	}
}

// A record that cannot be read does not keep the lines from being checked.
func TestASpoiltRecordIsNamedLast(t *testing.T) {
	t.Parallel()
	l := two(t)
	spoilt := l.note(audit.Note{Spoilt: &audit.Spoilt{Stream: "00", Seq: 1, Key: "/emco/audit/index/00/1"}})
	for why, lines := range map[string][]string{
		"/emco/audit/index/00/1 cannot be read": slices.Concat([]string{spoilt}, l.export()),
		"the line is missing":                   slices.Concat([]string{spoilt}, slices.Delete(l.export(), 2, 3)),
	} {
		if _, err := verify(lines); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("got %v, want %s", err, why)
		}
	}
}

// No input makes the check panic, and no change of a byte in the middle passes.
func FuzzVerify(f *testing.F) {
	text := []byte(strings.Join(two(&testing.T{}).export(), "\n"))
	f.Add(text)
	f.Add(bytes.Replace(text, []byte(`"seq":2`), []byte(`"seq":-2`), 1))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := audit.Verify(bytes.NewReader(text))
		if err == nil && r.Lines > int64(bytes.Count(text, []byte("\n"))+1) {
			t.Errorf("%d lines of %q", r.Lines, text)
		}
	})
}
