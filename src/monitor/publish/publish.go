// Package publish sends what is known of a cluster to its control plane: through Git, to a
// branch of the cluster's own or into EMCO's path on a branch that clusters share, or by
// HTTPS.
//
// Only the newest state is ever sent. When its receiver cannot be reached nothing is
// stored up: the cluster itself is the store, and what it says then is what counts.
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

// Writer puts a report where the control plane finds it. It fills in the sequence.
type Writer interface {
	Write(ctx context.Context, r status.Report) error
}

// Source is what is reported on.
type Source interface {
	Changes() <-chan struct{}
	Settled() bool
	Report() status.Report // without Cluster, Seq, At and Agent
}

// Options say who reports and how often. Zero values mean the defaults given here.
type Options struct {
	Cluster       string        // <provider>+<cluster>
	Agent         string        // name and version
	Gather        time.Duration // how long changes are collected before they are sent; 1 s
	Interval      time.Duration // least time between two reports; 10 s
	Heartbeat     time.Duration // a report without news is sent after so long; 1 minute
	OnAlive       func()        // called at least every AliveEvery while all goes on
	CredentialsID func() string // identifies the credentials that reports go out with now
	Log           *slog.Logger
}

// AliveEvery is how long Options.Alive may stay without a call, but for the time that
// one exchange with a server takes.
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

// Loop reports. Make it with New.
type Loop struct {
	source  Source
	writer  Writer
	options Options

	changedAt     time.Time // since when there is something that was not looked at; zero if there is nothing
	sentDigest    string    // digest of what was sent last
	sentAt        time.Time // when
	notBefore     time.Time // not before; after a failure
	failures      int
	lastFailure   string // why the last one failed; empty if it did not
	credentialsID string // of the credentials that it went out with
}

// New returns a loop. It does nothing before Run.
func New(s Source, w Writer, o Options) *Loop {
	return &Loop{source: s, writer: w, options: o.withDefaults()}
}

// Run reports until ctx ends.
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

// Changed says that there may be news. With Pending, Due and Tell it is for those who drive many
// loops by themselves, in place of Run; none of them may be called while another is
// under way.
func (l *Loop) Changed(now time.Time) {
	if l.changedAt.IsZero() {
		l.changedAt = now
	}
}

// Pending says whether there may be news that was not sent.
func (l *Loop) Pending() bool { return !l.changedAt.IsZero() }

// Due is how long nothing is to be done; zero or less asks for Tell.
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

// retryWithNewCredentials has what failed tried at once if it would go out with other credentials: whoever
// has replaced a token need not wait until the last failure is forgotten.
func (l *Loop) retryWithNewCredentials() {
	if l.failures > 0 && l.options.CredentialsID() != l.credentialsID {
		l.notBefore = time.Time{}
	}
}

// Send sends what is known now, if it is news or if it is time for a sign of life. What
// fails is tried again when Due says so.
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

// record notes what became of a report.
func (l *Loop) record(err error, digest string, began time.Time) {
	if err == nil {
		if l.failures > 0 {
			l.options.Log.Info("reports arrive again", "failures", l.failures)
		}
		l.failures, l.lastFailure, l.sentDigest, l.sentAt = 0, "", digest, began
		return
	}
	if why := err.Error(); why != l.lastFailure {
		l.options.Log.Warn("a report does not arrive", "err", err)
		l.lastFailure = why
	}
	l.failures++
	if l.changedAt.IsZero() {
		l.changedAt = began
	}
	l.notBefore = time.Now().Add(max(backoff(l.failures), errs.RetryAfter(err)))
}

// backoff doubles with each failure; half of it is random, so that a fleet does not come
// back as one.
func backoff(failures int) time.Duration {
	wait := firstRetry
	for range min(failures-1, 20) {
		wait = min(2*wait, longestRetry)
	}
	return wait/2 + rand.N(wait/2+1)
}

// digestOf identifies what a report says.
func digestOf(r status.Report) string {
	text, err := status.Encode(r, 0)
	if err != nil {
		return "" // of plain strings and numbers; it does not happen
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
