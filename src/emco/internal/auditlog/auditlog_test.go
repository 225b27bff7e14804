package auditlog_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/emco-orchestrator/emco/src/api/audit"
	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdtest"
	"github.com/emco-orchestrator/emco/src/emco/internal/auditlog"
)

// bed is an installation with processes that write the log.
type bed struct {
	*testing.T
	kv     *etcdkv.Client
	later  atomic.Int64 // what the clock is ahead
	failed atomic.Int64
	early  atomic.Int64
}

func newBed(t *testing.T) *bed {
	t.Parallel()
	return &bed{T: t, kv: etcdkv.New(auditlog.Etcd, etcdtest.Prefix(t), etcdkv.Options{})}
}

func (b *bed) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (b *bed) options(holder string) auditlog.Options {
	return auditlog.Options{
		KV: b.kv, Holder: holder, TTL: 2 * time.Second, Strict: true, Keep: 90 * 24 * time.Hour, Bytes: 64 << 20,
		Now: func() time.Time { return time.Now().Add(time.Duration(b.later.Load())) }, Log: slog.New(slog.DiscardHandler),
		OnLines: func(int) {}, OnFailed: func() { b.failed.Add(1) },
		OnTrim: func(early bool, n int) {
			if early {
				b.early.Add(int64(n))
			}
		},
	}
}

// start runs a process; the returned function stops it.
func (b *bed) start(o auditlog.Options) (*auditlog.Log, func()) {
	b.Helper()
	begun := make(chan struct{})
	begin := sync.OnceFunc(func() { close(begun) })
	o.OnLines = func(int) { begin() }
	t, err := auditlog.New(o)
	b.must(err)
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan error, 1)
	go func() { over <- t.Run(ctx) }()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-over; err != nil {
			b.Error(err)
		}
	})
	b.Cleanup(stop)
	etcdtest.Receive(b, begun, "the first line")
	return t, stop
}

func request(path string) audit.Line {
	return audit.Line{Subject: "user:corp:alice", Verb: "create", Type: "projects", Path: path, Place: "projects/shop"}
}

// serve records a request as the API does.
func (b *bed) serve(t *auditlog.Log, path string) {
	b.Helper()
	line := request(path)
	line.Time = time.Now().Add(time.Duration(b.later.Load())).UTC()
	at, err := t.Intend(b.Context(), line)
	if err != nil {
		b.Error(err)
		return
	}
	line.Code = 201
	t.Conclude(b.Context(), at, line)
}

// tidy compresses and removes lines. The outcome of a request that was served may still wait to be written.
func (b *bed) tidy(t *auditlog.Log) {
	b.Helper()
	b.must(t.Flush(b.Context()))
	b.must(t.Tidy(b.Context()))
}

func (b *bed) export(t *auditlog.Log) string {
	b.Helper()
	var out bytes.Buffer
	b.must(t.Export(b.Context(), func(line []byte) error {
		_, err := out.Write(append(line, '\n'))
		return err
	}))
	return out.String()
}

// verify wants a log that is whole.
func (b *bed) verify(t *auditlog.Log) audit.Report {
	b.Helper()
	text := b.export(t)
	r, err := audit.Verify(strings.NewReader(text))
	if err != nil || !r.Whole {
		b.Fatalf("the log is not whole: %v\n%s", err, text)
	}
	return r
}

// lines returns the lines of an export.
func lines(b *bed, text string) (out []audit.Line) {
	for line := range strings.Lines(text) {
		var l audit.Line
		b.must(json.Unmarshal([]byte(line), &l))
		if l.Seq > 0 {
			out = append(out, l)
		}
	}
	return out
}

func count(all []audit.Line, phase string) (n int) {
	for _, l := range all {
		if l.Phase == phase {
			n++
		}
	}
	return n
}

// Requests of many clients are all in the log, which is one chain; each outcome names its intent.
func TestRequestsAreChained(t *testing.T) {
	b := newBed(t)
	log, stop := b.start(b.options("a"))
	var clients sync.WaitGroup
	for i := range 8 {
		clients.Go(func() {
			for j := range 25 {
				b.serve(log, fmt.Sprintf("/v2/projects/p-%d-%d", i, j))
			}
		})
	}
	clients.Wait()
	stop()
	b.verify(log)
	all := lines(b, b.export(log))
	if count(all, audit.Intent) != 200 || count(all, audit.Outcome) != 200 || all[0].Phase != audit.Start || all[len(all)-1].Phase != audit.Stop {
		t.Errorf("%d intents, %d outcomes, from %s to %s", count(all, audit.Intent), count(all, audit.Outcome), all[0].Phase, all[len(all)-1].Phase)
	}
	for _, l := range all {
		if l.Phase == audit.Outcome && !l.Time.After(all[l.Of-1].Time) {
			t.Errorf("the outcome %d is of %s, its intent of %s", l.Seq, l.Time, all[l.Of-1].Time)
		}
		if l.Phase == audit.Outcome && (all[l.Of-1].Phase != audit.Intent || all[l.Of-1].Path != l.Path) {
			t.Errorf("the outcome %d names line %d, which is %+v", l.Seq, l.Of, all[l.Of-1])
		}
	}
	if b.failed.Load() != 0 {
		t.Errorf("%d failures", b.failed.Load())
	}
}

// Processes write streams of their own; the next process continues the stream of one that has stopped.
func TestProcessesHaveStreams(t *testing.T) {
	b := newBed(t)
	one, stop := b.start(b.options("a"))
	two, _ := b.start(b.options("b"))
	b.serve(one, "/v2/projects/one")
	b.serve(two, "/v2/projects/two")
	stop()
	three, _ := b.start(b.options("c"))
	b.serve(three, "/v2/projects/three")
	r := b.verify(two)
	all := lines(b, b.export(two))
	if len(r.Streams) != 2 || count(all, audit.Start) != 3 {
		t.Fatalf("streams %+v, %d starts", r.Streams, count(all, audit.Start))
	}
	i := slices.IndexFunc(all, func(l audit.Line) bool { return l.Path == "/v2/projects/three" })
	if all[i].Stream != "00" {
		t.Errorf("the third process writes %s", all[i].Stream)
	}
	start := all[slices.IndexFunc(all, func(l audit.Line) bool { return l.Reason == "b" })]
	if len(start.Heads) != 1 || start.Heads[0].Stream != "00" {
		t.Errorf("the second process began with the heads %+v", start.Heads)
	}
}

// A process that lost its stream to another goes on with a free one, and no line is lost or doubled.
func TestALostStreamIsReplaced(t *testing.T) {
	b := newBed(t)
	one, _ := b.start(b.options("a"))
	b.serve(one, "/v2/projects/before")
	if _, err := auditlog.Etcd.Delete(b.Context(), b.kv.Key("own", "audit-00")); err != nil {
		t.Fatal(err)
	}
	two, _ := b.start(b.options("b"))
	b.serve(two, "/v2/projects/other")
	b.serve(one, "/v2/projects/after")
	if n := b.failed.Load(); n != 0 {
		t.Errorf("%d failures, after which requests are refused for a moment", n)
	}
	b.verify(one)
	all := lines(b, b.export(one))
	if starts, marks := count(all, audit.Start), count(all, audit.Mark); starts != 2 || marks != 1 {
		t.Errorf("%d starts of two processes, and %d marks of the one that goes on", starts, marks)
	}
	for _, path := range []string{"before", "other", "after"} {
		n := 0
		for _, l := range all {
			if l.Phase == audit.Intent && l.Path == "/v2/projects/"+path {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%d intents of %s", n, path)
		}
	}
}

// What was concluded is in the log after the end of the process by kill -9, once.
func TestTheSpoolSurvivesTheProcess(t *testing.T) {
	b := newBed(t)
	o := b.options("a")
	o.Strict, o.Spool = false, filepath.Join(t.TempDir(), "audit.spool")
	killed, err := auditlog.New(o) // it never runs: nothing of it reaches etcd
	b.must(err)
	for i := range 5 {
		b.serve(killed, fmt.Sprintf("/v2/projects/%d", i))
	}
	log, stop := b.start(o)
	b.serve(log, "/v2/projects/5")
	stop()
	for range 2 { // their lines are in the spool and in etcd
		_, stop = b.start(o)
		stop()
	}
	b.verify(log)
	all := lines(b, b.export(log))
	if n := count(all, audit.Outcome); n != 6 || count(all, audit.Intent) != 0 {
		t.Errorf("%d outcomes, want 6", n)
	}
}

// While etcd does not answer, requests are refused, and reading does not depend on it being written.
func TestAnUnwritableLogRefusesRequests(t *testing.T) {
	b := newBed(t)
	log, _ := b.start(b.options("a"))
	gone, cancel := context.WithCancel(b.Context())
	cancel()
	if _, err := log.Intend(gone, request("/v2/projects/x")); !errs.Is(err, errs.Unavailable) {
		t.Errorf("got %v", err)
	}
	o := b.options("never")
	o.Strict = false
	idle, err := auditlog.New(o)
	b.must(err)
	for range 4096 {
		idle.Note(request("/v2/flood"))
	}
	if b.failed.Load() < 3000 {
		t.Errorf("%d notes were dropped of 4096 that nobody writes", b.failed.Load())
	}
}

// Pages go back in time through segments and lines of all streams, and each line is in one of them.
func TestPagesShowAllLinesOnce(t *testing.T) {
	b := newBed(t)
	one, _ := b.start(b.options("a"))
	two, _ := b.start(b.options("b"))
	for i := range 20 {
		b.serve(one, fmt.Sprintf("/v2/projects/a%d", i))
		b.serve(two, fmt.Sprintf("/v2/projects/b%d", i))
	}
	b.later.Store(int64(25 * time.Hour))
	b.tidy(one)
	b.serve(one, "/v2/projects/last")
	if n := len(etcdtest.KeysBelow(t, b.kv, "audit/segment/")); n == 0 {
		t.Error("nothing was compressed")
	}
	seen := map[string]int{}
	var order []time.Time
	q := auditlog.Query{Limit: 7, Admit: func(l audit.Line) bool { return l.Phase == audit.Intent }}
	for {
		page, err := one.List(b.Context(), q)
		b.must(err)
		for _, text := range page.Items {
			var l audit.Line
			b.must(json.Unmarshal(text, &l))
			seen[l.Path]++
			order = append(order, l.Time)
		}
		if q.Continue = page.Continue; q.Continue == "" {
			break
		}
	}
	if len(seen) != 41 || !slices.IsSortedFunc(order, func(a, b time.Time) int { return b.Compare(a) }) {
		t.Errorf("%d lines, in order: %v", len(seen), order)
	}
	for path, n := range seen {
		if n != 1 {
			t.Errorf("%s is listed %d times", path, n)
		}
	}
	q = auditlog.Query{Limit: 100, Since: time.Now().Add(24 * time.Hour), Admit: q.Admit}
	page, err := one.List(b.Context(), q)
	if err != nil || len(page.Items) != 1 {
		t.Errorf("since tomorrow: %d lines, %v", len(page.Items), err)
	}
}

// Old lines are removed, and what is left can be verified; also when space and not age is the reason.
func TestRetentionKeepsTheLogVerifiable(t *testing.T) {
	b := newBed(t)
	o := b.options("a")
	o.Bytes = 2000 // a segment of these lines is larger
	log, _ := b.start(o)
	two, stop := b.start(b.options("b"))
	b.serve(two, "/v2/projects/other")
	stop()
	for day := range 4 {
		for i := range 30 {
			b.serve(log, fmt.Sprintf("/v2/projects/d%d-%d", day, i))
		}
		b.later.Add(int64(25 * time.Hour))
		b.tidy(log)
		b.verify(log)
	}
	r := b.verify(log)
	if r.Streams[0].First < 60 || b.early.Load() == 0 {
		t.Errorf("streams %+v, %d lines were removed early", r.Streams, b.early.Load())
	}
	b.later.Add(int64(91 * 24 * time.Hour))
	b.tidy(log)
	b.tidy(log)
	r = b.verify(log)
	if r.Lines > 3 { // the lines that record the removals
		t.Errorf("after 91 days there are %d lines", r.Lines)
	}
	b.serve(log, "/v2/projects/more")
	b.verify(log)
}

// A line that cannot be read stops neither the upkeep of other streams nor the removal of old lines.
func TestASpoiltLineStopsNoUpkeep(t *testing.T) {
	b := newBed(t)
	one, stop := b.start(b.options("a"))
	b.serve(one, "/v2/projects/spoilt")
	two, stopTwo := b.start(b.options("b"))
	stop()
	b.serve(two, "/v2/projects/old")
	b.edit(b.keys("audit/line/00")[0], func(string) string { return "{" })
	b.later.Store(int64(25 * time.Hour))
	for _, done := range []string{"audit/segment/01", "audit/anchor/01"} {
		if err := two.Tidy(b.Context()); err == nil || !strings.Contains(err.Error(), "audit/line/00") {
			t.Errorf("the spoilt line is not named: %v", err)
		}
		if len(b.keys(done)) == 0 {
			t.Errorf("there is no %s", done)
		}
		b.later.Add(int64(91 * 24 * time.Hour))
	}
	stopTwo()
}

// An entry of the index that cannot be read is named, and stops neither reads nor removals: its content is computed from the segment.
func TestASpoiltEntryOfTheIndexHidesNoLine(t *testing.T) {
	for name, spoil := range map[string]func(b *bed, entry string){
		"no JSON":      func(b *bed, entry string) { b.edit(entry, func(string) string { return "{" }) },
		"no last line": func(b *bed, entry string) { b.edit(entry, func(string) string { return "{}" }) },
		"another key": func(b *bed, entry string) {
			b.edit(entry+"x", func(string) string { return b.value(entry) })
			b.drop(entry)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			log, _ := b.start(b.options("a"))
			for day := range 3 {
				b.serve(log, fmt.Sprintf("/v2/projects/%d", day))
				b.later.Add(int64(25 * time.Hour))
				b.tidy(log)
			}
			b.serve(log, "/v2/projects/last")
			whole := b.export(log)
			entries := b.keys("audit/index/00")
			if len(entries) < 3 {
				t.Fatalf("entries %v", entries)
			}
			spoil(b, entries[1])
			spoilt := b.export(log)
			_, err := audit.Verify(strings.NewReader(spoilt))
			want, lost := entries[1], 0
			if name == "another key" { // no entry names the segment
				want, lost = "the line is missing", 2
			}
			if broken, ok := errors.AsType[*audit.Broken](err); !ok || broken.Stream != "00" || !strings.Contains(broken.Why, want) {
				t.Errorf("verify says %v, want %s", err, want)
			}
			if got, all := len(lines(b, spoilt)), len(lines(b, whole)); got != all-lost {
				t.Errorf("%d lines are read of %d", got, all)
			}
			page, err := log.List(b.Context(), auditlog.Query{Limit: 100, Admit: func(l audit.Line) bool { return l.Phase == audit.Intent }})
			if err != nil || len(page.Items) < 3 {
				t.Errorf("%d lines are listed, %v", len(page.Items), err)
			}
			b.later.Add(int64(91 * 24 * time.Hour))
			b.tidy(log)
			b.tidy(log)
			if n := len(b.keys("audit/segment/00")); n > 1 {
				t.Errorf("%d segments are left", n)
			}
			b.verify(log)
		})
	}
}

// A head that cannot be read is named, and stops neither other streams nor the next start: it takes another stream.
func TestASpoiltHeadStopsNothing(t *testing.T) {
	b := newBed(t)
	one, stop := b.start(b.options("a"))
	b.serve(one, "/v2/projects/before")
	stop()
	b.edit(b.kv.Key("audit", "head", "00"), func(string) string { return "{" })
	log, _ := b.start(b.options("a"))
	b.serve(log, "/v2/projects/after")
	text := b.export(log)
	if all := lines(b, text); count(all, audit.Intent) != 2 || all[len(all)-1].Stream != "01" {
		t.Errorf("lines %+v", all)
	}
	_, err := audit.Verify(strings.NewReader(text))
	if broken, ok := errors.AsType[*audit.Broken](err); !ok || broken.Stream != "00" || !strings.Contains(broken.Why, b.kv.Key("audit", "head", "00")) {
		t.Errorf("verify says %v", err)
	}
	page, err := log.List(b.Context(), auditlog.Query{Limit: 100, Admit: func(l audit.Line) bool { return l.Phase == audit.Intent }})
	if err != nil || len(page.Items) != 2 {
		t.Errorf("%d lines are listed, %v", len(page.Items), err)
	}
	b.tidy(log)
}

// Whoever can write etcd leaves traces: each change is found and the first line that is wrong is named.
func TestChangesInEtcdAreFound(t *testing.T) {
	type keys = []string
	for name, spoil := range map[string]func(b *bed, segments, lines keys){
		"changed": func(b *bed, _, lines keys) {
			b.edit(lines[3], func(v string) string { return strings.Replace(v, "alice", "alicf", 1) })
		},
		"dropped":         func(b *bed, _, lines keys) { b.drop(lines[3]) },
		"segment dropped": func(b *bed, segments, _ keys) { b.drop(segments[0]) },
		"swapped": func(b *bed, _, lines keys) {
			one, two := b.value(lines[3]), b.value(lines[4])
			b.edit(lines[3], func(string) string { return two })
			b.edit(lines[4], func(string) string { return one })
		},
		"cut":             func(b *bed, _, lines keys) { b.drop(lines[len(lines)-1]) },
		"segment changed": func(b *bed, segments, _ keys) { b.edit(segments[0], func(v string) string { return v[:len(v)/2] }) },
		"beginning removed": func(b *bed, segments, lines keys) {
			var l audit.Line
			group := strings.Split(b.value(lines[0]), "\n")
			last := group[len(group)-1]
			b.must(json.Unmarshal([]byte(last), &l))
			text, err := json.Marshal(audit.Head{Stream: l.Stream, Seq: l.Seq, Hash: audit.Hash([]byte(last))})
			b.must(err)
			b.drop(segments[0])
			b.drop(strings.Replace(segments[0], "/segment/", "/index/", 1))
			b.drop(lines[0])
			b.edit(b.kv.Key("audit", "anchor", l.Stream), func(string) string { return string(text) })
		},
		"stream removed": func(b *bed, segments, _ keys) {
			for _, part := range []string{"head", "line", "segment", "index", "anchor"} {
				if _, err := auditlog.Etcd.Delete(b.Context(), b.kv.Key("audit", part, "00"), clientv3.WithPrefix()); err != nil {
					b.Fatal(err)
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			log, stop := b.start(b.options("a"))
			for i := range 10 {
				b.serve(log, fmt.Sprintf("/v2/projects/%d", i))
			}
			b.later.Store(int64(25 * time.Hour))
			b.tidy(log)
			two, _ := b.start(b.options("b")) // it records the head of the other stream
			for i := range 10 {
				b.serve(log, fmt.Sprintf("/v2/projects/later-%d", i))
			}
			stop()
			b.verify(two)
			spoil(b, b.keys("audit/segment/00"), b.keys("audit/line/00"))
			var out bytes.Buffer
			err := two.Export(b.Context(), func(line []byte) error { _, err := out.Write(append(line, '\n')); return err })
			if err == nil {
				_, err = audit.Verify(&out)
			}
			if broken, ok := errors.AsType[*audit.Broken](err); !ok || broken.Stream != "00" {
				t.Errorf("got %v", err)
			}
		})
	}
}

// A line that was changed to name another stream hides no lines of its own one.
func TestPagesGoOnBehindAChangedLine(t *testing.T) {
	b := newBed(t)
	log, _ := b.start(b.options("a"))
	for i := range 4 {
		b.serve(log, fmt.Sprintf("/v2/projects/%d", i))
	}
	b.must(log.Flush(b.Context()))
	for _, key := range b.keys("audit/line/00") {
		b.edit(key, func(v string) string { return strings.ReplaceAll(v, `"stream":"00"`, `"stream":"07"`) })
	}
	q, n := auditlog.Query{Limit: 2, Admit: func(l audit.Line) bool { return l.Phase == audit.Intent }}, 0
	for more := true; more; more = q.Continue != "" {
		page, err := log.List(b.Context(), q)
		b.must(err)
		n += len(page.Items)
		q.Continue = page.Continue
	}
	if n != 4 {
		t.Errorf("%d requests are listed of 4", n)
	}
}

// Lines that a spool kept for hours hide none that is newer, also when all are compressed.
func TestLateLinesHideNoNewerOnes(t *testing.T) {
	b := newBed(t)
	o := b.options("a")
	o.Strict, o.Spool = false, filepath.Join(t.TempDir(), "audit.spool")
	killed, err := auditlog.New(o) // it never runs
	b.must(err)
	b.serve(killed, "/v2/projects/late")
	b.later.Store(int64(3 * time.Hour))
	since := time.Now().Add(2 * time.Hour)
	log, _ := b.start(o)
	b.must(log.Flush(b.Context()))
	for _, compressed := range []bool{false, true} {
		if compressed {
			b.later.Store(int64(28 * time.Hour))
			b.tidy(log)
			if len(b.keys("audit/segment/00")) == 0 {
				t.Fatal("nothing was compressed")
			}
		}
		page, err := log.List(b.Context(), auditlog.Query{Limit: 10, Since: since, Admit: func(audit.Line) bool { return true }})
		b.must(err)
		if len(page.Items) != 1 || !strings.Contains(string(page.Items[0]), `"phase":"start"`) {
			t.Errorf("compressed %v: lines %s", compressed, page.Items)
		}
	}
}

// A list until a time does not read segments that are newer.
func TestAListUntilATimeSkipsNewerSegments(t *testing.T) {
	b := newBed(t)
	o := b.options("a")
	var said bytes.Buffer
	o.Log = slog.New(slog.NewTextHandler(&said, nil))
	log, stop := b.start(o)
	for day := range 3 {
		b.serve(log, fmt.Sprintf("/v2/projects/%d", day))
		b.later.Add(int64(25 * time.Hour))
		b.tidy(log)
	}
	stop()
	segments := b.keys("audit/segment/00")
	b.edit(segments[len(segments)-1], func(string) string { return "spoilt" })
	page, err := log.List(b.Context(), auditlog.Query{Limit: 10, Until: time.Now().Add(time.Hour), Admit: func(l audit.Line) bool { return l.Phase == audit.Intent }})
	b.must(err)
	if len(page.Items) != 1 || !strings.Contains(string(page.Items[0]), "/v2/projects/0") {
		t.Errorf("lines %s", page.Items)
	}
	if strings.Contains(said.String(), "spoilt") {
		t.Errorf("a newer segment was read: %s", &said)
	}
}

// storeLines stores intents as the stream "01", in groups of a size; line returns the nth, from 1.
func (b *bed) storeLines(groups, size int, line func(n int) audit.Line) {
	b.Helper()
	var ops []clientv3.Op
	for first := 1; first <= groups*size; first += size {
		var lines []string
		for n := first; n < first+size; n++ {
			l := line(n)
			l.Stream, l.Seq, l.Phase = "01", int64(n), audit.Intent
			text, err := json.Marshal(l)
			b.must(err)
			lines = append(lines, string(text))
		}
		ops = append(ops, clientv3.OpPut(b.kv.Key("audit", "line", "01", etcdkv.Number(int64(first))), strings.Join(lines, "\n")))
	}
	ops = append(ops, clientv3.OpPut(b.kv.Key("audit", "head", "01"), fmt.Sprintf(`{"seq":%d,"hash":""}`, groups*size)))
	for some := range slices.Chunk(ops, 20) {
		_, _, err := b.kv.Commit(b.Context(), "lines", nil, some)
		b.must(err)
	}
}

// An export of a long log holds a portion of it in memory: what was read from etcd and is not sent yet.
func TestAnExportHoldsAPortionInMemory(t *testing.T) {
	b := newBed(t)
	held, most, total := 0, 0, 0 // bytes; only the export counts
	b.kv = etcdkv.New(auditlog.Etcd, etcdtest.Prefix(t), etcdkv.Options{OnRequest: func(_ string, bytes int) {
		held, total = held+bytes, total+bytes
		most = max(most, held)
	}})
	const groups, size = 300, 50
	b.storeLines(groups, size, func(n int) audit.Line { return audit.Line{Path: strings.Repeat("x", 1000), Time: time.Now()} })
	log, err := auditlog.New(b.options("a")) // it writes nothing: it does not run
	b.must(err)
	held, most, total = 0, 0, 0
	next := int64(1)
	b.must(log.Export(b.Context(), func(text []byte) error {
		var l audit.Line
		if err := json.Unmarshal(text, &l); err != nil || l.Seq == 0 {
			return err // a note
		}
		if l.Seq != next {
			return fmt.Errorf("line %d comes instead of %d", l.Seq, next)
		}
		next++
		held -= len(text)
		return nil
	}))
	if next != groups*size+1 {
		t.Errorf("%d lines were exported, want %d", next-1, groups*size)
	}
	if portion := 3 << 20; most > portion || total < 5*portion {
		t.Errorf("of %d bytes, %d were in memory at once, want at most %d", total, most, portion)
	}
}

// A page reads few of the lines that are in no segment yet, and no more than a bound if none of them is asked for; the pages after it have
// the others, also behind lines that are missing.
func TestAPageReadsFewLinesThatAreInNoSegment(t *testing.T) {
	b := newBed(t)
	var read atomic.Int64
	prefix := etcdtest.Prefix(t)
	b.kv = etcdkv.New(auditlog.Etcd, prefix, etcdkv.Options{OnRequest: func(kind string, bytes int) {
		if kind == "list" {
			read.Add(int64(bytes))
		}
	}})
	const groups, missing, size = 700, 100, 50 // more than 20,000 lines; those of some groups are missing
	begun := time.Now().Add(-time.Hour)
	b.storeLines(groups, size, func(n int) audit.Line {
		return audit.Line{Path: fmt.Sprint(n), Time: begun.Add(time.Duration(n) * time.Millisecond)}
	})
	for g := range missing {
		key := b.kv.Key("audit", "line", "01", etcdkv.Number(int64((300+g)*size+1)))
		_, _, err := b.kv.Commit(b.Context(), "lines", nil, []clientv3.Op{clientv3.OpDelete(key)})
		b.must(err)
	}
	log, _ := b.start(b.options("a")) // it writes another stream

	requests := func(l audit.Line) bool { return l.Phase == audit.Intent }
	read.Store(0)
	page, err := log.List(b.Context(), auditlog.Query{Limit: 10, Admit: requests})
	b.must(err)
	if n := read.Swap(0); len(page.Items) != 10 || !strings.Contains(string(page.Items[0]), fmt.Sprintf(`"path":"%d"`, groups*size)) || n > 512<<10 {
		t.Errorf("a page of 10 reads %d bytes: %s", n, page.Items)
	}
	page, err = log.List(b.Context(), auditlog.Query{Limit: 10, Since: time.Now().Add(time.Hour), Admit: requests})
	b.must(err)
	if n := read.Swap(0); len(page.Items) != 0 || page.Continue == "" || n > 6<<20 {
		t.Errorf("a page without lines reads %d bytes, and continues with %q", n, page.Continue)
	}
	q, seen, pages := auditlog.Query{Limit: 1000, Admit: requests}, groups*size+1, 0
	for more := true; more; more = q.Continue != "" {
		page, err := log.List(b.Context(), q)
		b.must(err)
		q.Continue = page.Continue
		pages++
		for _, text := range page.Items {
			var l audit.Line
			b.must(json.Unmarshal(text, &l))
			if want := seen - 1; int(l.Seq) != want && !(want == (300+missing)*size && l.Seq == 300*size) {
				t.Fatalf("line %d follows %d", l.Seq, seen)
			}
			seen = int(l.Seq)
		}
	}
	if seen != 1 || pages > (groups-missing)*size/1000+1 {
		t.Errorf("%d pages end at line %d", pages, seen)
	}
}

// What cannot be read is logged once, although copies look each second.
func TestDamageIsLoggedOnce(t *testing.T) {
	b := newBed(t)
	o := b.options("a")
	var said bytes.Buffer
	o.Log = slog.New(slog.NewTextHandler(&said, nil))
	log, stop := b.start(o)
	b.serve(log, "/v2/projects/x")
	b.later.Add(int64(25 * time.Hour))
	b.tidy(log)
	stop()
	b.edit(b.keys("audit/index/00")[0], func(string) string { return "{" })
	for range 3 {
		b.export(log)
	}
	if n := strings.Count(said.String(), "index of the audit log cannot be read"); n != 1 {
		t.Errorf("it is logged %d times: %s", n, &said)
	}
}

// Lines that another process has removed are not counted.
func TestOnlyRemovedLinesAreCounted(t *testing.T) {
	b := newBed(t)
	o := b.options("a")
	o.Bytes = 1
	log, _ := b.start(o)
	b.serve(log, "/v2/projects/x")
	b.must(log.Flush(b.Context()))
	b.later.Add(int64(25 * time.Hour))
	b.edit(b.kv.Key("audit", "anchor", "00"), func(string) string { return `{"stream":"00","seq":1000}` })
	b.tidy(log)
	if n := b.early.Load(); n != 0 {
		t.Errorf("%d lines are counted as removed", n)
	}
	b.drop(b.kv.Key("audit", "anchor", "00"))
	b.tidy(log)
	if n := b.early.Load(); n != 3 {
		t.Errorf("%d lines are counted as removed, want 3", n)
	}
}

// While other processes write all streams, requests are refused, and the reason is named.
func TestWithoutAStreamRequestsAreRefused(t *testing.T) {
	b := newBed(t)
	for n := range 100 {
		b.edit(b.kv.Key("own", fmt.Sprintf("audit-%02d", n)), func(string) string { return "other" })
	}
	o := b.options("a")
	o.Strict = false
	failed := make(chan struct{})
	o.OnFailed = sync.OnceFunc(func() { close(failed) })
	log, err := auditlog.New(o)
	b.must(err)
	ctx, cancel := context.WithCancel(b.Context())
	over := make(chan error, 1)
	go func() { over <- log.Run(ctx) }()
	etcdtest.Receive(b, failed, "the failure")
	if _, err := log.Intend(b.Context(), request("/v2/projects/x")); !errs.Is(err, errs.Unavailable) || !strings.Contains(err.Error(), "all 100 streams") {
		t.Errorf("got %v", err)
	}
	cancel()
	b.must(<-over)
}

func (b *bed) value(key string) string {
	b.Helper()
	r, err := auditlog.Etcd.Get(b.Context(), key)
	b.must(err)
	if len(r.Kvs) == 0 {
		return ""
	}
	return string(r.Kvs[0].Value)
}

func (b *bed) keys(part string) (out []string) {
	for _, k := range etcdtest.KeysBelow(b, b.kv, part) {
		out = append(out, b.kv.Key(k))
	}
	return out
}

func (b *bed) edit(key string, change func(string) string) {
	b.Helper()
	_, err := auditlog.Etcd.Put(b.Context(), key, change(b.value(key)))
	b.must(err)
}

func (b *bed) drop(key string) {
	b.Helper()
	r, err := auditlog.Etcd.Delete(b.Context(), key)
	b.must(err)
	if r.Deleted != 1 {
		b.Fatalf("there is no %s", key)
	}
}
