package gitlabtest

import (
	"net/http"
	"strconv"
	"time"
)

// Fault is an answer that is given in place of the right one.
type Fault struct {
	Status int
	Header map[string]string
	Body   string
}

type faults struct {
	next     []Fault
	redirect string
}

// Fail answers the next calls of the API with faults, one each.
func (s *Server) Fail(f ...Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults.next = append(s.faults.next, f...)
}

// Redirect sends every request to another server; "" ends that.
func (s *Server) Redirect(base string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults.redirect = base
}

func (s *Server) redirected(w http.ResponseWriter, r *http.Request) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.faults.redirect == "" {
		return false
	}
	http.Redirect(w, r, s.faults.redirect+r.URL.RequestURI(), http.StatusFound)
	return true
}

// faulty answers with the next fault, if there is one.
func (s *Server) faulty(w http.ResponseWriter) bool {
	if len(s.faults.next) == 0 {
		return false
	}
	f := s.faults.next[0]
	s.faults.next = s.faults.next[1:]
	for key, value := range f.Header {
		w.Header().Set(key, value)
	}
	w.WriteHeader(f.Status)
	_, _ = w.Write([]byte(f.Body))
	return true
}

// rateLimit is how many calls a credential has in a period.
type rateLimit struct {
	calls  int // 0: no limit
	period time.Duration
	used   map[string]*rateWindow
}

type rateWindow struct {
	calls int
	ends  time.Time
}

// Limit bounds the calls that each credential has in a period; 0 ends that.
func (s *Server) Limit(calls int, period time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limit = rateLimit{calls: calls, period: period, used: map[string]*rateWindow{}}
}

// limited counts a call, and refuses one too many.
func (s *Server) limited(w http.ResponseWriter, r *http.Request) bool {
	l := s.limit
	if l.calls == 0 {
		return false
	}
	now, who := time.Now(), r.Header.Get("Authorization")+r.Header.Get("PRIVATE-TOKEN")
	seen, ok := l.used[who]
	if !ok || !seen.ends.After(now) {
		seen = &rateWindow{ends: now.Add(l.period)}
		l.used[who] = seen
	}
	seen.calls++
	for key, n := range map[string]int{
		"RateLimit-Limit": l.calls, "RateLimit-Observed": seen.calls, "RateLimit-Remaining": max(0, l.calls-seen.calls), "RateLimit-Reset": int(seen.ends.Unix()),
	} {
		w.Header().Set(key, strconv.Itoa(n))
	}
	if seen.calls <= l.calls {
		return false
	}
	w.Header().Set("Retry-After", strconv.Itoa(int(seen.ends.Sub(now)/time.Second)+1))
	http.Error(w, "Retry later", http.StatusTooManyRequests)
	return true
}
