package auditlog

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/audit"
	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdtest"
)

// spooled are the options of a process with a spool.
func spooled(t *testing.T) Options {
	t.Helper()
	return Options{
		KV: etcdkv.New(Etcd, etcdtest.Prefix(t), etcdkv.Options{}), Holder: "a", TTL: 2 * time.Second, Spool: filepath.Join(t.TempDir(), "audit.spool"),
		Keep: time.Hour, Bytes: 1 << 20, Now: time.Now, Log: slog.New(slog.DiscardHandler), OnLines: func(int) {}, OnFailed: func() {},
	}
}

// large is an outcome; some hundred of them fill the spool.
func large() audit.Line { return audit.Line{Path: strings.Repeat("x", 2048), Code: 201} }

// outcomes returns how many outcomes the log has, by status.
func outcomes(t *testing.T, kv *etcdkv.Client) map[int]int {
	t.Helper()
	n := map[int]int{}
	log := &Log{o: Options{KV: kv}, closed: true}
	etcdtest.Must(t, log.Export(t.Context(), func(text []byte) error {
		var l audit.Line
		if err := json.Unmarshal(text, &l); err != nil {
			return err
		}
		if l.Phase == audit.Outcome {
			n[l.Code]++
		}
		return nil
	}))
	return n
}

// A process that has no time to write all lines when it stops leaves them in the spool.
func TestAStopKeepsTheSpoolOfUnwrittenLines(t *testing.T) {
	t.Parallel()
	const spooledLines = 2 * maxGroup
	o := spooled(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	o.OnLines = func(n int) {
		if n == maxGroup {
			cancel() // the time is over
		}
	}
	log, err := New(o)
	etcdtest.Must(t, err)
	for range spooledLines {
		log.Conclude(t.Context(), Ticket{}, large())
	}
	w := &writer{Log: log}
	etcdtest.Must(t, w.open(t.Context()))
	w.end(ctx)
	if n := outcomes(t, o.KV)[201]; n != maxGroup {
		t.Fatalf("%d outcomes were written before the end", n)
	}

	o.OnLines = func(int) {}
	log, err = New(o)
	etcdtest.Must(t, err)
	w = &writer{Log: log}
	w.begin(t.Context(), t.Context())
	w.end(t.Context())
	if n := outcomes(t, o.KV)[201]; n != spooledLines {
		t.Errorf("%d outcomes are in the log, want %d", n, spooledLines)
	}
}

// With little room in the spool a request needs its intent in etcd; an outcome that finds none is written later, although etcd refuses lines.
func TestAFullSpoolLosesNoOutcome(t *testing.T) {
	t.Parallel()
	o := spooled(t)
	log, err := New(o)
	etcdtest.Must(t, err)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := log.Intend(over, large()); err != nil {
		t.Fatalf("with an empty spool: %v", err)
	}
	spooledLines := 0
	for ; log.spool.used <= spoolBytes*3/4; spooledLines++ {
		log.Conclude(t.Context(), Ticket{}, large())
	}
	if _, err := log.Intend(over, large()); !errs.Is(err, errs.Unavailable) {
		t.Errorf("with little room and without etcd: %v", err)
	}
	for full := false; !full; spooledLines++ {
		full = log.spool.used+4096 > spoolBytes
		log.Conclude(t.Context(), Ticket{}, large())
	}
	log.failed(errors.New("etcd is full"))
	line := large()
	line.Code = 409
	for range 3 {
		log.Conclude(over, Ticket{}, line)
	}
	w := &writer{Log: log}
	w.begin(t.Context(), t.Context())
	w.end(t.Context())
	if n := outcomes(t, o.KV); n[201]+n[409] != spooledLines+3 {
		t.Errorf("outcomes %v, want %d and 3", n, spooledLines)
	}
}

// A spool whose disk fails is an error, and the outcomes of requests reach etcd.
func TestASpoolThatFailsLosesNoOutcome(t *testing.T) {
	t.Parallel()
	o := spooled(t)
	log, err := New(o)
	etcdtest.Must(t, err)
	etcdtest.Must(t, os.Truncate(o.Spool, 0))
	if err := log.spool.add(&pendingLine{line: large()}); err == nil || !strings.Contains(err.Error(), "cannot be read or written") {
		t.Fatalf("a spool without its file: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- log.Run(ctx) }()
	log.Conclude(t.Context(), Ticket{}, large())
	cancel()
	etcdtest.Must(t, <-over)
	if n := outcomes(t, o.KV)[201]; n != 1 {
		t.Errorf("%d outcomes are in the log", n)
	}
}
