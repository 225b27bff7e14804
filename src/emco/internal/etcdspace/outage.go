package etcdspace

import (
	"log/slog"
	"sync"
	"time"
)

// outage is the time in which etcd does not answer. The log has one line about its begin and one about its end, and none
// about one that is over before patience.
type outage struct {
	mu     sync.Mutex
	since  time.Time // of the first check that failed; zero: none; guarded by mu
	logged bool      // guarded by mu
}

// failed notes a check without an answer; what says which etcd was asked.
func (o *outage) failed(log *slog.Logger, what string, patience time.Duration, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.since.IsZero() {
		o.since = time.Now()
	}
	if o.logged || time.Since(o.since) < patience {
		return
	}
	o.logged = true
	log.Warn(what+" does not answer, or only with errors; until it does, requests that need it get 503, changes and deliveries wait, and what runs on the clusters stays",
		"since", o.since.UTC().Format(time.RFC3339), "err", err)
}

// answered ends the outage, if there is one.
func (o *outage) answered(log *slog.Logger, what string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.logged {
		log.Info(what+" answers again", "took", time.Since(o.since))
	}
	o.since, o.logged = time.Time{}, false
}
