// Package publish sends reports about a cluster to its control plane: through Git, to the cluster's own
// branch (OwnBranch) or to upstream's path on a shared branch (SharedBranch), or by HTTPS, where it
// compresses reports above 1 KiB. The simulated fleet uses it, too.
//
//	Source ──changes──► Loop (debounce, heartbeat, retry) ──report──► Writer
//
// A Loop sends only the newest state. While the receiver cannot be reached it stores
// nothing; afterwards it sends the state of that moment.
package publish

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/api/status"
)

// Writer delivers a report to the control plane. It fills in the sequence.
type Writer interface {
	Write(ctx context.Context, r status.Report) error
}

// Source is the cluster to report on.
type Source interface {
	Changes() <-chan struct{} // has a value after a change
	Settled() bool            // false while a missing object may just not have been listed
	Report() status.Report    // without Cluster, Seq, At and Agent
}

// Options configure a Loop. Zero values mean the defaults given here.
type Options struct {
	Cluster       string        // <provider>+<cluster>
	Agent         string        // name and version
	Gather        time.Duration // how long to collect changes before a report; default 1 s
	Interval      time.Duration // shortest time between two reports; default 10 s
	Heartbeat     time.Duration // longest time between two reports; default 1 minute
	OnAlive       func()        // called at least every AliveEvery while Run works
	CredentialsID func() string // identifies the current credentials
	Log           *slog.Logger
}

// AliveEvery is the longest time between two calls of Options.OnAlive, apart from the time of
// one exchange with a server.
const AliveEvery = 15 * time.Second

const (
	firstRetry   = 2 * time.Second
	longestRetry = 5 * time.Minute
)

func (o Options) withDefaults() Options {
	for _, d := range []struct {
		at        *time.Duration
		otherwise time.Duration
	}{{&o.Gather, time.Second}, {&o.Interval, 10 * time.Second}, {&o.Heartbeat, time.Minute}} {
		if *d.at <= 0 {
			*d.at = d.otherwise
		}
	}
	if o.OnAlive == nil {
		o.OnAlive = func() {}
	}
	if o.CredentialsID == nil {
		o.CredentialsID = func() string { return "" }
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// Loop sends reports. Make it with New. Only the goroutine of Run, or the one caller of its
// other methods, touches the fields.
type Loop struct {
	source  Source
	writer  Writer
	options Options

	changedAt     time.Time // when the first change came that was not reported; zero if none did
	sentDigest    string    // of the last report that arrived
	sentAt        time.Time // when that was
	notBefore     time.Time // the time of the next try, after a failure
	failures      int
	lastFailure   string // of the last report; empty if it arrived
	credentialsID string // of the last report
}

// New returns a loop. It does nothing before Run.
func New(s Source, w Writer, o Options) *Loop {
	return &Loop{source: s, writer: w, options: o.withDefaults()}
}

// Run sends reports until ctx ends.
func (l *Loop) Run(ctx context.Context) error {
	changes := l.source.Changes()
	l.Changed(time.Now())
	for {
		l.options.OnAlive()
		l.retryWithNewCredentials()
		if wait := l.Due(time.Now()); wait > 0 {
			t := time.NewTimer(min(wait, AliveEvery))
			select {
			case <-ctx.Done():
				t.Stop()
				return nil
			case <-changes:
				l.Changed(time.Now())
			case <-t.C:
			}
			t.Stop()
			continue
		}
		l.Send(ctx)
		if ctx.Err() != nil {
			return nil
		}
	}
}

// Changed records that something may have changed. A caller that runs many loops calls
// Changed, Pending, Due and Send in place of Run, one call at a time.
func (l *Loop) Changed(now time.Time) {
	if l.changedAt.IsZero() {
		l.changedAt = now
	}
}

// Pending reports whether there may be a change that was not sent.
func (l *Loop) Pending() bool { return !l.changedAt.IsZero() }

// Due returns how long to wait before the next Send; zero or less means now.
func (l *Loop) Due(now time.Time) time.Duration {
	due := l.sentAt.Add(l.options.Heartbeat)
	if !l.changedAt.IsZero() {
		news := l.changedAt.Add(l.options.Gather)
		if least := l.sentAt.Add(l.options.Interval); news.Before(least) {
			news = least
		}
		if news.Before(due) || l.sentAt.IsZero() {
			due = news
		}
	}
	if due.Before(l.notBefore) {
		due = l.notBefore
	}
	return due.Sub(now)
}

// retryWithNewCredentials ends the pause after a failure if the credentials have changed: a
// new token is tried soon.
func (l *Loop) retryWithNewCredentials() {
	if l.failures > 0 && l.options.CredentialsID() != l.credentialsID {
		l.notBefore = time.Time{}
	}
}

// Send sends the current state, if it has changed or a heartbeat is due. After a failure, Due
// returns the time until the next try.
func (l *Loop) Send(ctx context.Context) {
	now := time.Now()
	if !l.source.Settled() {
		l.notBefore = now.Add(l.options.Gather)
		return
	}
	l.changedAt = time.Time{}
	r := l.source.Report()
	r.Cluster = l.options.Cluster
	digest := digestOf(r)
	if digest == l.sentDigest && now.Before(l.sentAt.Add(l.options.Heartbeat)) {
		return
	}
	r.At, r.Agent = now.UTC().Truncate(time.Second), l.options.Agent
	l.credentialsID = l.options.CredentialsID()
	l.record(l.writer.Write(ctx, r), digest, now)
}

// record stores the outcome of a report.
func (l *Loop) record(err error, digest string, began time.Time) {
	if err == nil {
		if l.failures > 0 {
			l.options.Log.Info("reports arrive again", "failures", l.failures)
		}
		l.failures, l.lastFailure, l.sentDigest, l.sentAt = 0, "", digest, began
		return
	}
	if why := err.Error(); why != l.lastFailure {
		l.options.Log.Warn("cannot send a report", "err", err)
		l.lastFailure = why
	}
	l.failures++
	if l.changedAt.IsZero() {
		l.changedAt = began
	}
	l.notBefore = time.Now().Add(max(backoff(l.failures), errs.RetryAfter(err)))
}

// backoff returns a pause that doubles with each failure. Half of it is random, so that a
// fleet does not return all at once.
func backoff(failures int) time.Duration {
	wait := firstRetry
	for range min(failures-1, 20) {
		wait = min(2*wait, longestRetry)
	}
	return wait/2 + rand.N(wait/2+1)
}

// digestOf identifies the content of a report.
func digestOf(r status.Report) string {
	text, err := status.Encode(r, 0)
	if err != nil {
		return "" // cannot happen: a report has only strings and numbers
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
