package auditlog

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/audit"
	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdtest"
)

// A request that does not wait for its intent leaves none, or one with the outcome that it was refused. Callers who leave are no failures of the log.
func TestARefusedRequestLeavesNoIntentAlone(t *testing.T) {
	t.Parallel()
	o := spooled(t)
	o.Strict, o.Spool = true, ""
	o.OnFailed = func() { t.Error("a failure is counted") }
	log, err := New(o)
	etcdtest.Must(t, err)
	left, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := log.Intend(left, audit.Line{Path: "/v2/waiting"}); !errs.Is(err, errs.Unavailable) {
		t.Errorf("an intent that nobody writes: %v", err)
	}
	p := &pendingLine{line: audit.Line{Phase: audit.Intent, Path: "/v2/written"}, done: make(chan error, 1)}
	etcdtest.Must(t, log.demand(p))
	w := &writer{Log: log}
	etcdtest.Must(t, w.open(t.Context()))
	group := w.next()
	if err := log.await(left, p); !errs.Is(err, errs.Unavailable) {
		t.Errorf("an intent that is being written: %v", err)
	}
	w.write(t.Context(), group)
	w.end(t.Context())

	var got []audit.Line
	reader := &Log{o: o, closed: true}
	etcdtest.Must(t, reader.Export(t.Context(), func(text []byte) error {
		var l audit.Line
		err := json.Unmarshal(text, &l)
		if l.Path != "" {
			got = append(got, l)
		}
		return err
	}))
	if len(got) != 2 || got[0].Phase != audit.Intent || got[1].Phase != audit.Outcome || got[1].Of != got[0].Seq || got[1].Code != 503 || got[1].Path != "/v2/written" {
		t.Errorf("lines %+v", got)
	}
}

// Notes that find no room are counted in a line when there is room again.
func TestDroppedNotesAreCounted(t *testing.T) {
	t.Parallel()
	o := spooled(t)
	log, err := New(o)
	etcdtest.Must(t, err)
	for range maxNotes {
		log.Note(audit.Line{Phase: audit.Refused})
	}
	log.Note(audit.Line{Phase: audit.Refused})
	log.Note(audit.Line{Phase: audit.Missed, Count: 40})
	w := &writer{Log: log}
	w.begin(t.Context(), t.Context())
	w.end(t.Context())
	n := map[string]int64{}
	reader := &Log{o: o, closed: true}
	etcdtest.Must(t, reader.Export(t.Context(), func(text []byte) error {
		var l audit.Line
		err := json.Unmarshal(text, &l)
		n[l.Phase] += max(1, l.Count)
		return err
	}))
	if n[audit.Refused] != maxNotes || n[audit.Missed] != 41 {
		t.Errorf("lines and what they count: %v", n)
	}
}
