package auditfilter

import (
	"sync"
	"time"
)

// Bounds of what is recorded of requests that anybody can send: each network or caller may fill some lines a second, and
// all together fill a few megabytes a day after a burst.
const (
	perSource  = 10   // lines a second
	maxSources = 1000 // that are counted apart
	burst      = 1000 // lines of all sources at once
	perSecond  = 1    // lines of all sources afterwards
)

// limiter admits some of many. Its zero value is ready.
type limiter struct {
	mu      sync.Mutex
	second  int64               // of counts; guarded by mu
	counts  map[string]int      // by source; guarded by mu
	spent   float64             // lines of the burst that were used; guarded by mu
	at      time.Time           // of spent; guarded by mu
	refused int64               // guarded by mu
	from    map[string]struct{} // sources of those; guarded by mu
}

// admit reports whether a line of a source may be written.
func (l *limiter) admit(source string, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := now.Unix(); s != l.second || l.counts == nil {
		l.second, l.counts = s, map[string]int{}
	}
	if l.at.IsZero() {
		l.at = now
	}
	l.spent = max(0, l.spent-max(0, now.Sub(l.at).Seconds())*perSecond)
	l.at = now
	_, counted := l.counts[source]
	if l.counts[source] >= perSource || l.spent+1 > burst || !counted && len(l.counts) >= maxSources {
		l.refused++
		if l.from == nil {
			l.from = map[string]struct{}{}
		}
		if len(l.from) < maxSources {
			l.from[source] = struct{}{}
		}
		return false
	}
	l.counts[source]++
	l.spent++
	return true
}

// missed returns and forgets how many were not admitted, and from how many sources.
func (l *limiter) missed() (n int64, sources int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, sources = l.refused, len(l.from)
	l.refused, l.from = 0, nil
	return n, sources
}

// maxRecent bounds the callers that are remembered.
const maxRecent = 10_000

// seenCallers remembers who was seen. Its zero value is ready.
type seenCallers struct {
	mu   sync.Mutex
	seen map[string]time.Time // guarded by mu
}

// first reports whether a subject was not seen for an hour.
func (s *seenCallers) first(who string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at, ok := s.seen[who]; ok && now.Sub(at) < again {
		return false
	}
	if s.seen == nil || len(s.seen) >= maxRecent {
		s.seen = map[string]time.Time{}
	}
	s.seen[who] = now
	return true
}
