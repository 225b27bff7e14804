package auditlog_test

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/audit"
	"github.com/emco-orchestrator/emco/src/emco/internal/auditlog"
)

// The copy has all lines in order, over full files, segments and a start that does not know how far it was.
func TestTheCopyHasAllLines(t *testing.T) {
	b := newBed(t)
	log, _ := b.start(b.options("a"))
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	c := &auditlog.Copy{AuditLog: log, File: file, Bytes: 20_000, Files: 100, Log: slog.New(slog.DiscardHandler)}
	for round := range 5 {
		for i := range 30 {
			b.serve(log, fmt.Sprintf("/v2/projects/%d-%d", round, i))
		}
		b.must(log.Flush(t.Context()))
		switch round {
		case 2:
			b.later.Store(25 * 3600e9)
			b.must(log.Tidy(t.Context()))
		case 3:
			b.must(os.Remove(file + ".position"))
		}
		b.must(c.Once(t.Context()))
	}
	files, err := filepath.Glob(file + ".[0-9]*")
	b.must(err)
	if len(files) < 3 {
		t.Errorf("full files: %v", files)
	}
	v := audit.NewVerifier()
	for n := len(files); n >= 0; n-- {
		name := file
		if n > 0 {
			name = fmt.Sprintf("%s.%d", file, n)
		}
		text, err := os.ReadFile(name)
		b.must(err)
		b.must(v.Read(strings.NewReader(string(text))))
	}
	r, err := v.Finish()
	want := lines(b, b.export(log))
	if err != nil || r.Lines != int64(len(want)) || r.Streams[0].Seq != want[len(want)-1].Seq {
		t.Errorf("the copy has %+v, %v; there are %d lines", r, err, len(want))
	}
	if !slices.ContainsFunc(want, func(l audit.Line) bool { return l.Path == "/v2/projects/4-29" }) {
		t.Error("the last request is missing")
	}
}

// A line that was cut when the process was killed is removed, and written again as a whole.
func TestTheCopyMendsACutLine(t *testing.T) {
	b := newBed(t)
	log, stop := b.start(b.options("a"))
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	c := &auditlog.Copy{AuditLog: log, File: file, Bytes: 1 << 20, Files: 1, Log: slog.New(slog.DiscardHandler)}
	b.serve(log, "/v2/projects/"+strings.Repeat("x", 100_000)) // its line is longer than what is written at once
	b.must(log.Flush(t.Context()))
	b.must(c.Once(t.Context()))
	position, err := os.ReadFile(file + ".position")
	b.must(err)
	b.serve(log, "/v2/projects/"+strings.Repeat("y", 100_000))
	stop()
	b.must(c.Once(t.Context()))
	text, err := os.ReadFile(file)
	b.must(err)
	for _, cut := range []int{1, 70_000, 150_000} {
		b.must(os.WriteFile(file, text[:len(text)-cut], 0o600))
		b.must(os.WriteFile(file+".position", position, 0o600))
		b.must(c.Once(t.Context()))
		copied, err := os.Open(file)
		b.must(err)
		r, err := audit.Verify(copied)
		b.must(copied.Close())
		if want := lines(b, b.export(log)); err != nil || r.Lines != int64(len(want)) {
			t.Errorf("without the last %d bytes the copy has %+v, %v; there are %d lines", cut, r, err, len(want))
		}
	}
}

// While its position cannot be kept nothing is copied, so that no line is copied again and again.
func TestTheCopyNeedsItsPosition(t *testing.T) {
	b := newBed(t)
	log, _ := b.start(b.options("a"))
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	b.must(os.Mkdir(file+".position.next", 0o700))
	c := &auditlog.Copy{AuditLog: log, File: file, Bytes: 1 << 20, Files: 1, Log: slog.New(slog.DiscardHandler)}
	if err := c.Once(t.Context()); err == nil || !strings.Contains(err.Error(), "positions cannot be kept") {
		t.Errorf("got %v", err)
	}
	if text, err := os.ReadFile(file); err == nil {
		t.Errorf("copied are %s", text)
	}
}

// A disk without room for the positions leaves those of before.
func TestTheCopyKeepsItsFormerPosition(t *testing.T) {
	b := newBed(t)
	log, _ := b.start(b.options("a"))
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	c := &auditlog.Copy{AuditLog: log, File: file, Bytes: 1 << 20, Files: 1, Log: slog.New(slog.DiscardHandler)}
	b.serve(log, "/v2/projects/one")
	b.must(log.Flush(t.Context()))
	b.must(c.Once(t.Context()))
	want, err := os.ReadFile(file + ".position")
	b.must(err)
	b.serve(log, "/v2/projects/two")
	b.must(log.Flush(t.Context()))
	b.must(os.Symlink("/dev/full", file+".position.next"))
	if err := c.Once(t.Context()); err == nil || !strings.Contains(err.Error(), "positions cannot be kept") {
		t.Errorf("got %v", err)
	}
	if info, err := os.Lstat(file + ".position"); err != nil || !info.Mode().IsRegular() {
		t.Fatalf("the positions are %v, %v", info, err)
	}
	if got, err := os.ReadFile(file + ".position"); err != nil || string(got) != string(want) {
		t.Errorf("the positions are %q, %v; they were %q", got, err, want)
	}
	b.must(os.Remove(file + ".position.next"))
	b.must(c.Once(t.Context()))
	copied, err := os.ReadFile(file)
	b.must(err)
	if got, all := strings.Count(string(copied), "\n"), len(lines(b, b.export(log))); got != all {
		t.Errorf("%d lines are copied of %d", got, all)
	}
}

// After an error in the middle, what is in the file is not copied again.
func TestTheCopyContinuesWhereItFailed(t *testing.T) {
	b := newBed(t)
	log, stop := b.start(b.options("a"))
	for i := range 10 {
		b.serve(log, fmt.Sprintf("/v2/projects/%d", i))
	}
	stop()
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	c := &auditlog.Copy{AuditLog: log, File: file, Bytes: int64(len(b.export(log)) * 2 / 3), Files: 1, Log: slog.New(slog.DiscardHandler)}
	b.must(os.MkdirAll(filepath.Join(file+".1", "in the way"), 0o700))
	if c.Once(t.Context()) == nil {
		t.Fatal("the full file was moved over a folder")
	}
	b.must(os.RemoveAll(file + ".1"))
	b.must(c.Once(t.Context()))
	var copied []int64
	for _, name := range []string{file + ".1", file} {
		text, err := os.ReadFile(name)
		b.must(err)
		for _, l := range lines(b, string(text)) {
			copied = append(copied, l.Seq)
		}
	}
	if n := len(lines(b, b.export(log))); len(copied) != n || copied[0] != 1 || copied[n-1] != int64(n) {
		t.Errorf("of %d lines, copied are %v", n, copied)
	}
}
