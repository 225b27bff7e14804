// Package auditlog keeps the audit log in etcd: it chains lines by hash, writes them in groups, compresses and
// removes old ones, and reads them. A file, the spool, can keep lines until etcd has them. Copies of all lines can go to
// files and to a webhook. Package src/api/audit defines the lines.
//
// Each process writes a stream of its own, which it owns like a shard; the next process continues it. A
// stream is a head, new lines, several in one key, older lines in compressed segments with an index, and an
// anchor: the last line that was removed.
package auditlog

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/emco-orchestrator/emco/src/api/audit"
	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
)

const (
	maxGroup      = 200  // lines in one transaction
	maxWait       = 4096 // lines that wait; requests beyond are refused
	maxNotes      = 1024 // lines that wait; notes beyond are dropped
	together      = time.Second / 10
	patience      = 5 * time.Second // of a request that waits for its line
	goodbye       = 5 * time.Second // for the last lines of a process that stops
	upkeep        = time.Minute     // between two looks at old lines
	markEvery     = 24 * time.Hour  // between two lines with the heads of all streams
	compressAfter = 24 * time.Hour  // the age at which lines are compressed at the latest
	retry         = time.Second / 2 // after etcd did not answer
)

// Options configure a Log.
type Options struct {
	KV     *etcdkv.Client
	Holder string        // this process; see shards.Own
	TTL    time.Duration // of the ownership of a stream
	Strict bool          // requests wait until their intent is in etcd
	Spool  string        // file that keeps lines until they are in etcd; only for a process that is alone on KV; empty: none
	Keep   time.Duration // age of the oldest lines
	Bytes  int64         // of compressed lines
	Now    func() time.Time
	Log    *slog.Logger

	OnLines  func(n int)             // called for lines that were written
	OnFailed func()                  // called for a write that failed, for a request that was refused because of it, and for a note that was dropped
	OnTrim   func(early bool, n int) // called for removed lines: early if there were more bytes than Bytes
}

// Log is the audit log of one process, and reads that of all.
type Log struct {
	o     Options
	spool *spool // nil without
	wake  chan struct{}
	full  chan struct{} // holds a token when the lines of a segment were written

	mu      sync.Mutex
	waiting []*pendingLine // guarded by mu
	failure error          // of the last write; guarded by mu
	closed  bool           // guarded by mu
	dropped int64          // notes that are not counted in a line yet; guarded by mu
	stream  string         // that this process writes; empty: none; guarded by mu

	damages map[string]struct{} // keys that were logged as damaged; guarded by mu
}

// pendingLine is a line that waits for its place.
type pendingLine struct {
	line    audit.Line // without a phase: no line, but a caller waits for those before it
	done    chan error // gets one value when the line is written or never will be; nil if no caller waits
	refused bool       // an intent whose request was refused while it was being written; guarded by Log.mu
	ordinal int64      // in the spool; 0 if it is not there
	seq     int64      // of the written line
}

// New returns a Log. It opens the spool; Run starts it.
func New(o Options) (*Log, error) {
	t := &Log{o: o, wake: make(chan struct{}, 1), full: make(chan struct{}, 1)}
	if o.Spool == "" {
		return t, nil
	}
	s, left, err := openSpool(o.Spool)
	if err != nil {
		return nil, err
	}
	t.spool = s
	for _, p := range left {
		t.waiting = append(t.waiting, &p)
	}
	return t, nil
}

// Ticket allows a request to be carried out. It names the line of the request's intent, to which the outcome refers; the
// zero Ticket names none.
type Ticket struct {
	stream string
	seq    int64
}

// Intend is called before a request is carried out. If the log is strict, or the spool has little room for the outcome, it returns when the
// line is in etcd. Unavailable if the log cannot be written: nothing must be done then.
func (t *Log) Intend(ctx context.Context, l audit.Line) (Ticket, error) {
	l.Phase = audit.Intent
	if !t.o.Strict {
		if room, err := t.room(); room || err != nil {
			return Ticket{}, err
		}
	}
	p := &pendingLine{line: l, done: make(chan error, 1)}
	if err := t.demand(p); err != nil {
		return Ticket{}, err
	}
	if err := t.await(ctx, p); err != nil {
		return Ticket{}, err
	}
	return Ticket{p.line.Stream, p.seq}, nil
}

// Conclude is called before the answer is sent. The line is safe from the end of the process when it returns, if there is a spool.
func (t *Log) Conclude(ctx context.Context, at Ticket, l audit.Line) {
	l.Time, l.Phase, l.Stream, l.Of = t.o.Now().UTC(), audit.Outcome, at.stream, at.seq
	p := &pendingLine{line: l}
	if t.keep(p) {
		return
	}
	p.done = make(chan error, 1)
	if t.o.Strict {
		p.done = nil // its intent is safe
	}
	err := t.enqueue(p, 2*maxWait) // also while etcd refuses lines: it is written later
	if err == nil && p.done != nil {
		err = t.await(ctx, p)
	}
	if err != nil {
		t.o.Log.Error("the outcome of a request may be missing in the audit log", "err", err, "request", l.Request, "path", l.Path, "code", l.Code)
	}
}

// Note adds a line without waiting for its write. It is dropped if too many wait: it counts as failed, and in the next line of what was missed.
func (t *Log) Note(l audit.Line) {
	t.mu.Lock()
	err := t.enqueueLocked(&pendingLine{line: l}, maxNotes)
	if err != nil {
		t.dropped += max(1, l.Count)
	}
	t.mu.Unlock()
	if err != nil {
		t.o.OnFailed()
	}
}

// countDroppedLocked adds a line with the number of the notes that were dropped, once others find room again.
func (t *Log) countDroppedLocked() {
	if t.dropped == 0 || len(t.waiting) >= maxNotes {
		return
	}
	t.waiting = append(t.waiting, &pendingLine{line: audit.Line{Time: t.o.Now().UTC(), Phase: audit.Missed, Count: t.dropped, Reason: "lines that found no room"}})
	t.dropped = 0
	t.ring()
}

// Flush returns when the lines that wait are written.
func (t *Log) Flush(ctx context.Context) error {
	p := &pendingLine{done: make(chan error, 1)}
	if err := t.demand(p); err != nil {
		return err
	}
	return t.await(ctx, p)
}

// room reports whether the outcomes of requests that begin now will find room in the spool; an error if requests must be refused.
func (t *Log) room() (bool, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.spool == nil || t.spool.used <= spoolBytes*3/4, t.refusalLocked()
}

// keep puts a line into the spool and among those that wait; false if it is not safe there.
func (t *Log) keep(p *pendingLine) bool {
	if t.spool == nil {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed || t.spool.add(p) != nil {
		return false
	}
	t.waiting = append(t.waiting, p)
	t.ring()
	return true
}

// demand adds a line that a caller waits for, unless requests must be refused.
func (t *Log) demand(p *pendingLine) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.refusalLocked(); err != nil {
		return err
	}
	return t.enqueueLocked(p, maxWait)
}

// enqueue adds a line to those that wait, if fewer than most do.
func (t *Log) enqueue(p *pendingLine, most int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.enqueueLocked(p, most)
}

func (t *Log) enqueueLocked(p *pendingLine, most int) error {
	switch {
	case t.closed:
		return unavailable(errStops)
	case len(t.waiting) >= most:
		return unavailable(errTooMany)
	}
	if p.line.Time.IsZero() {
		p.line.Time = t.o.Now().UTC()
	}
	t.waiting = append(t.waiting, p)
	t.ring()
	return nil
}

func (t *Log) ring() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// refusalLocked returns why requests must be refused.
func (t *Log) refusalLocked() error {
	switch {
	case t.closed:
		return unavailable(errStops)
	case t.failure != nil:
		return unavailable(t.failure)
	case len(t.waiting) >= maxWait:
		return unavailable(errTooMany)
	}
	return nil
}

// Why lines are not taken.
var (
	errStops   = errors.New("this process stops")
	errTooMany = errors.New("too many lines wait")
)

func unavailable(err error) error {
	return &errs.Error{Kind: errs.Unavailable, Op: "write", Subject: "the audit log", Err: err, After: 2 * time.Second}
}

// await waits until a line is written.
func (t *Log) await(ctx context.Context, p *pendingLine) error {
	patient, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case err := <-p.done:
		return err
	case <-patient.Done():
	}
	if ctx.Err() == nil { // else the caller left, and the log may be well
		t.o.OnFailed()
	}
	return t.giveUp(p)
}

// giveUp takes a line back that was not written in time, and returns why. An outcome stays: its action has happened. An intent that is
// being written gets an outcome.
func (t *Log) giveUp(p *pendingLine) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	select {
	case err := <-p.done:
		return err
	default:
	}
	if p.line.Phase != audit.Outcome {
		n := len(t.waiting)
		t.waiting = slices.DeleteFunc(t.waiting, func(other *pendingLine) bool { return other == p })
		p.refused = p.line.Phase == audit.Intent && len(t.waiting) == n
	}
	if t.failure != nil {
		return unavailable(t.failure)
	}
	return unavailable(errors.New("etcd did not answer in time"))
}

// answer reports to waiting callers that their lines are written, or why they never will be.
func (t *Log) answer(group []*pendingLine, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range group {
		switch {
		case p.refused && err == nil:
			l := p.line
			l.Time, l.Phase, l.Of, l.Code = t.o.Now().UTC(), audit.Outcome, p.seq, errs.Status(errs.Unavailable)
			t.waiting = append(t.waiting, &pendingLine{line: l})
			t.ring()
		case p.done != nil:
			p.done <- err
		}
	}
	if err == nil {
		t.countDroppedLocked()
	}
}

// Name is "audit".
func (t *Log) Name() string { return "audit" }

// Ready returns why lines cannot be written.
func (t *Log) Ready() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stream == "" && t.failure == nil {
		return errors.New("no stream of the audit log is open yet")
	}
	return t.failure
}

// take returns the next lines to write. Without one that a caller waits for, it lets more come.
func (t *Log) take(ctx context.Context) []*pendingLine {
	var late <-chan time.Time
	for {
		t.mu.Lock()
		n := len(t.waiting)
		due := n >= maxGroup
		for _, p := range t.waiting[:min(n, maxGroup)] {
			due = due || p.done != nil
		}
		t.mu.Unlock()
		if n > 0 && (due || ctx.Err() != nil) {
			return t.next()
		}
		if n > 0 && late == nil {
			late = time.After(together)
		}
		select {
		case <-t.wake:
		case <-late:
			return t.next()
		case <-ctx.Done():
			if n == 0 {
				return nil
			}
		}
	}
}

// next removes the lines of the next group from those that wait.
func (t *Log) next() []*pendingLine {
	t.mu.Lock()
	defer t.mu.Unlock()
	group := t.waiting[:min(len(t.waiting), maxGroup)]
	t.waiting = slices.Clone(t.waiting[len(group):])
	return group
}

// failed records that lines cannot be written; nil that they can.
func (t *Log) failed(err error) {
	t.mu.Lock()
	was := t.failure
	t.failure = err
	t.mu.Unlock()
	if err != nil {
		t.o.OnFailed()
	}
	switch {
	case err != nil && was == nil:
		t.o.Log.Error("the audit log cannot be written; requests that change something are refused", "err", err)
	case err == nil && was != nil:
		t.o.Log.Info("the audit log is written again")
	}
}
